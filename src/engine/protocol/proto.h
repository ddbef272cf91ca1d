/* SPDX-License-Identifier: Apache-2.0 */
/* The fixed-size messages between front, maker (monitor or keeper) and init, over SOCK_SEQPACKET sockets. INIT_...
 * messages go to and from init, MON_... messages to and from a maker; which maker serves which request is a column of
 * messages.tbl.h.
 *
 * One message = one packet = one struct that starts with struct proto_head. Both ends come from one
 * build, so byte order and layout are those of the machine. A receiver checks type, length,
 * direction and the number of descriptors with proto_check(), then every field. A message that fails
 * a check ends the connection.
 *
 * Trust: a maker trusts nobody. init trusts only the first message, INIT_CONFIG. The front
 * trusts its maker, but not init.
 *
 * Front, makers and the static init all include this header, so it uses no code of base and
 * allocates nothing. */
#pragma once

#include "engine/protocol/proto_files.h"
#include "engine/protocol/proto_head.h"
#include "engine/protocol/proto_mon.h"

#include <string.h>
#include <sys/resource.h>

/* ---- init ---- */

#define PROTO_EGRESS_PORT 3128 /* ENGINE_EGRESS_PORT */

/* Descriptors that init starts with, beside its channel (0). Except for the lock they are mounts that
 * are not attached anywhere yet. Each may be absent. */
enum {
	PROTO_START_DEV = 2,
	PROTO_START_STORE,    /* a file system with the folders `data` and `venv`, or an empty one;
			    * absent: init makes one in memory */
	PROTO_START_PACKAGES, /* the folder `venv` of another sandbox */
	PROTO_START_IMAGE,    /* the image with the ids of this sandbox; of one with a root user */
	PROTO_START_LOCK,     /* kept open as long as the sandbox lives */
	PROTO_START_END,
};

/* Descriptors of INIT_CONFIG in this order: liveness pipe, filter, then as `fds` says. */
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
	PROTO_CONFIG_ROOT = 256,   /* no descriptor: there is a root user */
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

/* Has no answer. No run of that context is on or waits. */
struct proto_init_forget {
	struct proto_head head;
	uint32_t context; /* < PROTO_CONTEXTS_MAX */
	uint32_t pad;
};

/* Has no answer. Who listens there already keeps the port. */
struct proto_init_health {
	struct proto_head head;
	uint32_t port; /* 1 to 65535 */
	uint32_t pad;
};

/* INIT_REST, INIT_KEEP, INIT_STORE: have no fields. */
struct proto_init_note {
	struct proto_head head;
};

struct proto_init_stored {
	struct proto_head head;
	int32_t errnum; /* ENOTSUP: the sandbox has no place for them; EBUSY: a run is on */
	uint32_t pad;
};

struct proto_init_cold {
	struct proto_head head;
	uint32_t awaited; /* a run waits for a new one */
	uint32_t pad;
};

struct proto_init_zygote {
	struct proto_head head;
	char said[PROTO_SAID_MAX]; /* as of struct proto_mon_zygote */
};

/* Descriptor: the channel that MON_WARMED brought, or none. */
struct proto_init_warm {
	struct proto_head head;
	uint32_t soon;
	uint32_t pad;
};

/* May a run be forked? COMING: yes, and it must wait for INIT_WARM. */
enum proto_warm { PROTO_WARM_NO, PROTO_WARM_YES, PROTO_WARM_COMING };

/* BACKGROUND: a command, or Python with PROTO_RUN_CODE, that begins and ends beside runs. Its number is of the same series, and INIT_SIGNAL and
 * INIT_ENDED are for it as well. */
enum proto_run_kind {
	PROTO_RUN_PYTHON = 1,
	PROTO_RUN_ARGV,
	PROTO_RUN_STATEFUL,
	PROTO_RUN_BACKGROUND,
};
#define PROTO_CONTEXTS_MAX   8    /* sessions of a sandbox; ENGINE_CONTEXTS_MAX */
#define PROTO_TERMINAL_MAX   1000 /* rows, and columns, of a terminal */
#define PROTO_BACKGROUND_MAX 32   /* of a sandbox at a time; EAGAIN beyond */

enum {
	PROTO_PYTHON_DISPLAY = 1,  /* save figures that are open and unsaved at the end */
	PROTO_PYTHON_NOTEBOOK = 2, /* RT_NOTEBOOK of runtime/frames.h */
	PROTO_PYTHON_ERRORS = 4,   /* RT_ERRORS, for PROTO_RUN_STATEFUL */
};

