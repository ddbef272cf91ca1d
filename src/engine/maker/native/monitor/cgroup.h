/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups. There are three kinds behind one table of functions: cgroup1.c (v1), cgroup2.c (v2) and
 * cgroup_none.c (none).
 *
 *   <base>/caisson-XXXXXXXX/    the group of this monitor (INSTANCE)
 *       init                    v2 only: every init. It has no limit, so that no init is killed for
 *                               what its sandbox uses
 *       s<slot>/                one sandbox: has the limits; on v1 interpreters that wait are here
 *           keep                v2: interpreters that wait
 *           run                 memory tree of v1, and v2: runs. They are killed by this group, and its
 *                               out-of-memory kills are counted
 *
 * Init stays outside of the limits on purpose: when the memory of a sandbox is full, init must still
 * report that and end the run.
 *
 * Moving a process takes a lock of the whole kernel for writing. Unless somebody has just done the same,
 * that costs a grace period of RCU (5-30 ms). Each kind has a way around it:
 *   v1  A single thread that moves itself needs no lock (cgroup_procs_write_start() in
 *       kernel/cgroup/cgroup.c): it writes "0" into `tasks`, not cgroup.procs. So the maker joins `run`
 *       before it makes the namespaces. The kernel then charges what it allocates for them to the
 *       sandbox, and `run` is the root of the cgroup namespace. Later init leaves the group.
 *   v2  clone3(2) starts a child in a group: the maker, and so init, starts in `init`. Runs join `run`
 *       through cgroup.procs and pay, unless they were forked ahead. */
#pragma once

#include "base/err.h"
#include "engine/protocol/proto.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define CGROUP_PROCS_MAX PROTO_CONFIG_PROCS_MAX

struct cgroup_fds {
	int join
	    [CGROUP_PROCS_MAX]; /* whoever writes "0" here joins `run`: runs, and on v1 the maker */
	uint32_t n;
	int leave[CGROUP_PROCS_MAX]; /* v1: whoever writes "0" here leaves the limits; borrowed */
	uint32_t n_leave;
	int into; /* v2: the group that the maker starts in; borrowed, -1 = none */
	int kill; /* cgroup.kill of `run`, -1 = none */
	int oom;  /* file with an "oom_kill N" line, for the front, -1 = none */
	int peak; /* file with the peak use of memory, for the front, -1 = none */
	int cpu;  /* file with the CPU time of the sandbox, for the front, -1 = none */
};

#define CGROUP_FDS_NONE                                                                            \
	((struct cgroup_fds){.into = -1, .kill = -1, .oom = -1, .peak = -1, .cpu = -1})

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
	uint32_t later;              /* PROTO_LIMIT_ bits: can be changed while a sandbox lives */
	bool swap;                   /* swap is limited too */
	int dir[CGROUP_TREE_MAX_];   /* the group of the instance in each tree, -1 = none */
	int leave[CGROUP_TREE_MAX_]; /* v1: the `tasks` that init goes to; v2: the folder `init` */
	char path[CGROUP_TREE_MAX_][PATH_MAX]; /* of dir, for a later sweep; "" = none */
};

struct cgroup_ops {
	const char *name; /* "v1", "v2", "none" */
	/* Makes the groups of the instance. -ENOTSUP: this kind does not work here. */
	int (*open)(struct cgroup *c, const char *instance);
	/* Makes the groups of a sandbox with its limits and opens their files (owned by FDS). */
	int (*make)(struct cgroup *c, uint32_t slot, const struct proto_limits *l,
		    struct cgroup_fds *fds);
	void (*remove)(struct cgroup *c, uint32_t slot);
	int (*use)(struct cgroup *c, uint32_t slot, struct cgroup_use *ret);
	/* Sets the limits WHAT (PROTO_LIMIT_ bits, all of them in c->later) of a sandbox that lives, all or none.
	 * Nothing is killed: -EBUSY if more memory is in use than L permits. */
	int (*limit)(struct cgroup *c, uint32_t slot, uint32_t what, const struct proto_limits *l);
	/* Limits the memory of all sandboxes together, swap included. -ENOTSUP: this kind cannot. */
	int (*limit_all)(struct cgroup *c, uint64_t bytes);
	/* How much memory all sandboxes use together; 0 = unknown. */
	uint64_t (*use_all)(struct cgroup *c);
};

extern const struct cgroup_ops cgroup1_ops;
extern const struct cgroup_ops cgroup2_ops;
extern const struct cgroup_ops cgroup_none_ops;

/* Opens the best kind that works here; `none` always works. */
int cgroup_open(struct cgroup *c, const char *instance, struct err *e) MUST_CHECK;
/* Removes the groups of the instance. Returns false if some are left, because their last processes are still ending. */
bool cgroup_close(struct cgroup *c);
/* Opens the files into which an interpreter that waits writes "0" to count for SLOT: its own group in the
 * memory tree of v1, `keep` on v2. Returns their number; the caller owns them. */
uint32_t cgroup_open_keep(const struct cgroup *c, uint32_t slot, int ret[CGROUP_PROCS_MAX]);
void cgroup_fds_close(struct cgroup_fds *fds);
/* Removes the group at PATH with all groups below it, as far as they are empty; true = nothing is left. */
bool cgroup_remove_tree(const char *path);

/* ---- shared by the kinds (cgroup.c) ---- */

/* Finds the group of this process in the v1 tree with controller NAME, or in v2 when NAME is NULL, as an
 * absolute path; its first *RET_MOUNT_LEN bytes are the mount point. -ENOENT: not mounted. MOUNTINFO and
 * SELF are the contents of /proc/self/mountinfo and /proc/self/cgroup. */
int cgroup_find(const char *mountinfo, const char *self, const char *name, char ret[PATH_MAX],
		size_t *ret_mount_len) MUST_CHECK;
int cgroup_mkdir(int dir, const char *name) MUST_CHECK; /* returns a descriptor of it */
int cgroup_write(int dir, const char *name, const char *value) MUST_CHECK;
int cgroup_write_u64(int dir, const char *name, uint64_t value) MUST_CHECK;
int cgroup_read_u64(int dir, const char *name, uint64_t *ret) MUST_CHECK;
int cgroup_read_key(int dir, const char *name, const char *key, uint64_t *ret) MUST_CHECK;
/* Opens the group of SLOT in tree T, O_PATH. -ENOTSUP: this tree is not there. */
int cgroup_open_slot(const struct cgroup *c, enum cgroup_tree t, uint32_t slot) MUST_CHECK;
/* What is in use according to the file USAGE, without the cached pages of files, which the kernel takes back
 * when it needs memory. STAT has the lines PREFIX"inactive_file" and PREFIX"active_file". 0 = unknown. */
uint64_t cgroup_memory(int dir, const char *usage, const char *stat, const char *prefix) MUST_CHECK;
void cgroup_slot_name(uint32_t slot, char ret[16]);
void cgroup_rmdir(int dir, const char *slot); /* removes DIR/SLOT with `run` and `keep` */
