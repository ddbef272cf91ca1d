/* SPDX-License-Identifier: Apache-2.0 */
#include "walls/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int change_ids(uid_t uid, gid_t gid)
{
	uid_t u[3];
	gid_t g[3];

	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -errno;
	if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
		return -errno;
	for (int i = 0; i < 3; i++)
		if (u[i] != uid || g[i] != gid)
			return -EPERM;
	return getgroups(0, NULL) == 0 ? 0 : -EPERM;
}

static int drop_caps(bool was_root)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		if (data[i].effective || data[i].permitted || data[i].inheritable)
			return -EPERM;
	/* Nothing comes back: neither by exec (no_new_privs) nor by a change of uid. */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || (was_root && setuid(0) == 0))
		return -EPERM;
	return 0;
}

int privileges_drop(uid_t uid, gid_t gid, struct err *e)
{
	const bool root = geteuid() == 0;
	int r = 0;

	for (unsigned long cap = 0; root && cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return err_set(e, ERR_SYSTEM, errno, "capability bounding set");
	if (root)
		r = change_ids(uid, gid);
	if (r == 0)
		r = drop_caps(root);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "privileges cannot be given up") : 0;
}
