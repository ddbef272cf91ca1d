# SPDX-License-Identifier: Apache-2.0
"""Runs a program as root of a container that has the ids 0 to 65535: FIRST to FIRST + 65535 of the machine.

    container-ids.py FIRST PROGRAM [ARGUMENT …]

As a pod with `hostUsers: false`: a user namespace, and mount, PID, IPC and UTS namespaces of it with a /proc, /run and /tmp of their own.
"""
import ctypes
import os
import signal
import sys

NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000 | 0x04000000  # user, mount, PID, IPC, UTS
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
MS_REC_PRIVATE = 0x44000

libc = ctypes.CDLL(None, use_errno=True)
first = int(sys.argv[1])


def must(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def be(ident):
    os.setgroups([])
    os.setresgid(ident, ident, ident)
    os.setresuid(ident, ident, ident)
    must(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))  # a change of ids has cleared it


def mount(kind, where):
    must(libc.mount(kind, where, kind, 0, None))


def first_process():
    must(libc.mount(None, b"/", None, MS_REC_PRIVATE, None))
    for kind, where in ((b"proc", b"/proc"), (b"tmpfs", b"/run")):
        mount(kind, where)
    os.execvp(sys.argv[2], sys.argv[2:])


def end_as(status):
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


made, said = os.pipe()
go, mapped = os.pipe()
child = os.fork()
if child == 0:
    be(first)
    must(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
    must(libc.unshare(NAMESPACES))
    os.write(said, b"x")
    os.close(mapped)
    if os.read(go, 1) != b"x":
        os._exit(1)
    be(0)
    inner = os.fork()
    if inner == 0:
        must(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        first_process()
    signal.signal(signal.SIGTERM, lambda *_: os.kill(inner, signal.SIGTERM))
    end_as(os.waitpid(inner, 0)[1])
os.close(said)
if os.read(made, 1) == b"x":
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{name}", "w") as f:
            f.write(f"0 {first} 65536\n")
    os.write(mapped, b"x")
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
end_as(os.waitpid(child, 0)[1])
