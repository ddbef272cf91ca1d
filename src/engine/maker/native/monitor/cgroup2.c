/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups v2 (the unified tree), where it has the memory controller.
 *
 * Where the group of the instance goes: below our own group, when only the front and the monitor are in
 * it (a unit with Delegate=yes). Else root takes the top of the tree, and a plain user the nearest group
 * above its own one that it may write and that passes its controllers on. A group that contains processes
 * cannot pass controllers on (cgroups(7), "no internal processes"), so in the first case the front and the
 * monitor move to a group below. */
#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "engine/maker/native/monitor/cgroup.h"

#include <fcntl.h>
#include <string.h>

#define PERIOD_US      100000u
#define FILE_MAX_BYTES (4u << 20)
#define MAIN_LEAF      "caisson-main"

static const struct {
	const char *name;
	uint32_t cap;
} controllers[] = {
    {"memory", PROTO_CAP_MEMORY},
    {"pids", PROTO_CAP_PIDS},
    {"cpu", PROTO_CAP_CPU},
};

static int read_at(int dir, const char *name, struct buf *b)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	buf_reset(b);
	return fd < 0 ? -errno : fd_read_file(fd, b);
}

/* Which of our controllers the file NAME lists. */
static uint32_t caps_in(int dir, const char *name)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4096);
	uint32_t caps = 0;
	char *save = NULL;

	if (read_at(dir, name, &b) < 0 || b.len == 0)
		return 0;
	for (char *word = strtok_r(b.data, " \n", &save); word; word = strtok_r(NULL, " \n", &save))
		for (size_t i = 0; i < ARRAY_SIZE(controllers); i++)
			if (streq(word, controllers[i].name))
				caps |= controllers[i].cap;
	return caps;
}

/* Makes DIR pass its controllers on. Returns those that its children then have. */
static uint32_t enable(int dir)
{
	uint32_t have = caps_in(dir, "cgroup.controllers");

	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		char word[16];
		(void)snprintf(word, sizeof(word), "+%s", controllers[i].name);
		if (have & controllers[i].cap)
			(void)!cgroup_write(dir, "cgroup.subtree_control", word);
	}
	return caps_in(dir, "cgroup.subtree_control");
}

/* Whether DIR contains no process but this one and the front. */
static bool only_ours(int dir)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(FILE_MAX_BYTES);
	char *save = NULL;

	if (read_at(dir, "cgroup.procs", &b) < 0 || b.len == 0)
		return false;
	for (char *word = strtok_r(b.data, "\n", &save); word; word = strtok_r(NULL, "\n", &save)) {
		uint64_t pid;
		if (parse_u64(word, 0, INT32_MAX, &pid) < 0 ||
		    ((pid_t)pid != getpid() && (pid_t)pid != getppid()))
			return false;
	}
	return true;
}

static int move_to_leaf(int dir)
{
	_cleanup_fd_ int leaf = cgroup_mkdir(dir, MAIN_LEAF);

	if (leaf < 0)
		return leaf;
	int r = cgroup_write_u64(leaf, "cgroup.procs", (uint64_t)getppid());
	return r < 0 ? r : cgroup_write(leaf, "cgroup.procs", "0");
}

static bool passes_on(int dir)
{
	return (caps_in(dir, "cgroup.subtree_control") & PROTO_CAP_MEMORY) &&
	       faccessat(dir, ".", W_OK, AT_EACCESS) == 0 &&
	       faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0;
}

/* Finds the group that will contain that of the instance. PATH is our own group; it becomes the path of
 * the group that is returned. */
static int find_base(char path[PATH_MAX], size_t mount_len, bool root)
{
	_cleanup_fd_ int own = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (own < 0 || !(caps_in(own, "cgroup.controllers") & PROTO_CAP_MEMORY) ||
	    strlen(path) <= mount_len || !only_ours(own) || move_to_leaf(own) < 0 ||
	    !(enable(own) & PROTO_CAP_MEMORY))
		own = fd_close(own);
	if (own >= 0)
		return TAKE_FD(own);
	while (strlen(path) > mount_len) {
		*strrchr(path, '/') = '\0';
		if (root)
			path[mount_len] = '\0';
		_cleanup_fd_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dir >= 0 && root)
			(void)enable(dir);
		if (dir >= 0 && passes_on(dir))
			return TAKE_FD(dir);
	}
	_cleanup_fd_ int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top >= 0 && root && (enable(top) & PROTO_CAP_MEMORY))
		return TAKE_FD(top);
	return -ENOTSUP;
}

