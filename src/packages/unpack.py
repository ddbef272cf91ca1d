# SPDX-License-Identifier: Apache-2.0
"""Installs wheels into /app/.venv. venv.py is put in front of it.

Each wheel is checked whole and unpacked into a staging folder. All wheels are moved to their place only when
every one could be unpacked (PEP 427, PEP 376).
"""
import base64
import hashlib
import stat

FILES_MAX = 200000
CHUNK = 1 << 20
CONTROL = re.compile('[\0-\x1f\x7f-\x9f\u2028\u2029]')
FIXED = ('pyvenv.cfg', 'lib64', 'bin/python', 'bin/python3', 'bin/' + PYTHON)  # no wheel replaces these
OURS = ('RECORD', 'RECORD.jws', 'RECORD.p7s', 'INSTALLER', 'REQUESTED')  # what the installer writes, and signatures of it
STAGE = '.new'  # below VENV, while wheels are unpacked
SCRIPT = '''#!%s/python
import sys
from %s import %s
if __name__ == '__main__':
    sys.exit(%s())
'''


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


# ---- installing ----

def check_name(name):
    """A wheel's member must be a plain relative path, of one line: RECORD has a line for each."""
    parts = name.rstrip('/').split('/')
    if not name or '\\' in name or CONTROL.search(name) or any(p in ('', '.', '..') for p in parts):
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
    if path in FIXED or path.startswith(STAGE + '/'):
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
            if m.filename in [info + '/' + name for name in OURS]:
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


class Swap:
    """Takes files away and puts others in their places. If something fails, undo() puts everything back."""

    def __init__(self, stage):
        self.aside, self.done = stage + '/old', []
        os.mkdir(self.aside)

    def rename(self, source, target):
        os.rename(source, target)
        self.done.append((source, target))

    def take(self, path):
        self.rename(path, '%s/%d' % (self.aside, len(self.done)))

    def put(self, source, target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isdir(target) and not os.path.islink(target):
            raise Refused('the wheel holds a file with the name of the folder %r' % os.path.relpath(target, VENV)[:200])
        if os.path.lexists(target):
            self.take(target)
        self.rename(source, target)

    def undo(self):
        new = {os.path.dirname(target) for _, target in self.done}
        for source, target in reversed(self.done):
            os.makedirs(os.path.dirname(source), exist_ok=True)
            os.rename(target, source)
        prune(new)


def place(work, stage):
    """Puts what was unpacked into the environment, in place of older versions: all of it or nothing."""
    have = installed(SITE)
    swap = Swap(stage)
    try:
        for wheel, folder, paths in work:
            old = have.get(canonical(wheel['name']))
            if old:
                remove(old[2], swap.take)
            for path in paths:
                swap.put(os.path.join(folder, path), os.path.join(VENV, path))
    except BaseException:
        swap.undo()
        raise


def check_room():
    """Refuses before anything is written what cannot fit: half an installation fills the disk for everybody in the sandbox."""
    need = 0
    for wheel in JOB['wheels']:
        with zipfile.ZipFile(wheel['file']) as z:
            need += sum(m.file_size for m in z.infolist())
    s = os.statvfs(VENV)
    if need > s.f_bavail * s.f_frsize:
        raise Refused('no space is left for packages in the sandbox: they need %d MiB%s' % (-(-need >> 20), room()))


def do_install():
    make_venv()
    stage = VENV + '/' + STAGE
    shutil.rmtree(stage, ignore_errors=True)
    os.mkdir(stage)
    try:
        check_room()
        work = []
        for n, wheel in enumerate(JOB['wheels']):
            folder = '%s/%d' % (stage, n)
            os.mkdir(folder)
            work.append((wheel, folder, unpack(wheel, folder)))
        place(work, stage)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return {'installed': ['%s==%s' % (w['name'], w['version']) for w in JOB['wheels']]}


main(do_install)
