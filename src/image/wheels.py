# SPDX-License-Identifier: Apache-2.0
"""Adds wheels of the package index to a new image. mmdebstrap's hook executes it as root inside the new root file system.

    python3 wheels.py FOLDER

FOLDER holds what the builder knows: `pinned` (the list of the definition: NAME==VERSION --hash=sha256:HEX...), `names` (packages
without a pin, one a line), `excludes` (globs of paths that no image gets), `ca.pem`, and `given/` (a folder of wheels that is used
instead of an index). The address of the index is in CAISSON_INDEX_URL.

What the index answers is parsed by an account without rights. Root installs only files whose SHA-256 is in a list: that of the
definition, or, for the packages of `names`, the list that pip resolved from the index's own hashes. The result is written to
/opt/caisson/wheels.json, so that the manifest says of every wheel which file it was.
"""
import fnmatch
import glob
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import urllib.parse

NOBODY = 65534
FOLDER = sys.argv[1]
FETCHED = FOLDER + '/fetched'
SITE = '/usr/local/lib/python%d.%d/dist-packages' % sys.version_info[:2]
RECORD = '/opt/caisson/wheels.json'
NAME = r'[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?'
VERSION = r'[A-Za-z0-9.!+_-]+'
UNREACHABLE = ('Max retries', 'onnection', 'resolution', 'timed out', 'SSLError', 'ProxyError', 'HTTP error')
SYMBOLS_MIN = 1 << 20  # symbol tables smaller than this stay
# mmdebstrap gives files that are newer than the archive the archive's date; byte code that was made before would then be stale.
MTIME = 1000000000


class Failed(Exception):
    pass


def lines_of(name):
    try:
        with open('%s/%s' % (FOLDER, name), encoding='utf-8') as f:
            return [line.strip() for line in f if line.strip() and not line.startswith('#')]
    except FileNotFoundError:
        return []


def read_pinned():
    """{requirement: [sha256, ...]} of the definition's list; everything else that pip would understand there is refused."""
    rows, last = {}, None
    for line in lines_of('pinned'):
        for word in line.rstrip('\\').split():
            if re.fullmatch(NAME + '==' + VERSION, word):
                last = rows.setdefault(word, [])
            elif last is not None and re.fullmatch('--hash=sha256:[0-9a-f]{64}', word):
                last.append(word.split(':')[1])
            else:
                raise Failed('the list of wheels has %r, which is no NAME==VERSION and no --hash=sha256:HEX' % word[:80])
    for requirement, hashes in rows.items():
        if not hashes:
            raise Failed('the list of wheels has no hash for %s' % requirement)
    return rows


def where():
    if os.path.isdir(FOLDER + '/given'):
        return ['--no-index', '--find-links', FOLDER + '/given']
    url = os.environ.get('CAISSON_INDEX_URL', '')
    parts = urllib.parse.urlsplit(url)
    options = ['--index-url', url]
    if os.path.exists(FOLDER + '/ca.pem'):
        options += ['--cert', FOLDER + '/ca.pem']
    if parts.scheme == 'http':
        options += ['--trusted-host', parts.netloc.rpartition('@')[2]]
    return options


def pip(arguments, user=None):
    """Runs pip; with USER as this account, which may write to FETCHED alone."""
    account = {} if user is None else {'user': user, 'group': user, 'extra_groups': []}
    run = subprocess.run([sys.executable, '-I', '-m', 'pip', '--isolated', '--no-input', '--disable-pip-version-check', '--no-color']
                         + arguments, cwd=FETCHED, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors='replace', env=dict(os.environ, HOME=FETCHED, TMPDIR=FETCHED), **account)
    sys.stderr.write(run.stdout)
    if run.returncode == 0:
        return
    if 'DO NOT MATCH THE HASHES' in run.stdout:
        raise Failed('a file of the package index is not the one that the list names')
    if any(word in run.stdout for word in UNREACHABLE):
        raise Failed('the package index cannot be reached')
    reasons = [line[len('ERROR: '):] for line in run.stdout.splitlines() if line.startswith('ERROR: ')]
    raise Failed(reasons[-1] if reasons else 'pip failed')


def index_pip(command, arguments):
    pip([command, '--quiet', '--progress-bar', 'off', '--cache-dir', FETCHED + '/cache', '--only-binary', ':all:']
        + where() + arguments, NOBODY)


