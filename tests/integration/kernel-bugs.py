# SPDX-License-Identifier: Apache-2.0
"""The entry points of every class of docs/kernel-bugs.md, tried. Prints a JSON object: class -> what each attempt answered."""

import array
import ctypes
import errno
import json
import mmap
import os
import platform
import select
import socket
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
#: Numbers of system calls on x86_64 and on aarch64.
NUMBERS = {
    "mount": (165, 40), "umount2": (166, 39), "ptrace": (101, 117), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "vmsplice": (278, 75), "tee": (276, 77), "sendfile": (40, 71), "unshare": (272, 97), "clone": (56, 220), "futex": (202, 98),
    "timer_create": (222, 107), "timer_delete": (226, 111), "clock_nanosleep": (230, 115), "clone3": (435, 435), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
}
CLONE_NEWUSER, SIGCHLD = 0x10000000, 17
#: CPU time of the process and of the thread, the same two by their own numbers, and that of process 1.
CPU_CLOCKS = (2, 3, -6, -2, ~1 << 3 | 2)


def call(name, *args):
    """The name of the error that the system call answers, or `ok`."""
    number = NUMBERS[name][platform.machine() == "aarch64"]
    ctypes.set_errno(0)
    if libc.syscall(number, *(ctypes.c_long(a) for a in args)) >= 0:
        return "ok"
    return errno.errorcode[ctypes.get_errno()]


def answer(action, *args):
    """The same for a function of Python."""
    try:
        action(*args)
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]


def option(kind, level, name, value=b"tls\0"):
    with socket.socket(socket.AF_INET, kind) as s:
        return answer(s.setsockopt, level, name, value)


def netlink(*protocols):
    return [answer(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, p) for p in protocols]


def families():
    """Key, X.25 and its like, packets, RDS, CAN, TIPC, RxRPC, Bluetooth, AF_ALG, NFC, vsock, KCM, QRTR, SMC, XDP; then kinds."""
    other = [answer(socket.socket, f, k, 0) for f in (3, 9, 15, 17, 21, 29, 30, 31, 33, 38, 39, 40, 41, 42, 43, 44)
             for k in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW)]
    kinds = ((6, 33), (socket.SOCK_STREAM, 132), (socket.SOCK_SEQPACKET, 132), (socket.SOCK_STREAM, 262),
             (socket.SOCK_DGRAM, 136), (socket.SOCK_DGRAM, 115))
    return other + [answer(socket.socket, socket.AF_INET, k, p) for k, p in kinds]


def raw():
    return [answer(socket.socket, f, socket.SOCK_RAW, p) for f in (socket.AF_INET, socket.AF_INET6) for p in (2, 58, 255)] + \
        [answer(socket.socket, socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)]


def user_namespaces():
    return [call("unshare", CLONE_NEWUSER), call("unshare", CLONE_NEWUSER | 0x40000000),
            call("clone", CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), call("clone3", 0, 88)]


def out_of_band():
    a, b = socket.socketpair()
    with a, b:
        return [answer(a.send, b"x", socket.MSG_OOB), answer(a.sendmsg, [b"x"], [], socket.MSG_OOB),
                answer(b.recv, 1, socket.MSG_OOB)]


def line_discipline():
    master, slave = os.openpty()
    try:
        return [-1 == libc.ioctl(slave, ctypes.c_ulong(0x5423), ctypes.byref(ctypes.c_int(n))) and
                errno.errorcode[ctypes.get_errno()] for n in (5, 21)]
    finally:
        os.close(master)
        os.close(slave)


def watch_queue():
    read, write = os.pipe2(os.O_EXCL) if answer(os.pipe2, os.O_EXCL) == "ok" else os.pipe()
    answers = [-1 == libc.ioctl(read, ctypes.c_ulong(n), 0) and errno.errorcode[ctypes.get_errno()] for n in (0x5760, 0x5761)]
    os.close(read)
    os.close(write)
    return answers


def priority_inheritance():
    word = ctypes.c_uint32(0)
    return [call("futex", ctypes.addressof(word), op, 1, 0, 0, 0) for op in (6, 7, 8, 11, 12, 13)]


def passing_descriptors():
    a, b = socket.socketpair()
    with a, b:
        return [answer(a.sendmsg, [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [b.fileno()]))])]


