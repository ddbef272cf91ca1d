# SPDX-License-Identifier: Apache-2.0
# Stands before every hostile program. One line per attempt: HELD or BROKEN, what, and how it ended.
import ctypes, errno, os, platform, signal, sys, time

_libc = ctypes.CDLL(None, use_errno=True)
_x86 = platform.machine() == "x86_64"
MARK = "@MARK@"


def say(held, what, how=""):
    os.write(1, f"{'HELD' if held else 'BROKEN'} {what} ({how})\n".encode("utf-8", "replace"))


def refused(what, attempt, *errors):
    """The attempt must fail with one of the errors (any, when none is named)."""
    try:
        got = attempt()
    except OSError as e:
        say(not errors or e.errno in errors, what, errno.errorcode.get(e.errno, e.errno))
    except (ValueError, OverflowError) as e:
        say(True, what, e)
    else:
        say(False, what, f"worked: {str(got)[:80]}")


# number on x86_64, on aarch64
NR = dict(
    ptrace=(101, 117), process_vm_readv=(310, 270), process_vm_writev=(311, 271), pidfd_open=(434, 434), pidfd_getfd=(438, 438),
    kcmp=(312, 272), keyctl=(250, 219), add_key=(248, 217), request_key=(249, 218), unshare=(272, 97), setns=(308, 268), clone=(56, 220),
    clone3=(435, 435), mount=(165, 40), umount2=(166, 39), pivot_root=(155, 41), chroot=(161, 51), fsopen=(430, 430), fsmount=(432, 432),
    fsconfig=(431, 431), fspick=(433, 433), open_tree=(428, 428), move_mount=(429, 429), mount_setattr=(442, 442), io_uring_setup=(425, 425),
    io_uring_enter=(426, 426), io_uring_register=(427, 427), bpf=(321, 280), perf_event_open=(298, 241), userfaultfd=(323, 282),
    kexec_load=(246, 104), init_module=(175, 105), finit_module=(313, 273), delete_module=(176, 106), quotactl=(179, 60), quotactl_fd=(443, 443),
    swapon=(167, 224), swapoff=(168, 225), acct=(163, 89), reboot=(169, 142), settimeofday=(164, 170), clock_settime=(227, 112),
    adjtimex=(159, 171), clock_adjtime=(305, 266), sethostname=(170, 161), setdomainname=(171, 162), syslog=(103, 116), fanotify_init=(300, 262),
    name_to_handle_at=(303, 264), open_by_handle_at=(304, 265), seccomp=(317, 277), vmsplice=(278, 75), mbind=(237, 235),
    set_mempolicy=(238, 237), migrate_pages=(256, 238), move_pages=(279, 239), memfd_secret=(447, 447), cachestat=(451, 451),
    process_madvise=(440, 440), process_mrelease=(448, 448), personality=(135, 92), prctl=(157, 167), prlimit64=(302, 261), mknodat=(259, 33),
    sched_setattr=(314, 274), madvise=(28, 233), landlock_create_ruleset=(444, 444), landlock_restrict_self=(446, 446), io_setup=(206, 0), ioprio_set=(251, 30), capset=(126, 91),
    setsockopt=(54, 208), ioctl=(16, 29), shmget=(29, 194), getpid=(39, 172), vhangup=(153, 58), kexec_file_load=(320, 294),
)
X86_ONLY = dict(iopl=172, ioperm=173, modify_ldt=154, uselib=134, arch_prctl=158)


def number(name):
    return NR[name][0 if _x86 else 1] if name in NR else X86_ONLY[name]


def call(name, *args):
    """The raw call; OSError when it fails."""
    nr = name if isinstance(name, int) else number(name)
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args] + [ctypes.c_long(0)] * (6 - len(args))
    ctypes.set_errno(0)
    r = _libc.syscall(ctypes.c_long(nr), *args)
    if r == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return r


def refused_call(name, *args, errors=(errno.EPERM, errno.ENOSYS)):
    if isinstance(name, str) and name in X86_ONLY and not _x86:
        say(True, name, "not on this machine")
        return
    refused(name, lambda: call(name, *args), *errors)


def dies(what, attempt, sig):
    """In a child, which must be killed by SIG."""
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -1
    say(ended == sig, what, f"signal {ended}")


def holds(what, truth, how=""):
    say(bool(truth), what, how)


# ---- the attack ----
