/* SPDX-License-Identifier: Apache-2.0 */
/* No control groups. Init polls the use of memory. RLIMIT_NPROC limits processes for certain, because
 * Linux 5.14 and newer count them per user namespace (getrlimit(2)). CPU time is not limited. */
#include "engine/maker/native/monitor/cgroup.h"

static int none_open(struct cgroup *c, const char *instance UNUSED)
{
	c->enforced = PROTO_CAP_PIDS;
	c->best_effort = PROTO_CAP_MEMORY;
	return 0;
}

static int none_make(struct cgroup *c UNUSED, uint32_t slot UNUSED,
		     const struct proto_limits *l UNUSED, struct cgroup_fds *fds)
{
	*fds = CGROUP_FDS_NONE;
	return 0;
}

static void none_remove(struct cgroup *c UNUSED, uint32_t slot UNUSED)
{
}

static int none_use(struct cgroup *c UNUSED, uint32_t slot UNUSED, struct cgroup_use *ret)
{
	*ret = (struct cgroup_use){0};
	return 0;
}

/* Not reached: c->later is 0. */
static int none_limit(struct cgroup *c UNUSED, uint32_t slot UNUSED, uint32_t what UNUSED,
		      const struct proto_limits *l UNUSED)
{
	return -ENOTSUP;
}

static int none_limit_all(struct cgroup *c UNUSED, uint64_t bytes UNUSED)
{
	return -ENOTSUP;
}

static uint64_t none_use_all(struct cgroup *c UNUSED)
{
	return 0;
}

const struct cgroup_ops cgroup_none_ops = {
    .name = "none",
    .open = none_open,
    .make = none_make,
    .remove = none_remove,
    .use = none_use,
    .limit = none_limit,
    .limit_all = none_limit_all,
    .use_all = none_use_all,
};
