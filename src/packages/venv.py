# SPDX-License-Identifier: Apache-2.0
"""Works on /app/.venv, inside a helper of the sandbox: install, uninstall, list.

JOB, a dict that is put in front of this script, says what to do. The answer is written to result.json
in the working folder, which is the helper's own empty workspace. Each wheel is checked whole and unpacked
into a staging folder. All wheels are moved to their place only when every one could be unpacked
(PEP 427, PEP 376).
"""
import base64
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import zipfile

VENV = '/app/.venv'
PYTHON = 'python%d.%d' % sys.version_info[:2]
SITE = VENV + '/lib/' + PYTHON + '/site-packages'
BIN = VENV + '/bin'
FILES_MAX = 200000
CHUNK = 1 << 20
SCRIPT = '''#!%s/python
import sys
from %s import %s
if __name__ == '__main__':
    sys.exit(%s())
'''


class Refused(Exception):
    pass


def canonical(name):
    return re.sub('[-_.]+', '-', name).lower()


def text_of(path, limit=1 << 20):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read(limit)


# ---- the environment ----

def make_venv():
    if os.path.exists(VENV + '/pyvenv.cfg') and os.path.isdir(SITE):
        return
    os.makedirs(SITE, exist_ok=True)
    os.makedirs(BIN, exist_ok=True)
    for link, target in ((BIN + '/python', '/usr/bin/python3'), (BIN + '/python3', 'python'),
                         (BIN + '/' + PYTHON, 'python'), (VENV + '/lib64', 'lib')):
        if not os.path.lexists(link):
            os.symlink(target, link)
    with open(VENV + '/pyvenv.cfg', 'w', encoding='utf-8') as f:
        f.write('home = /usr/bin\ninclude-system-site-packages = true\nversion = %d.%d.%d\n'
                % sys.version_info[:3])


def split_folder(folder):
    """('name', 'version') of NAME-VERSION.dist-info or .egg-info; None when there is no version."""
    stem = folder.rsplit('.', 1)[0]
    parts = stem.split('-')
    return (parts[0], parts[1]) if len(parts) > 1 else None


def installed(folder):
    """{canonical name: (name, version, folder)} of one site folder."""
    found = {}
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return found
    for entry in entries:
        if entry.endswith(('.dist-info', '.egg-info')) and split_folder(entry):
            name, version = split_folder(entry)
            found[canonical(name)] = (name.replace('_', '-'), version, os.path.join(folder, entry))
    return found


def of_image():
    found = {}
    for folder in ('/usr/lib/python3/dist-packages', '/usr/local/lib/%s/dist-packages' % PYTHON,
                   '/usr/lib/%s/site-packages' % PYTHON, '/usr/local/lib/%s/site-packages' % PYTHON):
        for key, row in installed(folder).items():
            found.setdefault(key, row)
    return found


# ---- removing ----

def inside(path):
    return path.startswith(VENV + '/') and path not in (VENV + '/pyvenv.cfg', BIN)


def recorded(info):
    """Absolute paths that RECORD names and that lie in the environment."""
    paths = []
    try:
        lines = text_of(info + '/RECORD', 1 << 26).splitlines()
    except OSError:
        lines = []
    for line in lines:
        name = line.rsplit(',', 2)[0].strip('"')
        path = os.path.normpath(os.path.join(SITE, name))
        if inside(path):
            paths.append(path)
    return paths


def remove_file(path):
    try:
        os.unlink(path)
    except OSError:
        return
    folder, name = os.path.split(path)
    if not name.endswith('.py'):
        return
    cache = os.path.join(folder, '__pycache__')
    try:
        for entry in os.listdir(cache):
            if entry.startswith(name[:-3] + '.') and entry.endswith('.pyc'):
                os.unlink(os.path.join(cache, entry))
    except OSError:
        pass


def remove(info):
    folders = set()
    for path in recorded(info):
        remove_file(path)
        folder = os.path.dirname(path)
        while inside(folder) and folder not in folders and folder != SITE:
            folders.add(folder)
            folders.add(os.path.join(folder, '__pycache__'))
            folder = os.path.dirname(folder)
    shutil.rmtree(info, ignore_errors=True)
    for folder in sorted(folders, key=len, reverse=True):
        if folder not in (SITE, BIN, VENV + '/lib', VENV + '/lib/' + PYTHON):
            try:
                os.rmdir(folder)
            except OSError:
                pass