def splicing():
    """Pages of a file into a pipe, a UNIX socket, and sockets of UDP and TCP, which are the four that can take them."""
    read, write = os.pipe()
    a, b = socket.socketpair()
    with a, b, tempfile.TemporaryFile() as f, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as udp, \
            socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as peer, socket.create_server(("127.0.0.1", 0)) as server, \
            socket.create_connection(server.getsockname()) as tcp:
        peer.bind(("::1", 0))
        udp.connect(peer.getsockname())
        f.write(b"x")
        f.flush()
        os.write(write, b"x")
        return [call("sendfile", out, f.fileno(), 0, 1) for out in (write, a.fileno(), udp.fileno(), tcp.fileno())] + \
            [answer(os.splice, f.fileno(), write, 1, 0)] + \
            [answer(os.splice, read, s.fileno(), 1) for s in (a, udp, tcp)] + [call("tee", read, write, 1, 0)]


def epoll_in_epoll():
    with select.epoll() as a, select.epoll() as b:
        return [answer(a.register, b.fileno(), select.EPOLLIN)]


def cpu_timers():
    timer, nothing = ctypes.c_int(), (ctypes.c_long * 2)()
    return [call("timer_create", clock, 0, ctypes.addressof(timer)) for clock in CPU_CLOCKS] + \
        [call("clock_nanosleep", clock, 0, ctypes.addressof(nothing), 0) for clock in CPU_CLOCKS]


def connecting():
    with socket.create_server(("127.0.0.1", 0)) as s, socket.socket() as c:
        return [answer(c.connect, s.getsockname()), answer(c.send, b"x")]


def devices():
    """Sound, Android's binder, graphics, virtual machines, USB, input."""
    return [answer(os.open, f"/dev/{n}", os.O_RDWR) for n in (
        "snd/controlC0", "snd/timer", "snd/seq", "binder", "binderfs/binder", "dri/card0", "dri/renderD128", "kvm", "vhost-net",
        "bus/usb/001/001", "hidraw0", "input/event0", "uinput", "video0", "loop-control", "mem")]


def memory():
    area = mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return [answer(area.resize, 1 << 21), answer(lambda: os.waitpid(os.fork() or os._exit(0), 0))]


CLASSES = {
    "netfilter": lambda: netlink(12) + [option(socket.SOCK_STREAM, 0, 64), option(socket.SOCK_STREAM, 0, 96)] + user_namespaces(),
    "rtnetlink": lambda: netlink(0, 16) + user_namespaces(),
    "xfrm": lambda: netlink(6) + [option(socket.SOCK_DGRAM, 17, 100, b"\2\0\0\0"), option(socket.SOCK_DGRAM, 0, 17)],
    "netlink": lambda: netlink(4, 8, 9, 10, 15, 18, 20),
    "family": families,
    "raw": raw,
    "ulp": lambda: [option(socket.SOCK_STREAM, 6, 31), option(socket.SOCK_STREAM, 282, 1)],
    "cbpf": lambda: [option(k, socket.SOL_SOCKET, n, bytes(16)) for k in (socket.SOCK_DGRAM, socket.SOCK_STREAM) for n in (26, 50, 51, 52)],
    "oob": out_of_band,
    "fscontext": lambda: [call("fsopen", 0, 0), call("fsconfig", 3, 0, 0, 0, 0), call("fsmount", 3, 0, 0), call("fspick", -100, 0, 0),
                          call("open_tree", -100, 0, 0), call("move_mount", 3, 0, 3, 0, 0)],
    "mount": lambda: [call("mount", 0, 0, 0, 0, 0), call("umount2", 0, 0)] + user_namespaces(),
    "fuse": lambda: [answer(os.open, "/dev/fuse", os.O_RDWR), call("mount", 0, 0, 0, 0, 0)],
    "userns": user_namespaces,
    "io_uring": lambda: [call("io_uring_setup", 8, 0), call("io_uring_enter", 3, 1, 0, 0, 0), call("io_uring_register", 3, 0, 0, 0)],
    "bpf": lambda: [call("bpf", n, 0, 0) for n in range(3)] + [call("bpf", 5, 0, 128)],
    "perf": lambda: [call("perf_event_open", 0, 0, -1, -1, 0)],
    "futex-pi": priority_inheritance,
    "userfaultfd": lambda: [call("userfaultfd", 0), call("userfaultfd", 1), answer(os.open, "/dev/userfaultfd", os.O_RDWR)],
    "vmsplice": lambda: [call("vmsplice", 1, 0, 0, 0)],
    "watch-queue": watch_queue,
    "ldisc": line_discipline,
    "ptrace": lambda: [call("ptrace", n, os.getpid(), 0, 0) for n in (0, 16, 0x4206)],
    "pty": lambda: [answer(os.openpty)],
    "unix-fds": passing_descriptors,
    "epoll": epoll_in_epoll,
    "splice": splicing,
    "cpu-timers": cpu_timers,
    "device": devices,
    "tcp": connecting,
    "mm": memory,
}

print(json.dumps({name: attempts() for name, attempts in CLASSES.items()}))
