/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of a run: one row for every call that Linux 6.18 has on x86_64 and aarch64. The
 * language of the rows is in filter.h.
 *
 * A call without a row answers ENOSYS, so that a library which tries a newer call falls back to an
 * older one. For the same reason REFUSE answers ENOSYS where callers have such a fallback, and EPERM
 * where a caller should see that the call is forbidden. Calls of another ABI (i386, x32, 32-bit ARM)
 * kill the process with SIGSYS.
 *
 * The kernel keeps a bitmap of the calls that are allowed with every argument (Linux 5.11); those
 * never run the filter. In lists of values, put the ones that programs use most often first.
 *
 * docs/system-calls.md is made from this file (syscalls-probe --markdown). */

/* Files. The mounts and Landlock decide which paths exist; no path leads to the host. */
ALLOW(read, "files, pipes, sockets")
ALLOW(write, "files, pipes, sockets")
ALLOW(readv, "scattered read")
ALLOW(writev, "scattered write")
ALLOW(pread64, "sqlite3, mmap-less readers")
ALLOW(pwrite64, "sqlite3")
ALLOW(preadv, "os.preadv")
ALLOW(pwritev, "os.pwritev")
ALLOW(preadv2, "os.preadv with flags")
ALLOW(pwritev2, "os.pwritev with flags")
ALLOW(lseek, "files")
ALLOW(close, "files")
ALLOW(close_range, "subprocess closes what a child must not have")
ALLOW(openat, "files")
ALLOW(openat2, "resolve-beneath opens of careful programs")
ALLOW(dup, "files")
ALLOW(dup3, "files")
/* The pages of a pipe count for the user who made it, whoever enlarges it, and the front makes those of standard output. At
 * fs.pipe-user-pages-soft all further pipes of the front would have two pages, pipe(7). */
ALLOW_IF(fcntl, EPERM, "flags, locks, seals, pipes of at most 64 KiB; no leases",
	 WHEN(IN(1, F_SETPIPE_SZ), MASKED(2, ~0xffff, 0)), WHEN(IN(1, F_SETPIPE_SZ), IN(2, 0x10000)),
	 WHEN(IN(1, F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_SETOWN, F_GETOWN,
	      F_SETSIG, F_GETSIG, F_SETOWN_EX, F_GETOWN_EX, F_DUPFD_CLOEXEC, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW,
	      F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS, F_NOTIFY, F_DUPFD_QUERY)))
/* FICLONE is allowed because pathlib has no fallback for EPERM, only for "cannot be cloned". It opens no new
 * kernel code: copy_file_range(2), which is allowed, reaches the same functions. */
ALLOW_IF(ioctl, EPERM, "terminals, FIONREAD, interface names, file clones; no TIOCSTI, TIOCLINUX, TIOCSETD",
	 WHEN(IN(1, TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, FIOASYNC, TIOCGWINSZ, TIOCSWINSZ, TIOCGPGRP,
	      TIOCSPGRP, TIOCGSID, TCSETS, TCSETSW, TCSETSF, TCGETS2_NR, TCSETS2_NR, TCSETSW2_NR, TCSETSF2_NR, TCSBRK,
	      TCSBRKP, TCXONC, TCFLSH, TIOCOUTQ, TIOCSCTTY, TIOCNOTTY, TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER, FIOQSIZE,
	      SIOCGIFINDEX, SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFMTU,
	      SIOCGIFHWADDR, FICLONE)))
ALLOW(flock, "locks")
ALLOW(fsync, "sqlite3")
ALLOW(fdatasync, "sqlite3")
ALLOW(sync_file_range, "databases")
ALLOW(syncfs, "flushes one file system, the caller's own")
PRETEND(sync, "would flush every file system of the host and slow down other sandboxes; fsync(2) is allowed")
ALLOW(truncate, "files")
ALLOW(ftruncate, "files")
ALLOW(fallocate, "files; counted by the quota")
ALLOW(fadvise64, "hints")
ALLOW(readahead, "hints")
ALLOW(getdents64, "directories")
ALLOW(getcwd, "directories")
ALLOW(chdir, "directories")
ALLOW(fchdir, "directories")
ALLOW(mkdirat, "directories")
ALLOW(unlinkat, "files")
ALLOW(renameat2, "files")
ALLOW(renameat, "files")
ALLOW(linkat, "files")
ALLOW(symlinkat, "files; the host never follows them")
ALLOW_IF(mknodat, EPERM, "FIFOs, sockets, regular files; no device nodes",
	 WHEN(MASKED(2, S_IFMT, S_IFIFO, S_IFREG, S_IFSOCK, 0)))
