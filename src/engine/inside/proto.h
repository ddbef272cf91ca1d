/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed-size messages between front, monitor and init, over SOCK_SEQPACKET sockets. INIT_...
 * messages are those of every engine; MON_... messages are the native engine's.
 *
 * One message = one packet = one struct that starts with struct proto_head. Both ends come from one
 * build, so byte order and layout are those of the machine. A receiver checks type, length,
 * direction and the number of descriptors with proto_check(), then every field. A message that fails
 * a check ends the connection.
 *
 * Trust: the monitor trusts nobody. init trusts only the first message, INIT_CONFIG. The front
 * trusts the monitor, but not init.
 *
 * Front, monitor and the static init all include this header, so it uses no code of base and
 * allocates nothing. */
#pragma once

#include "base/walls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_VERSION         1
#define PROTO_FDS_MAX         8    /* descriptors of one message */
#define PROTO_IMAGE_MAX       208  /* ENGINE_NAME_MAX */
#define PROTO_PATH_MAX        4096 /* ENGINE_PATH_MAX */
#define PROTO_NAME_MAX        256
#define PROTO_PERSIST_MAX     65         /* [a-z0-9-]{1,64} and NUL */
#define PROTO_LEVELS_MAX      8          /* ENGINE_LEVELS_MAX */
#define PROTO_RUNTIME_MAX     64         /* ENGINE_RUNTIME_SIZE */
#define PROTO_LIST_MAX        10000      /* ENGINE_FILES_MAX */
#define PROTO_ARGS_MAX        (1u << 20) /* bytes of a run's cwd, argv and environment together */
#define PROTO_ARG_MAX         512        /* strings of argv, and of the environment */
#define PROTO_PUTS_MAX        256        /* files being written at once */
#define PROTO_CHECKPOINTS_MAX 10         /* ENGINE_CHECKPOINTS_MAX */

/* Bounds of the limits; both ends check them. */
#define PROTO_MEMORY_MIN (UINT64_C(4) << 20)
#define PROTO_MEMORY_MAX (UINT64_C(1) << 44)
#define PROTO_CPU_MIN    10u /* thousandths of a core */
#define PROTO_CPU_MAX    1024000u
#define PROTO_PIDS_MIN   1u
#define PROTO_PIDS_MAX   1000000u
#define PROTO_DISK_MIN   (UINT64_C(64) << 10)
#define PROTO_DISK_MAX   (UINT64_C(1) << 44)
#define PROTO_INODES_MIN 16u
#define PROTO_INODES_MAX 100000000u
#define PROTO_NOFILE_MIN 16u
#define PROTO_NOFILE_MAX 1048576u
#define PROTO_SLOTS_MAX  60000u /* sandboxes of one monitor; also bounds the uids */

enum proto_type {
	PROTO_NONE = 0,
#define M(name, from, to, type, fds, what) PROTO_##name,
#include "engine/inside/messages.tbl.h"
#undef M
	PROTO_TYPE_MAX_,
};

enum proto_step {
#define S(name, what) PROTO_STEP_##name,
#include "engine/inside/steps.tbl.h"
#undef S
	PROTO_STEP_MAX_,
};

enum proto_cap { /* enum engine_cap, for the monitor */
		 PROTO_CAP_MEMORY = 1 << 0,
		 PROTO_CAP_CPU = 1 << 1,
		 PROTO_CAP_PIDS = 1 << 2,
		 PROTO_CAP_DISK = 1 << 3,
		 PROTO_CAP_OWN_UID = 1 << 4,
		 PROTO_CAP_PERSISTENT = 1 << 5, /* best effort: without limits of the disk */
		 PROTO_CAP_WARM = 1 << 6,
		 PROTO_CAP_ON_DISK = 1 << 7,
};

enum proto_party { PROTO_PARTY_F = 1, PROTO_PARTY_M, PROTO_PARTY_I };

struct proto_head {
	uint32_t type; /* enum proto_type */
	uint32_t size; /* of the whole message */
};

struct proto_limits { /* the part of struct engine_limits that monitor and init enforce */
	uint64_t memory_bytes;
	uint64_t workspace_bytes;
	uint64_t tmp_bytes;
	uint32_t cpu_milli;
	uint32_t pids;
	uint32_t workspace_inodes;
	uint32_t nofile;
	uint32_t pids_most; /* the most that `pids` may be raised to later; 0 = `pids` */
	uint32_t pad;
};

