/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups v1: one tree for each controller; our groups lie below the monitor's own group in each
 * tree. Hybrid hosts have a v2 tree, too. We do not use it: for its cgroup.kill every run would have to
 * move under the kernel's lock (cgroup.h). Only in the memory tree a sandbox has the group `run`, because
 * nothing else is counted separately for runs. Waiting interpreters are in the sandbox's own group: v1 permits
 * processes there, and a group `keep` would cost kernel memory that grows with the number of sandboxes
 * (docs/decisions/0016-idle-memory.md). */
#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"
#include "base/walls.h"
#include "engine/maker/native/monitor/cgroup.h"

#include <fcntl.h>
#include <string.h>

#define PERIOD_US      100000u
#define FILE_MAX_BYTES (4u << 20) /* of mountinfo */
#define SOCKETS_MAX    (UINT64_C(64) << 20)

static const struct {
	const char *controller; /* NULL = not on v1 */
	uint32_t cap;
} trees[CGROUP_TREE_MAX_] = {
    [CGROUP_MEMORY] = {"memory", PROTO_CAP_MEMORY},
    [CGROUP_CPU] = {"cpu", PROTO_CAP_CPU},
    [CGROUP_CPUACCT] = {"cpuacct",
			0}, /* where it is mounted together with cpu, both are one folder */
    [CGROUP_PIDS] = {"pids", PROTO_CAP_PIDS},
};

static int read_proc(const char *path, struct buf *b)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_read_file(fd, b);
}

/* Makes the group of the instance in one tree. Skips a tree that is missing or that we may not write. */
static void open_tree_of(struct cgroup *c, size_t tree, const char *mountinfo, const char *self,
			 const char *instance)
{
	char path[PATH_MAX];
	size_t mount_len;

	if (!trees[tree].controller ||
	    cgroup_find(mountinfo, self, trees[tree].controller, path, &mount_len) < 0)
		return;
	_cleanup_fd_ int own = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int leave = own < 0 ? -1 : openat(own, "tasks", O_WRONLY | O_CLOEXEC);
	_cleanup_fd_ int dir = leave < 0 ? -1 : cgroup_mkdir(own, instance);
	if (dir < 0 ||
	    (size_t)snprintf(c->path[tree], PATH_MAX, "%s/%s", path, instance) >= PATH_MAX) {
		c->path[tree][0] = '\0';
		return;
	}
	c->dir[tree] = TAKE_FD(dir);
	c->leave[tree] = TAKE_FD(leave);
	c->enforced |= trees[tree].cap;
}

static int v1_open(struct cgroup *c, const char *instance)
{
	_cleanup_(buf_done) struct buf mountinfo = BUF_INIT(FILE_MAX_BYTES);
	_cleanup_(buf_done) struct buf self = BUF_INIT(FILE_MAX_BYTES);

	if (read_proc("/proc/self/mountinfo", &mountinfo) < 0 ||
	    read_proc("/proc/self/cgroup", &self) < 0)
		return -ENOTSUP;
	for (size_t i = 0; i < CGROUP_TREE_MAX_; i++)
		open_tree_of(c, i, buf_str(&mountinfo), buf_str(&self), instance);
	if (!c->enforced)
		return -ENOTSUP;
	/* Without the pids tree RLIMIT_NPROC limits processes; without the memory tree init polls. */
	c->enforced |= PROTO_CAP_PIDS;
	if (!(c->enforced & PROTO_CAP_MEMORY))
		c->best_effort |= PROTO_CAP_MEMORY;
	c->later = (c->dir[CGROUP_MEMORY] >= 0 ? PROTO_LIMIT_MEMORY : 0) |
		   (c->dir[CGROUP_CPU] >= 0 ? PROTO_LIMIT_CPU : 0) |
		   (c->dir[CGROUP_PIDS] >= 0 ? PROTO_LIMIT_PIDS : 0);
	c->swap = c->dir[CGROUP_MEMORY] >= 0 &&
		  faccessat(c->dir[CGROUP_MEMORY], "memory.memsw.limit_in_bytes", W_OK, 0) == 0;
	return 0;
}

static int limit_memory(const struct cgroup *c, int dir, uint64_t bytes)
{
	int r = cgroup_write_u64(dir, "memory.limit_in_bytes", bytes);

	/* The limit of memory and swap together may not be below that of memory alone: it comes second
	 * when both are lowered, and first when both are raised. */
	if (r == -EINVAL && c->swap)
		r = cgroup_write_u64(dir, "memory.memsw.limit_in_bytes", bytes);
	if (r == 0 && c->swap)
		r = cgroup_write_u64(dir, "memory.limit_in_bytes", bytes);
	if (r == 0 && c->swap)
		r = cgroup_write_u64(dir, "memory.memsw.limit_in_bytes", bytes);
	else if (r == 0)
		r = cgroup_write(dir, "memory.swappiness", "0");
	return r;
}