ALLOW(readlinkat, "files")
ALLOW(faccessat, "files")
ALLOW(faccessat2, "files")
ALLOW(newfstatat, "files")
ALLOW(fstat, "files")
ALLOW(statx, "files")
ALLOW(statfs, "shutil.disk_usage, df")
ALLOW(fstatfs, "shutil.disk_usage, df")
ALLOW(fchmod, "files; the mounts are nosuid")
ALLOW(fchmodat, "files; the mounts are nosuid")
ALLOW(fchmodat2, "glibc 2.39 and newer")
ALLOW(fchown, "tar, cp -a; only the sandbox's own ids are mapped")
ALLOW(fchownat, "tar, cp -a; only the sandbox's own ids are mapped")
ALLOW(utimensat, "tar, cp -a, shutil.copystat")
ALLOW(umask, "files")
ALLOW(getxattr, "shutil.copystat")
ALLOW(lgetxattr, "shutil.copystat")
ALLOW(fgetxattr, "shutil.copystat")
ALLOW(listxattr, "shutil.copystat")
ALLOW(llistxattr, "shutil.copystat")
ALLOW(flistxattr, "shutil.copystat")
ALLOW(setxattr, "user.* of own files; the rest needs capabilities")
ALLOW(lsetxattr, "user.* of own files; the rest needs capabilities")
ALLOW(fsetxattr, "user.* of own files; the rest needs capabilities")
ALLOW(removexattr, "user.* of own files")
ALLOW(lremovexattr, "user.* of own files")
ALLOW(fremovexattr, "user.* of own files")
ALLOW(copy_file_range, "shutil.copy, cp")
REFUSE(sendfile, ENOSYS, "puts pages of files into sockets and pipes, which had bugs that gave root; shutil, socket, asyncio, cp fall back")
REFUSE(splice, ENOSYS, "as sendfile (Dirty Pipe)")
REFUSE(tee, ENOSYS, "as sendfile")
REFUSE(vmsplice, EPERM, "maps user pages into pipes: several page-reference bugs; nothing needs it")
ALLOW(pipe2, "pipes")
ALLOW(inotify_init1, "watchers; limited per user namespace")
ALLOW(inotify_add_watch, "watchers; limited per user namespace")
ALLOW(inotify_rm_watch, "watchers")
REFUSE(fanotify_init, EPERM, "watches whole mounts")
REFUSE(fanotify_mark, EPERM, "watches whole mounts")
REFUSE(name_to_handle_at, EPERM, "file handles reach inodes that the mounts hide")
REFUSE(open_by_handle_at, EPERM, "opens inodes that the mounts hide (the 'shocker' escape)")
REFUSE(quotactl, EPERM, "quota of host file systems")
REFUSE(quotactl_fd, EPERM, "quota of host file systems")
REFUSE(lookup_dcookie, EPERM, "profiling of host paths")
REFUSE(cachestat, EPERM, "shows what other sandboxes have in the page cache")
REFUSE(file_getattr, ENOSYS, "new surface; callers fall back to ioctl")
REFUSE(file_setattr, ENOSYS, "new surface; callers fall back to ioctl")
REFUSE(setxattrat, ENOSYS, "new surface; callers fall back to setxattr")
REFUSE(getxattrat, ENOSYS, "new surface; callers fall back to getxattr")
REFUSE(listxattrat, ENOSYS, "new surface; callers fall back to listxattr")
REFUSE(removexattrat, ENOSYS, "new surface; callers fall back to removexattr")

/* Mounts and roots. */
REFUSE(mount, EPERM, "mounts")
REFUSE(umount2, EPERM, "mounts")
REFUSE(pivot_root, EPERM, "mounts")
REFUSE(chroot, EPERM, "roots")
REFUSE(fsopen, EPERM, "mounts; file system contexts had a heap overflow reachable from user namespaces")
REFUSE(fsconfig, EPERM, "mounts")
REFUSE(fsmount, EPERM, "mounts")
REFUSE(fspick, EPERM, "mounts")
REFUSE(open_tree, EPERM, "mounts")
REFUSE(open_tree_attr, EPERM, "mounts")
REFUSE(move_mount, EPERM, "mounts")
REFUSE(mount_setattr, EPERM, "mounts")
REFUSE(statmount, ENOSYS, "lists mounts; libmount falls back to mountinfo")
REFUSE(listmount, ENOSYS, "lists mounts; libmount falls back to mountinfo")
REFUSE(swapon, EPERM, "host memory")
REFUSE(swapoff, EPERM, "host memory")

