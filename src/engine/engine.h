/* SPDX-License-Identifier: Apache-2.0 */
/* The engine interface: what makes sandboxes and runs code in them.
 *
 * One engine object lives in the front, on its sd-event loop; every call is made and answered on
 * that loop, none blocks. A call that takes a completion callback calls it exactly once, never
 * before the call itself has returned, also when the engine is closed meanwhile (ERR_CANCELLED).
 * Handles stay valid until their own end call's completion; ids are never reused in one process.
 *
 * Everything that comes out of a sandbox (bytes, names, sizes, statuses) is hostile. The engine
 * checks the frames; the meaning is the caller's to distrust.
 *
 * Ownership: strings and arrays passed in are borrowed for the duration of the call; descriptors
 * passed in are duplicated or taken as each call says; descriptors given to a callback are owned
 * by the callback. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct engine;         /* an open engine */
struct engine_sandbox; /* one sandbox of an engine */
struct engine_run;     /* one run in a sandbox, until its completion was called */

#define ENGINE_NAME_MAX    64 /* image names: [a-z0-9][a-z0-9._-]{0,62} */
#define ENGINE_PATH_MAX    4096
#define ENGINE_FILES_MAX   10000 /* entries of one listing */
#define ENGINE_POINTS_MAX  10    /* places for kept states in one sandbox */
#define ENGINE_EGRESS_PORT 3128  /* inside a sandbox with egress */

/* What an engine can enforce on this host. The manager matches a policy against it before
 * anything starts; a limit that was set explicitly and is missing here is refused. */
enum engine_cap {
	ENGINE_CAP_MEMORY = 1 << 0,     /* memory and swap of the whole sandbox */
	ENGINE_CAP_CPU = 1 << 1,        /* share of CPU time */
	ENGINE_CAP_PIDS = 1 << 2,       /* processes and threads */
	ENGINE_CAP_DISK = 1 << 3,       /* bytes and inodes of the workspace */
	ENGINE_CAP_OWN_UID = 1 << 4,    /* each sandbox has a host uid of its own */
	ENGINE_CAP_PERSISTENT = 1 << 5, /* workspaces that survive */
	ENGINE_CAP_WARM = 1 << 6,       /* forked interpreters */
	ENGINE_CAP_FREEZE = 1 << 7,
	ENGINE_CAP_BRANCH = 1 << 8, /* kept states: save_point() and its like */
};

struct engine_limits {
	uint64_t memory_bytes; /* swap included; page cache and workspace of the sandbox count */
	uint32_t cpu_milli;    /* 1000 = one core */
	uint32_t pids;         /* processes and threads, those of the engine itself excluded */
	uint64_t workspace_bytes;
	uint32_t workspace_inodes;
	uint64_t tmp_bytes;
	uint32_t nofile;        /* RLIMIT_NOFILE of a run */
	uint32_t explicit_mask; /* enum engine_cap bits whose limit somebody set explicitly */
};

struct engine_create {
	char image[ENGINE_NAME_MAX];
	struct engine_limits limits;
	bool warm; /* use a forked interpreter where possible; false = plain start */
	/* Inside, 127.0.0.1:ENGINE_EGRESS_PORT is a listening socket that belongs to the front:
	 * engine_ops.take_egress() gives it out, once. There is no other way out of a sandbox. */
	bool egress;
	/* NULL = an ephemeral workspace; else the key ([a-z0-9-]{1,64}) of a stored one, made when
	 * there is none and active in one engine at a time (ERR_SANDBOX_IN_USE). */
	const char *persist_id;
	/* NULL, or: a helper of this sandbox, ended before it. It has the same uid and the same
	 * /app/.venv, an empty workspace of its own, and is never from a pool. */
	struct engine_sandbox *helper_of;
};

struct engine_policy { /* what is in force for one sandbox; also shown to clients */
	struct engine_limits limits;
	uint32_t enforced;    /* enum engine_cap bits that hold hard */
	uint32_t best_effort; /* bits that are only rlimits or polling here */
	/* Tells its image from every other that has or had the name; 0 = not known. */
	uint64_t image_id[3];
};