static int v2_open(struct cgroup *c, const char *instance)
{
	_cleanup_(buf_done) struct buf mountinfo = BUF_INIT(FILE_MAX_BYTES);
	_cleanup_(buf_done) struct buf self = BUF_INIT(FILE_MAX_BYTES);
	char path[PATH_MAX];
	size_t mount_len;

	if (read_at(AT_FDCWD, "/proc/self/mountinfo", &mountinfo) < 0 ||
	    read_at(AT_FDCWD, "/proc/self/cgroup", &self) < 0 ||
	    cgroup_find(buf_str(&mountinfo), buf_str(&self), NULL, path, &mount_len) < 0)
		return -ENOTSUP;
	_cleanup_fd_ int base = find_base(path, mount_len, geteuid() == 0);
	if (base < 0)
		return -ENOTSUP;
	_cleanup_fd_ int dir = cgroup_mkdir(base, instance);
	if (dir < 0)
		return -ENOTSUP;
	if ((size_t)snprintf(c->path[CGROUP_UNIFIED], PATH_MAX, "%s/%s", path, instance) >=
	    PATH_MAX) {
		c->path[CGROUP_UNIFIED][0] = '\0';
		return -ENAMETOOLONG;
	}
	_cleanup_fd_ int leaf = cgroup_mkdir(dir, "init");
	uint32_t caps = enable(dir);
	if (leaf < 0 || !(caps & PROTO_CAP_MEMORY))
		return -ENOTSUP;
	c->leave[CGROUP_UNIFIED] = TAKE_FD(leaf);
	c->dir[CGROUP_UNIFIED] = TAKE_FD(dir);
	c->enforced =
	    caps | PROTO_CAP_PIDS; /* without the controller RLIMIT_NPROC limits processes */
	c->later = PROTO_LIMIT_MEMORY | (caps & PROTO_CAP_CPU ? PROTO_LIMIT_CPU : 0) |
		   (caps & PROTO_CAP_PIDS ? PROTO_LIMIT_PIDS : 0);
	c->swap = true;
	return 0;
}

static int limit_memory(int dir, uint64_t bytes)
{
	int r = cgroup_write_u64(dir, "memory.max", bytes);

	if (r == 0)
		r = cgroup_write(dir, "memory.swap.max", "0");
	return r == -ENOENT ? 0 : r; /* the file is missing in kernels without swap accounting */
}

/* The burst is as on v1 (cgroup1.c). */
static int limit_cpu(int dir, uint32_t milli)
{
	const uint64_t quota = (uint64_t)milli * PERIOD_US / 1000;
	char text[48];

	(void)snprintf(text, sizeof(text), "%llu %u", (unsigned long long)quota, PERIOD_US);
	(void)!cgroup_write_u64(dir, "cpu.max.burst", 0);
	int r = cgroup_write(dir, "cpu.max", text);
	if (r == 0)
		(void)!cgroup_write_u64(dir, "cpu.max.burst", quota);
	return r;
}

static int make_limits(const struct cgroup *c, int dir, const struct proto_limits *l)
{
	int r = limit_memory(dir, l->memory_bytes);

	if (r == 0)
		r = cgroup_write_u64(dir, "pids.max", l->pids);
	if (r == -ENOENT)
		r = 0;
	return r == 0 && (c->enforced & PROTO_CAP_CPU) ? limit_cpu(dir, l->cpu_milli) : r;
}

static int make_leaves(const struct cgroup *c, int dir, struct cgroup_fds *fds)
{
	int r = cgroup_write(dir, "cgroup.subtree_control", "+memory");
	_cleanup_fd_ int keep = cgroup_mkdir(dir, "keep");
	_cleanup_fd_ int run = cgroup_mkdir(dir, "run");

	if (r < 0 || keep < 0 || run < 0)
		return r < 0 ? r : MIN(keep, run);
	/* memory.oom.group stays 0: as on v1 the kernel kills one process. A program whose child was
	 * too big goes on and can report it. */
	fds->join[0] = openat(run, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fds->join[0] < 0)
		return -errno;
	fds->n = 1;
	fds->into = c->leave[CGROUP_UNIFIED];
	fds->kill = openat(run, "cgroup.kill", O_WRONLY | O_CLOEXEC); /* Linux 5.14 */
	fds->oom = openat(run, "memory.events.local", O_RDONLY | O_CLOEXEC);
	fds->peak =
	    openat(run, "memory.peak", O_RDWR | O_CLOEXEC); /* Linux 6.12: a write resets it */
	if (fds->peak < 0)
		fds->peak = openat(run, "memory.peak", O_RDONLY | O_CLOEXEC);
	fds->cpu = openat(dir, "cpu.stat", O_RDONLY | O_CLOEXEC);
	return 0;
}