/* Descriptors: stdout, stderr, args, then as `fds` says: code, result (STATEFUL, and Python with
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
	uint32_t restarts; /* STATEFUL: end the session first */
	uint32_t context;  /* STATEFUL: whose session; 0 = the default one; < PROTO_CONTEXTS_MAX */
	uint32_t
	    root; /* a command: by the root user; 0 or 1, and 0 where there is none (PROTO_CONFIG_ROOT) */
	uint32_t rows; /* BACKGROUND: of its terminal, then stdin is there; 0 = it has none */
	uint32_t columns;
	uint64_t timeout_ns; /* 0 = none */
	uint64_t grace_ns;
};

struct proto_init_signal {
	struct proto_head head;
	uint32_t run;
	int32_t
	    signo; /* SIGTERM, SIGINT or SIGKILL; for a background process any below PROTO_SIGNAL_END_ */
	/* Not 0: no signal (signo is 0), but another size of its terminal, whose programs get SIGWINCH. */
	uint32_t rows, columns;
};

#define PROTO_SIGNAL_MAX 31
/* No signals: all processes of a background process are stopped, or go on. Its deadline waits meanwhile. */
enum { PROTO_SIGNAL_FREEZE = PROTO_SIGNAL_MAX + 1, PROTO_SIGNAL_THAW, PROTO_SIGNAL_END_ };
enum proto_end {
	PROTO_END_EXITED = 1, /* value = status */
	PROTO_END_SIGNALED,   /* value = signal */
	PROTO_END_FAILED,     /* the run never started: value = errno */
};
enum { /* flags of INIT_ENDED */
       PROTO_ENDED_TIMEOUT = 1,
       PROTO_ENDED_KILLED = 2, /* INIT_SIGNAL with SIGKILL, or SIGTERM for a stateful run */
       PROTO_ENDED_OOM = 4,    /* init ended it, because it polls memory (poll_memory) */
       PROTO_ENDED_WARM = 8,
       PROTO_ENDED_LOST = 16,   /* stateful: the variables of earlier runs were gone */
       PROTO_ENDED_RESTS = 32,  /* stateful: threads of it wait for the next */
       PROTO_ENDED_KEPT = 64,   /* stateful: its variables are the session's now */
       PROTO_ENDED_NAMED = 128, /* it wrote its exit status into its process name; its memory is
				  * freed later */
       PROTO_ENDED_DISK = 256,  /* init ended it: the stored folder passed its limit */
       PROTO_ENDED_SPENT =
	   512, /* it was the clean interpreter: the next warm run needs a new one */
       PROTO_ENDED_BEHIND =
	   2048, /* stateful: before it began, the variables went back to those before the
				     * last run: the session process died between runs */
       PROTO_ENDED_CARRIED = 1024, /* stateful: the variables are in another interpreter now */
       PROTO_ENDED_RESTED =
	   4096, /* stateful: before it began they were read from the disk, and some were not there */
};
/* What a session has besides variables and files; no backup has it. */
enum {
	PROTO_KIND_THREADS = 1, /* of the program itself, not those of libraries */
	PROTO_KIND_PROCESSES = 2,
	PROTO_KIND_CONNECTIONS = 4, /* sockets of the network, and databases */
	PROTO_KIND_ALL = 7,
};
#define PROTO_GONE_MAX 152
enum proto_lost { /* why no process took the place of a session process that died */
		  PROTO_LOST_ALONE, /* it had no backup */
		  PROTO_LOST_CRASHED,
		  PROTO_LOST_SILENT,
		  PROTO_LOST_RESTED, /* what the disk had of it could not be written, or not be read */
		  PROTO_LOST_END_,
};
struct proto_init_ended {
	struct proto_head head;
	uint32_t run;
	uint32_t end;
	int32_t value;
	uint32_t flags;
	uint32_t killed;
	uint32_t cell; /* stateful, KEPT: its number in the session */
	uint64_t duration_ns;
	uint64_t cpu_ns;
	uint64_t max_rss; /* bytes, of the largest process */
	/* CARRIED, RESTED: names that are there, and that are not; the first of those, "con, pool", as a process of the
	 * sandbox wrote them. */
	uint32_t names_kept, names_gone;
	uint32_t lost;  /* LOST: enum proto_lost */
	uint32_t kinds; /* stateful: what ended with its session process. PROTO_KIND_* */
	char gone[PROTO_GONE_MAX];
};

/* Watches of folders and of ports. START and NEXT get one INIT_CHANGED each; STOP gets the one that says ENDED. A number
 * that init does not know any more gets none: that watch has ended, and init has said so. So init never says more than
 * it was asked for, and what the front has not asked for yet is gathered in the sandbox. */
