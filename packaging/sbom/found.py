# SPDX-License-Identifier: Apache-2.0
"""What a program, its page and a root file system consist of. Nothing of what is looked at runs, but ldd on the program."""
import base64
import email.parser
import glob
import json
import os
import re
import subprocess
import sys
from urllib.parse import quote

import licences

# Loaded by the program when it needs them (src/base/libcurl.c, src/cmd/line_editor.c).
LOADED = ('libcurl-gnutls.so.4', 'libedit.so.2')
# Linked statically into the first process of a sandbox, which the program carries (runtime/meson.build).
STATIC = ('libc.a', 'libgcc.a')


class Part:
    """A package. `how` says what it is to the whole: dynamic, static, loaded (when needed) or inside."""

    def __init__(self, name, version, purl, how, declared=None, concluded=None):
        self.name, self.version, self.purl, self.how = name, version, purl, how
        self.declared, self.concluded = declared, concluded
        self.needs = set()  # purls
        self.sha512 = None
        self.text = ''  # of its licence


def say(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, 'LC_ALL': 'C.UTF-8'}).stdout


def release(root):
    """ID and the release of a Debian, as a purl names it."""
    path = os.path.join(root, 'etc/os-release')
    if not os.path.exists(path):
        path = os.path.join(root, 'usr/lib/os-release')
    fields = {}
    if inside(root, path):
        with open(path, encoding='utf-8') as f:
            fields = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', f.read(), re.M))
    name = fields.get('ID', 'debian')
    return name, f'{name}-{fields["VERSION_ID"]}' if 'VERSION_ID' in fields else fields.get('VERSION_CODENAME', name)


def deb_purl(name, version, arch, distro):
    return f'pkg:deb/{distro[0]}/{quote(name.lower(), safe="")}@{quote(version, safe=":")}?arch={arch}&distro={quote(distro[1], safe="")}'


def inside(root, path):
    """Whether PATH is a file whose real place is below ROOT: a root file system is not trusted."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    return os.path.isfile(real) and (top == '/' or real.startswith(top + '/'))


def read(root, path, most=4 << 20):
    path = os.path.join(root, path)
    if not inside(root, path):
        return ''
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read(most)


def debs(root):
    """The installed packages of dpkg's status file: name to fields."""
    found = {}
    for paragraph in read(root, 'var/lib/dpkg/status', 64 << 20).split('\n\n'):
        f = dict(re.findall(r'^([A-Za-z-]+): (.*)$', paragraph, re.M))
        if f.get('Status', '').endswith('ok installed'):
            found[f['Package'], f.get('Architecture', 'all')] = f
    return found


def licence(part, source, text):
    """Sets the licence of a Debian package: TEXT is its copyright file, SOURCE its source package."""
    part.text = text
    part.declared = licences.of_copyright_file(text, part.name)
    source = re.sub(r'^(gcc)-\d+$|^(python3)\.\d+$', r'\1\2', source)
    if source in licences.CONCLUDED:
        part.concluded = licences.Licence(licences.CONCLUDED[source])


def deb(root, fields, distro, how):
    """The Part of a Debian package."""
    name = fields['Package']
    part = Part(name, fields['Version'], deb_purl(name, fields['Version'], fields.get('Architecture', 'all'), distro), how)
    licence(part, fields.get('Source', name).split(' ')[0], read(root, f'usr/share/doc/{name}/copyright'))
    return part


