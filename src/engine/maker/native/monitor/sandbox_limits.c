/* SPDX-License-Identifier: Apache-2.0 */
/* What the front may ask of the limits of a sandbox that lives, and of what it uses. */
#include "base/walls.h"
#include "engine/maker/native/monitor/monitor.h"

/* The limits that L names, as they are enforced. */
static int set_limits(struct monitor *m, const struct proto_mon_limit *l, uint32_t *ret_failed)
{
	struct proto_limits limits = {
	    .memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .pids = l->pids};
	const uint32_t missing = l->what & ~m->cgroup.later;

	if (m->sandboxes[l->slot].state != SANDBOX_LIVE)
		return -ESRCH;
	*ret_failed = missing & ~(missing - 1); /* the lowest bit */
	if (missing)
		return -ENOTSUP;
	proto_leave_out_walls(&limits);
	*ret_failed = PROTO_LIMIT_MEMORY; /* what EBUSY is about */
	return m->cgroup.ops->limit(&m->cgroup, l->slot, l->what, &limits);
}

void monitor_sandbox_limit(struct monitor *m, const struct proto_mon_limit *l)
{
	struct proto_mon_limited a = {.head = PROTO_HEAD(MON_LIMITED, proto_mon_limited),
				      .slot = l->slot};
	struct cgroup_use use = {0};
	const int r = set_limits(m, l, &a.what);

	if (r == -EBUSY)
		(void)m->cgroup.ops->use(&m->cgroup, l->slot, &use);
	a.errnum = -r;
	a.memory_bytes = use.memory_bytes;
	monitor_send(m, &a.head, NULL, 0);
}

void monitor_sandbox_usage(struct monitor *m, uint32_t slot)
{
	struct cgroup_use use = {0};
	struct proto_mon_used u = {.head = PROTO_HEAD(MON_USED, proto_mon_used), .slot = slot};

	if (slot == PROTO_SLOT_ALL)
		use.memory_bytes = m->cgroup.ops->use_all(&m->cgroup);
	else if (m->sandboxes[slot].state == SANDBOX_LIVE)
		(void)m->cgroup.ops->use(&m->cgroup, slot, &use);
	u.memory_bytes = use.memory_bytes;
	u.cpu_ns = use.cpu_ns;
	u.pids = use.pids;
	monitor_send(m, &u.head, NULL, 0);
}