/* ---- monitor ---- */

struct proto_mon_hello {
	struct proto_head head;
	uint32_t version;
	uint32_t enforced; /* enum proto_cap bits */
	uint32_t best_effort;
	uint32_t slots;     /* sandboxes at most */
	uint32_t front_uid; /* uid and gid kept for the front; 0 = none (plain user) */
	uint32_t err_code;  /* enum err_code: why it could not start; 0 = it is up */
	int32_t errnum;
	uint32_t levels;                 /* bits: the levels of isolation that can be made here */
	char runtime[PROTO_RUNTIME_MAX]; /* of levels that name none; "" = no daemon makes them */
	char cgroup[16];                 /* "v1", "v2", "none": for people */
	char text[256];                  /* why not */
};

struct proto_mon_create {
	struct proto_head head;
	uint32_t slot;      /* free, < slots; chosen by the front */
	uint32_t warm;      /* 0 or 1 */
	uint32_t egress;    /* 0 or 1: INIT_READY comes with a listening socket */
	uint32_t helper_of; /* slot + 1 of the sandbox that this one helps, 0 = none */
	uint32_t level;     /* of isolation: its index, < PROTO_LEVELS_MAX */
	uint32_t pad;
	struct proto_limits limits;
	char image[PROTO_IMAGE_MAX];
	char persist[PROTO_PERSIST_MAX]; /* key of a stored workspace, "" = none */
};

/* Descriptors: [channel to init, oom counter, peak, CPU time] as `fds` says; on failure none. */
enum { PROTO_CREATED_OOM = 1, PROTO_CREATED_PEAK = 2, PROTO_CREATED_CPU = 4 };
#define PROTO_CREATED_UNCOUNTED 8 /* in no control group; no descriptor */
struct proto_mon_created {
	struct proto_head head;
	uint32_t slot;
	uint32_t fds;  /* PROTO_CREATED_ bits: which descriptors follow the channel */
	uint32_t step; /* enum proto_step; NONE = success */
	int32_t errnum;
	uint64_t image_dev, image_ino; /* of the image's root folder; 0 = it is gone by now */
	uint64_t image_ctime_ns;
};

enum {                        /* MON_DESTROY */
       PROTO_SLOT_UNUSED = 1, /* it was made ahead of need and never used */
       PROTO_SLOT_COUNT = 2,  /* a run is on: MON_GONE must tell the CPU time */
};
struct proto_mon_slot {
	struct proto_head head;
	uint32_t slot;
	uint32_t flags; /* PROTO_SLOT_* */
};

struct proto_mon_gone {
	struct proto_head head;
	uint32_t slot;
	uint32_t pad;
	uint64_t cpu_ns; /* of everything that was ever in it, if PROTO_SLOT_COUNT asked for it or
			  * it ended on its own; 0 = not asked for, or no group counts it */
};

/* Descriptor: init's end of the channel to the new clean interpreter; none = there will not be one. */
struct proto_mon_warmed {
	struct proto_head head;
	uint32_t slot;
	uint32_t soon; /* its zygote is ready, so a run should wait for it */
};

/* The kernel charges what the front writes into workspaces in memory to the front. The limit on all
 * sandboxes together is that much lower. */
struct proto_mon_elsewhere {
	struct proto_head head;
	uint64_t bytes; /* at most the limit; there is one */
};

struct proto_mon_forget {
	struct proto_head head;
	uint32_t seq;
	char persist[PROTO_PERSIST_MAX];
};

struct proto_mon_forgotten {
	struct proto_head head;
	uint32_t seq;
	int32_t errnum; /* 0 = it is gone */
};

/* MON_USAGE of PROTO_SLOT_ALL asks for the memory of all sandboxes together, and nothing else. */
#define PROTO_SLOT_ALL UINT32_MAX
struct proto_mon_used {
	struct proto_head head;
	uint32_t slot;
	uint32_t pids;
	uint64_t memory_bytes;
	uint64_t cpu_ns;
};

/* ---- init ---- */

#define PROTO_EGRESS_PORT 3128 /* ENGINE_EGRESS_PORT */

/* Descriptors that init starts with, beside its channel (0). Except for the lock they are mounts that
 * are not attached anywhere yet. Each may be absent. */