def owner(path):
    """The package of this machine that has a file, by dpkg's own database: (name, architecture)."""
    real = os.path.realpath(path)
    for name in dict.fromkeys((real, real.replace('/usr/lib/', '/lib/', 1), path, path.replace('/lib/', '/usr/lib/', 1))):
        r = subprocess.run(['dpkg-query', '-S', name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        if r.returncode == 0:
            package = r.stdout.split(': ')[0].split(', ')[0]
            return tuple(say('dpkg-query', '-W', '-f', '${Package} ${Architecture}', package).split())
    sys.exit(f'sbom: no package of this machine has {path}')


def needed(path):
    return re.findall(r'\(NEEDED\).*\[(.+)\]', say('readelf', '-dW', path))


def libraries(binary):
    """Parts for what BINARY is linked with on this machine, what it loads and what is linked into what it carries."""
    installed, distro = debs('/'), release('/')
    paths = dict(re.findall(r'^\s*(\S+) => (/\S+)', say('ldd', binary), re.M)) if needed(binary) else {}
    interpreter = re.search(r'interpreter: (/\S+)\]', say('readelf', '-lW', binary))
    if interpreter:
        paths[os.path.basename(interpreter[1])] = interpreter[1]
    parts, of = {}, {}

    def add(key, how):
        part = deb('/', installed[key], distro, how)
        if not (part.text and (part.declared or part.concluded)):
            print(f'sbom: which licence does {key[0]} have? Read its copyright file, and add it to licences.py', file=sys.stderr)
        return parts.setdefault(part.purl, part)

    for soname, path in sorted(paths.items()):
        of[soname] = add(owner(path), 'dynamic')
    for soname, path in paths.items():
        for other in needed(path):
            if other in of and of[other] is not of[soname]:
                of[soname].needs.add(of[other].purl)
    with open(binary, 'rb') as f:
        content = f.read()
    cache = dict((n, p) for n, p in reversed(re.findall(r'^\s*(\S+) .*=> (/\S+)$', say('/sbin/ldconfig', '-p'), re.M)))
    for soname in LOADED:
        if soname.encode() not in content:
            sys.exit(f'sbom: the program does not load {soname} any more: found.py says it does')
        if soname in cache:
            add(owner(cache[soname]), 'loaded')
    for archive in STATIC:
        add(owner(say('gcc', f'-print-file-name={archive}').strip()), 'static')
    return list(parts.values()), sorted({of[s].purl for s in needed(binary) if s in of})


def linked(path):
    """Parts for what a program is linked with, where another machine's database says nothing: PATH is a JSON list, see README.md."""
    with open(path, encoding='utf-8') as f:
        rows = json.load(f)
    parts = []
    for row in rows:
        wrong = [k for k in ('name', 'version', 'purl', 'source', 'how', 'copyright') if not isinstance(row.get(k), str) or not row[k]]
        if wrong or row['how'] not in ('static', 'dynamic', 'loaded') or not row['purl'].startswith('pkg:'):
            sys.exit(f'sbom: {path}: {row.get("name", row)}: it needs name, version, purl (pkg:…), source, copyright (a file), and how (static, dynamic or loaded)')
        part = Part(row['name'], row['version'], row['purl'], row['how'])
        with open(row['copyright'], encoding='utf-8', errors='replace') as f:
            licence(part, row['source'], f.read())
        parts.append(part)
    return parts, sorted(p.purl for p in parts if p.how == 'dynamic')


def page(folder, lock):
    """Parts for the packages whose code is in the page: its licenses.txt lists them, made of what the bundler really took.
    FOLDER "none": a build without a page."""
    if folder == 'none':
        return []
    with open(lock, encoding='utf-8') as f:
        locked = json.load(f)['packages']
    with open(os.path.join(folder, 'licenses.txt'), encoding='utf-8') as f:
        pieces = re.split(r'\n-{72}\n', f.read())
    parts = {}
    for piece in pieces:
        m = re.match(r'\s*(\S+) (\S+), (\S+)\n(.*)', piece, re.S)
        if not m:
            sys.exit(f'sbom: {piece.strip().splitlines()[0]!r} of licenses.txt is no name, version and licence')
        entry = locked.get(f'node_modules/{m[1]}')
        if not entry or entry['version'] != m[2]:
            sys.exit(f'sbom: the page has {m[1]} {m[2]}, and {lock} does not: build it again')
        part = Part(m[1], m[2], f'pkg:npm/{quote(m[1], safe="/")}@{quote(m[2], safe=":")}', 'inside', licences.expression(m[3], m[1]))
        part.text = m[4].strip()
        if entry.get('integrity', '').startswith('sha512-'):
            part.sha512 = base64.b64decode(entry['integrity'][7:]).hex()
        parts[m[1]] = part
    for name, part in parts.items():
        entry = locked[f'node_modules/{name}']
        for other in {**entry.get('dependencies', {}), **entry.get('peerDependencies', {})}:
            if other in parts:
                part.needs.add(parts[other].purl)
    return list(parts.values())


def python_packages(root):
    """Parts for the Python distributions that no Debian package has brought: each has a dist-info or egg-info folder."""
    parts = {}
    of_debian = os.path.join(root, 'usr/lib/python3/dist-packages')
    for lib in ('usr/local/lib', 'usr/lib', 'opt/*/lib'):
        for meta in glob.glob(os.path.join(glob.escape(root), lib, 'python3*', '*-packages', '*.dist-info', 'METADATA')):
            if meta.startswith(of_debian + '/'):
                continue
            m = email.parser.Parser().parsestr(read(root, meta), headersonly=True)
            if not m['Name'] or not m['Version']:
                continue
            name = re.sub('[-_.]+', '-', m['Name']).lower()
            said = m['License-Expression'] or (m['License'] or '').strip()
            if not said or len(said) > 80 or '\n' in said:
                last = [c.split(' :: ')[-1] for c in m.get_all('Classifier', []) if c.startswith('License :: ') and c.count(' :: ') > 1]
                said = ' and '.join(last)
            part = Part(m['Name'], m['Version'], f'pkg:pypi/{name}@{quote(m["Version"], safe=":")}', 'inside', licences.expression(said, name))
            folder = os.path.dirname(meta)
            texts = [f for f in sorted(glob.glob(os.path.join(glob.escape(folder), '**', '*'), recursive=True))
                     if re.match('(licen[cs]e|copying|notice)', os.path.basename(f), re.I) and os.path.isfile(f)]
            part.text = '\n\n'.join(read(root, f) for f in texts)
            parts[part.purl] = part
    return list(parts.values())


def tree(root):
    """Parts for all packages of a root file system."""
    distro = release(root)
    return [deb(root, f, distro, 'inside') for f in debs(root).values()] + python_packages(root)
