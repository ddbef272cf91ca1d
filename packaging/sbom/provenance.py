# SPDX-License-Identifier: Apache-2.0
"""How files were made: an in-toto statement with SLSA's provenance. It is not signed, so it proves nothing by itself."""
import hashlib
import json
import os
import re
import subprocess

import found

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../..'))
BUILD_TYPE = 'urn:caisson:build:1'
BUILDER = 'urn:caisson:builder:unsigned'  # whose machine it was, nobody has vouched for


def git(*argv):
    r = subprocess.run(['git', '-C', TOP, *argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return r.stdout.strip() if r.returncode == 0 else ''


def sha256(path):
    h = hashlib.sha256()
    with open(path, 'rb') as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def tools():
    """The compiler, linker and bundler of this machine, as its package database has them."""
    names = ('gcc', 'binutils', 'libc6-dev', 'meson', 'ninja-build', 'python3', 'debhelper', 'rpm', 'mmdebstrap')
    r = subprocess.run(['dpkg-query', '-W', '-f', '${db:Status-Abbrev}${Package} ${Version} ${Architecture}\n', *names], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, text=True, check=False)
    distro = found.release('/')
    return [found.deb_purl(*m, distro) for m in re.findall(r'^ii +(\S+) (\S+) (\S+)$', r.stdout, re.M)]


def statement(args, version, epoch):
    commit = git('rev-parse', 'HEAD')
    resolved = [{'uri': uri} for uri in sorted(tools())]
    lock = os.path.join(TOP, 'web/package-lock.json')
    resolved.append({'name': 'web/package-lock.json', 'digest': {'sha256': sha256(lock)}})
    if commit:
        source = {'name': 'source', 'digest': {'gitCommit': commit}}
        if git('status', '--porcelain', '--untracked-files=no'):
            source['annotations'] = {'changed': 'files differed from the commit'}
        resolved.insert(0, source)
    return {
        '_type': 'https://in-toto.io/Statement/v1',
        'subject': [{'name': os.path.basename(s), 'digest': {'sha256': sha256(s)}} for s in sorted(args.subject)],
        'predicateType': 'https://slsa.dev/provenance/v1',
        'predicate': {
            'buildDefinition': {
                'buildType': BUILD_TYPE,
                'externalParameters': {'target': args.target, 'version': args.version or version()},
                'internalParameters': {'SOURCE_DATE_EPOCH': epoch(), 'note': 'This statement is not signed: whoever can write this file can write another.'},
                'resolvedDependencies': resolved,
            },
            'runDetails': {'builder': {'id': BUILDER}},
        },
    }


def run(args, version, epoch):
    with open(args.out + '.new', 'w', encoding='utf-8') as f:
        json.dump(statement(args, version, epoch), f, indent=1)
        f.write('\n')
    os.rename(args.out + '.new', args.out)


def options(verbs, version, epoch):
    v = verbs.add_parser('provenance', help='how files were made; not signed')
    v.add_argument('--out', required=True, metavar='FILE.intoto.json')
    v.add_argument('--target', required=True, help='what was asked for: deb, container …')
    v.add_argument('--version', default='')
    v.add_argument('subject', nargs='+', metavar='FILE')
    v.set_defaults(fn=lambda args: run(args, version, epoch))