enum {
	PROTO_START_DEV = 2,
	PROTO_START_STORE,    /* a file system with the folders `data` and `venv`, or an empty one;
			    * absent: init makes one in memory */
	PROTO_START_PACKAGES, /* the folder `venv` of another sandbox */
	PROTO_START_LOCK,     /* kept open as long as the sandbox lives */
	PROTO_START_END,
};

/* Descriptors of INIT_CONFIG in this order: lifeline, filter, then as `fds` says. */
enum {
	PROTO_CONFIG_KILL = 1,    /* cgroup.kill of the run leaf */
	PROTO_CONFIG_WARM = 2,    /* channel to the clean interpreter (runtime/frames.h) */
	PROTO_CONFIG_SOON = 4,    /* no descriptor: its zygote is ready, so a run should wait */
	PROTO_CONFIG_FOLDER = 16, /* no descriptor: the stored workspace is a folder without a
				   * limit of its own; init measures it */
	PROTO_CONFIG_EGRESS = 8,  /* no descriptor: make the listening socket */
	PROTO_CONFIG_STORE = 32,  /* contained: the folder for the files of checkpoints */
	PROTO_CONFIG_ZYGOTE =
	    64, /* contained, no descriptor: start an interpreter that forks runs */
	PROTO_CONFIG_STORED = 128, /* no descriptor: the file system outlives the sandbox */
	PROTO_CONFIG_BASE_FDS = 2,
	PROTO_CONFIG_PROCS_MAX = 4, /* one per cgroup hierarchy */
};
struct proto_init_config {
	struct proto_head head;
	struct proto_limits limits;
	uint32_t fds;         /* PROTO_CONFIG_ bits */
	uint32_t n_procs;     /* descriptors of groups to join, by writing "0" */
	uint32_t poll_memory; /* no control group limits memory: init must poll it */
	uint32_t oom_score;   /* of runs */
};

/* Descriptor: with PROTO_CONFIG_EGRESS the listening socket; else a contained init tries it with /dev/null.
 * gVisor passes descriptors into a sandbox and none out of it. */
struct proto_init_ready {
	struct proto_head head;
	uint32_t landlock; /* 1 = runs are restricted by it */
	uint32_t inward;   /* 1 = descriptors pass to init only */
};

struct proto_init_failed {
	struct proto_head head;
	uint32_t step;
	int32_t errnum;
};

/* INIT_REST: has no fields. */
struct proto_init_note {
	struct proto_head head;
};

struct proto_init_cold {
	struct proto_head head;
	uint32_t awaited; /* a run waits for a new one */
	uint32_t pad;
};

/* Descriptor: the channel that MON_WARMED brought, or none. */
struct proto_init_warm {
	struct proto_head head;
	uint32_t soon;
	uint32_t pad;
};

/* May a run be forked? COMING: yes, and it must wait for INIT_WARM. */
enum proto_warm { PROTO_WARM_NO, PROTO_WARM_YES, PROTO_WARM_COMING };

enum proto_run_kind { PROTO_RUN_PYTHON = 1, PROTO_RUN_ARGV, PROTO_RUN_STATEFUL };

enum {
	PROTO_PYTHON_DISPLAY = 1,  /* save figures that are open and unsaved at the end */
	PROTO_PYTHON_NOTEBOOK = 2, /* RT_NOTEBOOK of runtime/frames.h */
};

/* Descriptors: stdout, stderr, args, then as `fds` says: code, result (STATEFUL, and PYTHON with
 * PROTO_PYTHON_NOTEBOOK; ARGV may have it: then it is descriptor 3 of the command), stdin, tail
 * (base/output_tail.h). `args` is a sealed memfd of NUL-terminated strings: working folder, argv
 * (ARGV only), environment. */
enum {
	PROTO_RUN_CODE = 1,
	PROTO_RUN_STDIN = 2,
	PROTO_RUN_RESULT = 4,
	PROTO_RUN_TAIL = 8,
	PROTO_RUN_BASE_FDS = 3,
	PROTO_RUN_MORE_FDS = 4, /* at most, beside those */
};
struct proto_init_run {
	struct proto_head head;
	uint32_t run;  /* serial, never 0 */
	uint32_t kind; /* enum proto_run_kind */
	uint32_t fds;
	uint32_t argc;
	uint32_t envc;
	uint32_t args_size;
	uint32_t warm;     /* enum proto_warm */
	uint32_t python;   /* bits PROTO_PYTHON_*; 0 for commands */
	uint32_t make_cwd; /* make the working folder if it is missing; it is below the workspace */
	uint32_t unused;
	uint64_t timeout_ns; /* 0 = none */
	uint64_t grace_ns;
};

