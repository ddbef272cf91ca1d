# SPDX-License-Identifier: Apache-2.0
"""The commands `caisson` and `caisson-mcp`. The wheel for Linux has the program beside this file. Everywhere else, and where a
server is named, `caisson-mcp` is a bridge."""
import os
import sys

from caisson_mcp import bridge, places


def program():
    """The path of Caisson in this package, or None: this is the wheel without it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'caisson')
    if not sys.platform.startswith('linux') or not os.path.isfile(path):
        return None
    if not os.access(path, os.X_OK):
        os.chmod(path, 0o755)  # some installers lose the mode
    return path


def become(path, args):
    sys.stdout.flush()
    os.execv(path, ['caisson', *args])


def caisson():
    path = program()
    if not path:
        sys.exit('caisson: this package has no program for this machine: Caisson runs on Linux with glibc 2.31 or newer, on x86_64 and aarch64')
    become(path, sys.argv[1:])


def main():
    """Without arguments, or with options alone, this is `caisson stdio`."""
    args = sys.argv[1:]
    path = program()
    if path and not places.bridge_is_wanted(args):
        verb = [] if args and (not args[0].startswith('-') or args[0] in ('-h', '--help', '-V', '--version')) else ['stdio']
        become(path, verb + args)
    return bridge.main(places.find(args))
