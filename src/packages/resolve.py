# SPDX-License-Identifier: Apache-2.0
"""Asks the index, inside a resolver: which wheels are needed, or fetches them.

JOB, a dict that is put in front of this script, says what to do. This sandbox holds nobody's data. If only
wheels are allowed, the image's own pip is the only code of others that runs here. The answer is written to
result.json; the output of pip is shown to people.

Most requests need no search: the newest version that fits of each package, and the same for what it requires.
quick.py, which is put in front of this script too, does that with few questions and fetches the wheels in the same go.
Where it finds anything else, a conflict for example, it gives up, and pip decides.
"""
import json
import os
import re
import sys
import tempfile


def canonical(name):
    return re.sub('[-_.]+', '_', name)


def pretend_installed(folder):
    """Makes pip believe that the packages of the sandbox are installed here: names and versions alone."""
    for name, version in JOB['have']:
        info = '%s/%s-%s.dist-info' % (folder, canonical(name), version)
        os.makedirs(info, exist_ok=True)
        with open(info + '/METADATA', 'w', encoding='utf-8') as f:
            f.write('Metadata-Version: 2.1\nName: %s\nVersion: %s\n' % (name, version))
        with open(info + '/INSTALLER', 'w', encoding='utf-8') as f:
            f.write('caisson\n')
    sys.path.insert(0, folder)


def common():
    return ['--isolated', '--no-input', '--disable-pip-version-check', '--no-color',
            '--progress-bar', 'off', '--cache-dir', '/tmp/pip', '--retries', '2', '--timeout', '30',
            ] + JOB['where'] + (['--only-binary', ':all:'] if not JOB['sources'] else [])


def plan():
    with open('report.json', encoding='utf-8') as f:
        report = json.load(f)
    rows = []
    for item in report['install']:
        info = item['download_info']
        archive = info.get('archive_info') or {}
        sha256 = (archive.get('hashes') or {}).get('sha256', '')
        rows.append({'name': item['metadata']['name'], 'version': item['metadata']['version'],
                     'url': info['url'], 'sha256': sha256, 'requested': bool(item.get('requested'))})
    return rows


def run_pip(arguments):
    os.environ['PIP_CONFIG_FILE'] = os.devnull
    # /tmp is small, so pip gets the workspace for its temporary files.
    os.makedirs('tmp', exist_ok=True)
    os.environ['TMPDIR'] = tempfile.tempdir = os.path.abspath('tmp')
    from pip._internal.cli.main import main
    return main(arguments)


def wheels():
    return sorted(n for n in os.listdir('wheels') if n.endswith('.whl'))


def resolve():
    rows, why = quick_plan()
    if rows is not None:
        return {'plan': rows, 'wheels': wheels()}
    pretend_installed('/tmp/have')
    status = run_pip(['install', '--quiet', '--dry-run', '--break-system-packages', '--no-user',
                      '--report', 'report.json'] + common() + ['--'] + JOB['specs'])
    if status == 0:
        return {'plan': plan(), 'wheels': []}
    if why:
        print(why, flush=True)
    return {'error': 'pip'}


def fetch():
    if not quick_fetch():
        status = run_pip(['wheel' if JOB['sources'] else 'download', '--quiet', '--no-deps',
                          '--wheel-dir' if JOB['sources'] else '--dest', 'wheels'] + common() + ['--'] +
                         JOB['specs'])
        if status != 0:
            return {'error': 'pip'}
    return {'wheels': wheels()}


def main():
    os.makedirs('wheels', exist_ok=True)
    result = {'resolve': resolve, 'fetch': fetch}[JOB['do']]()
    with open('result.json', 'w', encoding='utf-8') as f:
        json.dump(result, f)


main()