#define PROTO_WATCHES_MAX 8 /* of one sandbox, of each kind; EAGAIN beyond */
#define PROTO_CHANGED_BYTES                                                                        \
	8192                  /* holds one change with the longest path, or PROTO_PORTS_MAX ports */
#define PROTO_CHANGES_MAX 512 /* in one message */
enum proto_watch_op {
	PROTO_WATCH_START = 1, /* ENOTDIR: it is no folder */
	PROTO_WATCH_NEXT,
	PROTO_WATCH_STOP,
	PROTO_WATCH_OP_MAX_,
};
enum { PROTO_WATCH_RECURSIVE = 1, PROTO_WATCH_PORTS = 2, PROTO_WATCH_FLAGS = 3 };
struct proto_init_watch {
	struct proto_head head;
	uint32_t watch; /* serial, never 0 */
	uint32_t op;
	uint32_t flags; /* START */
	uint32_t pad;
	char path[PROTO_PATH_MAX]; /* START: a folder, as in struct proto_init_file; of PORTS "" */
};

enum proto_change {
	PROTO_CHANGE_CREATE = 1, /* the name is new, or a run has put another file there */
	PROTO_CHANGE_WRITE,      /* the content has changed, also by an upload in its place */
	PROTO_CHANGE_REMOVE,
	PROTO_CHANGE_RENAME, /* the name has gone; the file has another one */
	PROTO_CHANGE_CHMOD,  /* mode, owner, times or extended attributes */
	PROTO_CHANGE_MAX_,
};
#define PROTO_CHANGE_FOLDER 0x80u /* beside the kind */
enum {
	PROTO_CHANGED_OVERFLOW =
	    1, /* some were not noted, so what was known of the folder may be wrong */
	PROTO_CHANGED_PARTIAL = 2, /* folders: not every one below it is watched; said once.
				    * Ports: there are more than PROTO_PORTS_MAX now */
	PROTO_CHANGED_ENDED = 4,   /* nothing more comes; errnum is 0 after a STOP, else why */
	PROTO_CHANGED_FLAGS = 7,
};
/* `data`: of folders, N times the kind in one byte and the path, from the workspace on, with its NUL; of ports, all that
 * there are now, N times struct proto_port, smallest first, also in the answer to START. */
struct proto_init_changed {
	struct proto_head head;
	uint32_t watch;
	int32_t errnum; /* of a START that failed: it is ENDED, too */
	uint32_t flags;
	uint32_t n;
	uint32_t bytes; /* of data */
	uint32_t pad;
	char data[PROTO_CHANGED_BYTES];
};

enum proto_checkpoint_op {
	PROTO_CHECKPOINT_SAVE = 1, /* into a free place */
	PROTO_CHECKPOINT_RESTORE,
	PROTO_CHECKPOINT_DROP,
	/* No checkpoint, but made by the same process: what the root user has changed is written, as the layer of a
	 * container image, to the pipe that comes with it. PLACE is 0. EINVAL: there is no root user. */
	PROTO_CHECKPOINT_LAYER,
	PROTO_CHECKPOINT_OP_MAX_,
};
/* Of a RESTORE; at most one of them. */
enum {
	PROTO_CHECKPOINT_FILES_ONLY =
	    1, /* RESTORE: the session starts anew; SAVE: it has no variables */
	/* The session is set aside, stopped with all its processes. The files stay: nothing has changed them since
	 * the SAVE. */
	PROTO_CHECKPOINT_PARK = 2,
	PROTO_CHECKPOINT_RETURN =
	    4, /* what was set aside comes back; if it has died, as without this flag */
};
#define PROTO_CHECKPOINT_RESTORE_FLAGS                                                             \
	((uint32_t)(PROTO_CHECKPOINT_FILES_ONLY | PROTO_CHECKPOINT_PARK | PROTO_CHECKPOINT_RETURN))
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
	uint32_t
	    kinds; /* SAVE: what the session has and the checkpoint has not; RESTORE: what ended with the
			   * session that was there before. PROTO_KIND_* */
	uint32_t pad;
	uint64_t files;
	uint64_t bytes;
};

/* Has no answer. */
struct proto_init_limit {
	struct proto_head head;
	uint64_t memory_bytes;
	uint32_t pids;
	uint32_t pad;
};

#define PROTO_FRAME_MAX sizeof(struct proto_init_changed) /* the largest */

