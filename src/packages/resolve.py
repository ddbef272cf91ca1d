# SPDX-License-Identifier: Apache-2.0
"""Asks the index, inside a resolver: which wheels are needed, or fetches them.

JOB, a dict that is put in front of this script, says what to do. This sandbox holds nobody's data. If only
wheels are allowed, the image's own pip is the only code of others that runs here. The output of pip is shown to people.

Most requests need no search: the newest version that fits of each package, and the same for what it requires.
quick.py, which is put in front of this script too, does that with few questions and fetches the wheels in the same go.
Where it finds anything else, a conflict for example, it gives up, and pip decides.

Where sources may be built, programs of packages run with our own rights, and may leave processes behind. So pip works in a process of its
own, everything is fetched and built in one go, and every process that is left is ended before anything is read that it could have changed.
No module is imported from a folder that such a program can write to.
"""
import re
import signal
import sys
import tempfile
import time

HAVE = '/tmp/have'
END_S = 10
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def canonical(name):
    return re.sub('[-_.]+', '_', name)


def is_ours(path):
    """Can nobody here write to PATH, or make it?"""
    while path and not os.path.lexists(path):
        path = os.path.dirname(path)
    return path.startswith('/') and not os.access(path, os.W_OK)


class NoModules:
    """An importer for a folder that holds none: pip finds packages there by their metadata alone."""

    def find_spec(self, name, target=None):
        return None


def pretend_installed(folder):
    """Makes pip believe that the packages of the sandbox are installed here: names and versions alone."""
    for name, version in JOB['have']:
        info = '%s/%s-%s.dist-info' % (folder, canonical(name), version)
        os.makedirs(info, exist_ok=True)
        with open(info + '/METADATA', 'w', encoding='utf-8') as f:
            f.write('Metadata-Version: 2.1\nName: %s\nVersion: %s\n' % (name, version))
        with open(info + '/INSTALLER', 'w', encoding='utf-8') as f:
            f.write('caisson\n')
    sys.path_importer_cache[folder] = NoModules()
    sys.path.insert(0, folder)


def common():
    return ['--isolated', '--no-input', '--disable-pip-version-check', '--no-color',
            '--progress-bar', 'off', '--cache-dir', '/tmp/pip', '--retries', '2', '--timeout', '30',
            ] + JOB['where'] + (['--only-binary', ':all:'] if not JOB['sources'] else [])


def plan(file):
    with open(file, encoding='utf-8') as f:
        f.seek(0)
        report = json.load(f)
    rows = []
    for item in report['install']:
        info = item['download_info']
        archive = info.get('archive_info') or {}
        sha256 = (archive.get('hashes') or {}).get('sha256', '')
        rows.append({'name': item['metadata']['name'], 'version': item['metadata']['version'],
                     'url': info['url'], 'sha256': sha256, 'requested': bool(item.get('requested'))})
    return rows


def guard():
    """Hides us from programs of the same user, which could open our descriptors otherwise; and whatever they leave becomes our child."""
    import ctypes
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 or prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), 'prctl')


def end_others():
    """Ends everything that pip has started. A spare interpreter may end, too, and comes back: it is no child of ours."""
    late = time.monotonic() + END_S
    try:
        while time.monotonic() < late:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.005)
    except ChildProcessError:
        return
    raise RuntimeError('a program of the build does not end')


def pip(arguments):
    os.close(ANSWER)
    os.environ['PIP_CONFIG_FILE'] = os.devnull
    if JOB['sources'] and option('--proxy'):  # for the pip that this one starts for what a build needs
        os.environ['HTTP_PROXY'] = os.environ['HTTPS_PROXY'] = option('--proxy')
    # /tmp is small, so pip gets the workspace for its temporary files.
    os.makedirs('tmp', exist_ok=True)
    os.environ['TMPDIR'] = tempfile.tempdir = os.path.abspath('tmp')
    from pip._internal.cli.main import main
    return main(arguments)


def run_pip(arguments):
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = pip(arguments)
        except SystemExit as e:
            status = e.code
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if JOB['sources']:
        end_others()
    return status


def wheels():
    return sorted(n for n in os.listdir('wheels') if n.endswith('.whl'))


def build(rows):
    """Wheels of all ROWS, from the index or built."""
    return not rows or run_pip(['wheel', '--quiet', '--no-deps', '--wheel-dir', 'wheels'] + common() +
                               ['--'] + ['%s==%s' % (row['name'], row['version']) for row in rows]) == 0


def resolve():
    try:
        rows, why = quick_plan()
    except TooLarge as e:
        return {'error': e.args[0]}
    if rows is not None:
        return {'plan': rows, 'wheels': wheels()}
    pretend_installed(HAVE)
    report = os.memfd_create('report')  # only pip itself can write to it
    status = run_pip(['install', '--quiet', '--dry-run', '--break-system-packages', '--no-user',
                      '--report', '/proc/self/fd/%d' % report] + common() + ['--'] + JOB['specs'])
    if status == 0:
        rows = plan(report)
        if not JOB['sources'] or build(rows):
            return {'plan': rows, 'wheels': wheels()}
    if why:
        print(why, flush=True)
    return {'error': 'pip'}


def fetch():
    if not quick_fetch():
        status = run_pip(['download', '--quiet', '--no-deps', '--dest', 'wheels'] + common() + ['--'] + JOB['specs'])
        if status != 0:
            return {'error': 'pip'}
    return {'wheels': wheels()}


def main():
    sys.path[:] = [path for path in sys.path if is_ours(path)]
    if JOB['sources']:
        guard()
    os.makedirs('wheels', exist_ok=True)
    answer({'resolve': resolve, 'fetch': fetch}[JOB['do']]())


main()
