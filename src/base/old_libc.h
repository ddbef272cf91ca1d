/* SPDX-License-Identifier: Apache-2.0 */
/* What glibc got after 2.31 and this program uses. The root meson.build includes it before every C file if the C library
 * that is compiled against lacks fsopen(), which came last (2.36): so for the portable binary of packaging/release.
 * The kernel's headers are newer there; a kernel without one of these calls answers ENOSYS, as with a newer glibc. */
#pragma once

#ifndef __ASSEMBLER__ /* the .S files get the arguments of C files, too */
#include <features.h>
#if !__GLIBC_PREREQ(2, 36)
#include <asm/unistd.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h> /* before the kernel's, which has some of its names as macros */
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/mount.h>

#ifndef SYS_close_range
#define SYS_close_range __NR_close_range
#endif
#ifndef SYS_openat2
#define SYS_openat2 __NR_openat2
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr __NR_mount_setattr
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

static inline int fsopen(const char *type, unsigned flags)
{
	return (int)syscall(__NR_fsopen, type, flags);
}

static inline int fspick(int dir, const char *path, unsigned flags)
{
	return (int)syscall(__NR_fspick, dir, path, flags);
}

static inline int fsconfig(int fd, unsigned command, const char *key, const void *value, int aux)
{
	return (int)syscall(__NR_fsconfig, fd, command, key, value, aux);
}

static inline int fsmount(int fd, unsigned flags, unsigned attributes)
{
	return (int)syscall(__NR_fsmount, fd, flags, attributes);
}

static inline int move_mount(int from, const char *from_path, int to, const char *to_path,
			     unsigned flags)
{
	return (int)syscall(__NR_move_mount, from, from_path, to, to_path, flags);
}

static inline int open_tree(int dir, const char *path, unsigned flags)
{
	return (int)syscall(__NR_open_tree, dir, path, flags);
}

static inline int mount_setattr(int dir, const char *path, unsigned flags, struct mount_attr *attr,
				size_t size)
{
	return (int)syscall(__NR_mount_setattr, dir, path, flags, attr, size);
}

/* 2.33: the same with wider members. */
struct mallinfo2 {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks,
	    keepcost;
};

/* 2.32: the name of a signal without SIG; NULL if it has none. */
static inline const char *sigabbrev_np(int number)
{
	static const char *const names[] = {
	    [SIGHUP] = "HUP",     [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
	    [SIGTRAP] = "TRAP",   [SIGABRT] = "ABRT", [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
	    [SIGKILL] = "KILL",   [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
	    [SIGPIPE] = "PIPE",   [SIGALRM] = "ALRM", [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
	    [SIGCHLD] = "CHLD",   [SIGCONT] = "CONT", [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
	    [SIGTTIN] = "TTIN",   [SIGTTOU] = "TTOU", [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
	    [SIGXFSZ] = "XFSZ",   [SIGPROF] = "PROF", [SIGPWR] = "PWR",   [SIGVTALRM] = "VTALRM",
	    [SIGWINCH] = "WINCH", [SIGPOLL] = "POLL", [SIGSYS] = "SYS",
	};

	return number > 0 && (size_t)number < sizeof(names) / sizeof(names[0]) ? names[number]
									       : NULL;
}

/* 2.32: the text of an error; of this program's locale, which is that of C. */
static inline const char *strerrordesc_np(int number)
{
	return strerror(number);
}
#endif
#endif
