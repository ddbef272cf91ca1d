/* SPDX-License-Identifier: Apache-2.0 */
/* System calls without a wrapper in glibc 2.36, and the few constants that its headers lack. */
#pragma once

#include <errno.h>
#include <linux/sched.h> /* struct clone_args; not <sched.h>, which repeats its constants */
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* fork() with namespaces: the child goes on with a copy of everything. FLAGS with CLONE_PARENT must
 * come with EXIT_SIGNAL 0 (clone(2)). CGROUP: descriptor of the v2 group that the child starts in,
 * -1 = this process's own. Returns pid, 0, or -errno. Skips the handlers of pthread_atfork(3),
 * which is right for the single-threaded monitor. */
static inline pid_t sys_clone(uint64_t flags, unsigned exit_signal, int cgroup)
{
	struct clone_args args = {.flags = flags, .exit_signal = exit_signal};

	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)(unsigned)cgroup;
	}
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	return pid < 0 ? (pid_t)-errno : (pid_t)pid;
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return syscall(SYS_pivot_root, new_root, put_old) < 0 ? -errno : 0;
}