/* A message buffer: aligned for every struct above. */
union proto_frame {
	struct proto_head head;
	struct proto_mon_hello hello;
	struct proto_mon_create create;
	struct proto_mon_created created;
	struct proto_mon_slot slot;
	struct proto_mon_gone gone;
	struct proto_mon_used used;
	struct proto_mon_charged charged;
	struct proto_mon_forget forget;
	struct proto_mon_forgotten forgotten;
	struct proto_mon_keep keep;
	struct proto_mon_kept kept;
	struct proto_mon_warmed warmed;
	struct proto_mon_disk disk;
	struct proto_mon_disk_had disk_had;
	struct proto_mon_limit limit;
	struct proto_mon_limited limited;
	struct proto_mon_unsupported unsupported;
	struct proto_mon_space space;
	struct proto_mon_zygote zygote;
	struct proto_mon_ration ration;
	struct proto_init_config config;
	struct proto_init_ready ready;
	struct proto_init_failed failed;
	struct proto_init_note note;
	struct proto_init_stored stored;
	struct proto_init_cold cold;
	struct proto_init_zygote own_zygote;
	struct proto_init_warm warm;
	struct proto_init_run run;
	struct proto_init_signal signal;
	struct proto_init_ended ended;
	struct proto_init_file file;
	struct proto_init_move move;
	struct proto_init_set set;
	struct proto_init_filed filed;
	struct proto_init_checkpoint checkpoint;
	struct proto_init_checkpointed checkpointed;
	struct proto_init_limit init_limit;
	struct proto_init_forget forget_context;
	struct proto_init_health health;
	struct proto_init_watch watch;
	struct proto_init_changed changed;
};

/* 0, or -1 when the N bytes and N_FDS descriptors are not a message from FROM to TO. */
static inline int proto_check(const union proto_frame *f, size_t n, size_t n_fds,
			      enum proto_party from, enum proto_party to)
{
	static const struct {
		uint8_t from, to, fds;
		uint32_t size;
	} rows[PROTO_TYPE_MAX_] = {
#define M(name, source, target, type, n_most, served, what)                                        \
	[PROTO_##name] = {PROTO_PARTY_##source, PROTO_PARTY_##target, n_most, sizeof(struct type)},
#include "engine/protocol/messages.tbl.h"
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

/* A key becomes a part of a path in the state folder: [a-z0-9-]{1,64}, and the first character is no dash, so that no
 * program takes the key for an option. */
static inline bool proto_key_ok(const char *key)
{
	const size_t len = strnlen(key, PROTO_PERSIST_MAX);

	return len > 0 && len < PROTO_PERSIST_MAX && key[0] != '-' &&
	       strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

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

/* How much of a file system of BYTES on the host is kept for others than sandboxes: a sixteenth, within bounds. */
static inline uint64_t proto_disk_reserve(uint64_t bytes)
{
	const uint64_t least = UINT64_C(64) << 20;
	const uint64_t most = UINT64_C(2) << 30;
	const uint64_t part = bytes / 16;

	return part < least ? least : part > most ? most : part;
}

/* An errno of init's answers about files: not the workspace is full, but the disk of the host. */
#define PROTO_E_HOST_FULL ENOSR

/* What the host cannot give to a disk belongs to this file of the disk (monitor/workspace_ballast.h). */
#define PROTO_BALLAST_FOLDER "lost+found"
#define PROTO_BALLAST_FILE   "ballast"

/* The monitor closes disks when the host has no more space: all free blocks are reserved then
 * (monitor/workspace_space.h). In a disk that is only full few are left, and reserved by ext4 itself. */
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
	if (!wall_stands(
		WALL_NOFILE)) { /* no process can be given more than the one that makes it has */
		struct rlimit own = {0};

		(void)getrlimit(RLIMIT_NOFILE, &own);
		l->nofile = (uint32_t)(own.rlim_max < 200000 ? own.rlim_max : 200000);
	}
	if (!wall_stands(WALL_DISK)) {
		l->workspace_bytes *= 16;
		l->workspace_inodes *= 1024;
		l->tmp_bytes *= 64;
	}
}

/* Whether PATH names a file of the sandbox: from the workspace on, or, with a slash at its beginning, from the root on. It
 * has at most PROTO_PATH_MAX bytes with its NUL, no empty, `.` or `..` part, and every part has at most 255 bytes. "" and
 * "/" only if EMPTY_OK. */
static inline bool proto_path_ok(const char path[PROTO_PATH_MAX], bool empty_ok)
{
	const size_t begin = path[0] == '/';
	size_t part = 0;
	size_t i = begin;

	if (path[begin] == '\0')
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