# ---- installing ----

def check_name(name):
    """A wheel's member must be a plain relative path."""
    parts = name.rstrip('/').split('/')
    if not name or '\\' in name or '\0' in name or any(p in ('', '.', '..') for p in parts):
        raise Refused('the wheel holds the path %r' % name[:200])


def check_members(z):
    members = z.infolist()
    seen = set()
    if len(members) > FILES_MAX:
        raise Refused('the wheel holds more than %d files' % FILES_MAX)
    for m in members:
        check_name(m.filename)
        if stat.S_ISLNK(m.external_attr >> 16):
            raise Refused('the wheel holds a link: %r' % m.filename[:200])
        if m.filename in seen:
            raise Refused('the wheel holds %r twice' % m.filename[:200])
        seen.add(m.filename)
    if sum(m.file_size for m in members) > JOB['max_bytes']:
        raise Refused('the wheel unpacks to more than %d bytes' % JOB['max_bytes'])
    return [m for m in members if not m.is_dir()]


def find_info(members, want):
    found = {m.filename.split('/')[0] for m in members
             if m.filename.split('/')[0].endswith('.dist-info') and '/' in m.filename}
    if len(found) != 1:
        raise Refused('the wheel has %d folders of metadata' % len(found))
    info = found.pop()
    if not split_folder(info) or canonical(split_folder(info)[0]) != canonical(want):
        raise Refused('the wheel is of %r, not of %r' % (info[:200], want))
    return info


def hashes_of(z, info):
    """{path: (algorithm, digest)} as the wheel's own RECORD says."""
    rows = {}
    try:
        lines = z.read(info + '/RECORD').decode('utf-8').splitlines()
    except (KeyError, UnicodeDecodeError):
        raise Refused('the wheel has no RECORD') from None
    for line in lines:
        parts = line.rsplit(',', 2)
        if len(parts) == 3 and parts[1].startswith(('sha256=', 'sha384=', 'sha512=')):
            rows[parts[0].strip('"')] = tuple(parts[1].split('=', 1))
    return rows


def target_of(name, info):
    """(path below VENV, is a script) of a member."""
    data = info[:-len('.dist-info')] + '.data/'
    if not name.startswith(data):
        return SITE[len(VENV) + 1:] + '/' + name, False
    scheme, _, rest = name[len(data):].partition('/')
    roots = {'purelib': SITE[len(VENV) + 1:], 'platlib': SITE[len(VENV) + 1:], 'scripts': 'bin',
             'data': '', 'headers': 'include/site/' + PYTHON + '/' + info.split('-')[0]}
    if scheme not in roots or not rest:
        raise Refused('the wheel holds %r' % name[:200])
    path = (roots[scheme] + '/' + rest).lstrip('/')
    if path == 'pyvenv.cfg' or path in ('bin/python', 'bin/python3', 'bin/' + PYTHON):
        raise Refused('the wheel holds %r' % name[:200])
    return path, scheme == 'scripts'