struct proto_init_signal {
	struct proto_head head;
	uint32_t run;
	int32_t signo; /* SIGTERM, SIGINT or SIGKILL */
};

enum proto_end {
	PROTO_END_EXITED = 1, /* value = status */
	PROTO_END_SIGNALED,   /* value = signal */
	PROTO_END_FAILED,     /* the run never started: value = errno */
};
enum { /* flags of INIT_ENDED */
       PROTO_ENDED_TIMEOUT = 1,
       PROTO_ENDED_KILLED = 2, /* INIT_SIGNAL with SIGKILL */
       PROTO_ENDED_OOM = 4,    /* init ended it, because it polls memory (poll_memory) */
       PROTO_ENDED_WARM = 8,
       PROTO_ENDED_LOST = 16,    /* stateful: the variables of earlier runs were gone */
       PROTO_ENDED_THREADS = 32, /* stateful: threads that it left do not continue */
       PROTO_ENDED_KEPT = 64,    /* stateful: its variables are the session's now */
       PROTO_ENDED_NAMED = 128,  /* it wrote its exit status into its process name; its memory is
				  * freed later */
       PROTO_ENDED_DISK = 256,   /* init ended it: the stored folder passed its limit */
       PROTO_ENDED_SPENT =
	   512, /* it was the clean interpreter: the next warm run needs a new one */
};
struct proto_init_ended {
	struct proto_head head;
	uint32_t run;
	uint32_t end;
	int32_t value;
	uint32_t flags;
	uint32_t killed;
	uint32_t pad;
	uint64_t duration_ns;
	uint64_t cpu_ns;
	uint64_t max_rss; /* bytes, of the largest process */
};

enum proto_file_op {
	PROTO_FILE_OPEN = 1, /* answer: a descriptor to read */
	PROTO_FILE_PUT,      /* answer: a descriptor to write */
	PROTO_FILE_COMMIT,
	PROTO_FILE_DROP, /* forget a put */
	PROTO_FILE_REMOVE,
	PROTO_FILE_LIST,    /* answer: a memfd of struct proto_entry */
	PROTO_FILE_MEASURE, /* answer: bytes and inodes of the workspace */
	PROTO_FILE_OP_MAX_,
};
enum { PROTO_FILE_OVERWRITE = 1, PROTO_FILE_RECURSIVE = 2 };
/* Descriptor, if `inward`: OPEN, LIST: an empty file, which init fills instead of sending one; COMMIT: the
 * content. */
struct proto_init_file {
	struct proto_head head;
	uint32_t seq;
	uint32_t op;
	uint32_t flags;
	uint32_t put;              /* COMMIT, DROP: `seq` of the PUT */
	char path[PROTO_PATH_MAX]; /* relative to the workspace, checked; "" = the workspace */
};

enum {
	PROTO_MEASURED_PACKAGES = 1, /* it has packages of its own */
	PROTO_MEASURED_CLOSED = 2,   /* it takes no more data, for want of space on the host */
};
struct proto_init_filed {
	struct proto_head head;
	uint32_t seq;
	int32_t errnum; /* 0 = done */
	uint32_t n;     /* LIST: entries in the memfd */
	uint32_t more;  /* LIST: there were more; MEASURE: bits PROTO_MEASURED_* */
	uint64_t bytes; /* MEASURE; OPEN, if `inward` */
	uint64_t inodes;
	int64_t mtime_ns; /* OPEN, if `inward` */
};

struct proto_entry {
	uint64_t size;
	int64_t mtime_ns;
	int64_t ctime_ns;
	uint64_t inode;
	uint32_t mode;
	uint32_t pad;
	char name[PROTO_NAME_MAX];
};

enum proto_checkpoint_op {
	PROTO_CHECKPOINT_SAVE = 1, /* into a free place */
	PROTO_CHECKPOINT_RESTORE,
	PROTO_CHECKPOINT_DROP,
	PROTO_CHECKPOINT_OP_MAX_,
};
enum { PROTO_CHECKPOINT_FILES_ONLY = 1 }; /* RESTORE: the session starts anew */
/* One at a time, and none during a run (EBUSY). */
struct proto_init_checkpoint {
	struct proto_head head;
	uint32_t seq;
	uint32_t op;    /* enum proto_checkpoint_op */
	uint32_t place; /* < PROTO_CHECKPOINTS_MAX */
	uint32_t flags;
};

