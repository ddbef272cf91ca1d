# SPDX-License-Identifier: Apache-2.0
"""What list.py and unpack.py share: /app/.venv, inside a helper of the sandbox.

JOB, a dict that is put in front of these scripts, says what to do. The working folder is the helper's own
workspace. They are two programs because compiling is most of what a short one takes.
"""
import os
import re
import shutil
import sys
import zipfile

VENV = '/app/.venv'
PYTHON = 'python%d.%d' % sys.version_info[:2]
SITE = VENV + '/lib/' + PYTHON + '/site-packages'
BIN = VENV + '/bin'
WORD = re.compile('[A-Za-z0-9][A-Za-z0-9._+!-]{0,127}')
ROWS_MAX = 2000  # as the front takes


class Refused(Exception):
    pass


def canonical(name):
    return re.sub('[-_.]+', '-', name).lower()


def text_of(path, limit=1 << 20):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read(limit)


def split_folder(folder):
    """('name', 'version') of NAME-VERSION.dist-info or .egg-info; None when there is no version."""
    stem = folder.rsplit('.', 1)[0]
    parts = stem.split('-')
    return (parts[0], parts[1]) if len(parts) > 1 else None


def installed(folder):
    """{canonical name: (name, version, folder)} of one site folder.

    Wheels and imported images choose these names. What is no word cannot be asked for, and a name that is not UTF-8 would make the answer unreadable.
    """
    found = {}
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return found
    for entry in entries:
        if entry.endswith(('.dist-info', '.egg-info')) and split_folder(entry):
            name, version = split_folder(entry)
            if not WORD.fullmatch(name) or not WORD.fullmatch(version):
                continue
            found[canonical(name)] = (name.replace('_', '-'), version, os.path.join(folder, entry))
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


def delete(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            os.unlink(path)
        except OSError:
            pass


def remove_file(path, away):
    if not os.path.lexists(path) or os.path.isdir(path) and not os.path.islink(path):
        return
    away(path)
    folder, name = os.path.split(path)
    if not name.endswith('.py'):
        return
    cache = os.path.join(folder, '__pycache__')
    try:
        compiled = [e for e in os.listdir(cache) if e.startswith(name[:-3] + '.') and e.endswith('.pyc')]
    except OSError:
        return
    for entry in compiled:
        away(os.path.join(cache, entry))


def prune(folders):
    """Removes those of FOLDERS that are empty, and the folders above them that become empty."""
    todo = set()
    for folder in folders:
        while inside(folder) and folder not in todo and folder != SITE:
            todo.add(folder)
            todo.add(os.path.join(folder, '__pycache__'))
            folder = os.path.dirname(folder)
    for folder in sorted(todo, key=len, reverse=True):
        if folder not in (SITE, BIN, VENV + '/lib', VENV + '/lib/' + PYTHON):
            try:
                os.rmdir(folder)
            except OSError:
                pass


def remove(info, away=delete):
    """Removes the package whose metadata is in the folder INFO. AWAY is called with each path that must go."""
    paths = recorded(info)
    for path in paths:
        remove_file(path, away)
    away(info)
    prune({os.path.dirname(path) for path in paths})


# ---- the program ----

def room():
    """How full the disk of the packages is; files of the workspace are on it, too."""
    try:
        s = os.statvfs(VENV)
    except OSError:
        return ''
    size = (s.f_blocks - s.f_bfree + s.f_bavail) * s.f_frsize  # without what the file system keeps for itself
    return ': %d of %d MiB are used, by packages and by files of the workspace' % (
        (size - s.f_bavail * s.f_frsize) >> 20, size >> 20)


def main(do):
    try:
        result = do()
    except Refused as e:
        result = {'error': str(e)}
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError) as e:
        result = {'error': 'the wheel is damaged: %s' % e}
    except OSError as e:
        result = {'error': 'no space is left for packages in the sandbox' + room() if e.errno in (28, 122)
                  else '%s: %s' % (e.filename, e.strerror)}
    answer(result)