def write_member(z, m, stage, path, script, listed):
    """Unpacks one file; returns its row for RECORD."""
    target = os.path.join(stage, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    checked = hashlib.new(listed[0]) if listed else None
    final = hashlib.sha256()
    size = 0
    with z.open(m) as source, open(target, 'xb') as out:
        first = True
        while True:
            piece = source.read(CHUNK)
            if not piece:
                break
            if checked:
                checked.update(piece)
            if first and script and piece.startswith(b'#!python'):
                piece = b'#!' + BIN.encode() + b'/python' + piece[piece.find(b'\n'):]
            first = False
            final.update(piece)
            size += len(piece)
            out.write(piece)
    if checked and base64.urlsafe_b64encode(checked.digest()).rstrip(b'=').decode() != listed[1].rstrip('='):
        raise Refused('%r is not what the wheel says of it' % m.filename[:200])
    mode = (m.external_attr >> 16) & 0o111
    os.chmod(target, 0o755 if script or mode else 0o644)
    return row_of(path, final, size)


def row_of(path, digest, size):
    name = os.path.relpath(VENV + '/' + path, SITE)
    if ',' in name or '"' in name:
        name = '"' + name.replace('"', '""') + '"'
    return '%s,sha256=%s,%d' % (
        name, base64.urlsafe_b64encode(digest.digest()).rstrip(b'=').decode(), size)


def write_text(stage, path, text, mode=0o644):
    target = os.path.join(stage, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(target, mode)
    return row_of(path, hashlib.sha256(text.encode()), len(text.encode()))


def entry_points(z, info):
    """(script, module, attribute) of console and window programs."""
    try:
        text = z.read(info + '/entry_points.txt').decode('utf-8')
    except (KeyError, UnicodeDecodeError):
        return
    section = ''
    for line in text.splitlines():
        line = line.split('#')[0].strip()
        if line.startswith('['):
            section = line
        elif section in ('[console_scripts]', '[gui_scripts]') and '=' in line:
            name, _, value = line.partition('=')
            m = re.fullmatch(r'([\w.]+)\s*:\s*([\w.]+)\s*(\[.*\])?', value.strip())
            name = name.strip()
            if m and re.fullmatch(r'[\w.-]+', name) and name not in ('.', '..', 'python', 'python3', PYTHON):
                yield name, m.group(1), m.group(2)


def unpack(wheel, stage):
    """Unpacks one wheel below STAGE; returns the paths that it has there."""
    with zipfile.ZipFile(wheel['file']) as z:
        members = check_members(z)
        info = find_info(members, wheel['name'])
        listed = hashes_of(z, info)
        rows, paths = [], []
        for m in members:
            path, script = target_of(m.filename, info)
            if m.filename in (info + '/RECORD', info + '/RECORD.jws', info + '/RECORD.p7s'):
                continue
            rows.append(write_member(z, m, stage, path, script, listed.get(m.filename)))
            paths.append(path)
        for name, module, attribute in entry_points(z, info):
            path = 'bin/' + name
            if path not in paths:
                paths.append(path)
            rows.append(write_text(stage, path, SCRIPT % (
                BIN, module, attribute.split('.')[0], attribute), 0o755))
    site = SITE[len(VENV) + 1:] + '/' + info
    notes = [('INSTALLER', 'caisson\n')] + ([('REQUESTED', '')] if wheel['requested'] else [])
    for name, text in notes:
        rows.append(write_text(stage, site + '/' + name, text))
        paths.append(site + '/' + name)
    rows.append('%s/RECORD,,' % info)
    write_text(stage, site + '/RECORD', '\n'.join(rows) + '\n')
    paths.append(site + '/RECORD')
    return paths


def move(stage, paths):
    for path in paths:
        target = os.path.join(VENV, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(os.path.join(stage, path), target)


def do_install():
    make_venv()
    stage = '%s/.new' % VENV
    shutil.rmtree(stage, ignore_errors=True)
    os.mkdir(stage)
    try:
        work = []
        for n, wheel in enumerate(JOB['wheels']):
            folder = '%s/%d' % (stage, n)
            os.mkdir(folder)
            work.append((wheel, folder, unpack(wheel, folder)))
        have = installed(SITE)
        for wheel, folder, paths in work:
            old = have.get(canonical(wheel['name']))
            if old:
                remove(old[2])
            move(folder, paths)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return {'installed': ['%s==%s' % (w['name'], w['version']) for w in JOB['wheels']]}


def do_uninstall():
    have, image, removed = installed(SITE), of_image(), []
    for name in JOB['names']:
        if canonical(name) in have:
            continue
        if canonical(name) in image:
            raise Refused('%s is part of the image and stays' % name)
        raise Refused('%s is not installed' % name)
    for name in JOB['names']:
        row = have.get(canonical(name))
        if row and row[0] + '==' + row[1] not in removed:
            remove(row[2])
            removed.append('%s==%s' % row[:2])
    return {'removed': removed}


def do_list():
    result = {'here': [row[:2] for _, row in sorted(installed(SITE).items())]}
    if JOB['all']:
        result['image'] = [row[:2] for _, row in sorted(of_image().items())]
    return result


def main():
    try:
        result = {'install': do_install, 'uninstall': do_uninstall, 'list': do_list}[JOB['do']]()
    except Refused as e:
        result = {'error': str(e)}
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError) as e:
        result = {'error': 'the wheel is damaged: %s' % e}
    except OSError as e:
        result = {'error': 'no space is left for packages in the sandbox' if e.errno in (28, 122)
                  else '%s: %s' % (e.filename, e.strerror)}
    with open('result.json', 'w', encoding='utf-8') as f:
        json.dump(result, f)


main()
