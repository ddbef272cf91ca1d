# SPDX-License-Identifier: Apache-2.0
"""Where the bridge finds Caisson: at a URL, in WSL, or in a container of Docker."""
import os
import shlex
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

PROBE_S = 60  # WSL may have to start its machine first
OPTIONS = {'--url': 'CAISSON_URL', '--distribution': 'CAISSON_DISTRIBUTION', '--container': 'CAISSON_CONTAINER'}
USAGE = '''usage: caisson-mcp [--url URL | --distribution NAME | --container NAME] [OPTION OF caisson stdio]...
  --url URL             the /mcp address of a server (CAISSON_URL); its key is read from CAISSON_KEY
  --distribution NAME   of WSL, with Caisson in it (CAISSON_DISTRIBUTION)
  --container NAME      of Docker, with Caisson in it (CAISSON_CONTAINER; default: caisson-caisson-1)
On Linux, where the package has the program, `caisson-mcp` is `caisson stdio` unless --bridge or --url comes first.'''
NOWHERE = ('There is no Caisson for this machine: it runs on Linux with glibc 2.31 or newer. Set CAISSON_URL to the /mcp address of a server (and CAISSON_KEY to its key), '
           'or install Caisson in WSL, or start its container {container} with Docker.')


def key_of_user():
    key = os.environ.get('CAISSON_KEY', '').strip()
    if not all('!' <= c <= '~' for c in key):
        usage('CAISSON_KEY has a character that no header can hold')
    return key


class Place:
    """`url`, or `command`: what speaks stdio in place of the bridge; or neither, and `why`. `say` is for the person."""

    def __init__(self, url=None, command=None, say='', why=''):
        self.url, self.command, self.say, self.why = url, command, say, why
        self.key = key_of_user()


def bridge_is_wanted(args):
    first = args[0].split('=')[0] if args else ''
    return first in ('--bridge', *OPTIONS) or bool(os.environ.get('CAISSON_URL')) or os.environ.get('CAISSON_BRIDGE') == '1'


def usage(problem=''):
    print(f'caisson-mcp: {problem}\n{USAGE}' if problem else USAGE, file=sys.stderr)
    sys.exit(2 if problem else 0)


def taken(args):
    """The options that are for the bridge, by name, and the rest."""
    found = {name: os.environ.get(variable, '') for name, variable in OPTIONS.items()}
    rest = list(args)
    while rest and rest[0].split('=')[0] in (*OPTIONS, '--bridge', '--help', '-h'):
        name, equals, value = rest.pop(0).partition('=')
        if name in ('--help', '-h'):
            usage()
        if name == '--bridge':
            continue
        if not equals and not rest:
            usage(f'{name} needs a value')
        found[name] = value if equals else rest.pop(0)
    return found, rest


def address(url):
    """URL with the path /mcp if it has none."""
    parts = urlsplit(url)
    try:
        fine = parts.scheme in ('http', 'https') and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    if not fine or '@' in parts.netloc:
        usage(f'{url} is no address of a server: http://HOST:PORT/mcp')
    return parts._replace(path=parts.path if parts.path.strip('/') else '/mcp', fragment='').geturl()


def succeeds(argv, wanted=b''):
    try:
        r = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PROBE_S)
    except (OSError, subprocess.SubprocessError):
        return False
    return r.returncode == 0 and wanted in r.stdout


def find(args):
    found, rest = taken(args)
    if found['--url']:
        if rest:
            usage(f'{rest[0]} is an option of the server')
        url = address(found['--url'])
        place = Place(url=url, say=f'this is a bridge to {url}')
        if place.key and url.startswith('http:') and urlsplit(url).hostname not in ('127.0.0.1', 'localhost', '::1'):
            place.say += ', and the key is sent without encryption'
        return place
    container = found['--container'] or 'caisson-caisson-1'
    wsl = shutil.which('wsl.exe')
    distribution = ['--distribution', found['--distribution']] if found['--distribution'] else []
    if wsl and not found['--container']:
        shell = [wsl, *distribution, '--exec', 'sh', '-lc']
        if succeeds([*shell, 'command -v caisson']):
            return Place(command=[*shell, ' '.join(['exec caisson stdio', *map(shlex.quote, rest)])], say='no URL is named (CAISSON_URL), so this is Caisson in WSL')
    docker = shutil.which('docker')
    if docker and succeeds([docker, 'inspect', '--format', '{{.State.Running}}', container], b'true'):
        return Place(command=[docker, 'exec', '-i', container, 'env', '-u', 'SANDBOX_API_KEY', 'caisson', 'stdio', *rest],
                     say=f'no URL is named (CAISSON_URL), so this is Caisson in the container {container}')
    why = NOWHERE.format(container=container)
    return Place(say=why, why=why)