/* Memory. */
ALLOW(mmap, "memory")
ALLOW(mprotect, "memory; a JIT makes pages executable after writing them")
ALLOW(munmap, "memory")
ALLOW(mremap, "memory")
ALLOW(brk, "memory")
/* Not allowed: MADV_MERGEABLE shares pages between sandboxes, MADV_PAGEOUT shows and changes what others have
 * cached, MADV_HWPOISON and MADV_SOFT_OFFLINE take memory away from the host. */
ALLOW_IF(madvise, EPERM, "hints; no page merging, poisoning or forced page-out",
	 WHEN(IN(2, MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE,
	      MADV_REMOVE, MADV_DONTFORK, MADV_DOFORK, MADV_UNMERGEABLE, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP,
	      MADV_DODUMP, MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_COLD, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
	      MADV_DONTNEED_LOCKED, MADV_COLLAPSE, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE)))
ALLOW(msync, "mapped files")
ALLOW(mincore, "numpy, pyarrow: own mappings only since Linux 5.2")
ALLOW(mlock, "limited by RLIMIT_MEMLOCK")
ALLOW(mlock2, "limited by RLIMIT_MEMLOCK")
ALLOW(mlockall, "limited by RLIMIT_MEMLOCK")
ALLOW(munlock, "memory")
ALLOW(munlockall, "memory")
ALLOW(mseal, "a process can only restrict itself")
ALLOW(pkey_mprotect, "V8 and other JITs; own pages only")
ALLOW(pkey_alloc, "V8 and other JITs")
ALLOW(pkey_free, "V8 and other JITs")
ALLOW_IF(memfd_create, EPERM, "shared memory of multiprocessing and pyarrow; no huge pages of the host's pool",
	 WHEN(ONLY_BITS(1, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC)))
REFUSE(memfd_secret, EPERM, "locks pages away from the host's memory management")
REFUSE(remap_file_pages, EPERM, "obsolete, emulated")
REFUSE(mbind, EPERM, "moves memory between nodes of the host")
REFUSE(set_mempolicy, EPERM, "moves memory between nodes of the host")
REFUSE(set_mempolicy_home_node, ENOSYS, "moves memory between nodes of the host")
REFUSE(get_mempolicy, ENOSYS, "libnuma then says: no NUMA")
REFUSE(migrate_pages, EPERM, "moves memory of other processes")
REFUSE(move_pages, EPERM, "moves memory of other processes; reveals physical placement")
REFUSE(process_madvise, EPERM, "memory of other processes")
REFUSE(process_mrelease, EPERM, "memory of other processes")
REFUSE(process_vm_readv, EPERM, "memory of other processes")
REFUSE(process_vm_writev, EPERM, "memory of other processes")
REFUSE(map_shadow_stack, ENOSYS, "shadow stacks are off")
REFUSE(userfaultfd, EPERM, "stops the kernel inside a page fault, which makes races easy to win")

/* Processes. */
ALLOW_IF(clone, EPERM, "threads and processes; no namespace flag",
	 WHEN(NO_BITS(0, CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
	      CLONE_NEWPID | CLONE_NEWNET)))
