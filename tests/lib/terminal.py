# SPDX-License-Identifier: Apache-2.0
"""terminal.py ROWS COLUMNS COMMAND ARGUMENT... - gives the command a terminal of that size, whose keys come from standard input and whose
screen goes to standard output. The end of standard input is none of the terminal's. Ends with the command's status."""
import fcntl
import os
import pty
import select
import struct
import sys
import termios

pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', int(sys.argv[1]), int(sys.argv[2]), 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])
keys, ended = b'', False
while True:
    sources = [master] if keys or ended else [master, 0]
    readable, writable, _ = select.select(sources, [master] if keys else [], [])
    if writable:
        keys = keys[os.write(master, keys[:256]):]
    if 0 in readable:
        keys = os.read(0, 4096)
        ended = not keys
    if master in readable:
        try:
            screen = os.read(master, 65536)
        except OSError:  # EIO: nobody has the terminal any more
            break
        while screen:
            screen = screen[os.write(1, screen):]
status = os.waitpid(pid, 0)[1]
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
