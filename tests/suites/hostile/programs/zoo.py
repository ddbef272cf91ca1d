# SPDX-License-Identifier: Apache-2.0
"""zoo.py MARK [stay] - processes that are hard to end, each with MARK in its command line. Says "full" when all are there."""
import ctypes, os, signal, subprocess, sys, time

MARK = sys.argv[1]
HERE = f"/tmp/zoo-{os.getpid()}-"
KEEP = """
import os, signal, sys, time
kind, file = sys.argv[2:4]
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(s, signal.SIG_IGN)
open(file, "w").close()
if kind == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
if kind == "waker": # goes on although it was stopped, as far as a timer can do that
    signal.signal(signal.SIGALRM, lambda *a: os.kill(os.getpid(), signal.SIGCONT))
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
if kind == "daemons": # each is the child of one that has ended
    while True:
        time.sleep(0.02)
        try:
            if os.fork():
                os._exit(0)
            os.setsid()
        except OSError:
            pass
while True:
    time.sleep(100)
"""
KINDS = ("deaf", "session", "daemon", "stopped", "waker", "daemons")
CLONE_VFORK = 0x4000


def begin(kind):
    argv = [sys.executable, "-c", KEEP, MARK, kind, HERE + kind]
    quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if kind == "daemon":
        if os.fork() == 0:
            os.setsid()
            subprocess.Popen(argv, **quiet)
            os._exit(0)
    else:
        subprocess.Popen(argv, start_new_session=kind == "session", **quiet)


for k in KINDS:
    begin(k)
if os.fork() == 0: # its parent waits in the kernel, which no signal but KILL ends
    pid = ctypes.CDLL(None).syscall(ctypes.c_long(56 if os.uname().machine == "x86_64" else 220), ctypes.c_long(CLONE_VFORK | signal.SIGCHLD), *[ctypes.c_long(0)] * 4)
    if pid == 0:
        open(HERE + "vfork", "w").close()
    time.sleep(1000)
while not all(os.path.exists(HERE + k) for k in (*KINDS, "vfork")):
    time.sleep(0.01)
print("full", flush=True)
if sys.argv[2:] == ["stay"]:
    time.sleep(1000)
os._exit(0)
