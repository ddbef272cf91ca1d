/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups behind one table: cgroup1.c, cgroup2.c, cgroup_none.c.
 *
 *   <base>/caisson-XXXXXXXX/          of this monitor (INSTANCE)
 *       init                          every init; no limit, so that none is killed for its sandbox
 * (v2 only) s<slot>/                      one sandbox: the limits keep interpreters that wait
 * (memory tree, v2) run                       runs: unit of killing and of the out-of-memory
 * counter
 *
 * init stays outside the limits on purpose: a sandbox whose memory is full must still be told and
 * ended.
 *
 * Moving a process takes a lock of the whole kernel for writing, which costs a grace period of RCU
 * (5-30 ms) whenever nobody has done it just before. Two ways around it: v1  a single thread that
 * moves itself needs no lock (cgroup_procs_write_start() in kernel/cgroup/cgroup.c): "0" into
 * `tasks`, not cgroup.procs. So the maker joins `run` before it makes the namespaces, which charges
 * what the kernel allocates for them to the sandbox and makes `run` the root of the cgroup
 *       namespace; then init leaves.
 *   v2  clone3(2) puts a child right into a group: the maker, and so init, is born in `init`. Runs
 * join `run` through cgroup.procs and pay, unless they were forked ahead. */
#pragma once

#include "base/err.h"
#include "engine/inside/proto.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define CGROUP_PROCS_MAX PROTO_CONFIG_PROCS_MAX

struct cgroup_fds {
	int join[CGROUP_PROCS_MAX]; /* "0" written here joins the run leaf; for runs, on v1 for the
				       maker */
	uint32_t n;
	int leave[CGROUP_PROCS_MAX]; /* v1: "0" written here leaves the limits; borrowed */
	uint32_t n_leave;
	int into; /* v2: group that the maker is born in; borrowed, -1 = none */
	int kill; /* cgroup.kill of the run leaf, -1 = none */
	int oom;  /* file with an "oom_kill N" line, for the front, -1 = none */
	int peak; /* file with the highest use of memory, for the front, -1 = none */
};

#define CGROUP_FDS_NONE ((struct cgroup_fds){.into = -1, .kill = -1, .oom = -1, .peak = -1})

struct cgroup_use {
	uint64_t memory_bytes;
	uint64_t cpu_ns;
	uint32_t pids;
};

enum cgroup_tree {
	CGROUP_MEMORY,
	CGROUP_CPU,
	CGROUP_CPUACCT,
	CGROUP_PIDS,
	CGROUP_UNIFIED,
	CGROUP_TREE_MAX_
};

struct cgroup {
	const struct cgroup_ops *ops;
	uint32_t enforced; /* enum proto_cap bits */
	uint32_t best_effort;
	bool swap;                   /* swap is limited too */
	int dir[CGROUP_TREE_MAX_];   /* the instance's folder in each tree, -1 = none */
	int leave[CGROUP_TREE_MAX_]; /* v1: `tasks` where init goes; v2: the folder `init` */
	char path[CGROUP_TREE_MAX_][PATH_MAX]; /* of dir; "" = none; what a sweep removes */
};

struct cgroup_ops {
	const char *name; /* "v1", "v2", "none" */
	/* Finds out whether this kind works here and makes the instance's groups. -ENOTSUP = not
	 * here. */
	int (*open)(struct cgroup *c, const char *instance);
	/* Makes a sandbox's groups with its limits and opens what its makers need (owned by FDS).
	 */
	int (*make)(struct cgroup *c, uint32_t slot, const struct proto_limits *l,
		    struct cgroup_fds *fds);
	void (*remove)(struct cgroup *c, uint32_t slot);
	int (*use)(struct cgroup *c, uint32_t slot, struct cgroup_use *ret);
	/* Memory of all sandboxes together, swap included. -ENOTSUP = nothing here limits it. */
	int (*limit_all)(struct cgroup *c, uint64_t bytes);
	/* What they use of it; 0 = unknown. */
	uint64_t (*use_all)(struct cgroup *c);
};

extern const struct cgroup_ops cgroup1_ops;
extern const struct cgroup_ops cgroup2_ops;
extern const struct cgroup_ops cgroup_none_ops;

/* The best kind that works here; `none` always does. */
int cgroup_open(struct cgroup *c, const char *instance, struct err *e) MUST_CHECK;
void cgroup_close(struct cgroup *c); /* removes the instance's groups */
/* Where "0" is written to join the keep leaf of SLOT, in every tree that has one; returns how many
 * (owned). */
uint32_t cgroup_open_keep(const struct cgroup *c, uint32_t slot, int ret[CGROUP_PROCS_MAX]);
void cgroup_fds_close(struct cgroup_fds *fds);
/* Removes the group at PATH and everything below it that is empty; true = nothing is left. */
bool cgroup_remove_tree(const char *path);

/* ---- shared by the kinds (cgroup.c) ---- */

/* The mount point of a v1 tree with controller NAME, or of v2 when NAME is NULL, and the own group
 * in it, as one absolute path. -ENOENT = not mounted. TEXT are the contents of /proc/self/mountinfo
 * and /proc/self/cgroup. */
int cgroup_find(const char *mountinfo, const char *self, const char *name, char ret[PATH_MAX],
		size_t *ret_mount_len) MUST_CHECK;
int cgroup_mkdir(int dir, const char *name) MUST_CHECK; /* returns a descriptor of it */
int cgroup_write(int dir, const char *name, const char *value) MUST_CHECK;
int cgroup_write_u64(int dir, const char *name, uint64_t value) MUST_CHECK;
int cgroup_read_u64(int dir, const char *name, uint64_t *ret) MUST_CHECK;
int cgroup_read_key(int dir, const char *name, const char *key, uint64_t *ret) MUST_CHECK;
void cgroup_slot_name(uint32_t slot, char ret[16]);
void cgroup_rmdir(int dir, const char *slot); /* DIR/SLOT with its leaves */