enum engine_run_kind {
	ENGINE_RUN_PYTHON,   /* `code` is Python source, run as __main__ */
	ENGINE_RUN_ARGV,     /* a command: argv[0] is looked up on PATH */
	ENGINE_RUN_STATEFUL, /* Python in the sandbox's live session */
};

enum engine_stream {
	ENGINE_STDOUT = 1,
	ENGINE_STDERR = 2,
	ENGINE_RESULT = 3, /* stateful: text of the last expression's value; `report`: what was
			    * reported. Whole, after the rest */
};

enum engine_end {
	ENGINE_END_EXITED,
	ENGINE_END_SIGNALED,
	ENGINE_END_TIMEOUT,
	ENGINE_END_OOM,
	ENGINE_END_OUTPUT, /* a stream passed output_kill */
	ENGINE_END_DISK,   /* the workspace passed its limit, where no file system holds it */
	ENGINE_END_KILLED, /* by engine_signal(SIGKILL) or because the sandbox was destroyed */
	ENGINE_END_LOST,   /* the sandbox itself is gone */
};

struct engine_run_result {
	enum engine_end end;
	int exit_code;        /* as a shell counts: status, or 128 + signal */
	int signal;           /* 0 unless signaled */
	bool warm;            /* the interpreter was forked, not started */
	bool named_end;       /* its end was told before its memory was freed */
	bool state_lost;      /* stateful: the session's state is gone (the holder died) */
	bool state_kept;      /* stateful: its code has returned (also with an exception), so what
			       * it did is the session's state now */
	bool threads_lost;    /* stateful: it left threads, which will not go on */
	uint64_t duration_ns; /* from the start of the code to the end of its first process */
	/* User + system of the first process, the children that it waited for, and whatever was
	 * left to init. Of a run that ended with its sandbox (destroyed under it, or lost), so that
	 * ending one early is never the cheaper way: all that the kernel counted in the sandbox
	 * until nothing of it was left, less what was told of its earlier runs; where no group
	 * counts, the most it can have used, which is its time by the clock on as many cores as its
	 * limit allows. */
	uint64_t cpu_ns;
	uint64_t peak_bytes;      /* 0 when unknown */
	uint32_t killed;          /* processes that the run left behind and that were killed */
	uint64_t output_total[3]; /* bytes written per stream, delivered or not */
};

struct engine_run_spec {
	enum engine_run_kind kind;
	const char *code; /* PYTHON, STATEFUL: UTF-8 source */
	size_t code_len;
	const char *const *argv; /* ARGV: NULL-terminated */
	const char *const *env;  /* extra NAME=VALUE, NULL-terminated, may be NULL */
	const char *cwd;         /* inside; NULL = /mnt/data */
	bool report;             /* ARGV: descriptor 3 of the command is a file of the sandbox's,
				  * whose bytes (256 KiB at most) come at the end as
				  * ENGINE_RESULT */
	bool display;            /* Python: figures that are open and unsaved when the code has
				  * returned become figure-N.png in the workspace */
	int stdin_fd;            /* duplicated; -1 = /dev/null */
	uint64_t timeout_ns;     /* TERM to the group then; 0 = none */
	uint64_t grace_ns;       /* from TERM to KILL of everything */
	uint64_t output_max[3];  /* per stream (index enum engine_stream): bytes delivered;
				  * more is drained and counted, never delivered; 0 = all */
	uint64_t output_kill;    /* a stream that passes it ends the run; 0 = never */
	/* A piece of output, in order per stream. LEN > 0. May call engine_signal(). */
	void (*on_output)(struct engine_run *r, enum engine_stream s, const void *data, size_t len,
			  void *user);
	/* The end, after the last on_output. R is invalid afterwards. E is NULL on success;
	 * otherwise the run could not be carried out (and RES is NULL). */
	void (*on_done)(struct engine_run *r, const struct engine_run_result *res,
			const struct err *e, void *user);
	void *user;
};

struct engine_file {    /* one entry of a listing */
	char name[256]; /* bytes, NUL-terminated, one component (or relative path when recursive) */
	uint64_t size;
	int64_t mtime_ns;
	int64_t ctime_ns;
	uint64_t inode;
	mode_t mode;
};