REFUSE(clone3, ENOSYS, "its flags are behind a pointer that a filter cannot read; glibc falls back to clone")
REFUSE(unshare, EPERM, "namespaces")
REFUSE(setns, EPERM, "namespaces")
ALLOW(execve, "programs")
ALLOW(execveat, "programs by descriptor")
ALLOW(exit, "threads")
ALLOW(exit_group, "processes")
ALLOW(wait4, "children")
ALLOW(waitid, "children")
ALLOW(getpid, "ids")
ALLOW(getppid, "ids")
ALLOW(gettid, "ids")
ALLOW(getuid, "ids")
ALLOW(geteuid, "ids")
ALLOW(getgid, "ids")
ALLOW(getegid, "ids")
ALLOW(getresuid, "ids")
ALLOW(getresgid, "ids")
ALLOW(getgroups, "ids")
ALLOW(getpgid, "ids")
ALLOW(getsid, "ids")
ALLOW(setpgid, "job control")
ALLOW(setsid, "daemons, start_new_session; killed with the run")
ALLOW(setuid, "only the sandbox's own ids are mapped")
ALLOW(setgid, "only the sandbox's own ids are mapped")
ALLOW(setreuid, "only the sandbox's own ids are mapped")
ALLOW(setregid, "only the sandbox's own ids are mapped")
ALLOW(setresuid, "only the sandbox's own ids are mapped")
ALLOW(setresgid, "only the sandbox's own ids are mapped")
ALLOW(setfsuid, "only the sandbox's own ids are mapped")
ALLOW(setfsgid, "only the sandbox's own ids are mapped")
ALLOW(setgroups, "needs a capability that only a root user of a sandbox has: else the kernel answers EPERM itself")
ALLOW(capget, "reading")
ALLOW(capset, "only a root user of a sandbox has any, and may give some up: setpriv, servers. The kernel adds none")
/* PR_CAPBSET_READ and PR_GET_* tell a process about itself. PR_SET_KEEPCAPS lasts until execve(2), and no program starts
 * with rights that its user has not: the ambient set cannot be raised, and no_new_privs is on. PR_SET_DUMPABLE matters only to ptrace, which no run
 * has, and to core dumps, which RLIMIT_CORE prevents. */
ALLOW_IF(prctl, EPERM, "names, death signal, timer slack; no PR_SET_MM, PR_SET_PTRACER, PR_SET_SECCOMP",
	 WHEN(IN(0, PR_SET_NAME, PR_GET_NAME, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE,
	      PR_SET_DUMPABLE, PR_GET_KEEPCAPS, PR_SET_KEEPCAPS, PR_GET_TIMING, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_TSC,
	      PR_GET_SECUREBITS, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_GET_NO_NEW_PRIVS, PR_SET_NO_NEW_PRIVS,
	      PR_GET_TID_ADDRESS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_SET_CHILD_SUBREAPER,
	      PR_GET_CHILD_SUBREAPER, PR_GET_SPECULATION_CTRL, PR_SVE_GET_VL, PR_GET_TAGGED_ADDR_CTRL,
	      PR_PAC_RESET_KEYS, PR_SET_VMA, PR_SET_MDWE, PR_GET_MDWE)))
ALLOW_IF(personality, EPERM, "query and the default; no layout without randomness, no READ_IMPLIES_EXEC",
	 WHEN(IN(0, 0, 0xffffffff)))
ALLOW(set_tid_address, "threads")
ALLOW(set_robust_list, "threads")
ALLOW(get_robust_list, "threads; of others only with ptrace rights")
ALLOW(rseq, "threads")
ALLOW(membarrier, "threads; JITs")
ALLOW_IF(futex, ENOSYS, "locks; no priority inheritance, whose requeue code had several bugs that gave root",
	 WHEN(MASKED(1, ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME), FUTEX_WAIT, FUTEX_WAKE, FUTEX_REQUEUE,
	      FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET)))
ALLOW(futex_waitv, "locks")
REFUSE(futex_wait, ENOSYS, "new surface; futex is there")
REFUSE(futex_wake, ENOSYS, "new surface; futex is there")
REFUSE(futex_requeue, ENOSYS, "new surface; futex is there")
ALLOW(sched_yield, "threads")
ALLOW(sched_getaffinity, "os.cpu_count, BLAS")
/* Init has the uid of the runs. If a run moved init to a busy CPU or lowered its priority, init would end runs late. */
ALLOW_IF(sched_setaffinity, EPERM, "BLAS; inside the cpuset; not of PID 1", WHEN(NOT_IN(0, 1)))
ALLOW(sched_getparam, "threads")
ALLOW_IF(sched_setparam, EPERM, "threads; real time needs a capability; not of PID 1", WHEN(NOT_IN(0, 1)))
ALLOW(sched_getscheduler, "threads")
ALLOW_IF(sched_setscheduler, EPERM, "OTHER, BATCH and IDLE; no real time, no deadline, no loadable scheduler",
	 WHEN(NOT_IN(0, 1), MASKED(1, ~SCHED_RESET_ON_FORK, SCHED_OTHER, SCHED_BATCH, SCHED_IDLE)))
