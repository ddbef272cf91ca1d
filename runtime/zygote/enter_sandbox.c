/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a fork of the zygote into a sandbox and confines spares. Nothing here allocates memory or
 * takes a lock, because it runs between two forks. */
#include "extension.h"

#include "walls/filter_load.h"
#include "walls/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#define CAP_LAST_POSSIBLE 63 /* above its own last capability the kernel returns EINVAL */

static int join_leaves(const int *leaves, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ssize_t w = write(leaves[i], "0", 1);
		if (w != 1)
			return w < 0 ? -errno : -EIO;
	}
	return 0;
}

/* Must come first: the change of uid may take away the right to do it. */
static int drop_bounding(void)
{
	for (unsigned long c = 0; c <= CAP_LAST_POSSIBLE; c++)
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break;
			return -errno;
		}
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ? -errno : 0;
}

/* Empties every set. no_new_privs keeps execve and a change of uid from giving anything back. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/* If a plain user made the namespace, setgroups(2) may be denied for good; then init has the same
 * groups. */
static int take_ids(const struct rt_clean *c)
{
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	if (setresgid(c->gid, c->gid, c->gid) < 0 || setresuid(c->uid, c->uid, c->uid) < 0)
		return -errno;
	return 0;
}

/* The C library's functions for ids would change every thread; there is only one here. */
int enter_sandbox(const struct rt_clean *c, int pidfd, const int *leaves)
{
	const int spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
			   CLONE_NEWUTS | CLONE_NEWCGROUP;

	/* before the user namespace: the owner of the control group is outside of it */
	int r = join_leaves(leaves, c->n_leaves);
	if (r < 0)
		return r;
	if (setns(pidfd, spaces) < 0)
		return -errno;
	r = drop_bounding();
	if (r == 0)
		r = take_ids(c);
	if (r == 0)
		r = drop_capabilities();
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	if (setsid() < 0 && errno != EPERM)
		return -errno;
	return chdir("/") < 0 ? -errno : 0;
}

int enter_inside(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	return chdir("/") < 0 ? -errno : 0;
}

int enter_close_others(int keep)
{
	if (keep != 3) {
		if (dup3(keep, 3, O_CLOEXEC) < 0)
			return -errno;
	}
	if (syscall(SYS_close_range, 4U, 0x7fffffffU, 0U) < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++)
		(void)close(fd);
	return 0;
}

/* Raising a hard limit needs a capability that no process here has, so a lower limit of the host
 * stays. */
static int set_rlimit(const struct rt_rlimit *want)
{
	struct rlimit now;

	if (getrlimit((__rlimit_resource_t)want->resource, &now) < 0)
		return -errno;
	if (now.rlim_max > want->max)
		now.rlim_max = want->max;
	now.rlim_cur = want->cur < now.rlim_max ? want->cur : now.rlim_max;
	return setrlimit((__rlimit_resource_t)want->resource, &now) < 0 ? -errno : 0;
}

/* /proc/self/oom_score_adj belongs to root while the process is not dumpable, so dumpable is set
 * for a moment. No submitted code runs meanwhile: spares are made between runs. A failure is not
 * fatal, because the score is only a preference. */
static void set_oom_score(int proc, uint32_t score)
{
	char text[16];

	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	int fd = openat(proc, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		int n = snprintf(text, sizeof(text), "%u", score);
		(void)!write(fd, text, (size_t)n);
		(void)close(fd);
	}
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static int tie(int ruleset)
{
	if (zygote.tied)
		return 0;
	int r = ruleset >= 0 ? landlock_apply(ruleset) : 0;
	if (r == 0 && zygote.n_filter > 0)
		r = filter_load(zygote.filter, zygote.n_filter);
	if (r == 0)
		zygote.tied = 1;
	return r;
}

int enter_run(const struct rt_fork *k, const int *fds)
{
	int ruleset = k->has_ruleset ? *fds++ : -1;
	int proc = k->has_proc ? *fds++ : -1;

	if (setsid() < 0 && !k->self) /* the clean interpreter is a session leader already */
		return -errno;
	int r = join_leaves(fds, k->n_leaves);
	if (proc >= 0)
		set_oom_score(proc, k->oom_score);
	for (uint32_t i = 0; i < k->n_rlimits && r == 0; i++)
		r = set_rlimit(&k->rlimit[i]);
	return r < 0 ? r : tie(ruleset);
}
