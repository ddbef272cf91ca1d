/* SPDX-License-Identifier: Apache-2.0 */
/* From the zygote's world into a sandbox. Raw system calls only: this runs between two forks. */
#include "zygote.h"

#include "engine/native/filter_load.h"
#include "engine/native/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#define CAP_LAST_POSSIBLE 63 /* the kernel says EINVAL where its own list ends */

int enter_leaves(const int *leaves, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ssize_t w = write(leaves[i], "0", 1);
		if (w != 1)
			return w < 0 ? -errno : -EIO;
	}
	return 0;
}

/* Empty in every set; nothing of it comes back by execve (no_new_privs) or by a change of uid. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	for (unsigned long c = 0; c <= CAP_LAST_POSSIBLE; c++)
		if (prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break;
			return -errno;
		}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/* setgroups(2) may be denied for good in a plain user's namespace; then init has the same groups. */
static int take_ids(const struct rt_clean *c)
{
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	if (setresgid(c->gid, c->gid, c->gid) < 0 || setresuid(c->uid, c->uid, c->uid) < 0)
		return -errno;
	return 0;
}

static int set_rlimits(const struct rt_clean *c)
{
	for (uint32_t i = 0; i < c->n_rlimits; i++) {
		struct rlimit l = {.rlim_cur = c->rlimit[i].cur, .rlim_max = c->rlimit[i].max};
		if (setrlimit((__rlimit_resource_t)c->rlimit[i].resource, &l) < 0)
			return -errno;
	}
	return 0;
}

/* The raw system calls behind the C library's: those change every thread, and there is only one. */
int enter_sandbox(const struct rt_clean *c, int pidfd, const int *leaves)
{
	const int spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

	/* before the user namespace: the group's owner is outside of it */
	int r = enter_leaves(leaves, c->n_leaves);
	if (r < 0)
		return r;
	if (setns(pidfd, spaces) < 0)
		return -errno;
	r = set_rlimits(c);
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

int enter_close_others(int keep)
{
	if (keep != 3) {
		if (dup3(keep, 3, O_CLOEXEC) < 0)
			return -errno;
	}
	if (syscall(SYS_close_range, 4U, ~0U, 0U) < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++)
		(void)close(fd);
	return 0;
}

int enter_tie(int ruleset)
{
	if (zygote.tied)
		return 0;
	int r = ruleset >= 0 ? native_landlock_apply(ruleset) : 0;
	if (r == 0 && zygote.n_filter > 0)
		r = native_filter_load(zygote.filter, zygote.n_filter);
	if (r == 0)
		zygote.tied = 1;
	return r;
}