ALLOW(sched_getattr, "threads")
REFUSE(sched_setattr, EPERM, "its policy is behind a pointer; sched_setscheduler is there")
ALLOW(sched_get_priority_max, "threads")
ALLOW(sched_get_priority_min, "threads")
ALLOW(sched_rr_get_interval, "threads")
ALLOW(getpriority, "nice")
/* By process group or by user, setpriority and ioprio_set would reach init, too, and nobody could undo it. The same holds
 * for the number of a process, and no filter knows the caller's own; runtime/machine/machine_priority.c makes 0 of that. */
ALLOW_IF(setpriority, EPERM, "nice of the caller; only downwards without a capability",
	 WHEN(IN(0, PRIO_PROCESS), IN(1, 0)))
ALLOW(ioprio_get, "ionice, psutil")
ALLOW_IF(ioprio_set, EPERM, "ionice of the caller; real time needs a capability",
	 WHEN(IN(0, 1 /* IOPRIO_WHO_PROCESS */), IN(1, 0)))
ALLOW(getrusage, "resource")
ALLOW(getrlimit, "resource")
ALLOW_IF(setrlimit, EPERM, "lowering; not RLIMIT_CORE: at 0 the kernel still pipes cores to a handler of the host, see core(5)",
	 WHEN(NOT_IN(0, RLIMIT_CORE)))
/* A run may set its own limits only: init has the same uid as the runs, and a CPU limit of 0 would kill it. The
 * second WHEN allows reading the limits of any process (the third argument, the new limit, is a null pointer). */
ALLOW_IF(prlimit64, EPERM, "reading, lowering; not RLIMIT_CORE, see setrlimit",
	 WHEN(IN(0, 0), NOT_IN(1, RLIMIT_CORE)),
	 WHEN(IN(2, 0), IN(HIGH(2), 0)))
ALLOW(times, "time")
ALLOW(uname, "platform")
ALLOW(sysinfo, "psutil, glibc")
ALLOW(getcpu, "threads")
ALLOW(getrandom, "random")
ALLOW(restart_syscall, "the kernel's own")
ALLOW(kill, "reaches only processes of the sandbox")
ALLOW(tkill, "reaches only processes of the sandbox")
ALLOW(tgkill, "reaches only processes of the sandbox")
ALLOW(rt_sigaction, "signals")
ALLOW(rt_sigprocmask, "signals")
ALLOW(rt_sigreturn, "signals")
ALLOW(rt_sigpending, "signals")
ALLOW(rt_sigsuspend, "signals")
ALLOW(rt_sigtimedwait, "signals")
ALLOW(rt_sigqueueinfo, "reaches only processes of the sandbox")
ALLOW(rt_tgsigqueueinfo, "reaches only processes of the sandbox")
ALLOW(sigaltstack, "faulthandler")
ALLOW(signalfd4, "signals")
ALLOW(pidfd_open, "asyncio, subprocess; reaches only processes of the sandbox")
ALLOW(pidfd_send_signal, "asyncio; reaches only processes of the sandbox")
REFUSE(pidfd_getfd, EPERM, "takes descriptors of other processes")
REFUSE(ptrace, EPERM, "control of other processes; its permission checks had several bugs")
REFUSE(kcmp, EPERM, "compares kernel pointers of processes")
ALLOW_IF(seccomp, EPERM, "queries only; a run may not load filters (user notification, spraying of compiled filters)",
	 WHEN(IN(0, SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES)))
REFUSE(landlock_create_ruleset, ENOSYS, "programs that restrict themselves fall back; the sandbox has its own Landlock rules")
REFUSE(landlock_add_rule, ENOSYS, "as landlock_create_ruleset")
REFUSE(landlock_restrict_self, ENOSYS, "as landlock_create_ruleset")
REFUSE(lsm_get_self_attr, ENOSYS, "new surface")
REFUSE(lsm_set_self_attr, ENOSYS, "new surface")
REFUSE(lsm_list_modules, ENOSYS, "new surface")

/* Waiting, events, timers. */
ALLOW(ppoll, "waiting")
ALLOW(pselect6, "waiting")
ALLOW(epoll_create1, "asyncio")
ALLOW(epoll_ctl, "asyncio")
ALLOW(epoll_pwait, "asyncio")
ALLOW(epoll_pwait2, "asyncio")
ALLOW(eventfd2, "asyncio, libuv")
ALLOW(timerfd_create, "timers")
ALLOW(timerfd_settime, "timers")
ALLOW(timerfd_gettime, "timers")
/* Left out are CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID, and negative clock ids: those are CPU clocks
 * of other processes and threads, or descriptors of hardware clocks. The same holds for clock_nanosleep. */
