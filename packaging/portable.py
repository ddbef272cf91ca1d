# SPDX-License-Identifier: Apache-2.0
"""What packages of other indexes take from the tree of packaging/release: the program, the definitions of images, the licences."""
import argparse
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), 'sbom'))
import formats  # noqa: E402

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), '..'))
OLDEST = (2, 31)  # the version of glibc that packaging/release builds for
ZIP_BEGINS = 315619200  # 2 January 1980
GLIBC = re.compile(r'(libc|libm|libpthread|libdl|librt|libutil|libresolv)\.so\.\d+|ld-linux[-_a-z0-9]*\.so\.\d+')
ARCHITECTURES = {'Advanced Micro Devices X86-64': 'x86_64', 'AArch64': 'aarch64'}


def fail(text):
    sys.exit(f'{os.path.basename(os.path.dirname(os.path.realpath(sys.argv[0])))}: {text}')


def text_of(*path):
    with open(os.path.join(TOP, *path), encoding='utf-8') as f:
        return f.read()


def version():
    return text_of('VERSION').strip()


def registry_name():
    """The name of the server in the registry of MCP; packages prove with it that they belong to it."""
    return text_of('packaging', 'registry-name').strip()


def epoch():
    """The time of all files: SOURCE_DATE_EPOCH, or that of the commit. ZIP begins in 1980."""
    given = os.environ.get('SOURCE_DATE_EPOCH')
    if not given:
        r = subprocess.run(['git', '-C', TOP, 'log', '-1', '--format=%ct'], stdout=subprocess.PIPE, text=True)
        if r.returncode != 0:
            fail('this is no git repository: set SOURCE_DATE_EPOCH to the time of the sources')
        given = r.stdout
    return max(int(given), ZIP_BEGINS)


def materials(kind):
    """Bills of materials of caisson-mcp where it has nothing but code of this repository: {name: (bytes, may be executed)}. KIND: "pypi", "npm"."""
    whole = {'name': 'caisson-mcp', 'version': version(), 'sha256': None, 'licence': 'Apache-2.0', 'kind': 'APPLICATION', 'purl': f'pkg:{kind}/caisson-mcp@{version()}'}
    return {f'caisson-mcp.{name}.json': (form(whole, [], [], epoch()).encode(), False) for name, form in (('spdx', formats.spdx), ('cdx', formats.cyclonedx))}


def readelf(option, path):
    r = subprocess.run(['readelf', '-W', option, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, 'LC_ALL': 'C'})
    if r.returncode != 0:
        fail(f'readelf {path}: {r.stderr.strip()}')
    return r.stdout


class Tree:
    """A folder as packaging/release/build makes it."""

    def __init__(self, folder):
        self.program = os.path.join(folder, 'bin', 'caisson')
        if not os.path.isfile(self.program):
            fail(f'there is no {self.program}: make release')
        self.share = os.path.join(folder, 'share', 'caisson')
        self.docs = os.path.join(folder, 'share', 'doc', 'caisson')
        machine = re.search(r'Machine:\s*(.*)', readelf('-h', self.program)).group(1).strip()
        self.architecture = ARCHITECTURES.get(machine) or fail(f'{self.program} is for {machine}')
        self.lacks = self.problems()

    def problems(self):
        """Why it does not run on every Linux with the oldest glibc."""
        needed = re.findall(r'\(NEEDED\).*\[(.*)\]', readelf('-d', self.program))
        newest = max((tuple(map(int, v.split('.'))) for v in re.findall(r'\bGLIBC_(\d+\.\d+)', readelf('-V', self.program))), default=(0, 0))
        return [f'needs {name}' for name in needed if not GLIBC.fullmatch(name)] + ([f'needs glibc {newest[0]}.{newest[1]}'] if newest > OLDEST else [])

    def files(self, folder, under):
        """(name below UNDER, path) of each file in FOLDER."""
        found = []
        for at, _, names in os.walk(folder, followlinks=True):
            found += [(os.path.join(under, os.path.relpath(os.path.join(at, n), folder)), os.path.join(at, n)) for n in names]
        return sorted(found)

    def definitions(self, under):
        files = self.files(os.path.join(self.share, 'images'), os.path.join(under, 'share/caisson/images'))
        return files or fail(f'there are no definitions of images in {self.share}')

    def licences(self, under):
        return self.files(self.docs, under)


def content(path):
    """(bytes, may be executed)."""
    with open(path, 'rb') as f:
        return f.read(), bool(os.stat(path).st_mode & 0o100)


def arguments(program, what, default):
    p = argparse.ArgumentParser(prog=program, description=f'{what} SOURCE_DATE_EPOCH: the time of all files (default: that of the commit).')
    p.add_argument('--tree', action='append', default=[], metavar='DIR',
                   help='what packaging/release/build made; once for each architecture (default: those in build/release)')
    p.add_argument('--out', default=os.path.join(TOP, 'build/release', default), metavar='DIR', help=f'default: build/release/{default}')
    p.add_argument('--here', action='store_true', help='also take a program that runs on this machine alone, for tests')
    args = p.parse_args()
    if not args.tree:
        args.tree = [t for t in (os.path.join(TOP, f'build/release/caisson-{version()}-linux-{a}') for a in ARCHITECTURES.values()) if os.path.isdir(t)]
    args.tree or fail('there is no portable binary: make release')
    trees = [Tree(t) for t in args.tree]
    for t in trees:
        if t.lacks and not args.here:
            fail(f'{t.program} is not portable: it {", ".join(t.lacks)}')
    if len({t.architecture for t in trees}) < len(trees):
        fail('two trees are for one architecture')
    os.makedirs(args.out, exist_ok=True)
    return args, trees
