# SPDX-License-Identifier: Apache-2.0
"""What list.py and unpack.py share: /app/.venv, inside a helper of the sandbox.

JOB, a dict that is put in front of these scripts, says what to do. The answer is written to result.json
in the working folder, which is the helper's own empty workspace. They are two programs because compiling
is most of what a short one takes.
"""
import json
import os
import re
import shutil
import sys
import zipfile

VENV = '/app/.venv'
PYTHON = 'python%d.%d' % sys.version_info[:2]
SITE = VENV + '/lib/' + PYTHON + '/site-packages'
BIN = VENV + '/bin'


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


# ---- the program ----

def room():
    """How full the disk of the packages is; files of the workspace are on it, too."""
    try:
        s = os.statvfs(VENV)
    except OSError:
        return ''
    size = (s.f_blocks - s.f_bfree + s.f_bavail) * s.f_frsize  # without what the file system keeps for itself
    return ': %d of %d MiB are used, by packages and by files of the workspace. Remove what is not needed' % (
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
    with open('result.json', 'w', encoding='utf-8') as f:
        json.dump(result, f)