ALLOW_IF(timer_create, EPERM, "timers; not on CPU time: deleting such a timer had three bugs that gave root (profilers can use setitimer(2))",
	 WHEN(IN(0, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI)))
ALLOW(timer_settime, "timers")
ALLOW(timer_gettime, "timers")
ALLOW(timer_getoverrun, "timers")
ALLOW(timer_delete, "timers")
ALLOW(getitimer, "timers")
ALLOW(setitimer, "signal.setitimer")
ALLOW(nanosleep, "sleep")
ALLOW_IF(clock_nanosleep, EPERM, "sleep; not on CPU time, which uses such a timer inside the kernel",
	 WHEN(IN(0, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI)))
ALLOW(clock_gettime, "time")
ALLOW(clock_getres, "time")
ALLOW(gettimeofday, "time")
REFUSE(clock_settime, EPERM, "the host's clock")
REFUSE(clock_adjtime, EPERM, "the host's clock")
REFUSE(adjtimex, EPERM, "the host's clock")
REFUSE(settimeofday, EPERM, "the host's clock")

/* Sockets: the network namespace has loopback only. */
/* Not allowed: raw sockets, ping sockets, MPTCP (262), SCTP, UDP-Lite, L2TP. Nobody needs them on loopback. */
/* Netlink answers EOPNOTSUPP, as Linux without it (WSL 1) does. libzmq asks getifaddrs(3) where a program binds a TCP
 * address: for EINVAL and EOPNOTSUPP it goes on without names of interfaces, for any other error it aborts the process.
 * Others do not care which error it is: getaddrinfo(3) goes on as if there was IPv4 and IPv6; getifaddrs(3),
 * if_nameindex(3), psutil, libuv and ip(8) of iproute2 6.1 report it. libaudit takes EINVAL, EPROTONOSUPPORT and
 * EAFNOSUPPORT for a kernel without audit (audit_open() in its lib/netlink.c), but only root may use it. */
ALLOW_IF(socket, EPERM, "UNIX, INET, INET6; streams and datagrams; TCP and UDP",
	 /* what a kernel without audit says: programs that add users go on then */
	 REFUSE_WHEN(EPROTONOSUPPORT, IN(0, AF_NETLINK), IN(2, NETLINK_AUDIT)),
	 REFUSE_WHEN(EOPNOTSUPP, IN(0, AF_NETLINK)),
	 WHEN(IN(0, AF_INET, AF_INET6), MASKED(1, ~SOCK_FLAG_BITS, SOCK_STREAM), IN(2, 0, IPPROTO_TCP)),
	 WHEN(IN(0, AF_INET, AF_INET6), MASKED(1, ~SOCK_FLAG_BITS, SOCK_DGRAM), IN(2, 0, IPPROTO_UDP)),
	 WHEN(IN(0, AF_UNIX), MASKED(1, ~SOCK_FLAG_BITS, SOCK_STREAM, SOCK_DGRAM), IN(2, 0)))
ALLOW_IF(socketpair, EPERM, "UNIX",
	 WHEN(IN(0, AF_UNIX), MASKED(1, ~SOCK_FLAG_BITS, SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET), IN(2, 0)))
ALLOW(bind, "sockets")
ALLOW(listen, "sockets")
ALLOW(accept, "sockets")
ALLOW(accept4, "sockets")
ALLOW(connect, "sockets")
ALLOW(getsockname, "sockets")
ALLOW(getpeername, "sockets")
ALLOW(shutdown, "sockets")
ALLOW_IF(sendto, EPERM, "no MSG_OOB, which reached a use-after-free in UNIX sockets", WHEN(NO_BITS(3, MSG_OOB)))
ALLOW_IF(recvfrom, EPERM, "no MSG_OOB", WHEN(NO_BITS(3, MSG_OOB)))
ALLOW_IF(sendmsg, EPERM, "no MSG_OOB", WHEN(NO_BITS(2, MSG_OOB)))
ALLOW_IF(recvmsg, EPERM, "no MSG_OOB", WHEN(NO_BITS(2, MSG_OOB)))
ALLOW_IF(sendmmsg, EPERM, "no MSG_OOB", WHEN(NO_BITS(3, MSG_OOB)))
ALLOW_IF(recvmmsg, EPERM, "no MSG_OOB", WHEN(NO_BITS(3, MSG_OOB)))
/* A listening socket passes the size of its receive buffer on to connections that nobody has accepted yet, and those
 * belong to no control group. Programs cope with a buffer that did not grow, because the kernel may limit it silently
 * (socket(7)). */