struct engine_usage {
	uint64_t memory_bytes, cpu_ns, workspace_bytes, workspace_inodes;
	uint32_t pids;
};

/* What a kept state holds, or what was gone back to. */
struct engine_point {
	bool state_kept; /* an interpreter's variables; false = files alone, the session is fresh */
	bool state_lost; /* save: the variables were gone already, and nobody had been told */
	uint64_t files;  /* regular files copied */
	uint64_t bytes;  /* of their data */
	uint32_t skipped; /* what cannot be copied: sockets, devices */
};

typedef void (*engine_done_fn)(const struct err *e, void *user); /* E NULL = success */
typedef void (*engine_create_fn)(struct engine_sandbox *s, const struct engine_policy *policy,
				 const struct err *e, void *user);
typedef void (*engine_fd_fn)(int fd, const struct err *e, void *user);
typedef void (*engine_list_fn)(const struct engine_file *files, size_t n, bool more,
			       const struct err *e, void *user);
typedef void (*engine_usage_fn)(const struct engine_usage *u, const struct err *e, void *user);
/* P is valid during the call, NULL with E. */
typedef void (*engine_point_fn)(const struct engine_point *p, const struct err *e, void *user);
typedef void (*engine_lost_fn)(struct engine_sandbox *s, const char *why, void *user);

/* Every engine fills this table; NULL entries answer ERR_ENGINE_NOT_BUILT_IN. */
/* Sandboxes made ahead of need. */
struct engine_pool {
	uint32_t ready;       /* wait now */
	uint64_t claimed;     /* creations that took one */
	uint64_t cold;        /* creations that could have, and found none */
	uint64_t fill_failed; /* that could not be made, or ended soon after */
};