static void v2_remove(struct cgroup *c, uint32_t slot)
{
	char name[16];

	cgroup_slot_name(slot, name);
	cgroup_rmdir(c->dir[CGROUP_UNIFIED], name);
}

static int v2_make(struct cgroup *c, uint32_t slot, const struct proto_limits *l,
		   struct cgroup_fds *fds)
{
	char name[16];

	*fds = CGROUP_FDS_NONE;
	cgroup_slot_name(slot, name);
	_cleanup_fd_ int dir = cgroup_mkdir(c->dir[CGROUP_UNIFIED], name);
	int r = dir < 0 ? dir : make_limits(c, dir, l);
	if (r == 0)
		r = make_leaves(c, dir, fds);
	if (r < 0) {
		cgroup_fds_close(fds);
		v2_remove(c, slot);
	}
	return r;
}

static int v2_use(struct cgroup *c, uint32_t slot, struct cgroup_use *ret)
{
	char path[64];
	char stat[64];
	uint64_t value;

	*ret = (struct cgroup_use){0};
	(void)snprintf(path, sizeof(path), "s%u/memory.current", slot);
	(void)snprintf(stat, sizeof(stat), "s%u/memory.stat", slot);
	ret->memory_bytes = cgroup_memory(c->dir[CGROUP_UNIFIED], path, stat, "");
	(void)snprintf(path, sizeof(path), "s%u/pids.current", slot);
	if (cgroup_read_u64(c->dir[CGROUP_UNIFIED], path, &value) == 0)
		ret->pids = (uint32_t)value;
	(void)snprintf(path, sizeof(path), "s%u/cpu.stat", slot);
	if (cgroup_read_key(c->dir[CGROUP_UNIFIED], path, "usage_usec", &value) == 0)
		ret->cpu_ns = value * 1000;
	return 0;
}

/* The kernel kills as soon as memory.max is below what is in use. memory.high never kills: it takes cached
 * pages back and slows down whoever allocates. So it comes first, and the limit only if there is room. */
static int lower_memory(int dir, uint64_t bytes)
{
	uint64_t used = 0;
	int r = cgroup_write_u64(dir, "memory.high", bytes - bytes / 16);

	r = r < 0 ? r : cgroup_read_u64(dir, "memory.current", &used);
	if (r == 0 && used > bytes - bytes / 32)
		r = -EBUSY;
	r = r < 0 ? r : limit_memory(dir, bytes);
	(void)!cgroup_write(dir, "memory.high", "max");
	return r;
}

static int change_memory(int dir, uint64_t bytes, uint64_t *ret_before)
{
	const uint64_t used = cgroup_memory(dir, "memory.current", "memory.stat", "");
	int r = cgroup_read_u64(dir, "memory.max", ret_before);

	if (r < 0 || bytes >= *ret_before)
		return r < 0 ? r : limit_memory(dir, bytes);
	return proto_memory_fits(used, bytes) ? lower_memory(dir, bytes) : -EBUSY;
}

static int v2_limit(struct cgroup *c, uint32_t slot, uint32_t what, const struct proto_limits *l)
{
	_cleanup_fd_ int dir = cgroup_open_slot(c, CGROUP_UNIFIED, slot);
	uint64_t memory = 0;
	uint64_t pids = 0;
	int r = dir < 0 ? dir : 0;

	if (r == 0 && (what & PROTO_LIMIT_MEMORY))
		r = change_memory(dir, l->memory_bytes, &memory);
	if (r < 0)
		return r;
	if (what & PROTO_LIMIT_PIDS) {
		r = cgroup_read_u64(dir, "pids.max", &pids);
		r = r < 0 ? r : cgroup_write_u64(dir, "pids.max", l->pids);
	}
	if (r == 0 && (what & PROTO_LIMIT_CPU))
		r = limit_cpu(dir, l->cpu_milli);
	if (r < 0 && pids > 0)
		(void)!cgroup_write_u64(dir, "pids.max", pids);
	if (r < 0 && memory > 0)
		(void)!limit_memory(dir, memory);
	return r;
}

static int v2_limit_all(struct cgroup *c, uint64_t bytes)
{
	return limit_memory(c->dir[CGROUP_UNIFIED], bytes);
}

static uint64_t v2_use_all(struct cgroup *c)
{
	return cgroup_memory(c->dir[CGROUP_UNIFIED], "memory.current", "memory.stat", "");
}

const struct cgroup_ops cgroup2_ops = {
    .name = "v2",
    .open = v2_open,
    .make = v2_make,
    .remove = v2_remove,
    .use = v2_use,
    .limit = v2_limit,
    .limit_all = v2_limit_all,
    .use_all = v2_use_all,
};