ALLOW_IF(setsockopt, EPERM, "everyday options by name, sizes of buffers without effect; no filters, no ULP, no packet tables",
	 PRETEND_WHEN(IN(1, SOL_SOCKET), IN(2, SO_SNDBUF, SO_RCVBUF)),
	 WHEN(IN(1, SOL_SOCKET), IN(2, SO_REUSEADDR, SO_KEEPALIVE, SO_LINGER, SO_REUSEPORT,
	      SO_BROADCAST, SO_PASSCRED, SO_RCVLOWAT, SO_RCVTIMEO, SO_SNDTIMEO, SO_PRIORITY, SO_DONTROUTE,
	      SO_OOBINLINE, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW)),
	 WHEN(IN(1, IPPROTO_TCP), IN(2, TCP_NODELAY, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT,
	      TCP_USER_TIMEOUT, TCP_QUICKACK, TCP_DEFER_ACCEPT, TCP_MAXSEG, TCP_SYNCNT, TCP_LINGER2,
	      TCP_NOTSENT_LOWAT)),
	 WHEN(IN(1, IPPROTO_IP), IN(2, IP_TOS, IP_TTL, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_RECVTOS,
	      IP_RECVTTL, IP_MULTICAST_TTL, IP_MULTICAST_LOOP, IP_MULTICAST_IF, IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP,
	      IP_BIND_ADDRESS_NO_PORT)),
	 WHEN(IN(1, IPPROTO_IPV6), IN(2, IPV6_V6ONLY, IPV6_UNICAST_HOPS, IPV6_TCLASS, IPV6_MTU_DISCOVER,
	      IPV6_RECVERR, IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS, IPV6_MULTICAST_HOPS,
	      IPV6_MULTICAST_LOOP, IPV6_MULTICAST_IF)))
ALLOW_IF(getsockopt, EPERM, "levels of the allowed protocols",
	 WHEN(IN(1, SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_UDP)))

/* System V and POSIX IPC: each sandbox has its own IPC namespace, and the memory is charged to the sandbox. */
ALLOW_IF(shmget, EPERM, "shared memory; no huge pages of the host's pool", WHEN(NO_BITS(2, SHM_HUGETLB)))
ALLOW(shmat, "shared memory")
ALLOW(shmdt, "shared memory")
ALLOW(shmctl, "shared memory")
ALLOW(semget, "semaphores")
ALLOW(semop, "semaphores")
ALLOW(semtimedop, "semaphores")
ALLOW(semctl, "semaphores")
ALLOW(msgget, "message queues")
ALLOW(msgsnd, "message queues")
ALLOW(msgrcv, "message queues")
ALLOW(msgctl, "message queues")
ALLOW(mq_open, "message queues; limited by RLIMIT_MSGQUEUE")
ALLOW(mq_unlink, "message queues")
ALLOW(mq_timedsend, "message queues")
ALLOW(mq_timedreceive, "message queues")
ALLOW(mq_notify, "message queues")
ALLOW(mq_getsetattr, "message queues")

/* Kernel subsystems that had bugs which gave root, or that keep one table for the whole host. */
REFUSE(io_uring_setup, EPERM, "a second system call interface that no filter sees")
REFUSE(io_uring_enter, EPERM, "as io_uring_setup")
REFUSE(io_uring_register, EPERM, "as io_uring_setup")
REFUSE(io_setup, ENOSYS, "fs.aio-max-nr is one limit for the whole host; callers fall back to threads")
REFUSE(io_submit, ENOSYS, "as io_setup")
REFUSE(io_getevents, ENOSYS, "as io_setup")
REFUSE(io_pgetevents, ENOSYS, "as io_setup")
REFUSE(io_cancel, ENOSYS, "as io_setup")
REFUSE(io_destroy, ENOSYS, "as io_setup")
REFUSE(bpf, EPERM, "the verifier")
REFUSE(perf_event_open, EPERM, "performance events, side channels")
REFUSE(add_key, EPERM, "keyrings are not in a pid namespace; their quota is per uid")
REFUSE(request_key, EPERM, "starts a helper program on the host")
REFUSE(keyctl, EPERM, "keyrings")
REFUSE(init_module, EPERM, "kernel modules")
REFUSE(finit_module, EPERM, "kernel modules")
REFUSE(delete_module, EPERM, "kernel modules")
REFUSE(kexec_load, EPERM, "another kernel")
REFUSE(reboot, EPERM, "the host")
REFUSE(syslog, EPERM, "kernel log, addresses")
REFUSE(acct, EPERM, "the host's accounting file")
REFUSE(vhangup, EPERM, "terminals of others")
REFUSE(sethostname, EPERM, "only the engine sets the name of a sandbox")
REFUSE(setdomainname, EPERM, "only the engine sets the name of a sandbox")
REFUSE(nfsservctl, ENOSYS, "gone since Linux 3.1")