def install(rows, kind):
    """Fetches and installs exactly the files of ROWS."""
    listed = '%s/%s.txt' % (FOLDER, kind)
    with open(listed, 'w', encoding='utf-8') as f:
        for requirement, hashes in rows.items():
            f.write(requirement + ''.join(' \\\n    --hash=sha256:' + h for h in hashes) + '\n')
    folder = '%s/%s' % (FETCHED, kind)
    index_pip('download', ['--no-deps', '--require-hashes', '--dest', folder, '-r', listed])
    pip(['install', '--quiet', '--no-index', '--find-links', folder, '--no-deps', '--ignore-installed', '--no-cache-dir', '--no-compile',
         '--only-binary', ':all:', '--require-hashes', '--break-system-packages', '--root-user-action', 'ignore', '-r', listed])
    wheels = []
    for path in sorted(glob.glob(folder + '/*.whl')):
        with open(path, 'rb') as f:
            digest = hashlib.file_digest(f, 'sha256').hexdigest()
        name, version = os.path.basename(path).split('-')[:2]
        wheels.append({'name': name.replace('_', '-'), 'version': version, 'file': os.path.basename(path), 'sha256': digest})
        os.unlink(path)
    return wheels


def resolve(names):
    """Asks the index which wheels NAMES need beside what the image has; {requirement: [sha256]}."""
    report = FETCHED + '/report.json'
    index_pip('install', ['--dry-run', '--break-system-packages', '--report', report, '--'] + names)
    rows = {}
    with open(report, encoding='utf-8') as f:
        for item in json.load(f)['install']:
            name, version = item['metadata']['name'], item['metadata']['version']
            sha256 = item['download_info']['archive_info']['hashes']['sha256']
            if not re.fullmatch(NAME, name) or not re.fullmatch(VERSION, version) or not re.fullmatch('[0-9a-f]{64}', sha256):
                raise Failed('the package index answers with something that is no list of wheels')
            rows['%s==%s' % (name, version)] = [sha256]
    return rows


def installed_files():
    for record in glob.glob(SITE + '/*.dist-info/RECORD'):
        with open(record, encoding='utf-8') as f:
            for line in f:
                path = os.path.normpath(os.path.join(SITE, line.rsplit(',', 2)[0].strip('"')))
                if path.startswith('/usr/local/'):
                    yield path


def cut_symbols(path):
    """Removes the symbol table and the section headers at the end of an ELF file: only debuggers read them. A file that has
    anything behind its section headers stays as it is."""
    with open(path, 'r+b') as f:
        head = f.read(64)
        if head[:6] != b'\x7fELF\x02\x01' or len(head) < 64:
            return 0
        phoff, shoff = struct.unpack_from('<QQ', head, 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from('<HHHH', head, 54)
        size = os.fstat(f.fileno()).st_size
        if shoff + shentsize * shnum != size or shentsize != 64 or phentsize != 56:
            return 0
        f.seek(shoff)
        sections = [struct.unpack('<IIQQQQIIQQ', f.read(64)) for _ in range(shnum)]
        f.seek(phoff)
        segments = [struct.unpack('<IIQQQQQQ', f.read(56)) for _ in range(phnum)]
        end = max([64, phoff + 56 * phnum] + [s[2] + s[5] for s in segments])
        if not any(s[1] == 2 for s in sections) or size - end < SYMBOLS_MIN:
            return 0
        f.seek(40)
        f.write(struct.pack('<Q', 0))
        f.seek(58)
        f.write(struct.pack('<HHH', 64, 0, 0))
        f.truncate(end)
        return size - end


def finish_files():
    """Removes what the definition excludes and symbol tables; dates the rest."""
    excludes, cut = lines_of('excludes'), 0
    for path in installed_files():
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in excludes):
            try:
                os.unlink(path)
                os.removedirs(os.path.dirname(path))
            except OSError:
                pass
        elif os.path.isfile(path) and not os.path.islink(path):
            if os.path.getsize(path) > SYMBOLS_MIN:
                cut += cut_symbols(path)
            os.utime(path, (MTIME, MTIME))
    if cut:
        print('caisson: %d MB of symbol tables removed' % (cut // 1000000), file=sys.stderr)


def main():
    os.mkdir(FETCHED)
    os.chown(FETCHED, NOBODY, NOBODY)
    wheels = []
    pinned, names = read_pinned(), lines_of('names')
    if pinned:
        wheels += install(pinned, 'pinned')
    rows = resolve(names) if names else {}
    if rows:
        wheels += install(rows, 'resolved')
    finish_files()
    subprocess.run([sys.executable, '-I', '-m', 'compileall', '-q', '-q', '-j', '2', SITE], stdout=sys.stderr, check=False)
    os.makedirs(os.path.dirname(RECORD), exist_ok=True)
    with open(RECORD, 'w', encoding='utf-8') as f:
        json.dump({'wheels': wheels}, f, indent=1)
    os.chmod(RECORD, 0o644)


try:
    main()
except Failed as e:
    sys.exit('E: wheels: %s' % e)
except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as e:
    sys.exit('E: wheels: %r' % e)