/* Buffers of sockets have a counter of their own on v1, memory.kmem.tcp (TCP by name, UDP too). It
 * counts from when it has a limit, in each group by itself; until then they are charged to nobody.
 * A kernel without it has nothing to limit. */
static void limit_sockets(int dir, uint64_t memory_bytes)
{
	if (wall_stands(WALL_SOCKETS))
		(void)!cgroup_write_u64(dir, "memory.kmem.tcp.limit_in_bytes",
					MIN(memory_bytes / 8, SOCKETS_MAX));
}

static int add_join(const struct cgroup *c, enum cgroup_tree tree, int dir, struct cgroup_fds *fds)
{
	int fd = openat(dir, "tasks", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	fds->join[fds->n++] = fd;
	fds->leave[fds->n_leave++] = c->leave[tree];
	return 0;
}

static int make_memory(struct cgroup *c, int dir, const struct proto_limits *l,
		       struct cgroup_fds *fds)
{
	int r = limit_memory(c, dir, l->memory_bytes);
	_cleanup_fd_ int run = cgroup_mkdir(dir, "run");

	if (r < 0 || run < 0)
		return r < 0 ? r : run;
	limit_sockets(dir, l->memory_bytes);
	limit_sockets(run, l->memory_bytes);
	fds->oom = openat(run, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	fds->peak = openat(run, "memory.max_usage_in_bytes", O_RDWR | O_CLOEXEC);
	return add_join(c, CGROUP_MEMORY, run, fds);
}

/* What a sandbox did not use it may use later, at most one period's share: a short run after a rest is not stopped
 * for the rest of its period. Kernels before 5.14 have no bursts. A burst above the quota is refused, so the old one
 * goes first. */
static int limit_cpu(int dir, uint32_t milli)
{
	const uint64_t quota = (uint64_t)milli * PERIOD_US / 1000;

	(void)!cgroup_write_u64(dir, "cpu.cfs_burst_us", 0);
	int r = cgroup_write_u64(dir, "cpu.cfs_quota_us", quota);
	if (r == 0)
		(void)!cgroup_write_u64(dir, "cpu.cfs_burst_us", quota);
	return r;
}

static int make_cpu(struct cgroup *c, int dir, const struct proto_limits *l, struct cgroup_fds *fds)
{
	int r = cgroup_write_u64(dir, "cpu.cfs_period_us", PERIOD_US);

	r = r < 0 ? r : limit_cpu(dir, l->cpu_milli);
	return r < 0 ? r : add_join(c, CGROUP_CPU, dir, fds);
}

static int make_pids(struct cgroup *c, int dir, const struct proto_limits *l,
		     struct cgroup_fds *fds)
{
	int r = cgroup_write_u64(dir, "pids.max", l->pids);

	return r < 0 ? r : add_join(c, CGROUP_PIDS, dir, fds);
}

static int make_cpuacct(struct cgroup *c, int dir, const struct proto_limits *l UNUSED,
			struct cgroup_fds *fds)
{
	fds->cpu = openat(dir, "cpuacct.usage", O_RDONLY | O_CLOEXEC);
	return add_join(c, CGROUP_CPUACCT, dir, fds);
}

static int (*const makers[CGROUP_TREE_MAX_])(struct cgroup *, int, const struct proto_limits *,
					     struct cgroup_fds *) = {
    [CGROUP_MEMORY] = make_memory,
    [CGROUP_CPU] = make_cpu,
    [CGROUP_PIDS] = make_pids,
    [CGROUP_CPUACCT] = make_cpuacct,
};

static void v1_remove(struct cgroup *c, uint32_t slot)
{
	char name[16];

	cgroup_slot_name(slot, name);
	for (size_t i = 0; i < CGROUP_TREE_MAX_; i++) {
		if (i == CGROUP_MEMORY)
			cgroup_rmdir(c->dir[i], name);
		else if (c->dir[i] >= 0)
			(void)unlinkat(c->dir[i], name, AT_REMOVEDIR);
	}
}

static int v1_make(struct cgroup *c, uint32_t slot, const struct proto_limits *l,
		   struct cgroup_fds *fds)
{
	char name[16];

	*fds = CGROUP_FDS_NONE;
	cgroup_slot_name(slot, name);
	for (size_t i = 0; i < CGROUP_TREE_MAX_; i++) {
		if (c->dir[i] < 0)
			continue;
		_cleanup_fd_ int dir = cgroup_mkdir(c->dir[i], name);
		int r = dir < 0 ? dir : makers[i](c, dir, l, fds);
		if (r < 0) {
			cgroup_fds_close(fds);
			v1_remove(c, slot);
			return r;
		}
	}
	return 0;
}

static int v1_use(struct cgroup *c, uint32_t slot, struct cgroup_use *ret)
{
	char path[64];
	char stat[64];
	uint64_t value;

	*ret = (struct cgroup_use){0};
	(void)snprintf(path, sizeof(path), "s%u/memory.usage_in_bytes", slot);
	(void)snprintf(stat, sizeof(stat), "s%u/memory.stat", slot);
	if (c->dir[CGROUP_MEMORY] >= 0)
		ret->memory_bytes = cgroup_memory(c->dir[CGROUP_MEMORY], path, stat, "total_");
	(void)snprintf(path, sizeof(path), "s%u/pids.current", slot);
	if (c->dir[CGROUP_PIDS] >= 0 && cgroup_read_u64(c->dir[CGROUP_PIDS], path, &value) == 0)
		ret->pids = (uint32_t)value;
	(void)snprintf(path, sizeof(path), "s%u/cpuacct.usage", slot);
	if (c->dir[CGROUP_CPUACCT] >= 0 &&
	    cgroup_read_u64(c->dir[CGROUP_CPUACCT], path, &value) == 0)
		ret->cpu_ns = value;
	return 0;
}

/* The kernel itself refuses a limit below what is in use (EBUSY), after it has taken back cached pages. But of
 * the two limits the first may be set then. */
static int change_memory(const struct cgroup *c, int dir, uint64_t bytes, uint64_t *ret_before)
{
	const uint64_t used = cgroup_memory(dir, "memory.usage_in_bytes", "memory.stat", "total_");
	int r = cgroup_read_u64(dir, "memory.limit_in_bytes", ret_before);

	if (r < 0)
		return r;
	if (bytes < *ret_before && !proto_memory_fits(used, bytes))
		return -EBUSY;
	r = limit_memory(c, dir, bytes);
	if (r < 0)
		(void)!limit_memory(c, dir, *ret_before);
	return r;
}

static void change_sockets(int dir, uint64_t memory_bytes)
{
	_cleanup_fd_ int run = openat(dir, "run", O_PATH | O_DIRECTORY | O_CLOEXEC);

	limit_sockets(dir, memory_bytes);
	if (run >= 0)
		limit_sockets(run, memory_bytes);
}

static int v1_limit(struct cgroup *c, uint32_t slot, uint32_t what, const struct proto_limits *l)
{
	_cleanup_fd_ int memory = cgroup_open_slot(c, CGROUP_MEMORY, slot);
	_cleanup_fd_ int cpu = cgroup_open_slot(c, CGROUP_CPU, slot);
	_cleanup_fd_ int pids = cgroup_open_slot(c, CGROUP_PIDS, slot);
	uint64_t bytes = 0;
	uint64_t processes = 0;
	int r = 0;

	if (what & PROTO_LIMIT_MEMORY)
		r = memory < 0 ? memory : change_memory(c, memory, l->memory_bytes, &bytes);
	if (r < 0)
		return r;
	if (what & PROTO_LIMIT_PIDS) {
		r = pids < 0 ? pids : cgroup_read_u64(pids, "pids.max", &processes);
		r = r < 0 ? r : cgroup_write_u64(pids, "pids.max", l->pids);
	}
	if (r == 0 && (what & PROTO_LIMIT_CPU))
		r = cpu < 0 ? cpu : limit_cpu(cpu, l->cpu_milli);
	if (r < 0 && processes > 0)
		(void)!cgroup_write_u64(pids, "pids.max", processes);
	if (r < 0 && bytes > 0)
		(void)!limit_memory(c, memory, bytes);
	if (r == 0 && (what & PROTO_LIMIT_MEMORY))
		change_sockets(memory, l->memory_bytes);
	return r;
}

static int v1_limit_all(struct cgroup *c, uint64_t bytes)
{
	return c->dir[CGROUP_MEMORY] < 0 ? -ENOTSUP : limit_memory(c, c->dir[CGROUP_MEMORY], bytes);
}

static uint64_t v1_use_all(struct cgroup *c)
{
	return c->dir[CGROUP_MEMORY] < 0
		   ? 0
		   : cgroup_memory(c->dir[CGROUP_MEMORY], "memory.usage_in_bytes", "memory.stat",
				   "total_");
}

const struct cgroup_ops cgroup1_ops = {
    .name = "v1",
    .open = v1_open,
    .make = v1_make,
    .remove = v1_remove,
    .use = v1_use,
    .limit = v1_limit,
    .limit_all = v1_limit_all,
    .use_all = v1_use_all,
};
