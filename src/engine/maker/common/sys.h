/* SPDX-License-Identifier: Apache-2.0 */
/* Wrappers for system calls that glibc 2.36 has none for. */
#pragma once

#include <errno.h>
#include <linux/sched.h> /* struct clone_args; not <sched.h>, which repeats its constants */
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Like fork(2), with the flags of clone3(2), such as new namespaces. With CLONE_PARENT, EXIT_SIGNAL
 * must be 0 (clone(2)). CGROUP is the descriptor of the v2 group that the child starts in; -1 = this
 * process's own group. Returns the pid, 0 in the child, or -errno. Handlers of pthread_atfork(3) are
 * not called: the callers have a single thread. */
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