enum {
	PROTO_CHECKPOINT_KEPT = 1, /* it holds an interpreter's variables */
	PROTO_CHECKPOINT_LOST =
	    2, /* SAVE: the session's state was gone, which nobody had been told */
	PROTO_CHECKPOINT_PARTIAL =
	    4, /* RESTORE failed half way: the files are neither the old nor the
				  * kept ones */
};
/* errnum: ESTALE = the interpreter of that checkpoint has ended; ENOENT = there is no checkpoint;
 * ESRCH = the copying process was killed (by the kernel for lack of memory if the group counted an
 * oom_kill, else by somebody); EINTR = another signal ended it */
struct proto_init_checkpointed {
	struct proto_head head;
	uint32_t seq;
	int32_t errnum; /* 0 = done */
	uint32_t flags;
	uint32_t skipped; /* files that cannot be copied: sockets, devices */
	uint64_t files;
	uint64_t bytes;
};

/* Other limits for a sandbox that lives. Either all of them are changed or none. */
enum {
	PROTO_LIMIT_MEMORY = 1,
	PROTO_LIMIT_CPU = 2,
	PROTO_LIMIT_PIDS = 4,
	PROTO_LIMIT_ALL = 7,
};
struct proto_mon_limit {
	struct proto_head head;
	uint32_t slot;
	uint32_t what; /* PROTO_LIMIT_ bits, not 0: the members that are changed */
	uint64_t memory_bytes;
	uint32_t cpu_milli;
	uint32_t pids;
};

/* errnum: EBUSY = the sandbox uses more memory than that; ENOTSUP = this limit cannot be changed here;
 * ESRCH = the sandbox does not live */
struct proto_mon_limited {
	struct proto_head head;
	uint32_t slot;
	int32_t errnum; /* 0 = done */
	uint32_t what;  /* the PROTO_LIMIT_ bit that failed */
	uint32_t pad;
	uint64_t memory_bytes; /* EBUSY: in use */
};

/* Has no answer. */
struct proto_init_limit {
	struct proto_head head;
	uint64_t memory_bytes;
	uint32_t pids;
	uint32_t pad;
};

#define PROTO_FRAME_MAX sizeof(struct proto_init_file) /* the largest */

/* A message buffer: aligned for every struct above. */
union proto_frame {
	struct proto_head head;
	struct proto_mon_hello hello;
	struct proto_mon_create create;
	struct proto_mon_created created;
	struct proto_mon_slot slot;
	struct proto_mon_gone gone;
	struct proto_mon_used used;
	struct proto_mon_elsewhere elsewhere;
	struct proto_mon_forget forget;
	struct proto_mon_forgotten forgotten;
	struct proto_mon_warmed warmed;
	struct proto_mon_limit limit;
	struct proto_mon_limited limited;
	struct proto_init_config config;
	struct proto_init_ready ready;
	struct proto_init_failed failed;
	struct proto_init_note note;
	struct proto_init_cold cold;
	struct proto_init_warm warm;
	struct proto_init_run run;
	struct proto_init_signal signal;
	struct proto_init_ended ended;
	struct proto_init_file file;
	struct proto_init_filed filed;
	struct proto_init_checkpoint checkpoint;
	struct proto_init_checkpointed checkpointed;
	struct proto_init_limit init_limit;
};