struct engine_ops {
	const char *name;
	/* What this host allows; cheap, no side effects. `caps` = enum engine_cap bits. */
	uint32_t (*caps)(struct engine *g);
	/* Sandboxes like this one will be asked for: whatever makes that quicker may be done in the
	 * background. NULL = nothing to do. */
	void (*prepare)(struct engine *g, const struct engine_create *c);
	/* Makes a sandbox; the callback gets the handle. Warm pools hide behind this. */
	int (*create)(struct engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user, struct err *e);
	/* Kills everything in it and removes it. A run in flight ends with ENGINE_END_KILLED first
	 * (ENGINE_END_LOST where the sandbox was lost before, and nobody has been told yet). */
	void (*destroy)(struct engine_sandbox *s, engine_done_fn cb, void *user);
	/* Called when a sandbox ends on its own, after the end of its run; destroy() must still be
	 * called. */
	void (*on_lost)(struct engine_sandbox *s, engine_lost_fn cb, void *user);
	/* The listening socket of a sandbox that was created with `egress`, given once; else -1. */
	int (*take_egress)(struct engine_sandbox *s);
	/* Ends a stored workspace that no engine has active: its files and packages are gone. */
	int (*forget)(struct engine *g, const char *persist_id, engine_done_fn cb, void *user,
		      struct err *e);
	/* One run at a time per sandbox; a second gives -EBUSY. */
	int (*run)(struct engine_sandbox *s, const struct engine_run_spec *spec,
		   struct engine_run **ret, struct err *e);
	/* SIGTERM/SIGINT to the run's group; SIGKILL ends the whole run at once. */
	int (*signal)(struct engine_run *r, int signo);
	/* PATH is relative to the workspace, `/`-separated, no empty, `.` or `..` part. The
	 * callback gets a read-only descriptor of a regular file (else NOT_FOUND). */
	int (*open_file)(struct engine_sandbox *s, const char *path, engine_fd_fn cb, void *user,
			 struct err *e);
	/* Makes a file without a name (owner = the sandbox, mode 0644) that is to become PATH. The
	 * callback gets a write-only descriptor; *RET_PUT gets the number that commit_file() takes.
	 * FILE_EXISTS when OVERWRITE is false and something has the name already. Files for the
	 * same path may be written at the same time; there is a limit of them in one sandbox
	 * (TOO_MANY_FILES). */
	int (*put_file)(struct engine_sandbox *s, const char *path, bool overwrite,
			uint32_t *ret_put, engine_fd_fn cb, void *user, struct err *e);
	/* KEEP: makes the missing parent folders and gives file PUT the name PATH, in one step;
	 * FILE_EXISTS as above. Not KEEP: drops the file; no trace of it stays. PUT is free in both
	 * cases, also when this fails. */
	int (*commit_file)(struct engine_sandbox *s, uint32_t put, const char *path, bool overwrite,
			   bool keep, engine_done_fn cb, void *user, struct err *e);
	int (*remove_file)(struct engine_sandbox *s, const char *path, bool recursive,
			   engine_done_fn cb, void *user, struct err *e);
	/* Entries of folder PATH ("" = the workspace), all types; at most ENGINE_FILES_MAX. */
	int (*list_files)(struct engine_sandbox *s, const char *path, engine_list_fn cb, void *user,
			  struct err *e);
	/* Figures of the pool since the start; NULL = there is none. */
	void (*pool)(const struct engine *g, struct engine_pool *ret);
	int (*usage)(struct engine_sandbox *s, engine_usage_fn cb, void *user, struct err *e);
	/* FROZEN: gives back what an idle sandbox can make again (interpreters that wait), never
	 * state; SESSION_BUSY during a run. Not FROZEN: makes it again in the background. A run
	 * needs neither: it brings back what it needs. */
	int (*freeze)(struct engine_sandbox *s, bool frozen, engine_done_fn cb, void *user,
		      struct err *e);
	/* Points: kept states of the sandbox (its live session's variables, and the files of the
	 * workspace), each in a PLACE (0 to ENGINE_POINTS_MAX-1) of the caller's choice. One call
	 * at a time, and none while a run is on (SESSION_BUSY). They go with the sandbox, count as
	 * its memory, and no run sees their files. A call that failed has changed nothing, but for
	 * ERR_CHECKPOINT_PARTIAL. All NULL or none, ENGINE_CAP_BRANCH.
	 *
	 * save: into a free place. NO_SPACE, OUT_OF_MEMORY.
	 * restore: makes the session and the files what they were; the point stays. FILES_ONLY: the
	 * session begins anew. CHECKPOINT_LOST: its interpreter has ended (a run may kill it), its
	 * files are there. drop: the place is free afterwards. */
	int (*save_point)(struct engine_sandbox *s, uint32_t place, engine_point_fn cb, void *user,
			  struct err *e);
	int (*restore_point)(struct engine_sandbox *s, uint32_t place, bool files_only,
			     engine_point_fn cb, void *user, struct err *e);
	int (*drop_point)(struct engine_sandbox *s, uint32_t place, engine_point_fn cb, void *user,
			  struct err *e);
	/* Ends every sandbox, then the engine. The object is freed before this returns; callbacks
	 * still due are called with ERR_CANCELLED from inside. Never blocks longer than 2 s. */
	void (*close)(struct engine *g);
};

struct engine {
	const struct engine_ops *ops; /* first member of every engine's own struct */
};
struct engine_sandbox {
	struct engine *engine; /* first member of every engine's own sandbox struct */
};

struct engine_config {
	const char *state_dir; /* absolute; images below `images/` */
	uint32_t max_sandboxes;
	bool warm;         /* false = never start a zygote */
	uint32_t pool;     /* sandboxes made ahead of need, like the last that was asked for; 0 =
			    * none */
	uint32_t pool_max; /* as many when they are asked for often; at least `pool` */
	uint64_t rest_ns;  /* a sandbox without a run for so long gives back what can be made again;
			    * 0 = never */
	uint64_t total_bytes; /* memory of all sandboxes, as the monitor limits it; 0 = no limit */
	uint64_t idle_ns;     /* without any sandbox for so long the pool is emptied; 0 = never */
	int monitor_fd; /* native: the channel made by native_monitor_start(), before the front
			 * gave up its privileges; taken */
};

/* NAME is "native" or "docker"; a known engine that this build lacks: ERR_ENGINE_NOT_BUILT_IN. */
int engine_open(const char *name, sd_event *loop, const struct engine_config *config,
		struct engine **ret, struct err *e) MUST_CHECK;
