/* SPDX-License-Identifier: Apache-2.0 */
#include "root_user.h"

#include "base/walls.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	uint8_t cap;
	bool run;
} caps[] = {
#define C(cap, run, why) {CAP_##cap, run},
#include "walls/root_caps.tbl.h"
#undef C
};

static uint64_t mask_of(bool runs_alone)
{
	uint64_t mask = wall_stands(WALL_ROOT_CAPS)
			    ? 0
			    : UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_NET_ADMIN;

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
		if (caps[i].run || !runs_alone)
			mask |= UINT64_C(1) << caps[i].cap;
	return mask;
}

static int set_caps(uint64_t mask)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	for (int i = 0; i < 2; i++)
		data[i].permitted = data[i].effective = (uint32_t)(mask >> (32 * i));
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int check_caps(uint64_t mask)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	const uint64_t bounding = mask_of(true);

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		if (data[i].permitted != (uint32_t)(mask >> (32 * i)) || data[i].inheritable)
			return -EPERM;
	for (unsigned long cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0 && !(bounding >> cap & 1))
			return -EPERM;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : -EPERM;
}

int root_user_drop(void)
{
	const uint64_t kept = mask_of(false);
	const uint64_t bounding = mask_of(true);

	for (unsigned long cap = 0; cap <= 63; cap++)
		if (!(bounding >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
		    errno != EINVAL) /* EINVAL: this kernel has no capability of that number */
			return -errno;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	int r = set_caps(kept);
	if (r == 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0))
		r = -errno;
	return r < 0 ? r : check_caps(kept);
}

bool root_user_bounds(const struct init *in, const char *text)
{
	char ours[20];
	const int len =
	    snprintf(ours, sizeof(ours), "%016llx\n", (unsigned long long)mask_of(true));

	return root_user_is_there(in) && strncmp(text, ours, (size_t)len) == 0;
}

int root_user_leave(void)
{
	return set_caps(0);
}

int root_user_become(void)
{
	static const gid_t groups[] = {ROOT_USER_ID};

	/* execve(2) gives root what the bounding set has, and no more than init has now, because of no_new_privs. */
	return setgroups(1, groups) < 0 ||
		       setresgid(ROOT_USER_ID, ROOT_USER_ID, ROOT_USER_ID) < 0 ||
		       setresuid(ROOT_USER_ID, ROOT_USER_ID, ROOT_USER_ID) < 0
		   ? -errno
		   : 0;
}