/* 0, or -1 when the N bytes and N_FDS descriptors are not a message from FROM to TO. */
static inline int proto_check(const union proto_frame *f, size_t n, size_t n_fds,
			      enum proto_party from, enum proto_party to)
{
	static const struct {
		uint8_t from, to, fds;
		uint32_t size;
	} rows[PROTO_TYPE_MAX_] = {
#define M(name, source, target, type, n_most, what)                                                \
	[PROTO_##name] = {PROTO_PARTY_##source, PROTO_PARTY_##target, n_most, sizeof(struct type)},
#include "engine/inside/messages.tbl.h"
#undef M
	};

	if (n < sizeof(f->head) || f->head.type == PROTO_NONE || f->head.type >= PROTO_TYPE_MAX_)
		return -1;
	if (rows[f->head.type].from != from || rows[f->head.type].to != to)
		return -1;
	if (f->head.size != n || rows[f->head.type].size != n || n_fds > rows[f->head.type].fds)
		return -1;
	return 0;
}

#define PROTO_HEAD(name, type_)                                                                    \
	((struct proto_head){.type = PROTO_##name, .size = sizeof(struct type_)})

/* Whether every limit is inside its bounds. */
static inline bool proto_limits_ok(const struct proto_limits *l)
{
	return l->memory_bytes >= PROTO_MEMORY_MIN && l->memory_bytes <= PROTO_MEMORY_MAX &&
	       l->workspace_bytes >= PROTO_DISK_MIN && l->workspace_bytes <= PROTO_DISK_MAX &&
	       l->tmp_bytes >= PROTO_DISK_MIN && l->tmp_bytes <= PROTO_DISK_MAX &&
	       l->cpu_milli >= PROTO_CPU_MIN && l->cpu_milli <= PROTO_CPU_MAX &&
	       l->pids >= PROTO_PIDS_MIN && l->pids <= PROTO_PIDS_MAX &&
	       (l->pids_most == 0 || (l->pids_most >= l->pids && l->pids_most <= PROTO_PIDS_MAX)) &&
	       l->workspace_inodes >= PROTO_INODES_MIN && l->workspace_inodes <= PROTO_INODES_MAX &&
	       l->nofile >= PROTO_NOFILE_MIN && l->nofile <= PROTO_NOFILE_MAX;
}

/* Whether a change names at least one limit, and each that it names is inside its bounds. */
static inline bool proto_limit_ok(const struct proto_mon_limit *m)
{
	return m->what != 0 && (m->what & ~(uint32_t)PROTO_LIMIT_ALL) == 0 &&
	       (!(m->what & PROTO_LIMIT_MEMORY) ||
		(m->memory_bytes >= PROTO_MEMORY_MIN && m->memory_bytes <= PROTO_MEMORY_MAX)) &&
	       (!(m->what & PROTO_LIMIT_CPU) ||
		(m->cpu_milli >= PROTO_CPU_MIN && m->cpu_milli <= PROTO_CPU_MAX)) &&
	       (!(m->what & PROTO_LIMIT_PIDS) ||
		(m->pids >= PROTO_PIDS_MIN && m->pids <= PROTO_PIDS_MAX));
}

/* Memory may be lowered to BYTES if that leaves some room above the USED bytes: a sandbox at its very limit
 * would lose a process with the next page. */
static inline bool proto_memory_fits(uint64_t used, uint64_t bytes)
{
	return used <= bytes - bytes / 16;
}

/* The monitor closes the disks of sessions when the host has no more space: all free blocks are reserved then
 * (monitor/workspace_space.c). In a disk that is only full few are left, and reserved by ext4 itself. */
static inline bool proto_disk_is_closed(uint64_t blocks, uint64_t free, uint64_t available)
{
	return available == 0 && free > blocks / 16;
}

/* Limits that limit nothing, in builds for tests of the tests alone (base/walls.h). */
static inline void proto_leave_out_walls(struct proto_limits *l)
{
	if (!wall_stands(WALL_MEMORY))
		l->memory_bytes *= 8;
	if (!wall_stands(WALL_PIDS)) {
		l->pids *= 8;
		l->pids_most *= 8;
	}
	if (!wall_stands(WALL_NOFILE))
		l->nofile = 20000;
	if (!wall_stands(WALL_DISK)) {
		l->workspace_bytes *= 16;
		l->workspace_inodes *= 1024;
		l->tmp_bytes *= 64;
	}
}

/* Whether PATH is inside the workspace: relative, at most PROTO_PATH_MAX bytes with its NUL, no empty,
 * `.` or `..` part, every part at most 255 bytes. "" only if EMPTY_OK. */
static inline bool proto_path_ok(const char path[PROTO_PATH_MAX], bool empty_ok)
{
	size_t part = 0;
	size_t i = 0;

	if (path[0] == '\0')
		return empty_ok;
	for (; i < PROTO_PATH_MAX; i++) {
		if (path[i] != '/' && path[i] != '\0') {
			part++;
			continue;
		}
		if (part == 0 || part > PROTO_NAME_MAX - 1)
			return false;
		if (path[i - 1] == '.' && (part == 1 || (part == 2 && path[i - 2] == '.')) &&
		    wall_stands(WALL_PATH))
			return false;
		if (path[i] == '\0')
			return true;
		part = 0;
	}
	return false;
}
