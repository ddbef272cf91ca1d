#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py auto|on|off SOURCE OUT.c FILES DEPFILE - bundles the page and writes it as one C file.

The bundle is made by SOURCE/build, which needs npm and the packages of SOURCE/package-lock.json. With `auto` a
bundle that cannot be made is left out: the table is empty, and the server shows a page that says so. FILES is the
folder for the bundle; OUT.c includes from there each file once, by gzip where that saves something.
"""
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys

TYPES = {
    '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.mjs': 'text/javascript; charset=utf-8',
    '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml', '.png': 'image/png', '.ico': 'image/x-icon',
    '.woff2': 'font/woff2', '.json': 'application/json', '.txt': 'text/plain; charset=utf-8',
    '.webmanifest': 'application/manifest+json', '.wasm': 'application/wasm',
}
PACKED = {'.png', '.woff2'}  # compressed already
NAME = re.compile(r'[A-Za-z0-9._-]+\Z')
HASHED = re.compile(r'.*[-.][0-9A-Za-z_-]{8,}\.[a-z0-9]+\Z')


def bundle(mode, source, files):
    """Runs SOURCE/build. Returns why there is no bundle, or None."""
    shutil.rmtree(files, ignore_errors=True)
    os.makedirs(files)
    build = os.path.join(source, 'build')
    if mode == 'off':
        return 'it was left out with -Dweb=off'
    if not os.access(build, os.X_OK):
        return 'web/build is missing'
    if not shutil.which('npm') or not shutil.which('node'):
        return 'npm and node were not found'
    run = subprocess.run([build, files], cwd=source, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, check=False)
    if run.returncode != 0:
        sys.stderr.write(run.stdout.decode(errors='replace'))
        return f'web/build ended with status {run.returncode}'
    if not os.path.exists(os.path.join(files, 'index.html')):
        return 'web/build made no index.html'
    return None


def names(files):
    """Paths of the bundle: those of the folder itself and of assets/."""
    for folder in ('', 'assets'):
        place = os.path.join(files, folder)
        for name in sorted(os.listdir(place)) if os.path.isdir(place) else []:
            path = os.path.join(folder, name)
            suffix = os.path.splitext(name)[1]
            if os.path.isfile(os.path.join(files, path)) and suffix in TYPES:
                if not NAME.match(name) or (folder and not HASHED.match(name)):
                    sys.exit(f'web: {path}: files of assets/ have names with a hash of their content')
                yield path, suffix


def packed(path, suffix):
    """Returns the file with the gzip form of PATH, or PATH if that saves nothing."""
    with open(path, 'rb') as f:
        data = f.read()
    if suffix in PACKED:
        return path
    with open(path + '.gz', 'wb') as f:
        f.write(gzip.compress(data, 9, mtime=0))
    return path + '.gz' if os.path.getsize(path + '.gz') < len(data) else path


def main():
    mode, source, out, files, depfile = sys.argv[1:]
    why = bundle(mode, source, files)
    if why and mode == 'on':
        sys.exit(f'web: the page was not made: {why}')
    if why and mode != 'off':
        print(f'web: the page is left out: {why}', file=sys.stderr)
    data, rows = [], []

    def part(path, suffix):
        """The C text of a struct web_file with the file PATH."""
        i, what = len(data), packed(path, suffix)
        data.append(f'__asm__(".pushsection .rodata\\n.balign 16\\n.global web_data_{i}\\n.hidden web_data_{i}\\nweb_data_{i}:\\n'
                    f'.incbin \\"{what}\\"\\n.popsection\\n");\nextern const unsigned char web_data_{i}[];\n')
        return f'{{web_data_{i}, {os.path.getsize(what)}, {os.path.getsize(path)}}}'

    for path, suffix in names(files) if not why else []:
        with open(os.path.join(files, path), 'rb') as f:
            digest = hashlib.sha256(f.read()).hexdigest()[:20]
        url = '/' if path == 'index.html' else '/' + path
        rows.append(f'    {{"{url}", "{TYPES[suffix]}", "{digest}", {"true" if path.startswith("assets/") else "false"}, '
                    f'{part(os.path.join(files, path), suffix)}}},\n')
    view = os.path.join(files, 'apps', 'results.html')
    results = part(view, '.html') if not why and os.path.exists(view) else '{NULL, 0, 0}'
    with open(out, 'w', encoding='ascii') as f:
        f.write('/* Made by web/embed.py. */\n#include "web/assets.h"\n\n' + ''.join(data))
        f.write('\nconst struct web_asset web_assets[] = {\n' + ''.join(rows) + '    {NULL, NULL, NULL, false, {NULL, 0, 0}},\n};\n')
        f.write(f'const size_t web_n_assets = {len(rows)};\n')
        f.write(f'const struct web_file web_results = {results};\n')
        f.write('const char web_left_out[] = "' + (why or '').replace('\\', '').replace('"', "'") + '";\n')
    with open(depfile, 'w', encoding='utf-8') as f:
        inputs = [os.path.join(source, name) for name in ('build', 'package.json', 'package-lock.json', 'tsconfig.json')]
        for part_of_source in ('src', 'apps'):
            for folder, folders, found in os.walk(os.path.join(source, part_of_source)):
                inputs += [folder] + [os.path.join(folder, name) for name in found]
        found = [os.path.join(source, name) for name in sorted(os.listdir(source))]
        inputs += [p for p in found if os.path.isfile(p)] + [source]
        f.write(out + ': ' + ' '.join(sorted({p.replace(' ', '\\ ') for p in inputs if os.path.exists(p)})) + '\n')


main()