#if defined(__x86_64__)
/* Calls that only x86_64 has. Most are older forms of calls above. */
ALLOW(open, "files")
ALLOW(creat, "files")
ALLOW(stat, "files")
ALLOW(lstat, "files")
ALLOW(access, "files")
ALLOW(readlink, "files")
ALLOW(link, "files")
ALLOW(symlink, "files")
ALLOW(unlink, "files")
ALLOW(rename, "files")
ALLOW(mkdir, "files")
ALLOW(rmdir, "files")
ALLOW(chmod, "files")
ALLOW(chown, "files")
ALLOW(lchown, "files")
ALLOW(utime, "files")
ALLOW(utimes, "files")
ALLOW(futimesat, "files")
ALLOW(getdents, "files")
ALLOW_IF(mknod, EPERM, "FIFOs, sockets, regular files; no device nodes",
	 WHEN(MASKED(1, S_IFMT, S_IFIFO, S_IFREG, S_IFSOCK, 0)))
ALLOW(dup2, "files")
ALLOW(pipe, "pipes")
ALLOW(poll, "waiting")
ALLOW(select, "waiting")
ALLOW(pause, "waiting")
ALLOW(alarm, "timers")
ALLOW(time, "time")
ALLOW(epoll_create, "events")
ALLOW(epoll_wait, "events")
ALLOW(eventfd, "events")
ALLOW(signalfd, "signals")
ALLOW(inotify_init, "watchers")
ALLOW(fork, "processes")
ALLOW(vfork, "processes")
ALLOW(getpgrp, "ids")
ALLOW_IF(arch_prctl, EPERM, "thread pointer, feature queries, AMX; no CPUID faulting, no address masking",
	 WHEN(IN(0, ARCH_SET_FS, ARCH_GET_FS, ARCH_SET_GS, ARCH_GET_GS, ARCH_GET_CPUID, ARCH_GET_XCOMP_SUPP,
	      ARCH_GET_XCOMP_PERM, ARCH_REQ_XCOMP_PERM, ARCH_SHSTK_STATUS)))
ALLOW(get_thread_area, "for 32-bit programs; the kernel answers ENOSYS itself")
ALLOW(set_thread_area, "for 32-bit programs; the kernel answers ENOSYS itself")
REFUSE(kexec_file_load, EPERM, "another kernel")
REFUSE(modify_ldt, EPERM, "segment tables: several bugs that gave root")
REFUSE(iopl, EPERM, "ports of the machine")
REFUSE(ioperm, EPERM, "ports of the machine")
REFUSE(uselib, EPERM, "obsolete loader")
REFUSE(ustat, ENOSYS, "obsolete; statfs is there")
REFUSE(sysfs, ENOSYS, "obsolete")
REFUSE(_sysctl, ENOSYS, "gone since Linux 5.5")
REFUSE(create_module, ENOSYS, "gone")
REFUSE(get_kernel_syms, ENOSYS, "gone")
REFUSE(query_module, ENOSYS, "gone")
REFUSE(getpmsg, ENOSYS, "never there")
REFUSE(putpmsg, ENOSYS, "never there")
REFUSE(afs_syscall, ENOSYS, "never there")
REFUSE(tuxcall, ENOSYS, "never there")
REFUSE(security, ENOSYS, "never there")
REFUSE(vserver, ENOSYS, "never there")
REFUSE(epoll_ctl_old, ENOSYS, "never there")
REFUSE(epoll_wait_old, ENOSYS, "never there")
REFUSE(uretprobe, ENOSYS, "only the kernel's own trampolines may call it")
#elif defined(__aarch64__)
REFUSE(kexec_file_load, EPERM, "another kernel")
#endif
