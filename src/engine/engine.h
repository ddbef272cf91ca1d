/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes, and what runs in them: what the rest of the program calls.
 *
 * An engine makes a place where our init is PID 1 and hands back a channel to it (engine_ops.h).
 * Everything that happens inside a sandbox goes over that channel and is the same code for every
 * engine (engine/front/inside). So nothing here says which engine it is.
 *
 * One engine object lives in the front, on its sd-event loop. Every call is made and answered on
 * that loop; none blocks. A call that takes a callback calls it exactly once, and never before the
 * call itself has returned. When the engine is closed first, the callback gets ERR_CANCELLED. A
 * call that returns < 0 sets E and calls nothing back.
 * A handle stays valid until the callback of engine_destroy().
 *
 * Everything that comes out of a sandbox (bytes, names, sizes, statuses) is hostile. The engine
 * checks the messages; the caller must distrust what they say.
 *
 * Ownership: strings and arrays passed in are borrowed for the duration of the call. Descriptors
 * passed in are duplicated. Descriptors given to a callback belong to the callback. */
#pragma once

#include "base/err.h"
#include "engine/levels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct engine;
struct engine_sandbox; /* one sandbox */
struct engine_run;     /* one run in a sandbox, until its on_done was called */
struct host_probe;     /* engine/maker/native/probe.h */
struct docker_about;   /* engine/maker/docker/docker.h */

/* Bytes of an image's name. The native engine's match [a-z0-9][a-z0-9._-]{0,62}; an engine on containers
 * has references such as python:3.12-slim (parse_is_image_ref() in base). */
#define ENGINE_NAME_MAX        208
#define ENGINE_PATH_MAX        4096
#define ENGINE_ATTRIBUTES_MAX  4096u /* bytes of a file's attributes */
#define ENGINE_FILES_MAX       10000 /* entries of one listing */
#define ENGINE_CHECKPOINTS_MAX 10    /* places for checkpoints in one sandbox */
#define ENGINE_EGRESS_PORT     3128  /* inside a sandbox with egress */

/* What an engine can enforce: engine_caps() on this host, engine_caps_most() on some host. */
enum engine_cap {
#define C(name, bit, native, docker, needs) ENGINE_CAP_##name = 1 << (bit),
#include "engine/protocol/caps.tbl.h"
#undef C
};

/* Where workspaces of sessions are. AUTO: on disk, if this host can limit them there hard. */
enum engine_workspace {
	ENGINE_WORKSPACE_AUTO,
	ENGINE_WORKSPACE_DISK, /* if that is impossible the engine does not start */
	ENGINE_WORKSPACE_MEMORY,
	ENGINE_WORKSPACE_MAX_,
};

struct engine_limits {
	uint64_t memory_bytes; /* includes swap, the page cache, and a workspace in memory */
	uint32_t cpu_milli;    /* 1000 = one core */
	uint32_t pids;         /* processes and threads, without those of the engine itself */
	uint64_t workspace_bytes;
	uint32_t workspace_inodes;
	uint64_t tmp_bytes;
	uint32_t
	    pids_most; /* the most that `pids` may be raised to later; less than `pids` = `pids` */
	uint32_t nofile; /* RLIMIT_NOFILE of a run; 0 = what its memory permits, see engine.c */
	uint32_t explicit_mask; /* enum engine_cap bits: limits that somebody set explicitly. A
				 * creation fails when the engine cannot enforce one of them */
};

struct engine_create {
	char image[ENGINE_NAME_MAX];
	struct engine_limits limits;
	bool warm; /* fork interpreters where possible; false = start each one */
	/* Inside, 127.0.0.1:ENGINE_EGRESS_PORT is a listening socket that belongs to the front
	 * (engine_take_egress()). There is no other way out of a sandbox. */
	bool egress;
	char level[ENGINE_LEVEL_MAX + 1]; /* of isolation; "" = the usual one */
	const char *owner; /* who takes turns with others where requests wait; NULL = the server */
	/* It has a root user of its own: uid 0 of its user namespace, with rights over the files and users of the sandbox
	 * and nothing else, and a root folder that can be changed. Not with `persist_id` or `helper_of`. LIMIT_NOT_ENFORCEABLE
	 * without ENGINE_CAP_ROOT. */
	bool root;
	/* It is unlike the others: never taken from a pool, and a pool does not make such ones. */
	bool single;
	/* NULL = a workspace that ends with the sandbox. Else the key ([a-z0-9-]{1,64}) of a stored
	 * workspace: it is made if it does not exist, and only one engine at a time can use it
	 * (ERR_SANDBOX_IN_USE). */
	const char *persist_id;
	/* NULL, or the sandbox that this one helps (it installs packages for it). A helper has the
	 * same uid, the same /app/.venv and an empty workspace, and is never taken from a pool. The
	 * helper must be destroyed before the sandbox that it helps. */
	struct engine_sandbox *helper_of;
};

struct engine_policy { /* what is in force for one sandbox; clients see it */
	struct engine_limits limits;
	uint32_t enforced;    /* enum engine_cap bits: the kernel enforces these */
	uint32_t best_effort; /* these are only rlimits or polling here */
	/* Differs from every other image that has or had the same name; 0 = unknown. */
	uint64_t image_id[3];
	struct engine_level level; /* its name, and what makes the sandbox */
};

enum engine_run_kind {
	ENGINE_RUN_PYTHON,   /* `code` is Python source, run as __main__ */
	ENGINE_RUN_ARGV,     /* a command: argv[0] is looked up on PATH */
	ENGINE_RUN_STATEFUL, /* Python in the sandbox's session: variables stay for the next one */
	/* A command that begins and ends beside runs, PROTO_BACKGROUND_MAX of a sandbox at a time. It ends with all that
	 * it has started when its first process does. During it no checkpoint is made or restored. */
	ENGINE_RUN_BACKGROUND,
};

#define ENGINE_TERMINAL_MAX 1000 /* rows, and columns, of a terminal */
#define ENGINE_CONTEXTS_MAX 8    /* sessions of a sandbox, each with variables of its own */

enum engine_stream {
	ENGINE_STDOUT = 1,
	ENGINE_STDERR = 2,
	ENGINE_RESULT = 3, /* stateful: text of the last expression's value. With `report`: the
			    * bytes of the report. Delivered whole, after the other streams */
};

enum engine_end {
	ENGINE_END_EXITED,
	ENGINE_END_SIGNALED,
	ENGINE_END_TIMEOUT,
	ENGINE_END_OOM,
	ENGINE_END_OUTPUT, /* a stream passed output_kill */
	ENGINE_END_DISK,   /* the workspace passed a limit that no file system enforces */
	ENGINE_END_KILLED, /* by engine_signal(SIGKILL) or because the sandbox was destroyed */
	ENGINE_END_LOST,   /* the sandbox itself is gone */
};

#define ENGINE_GONE_MAX 152
enum engine_lost { /* why the variables of a session are gone; the process that held them died */
		   ENGINE_LOST_ALONE,   /* and had no backup */
		   ENGINE_LOST_CRASHED, /* and its backup did, too */
		   ENGINE_LOST_SILENT,  /* and its backup did not answer */
		   ENGINE_LOST_RESTED, /* what the disk had while the sandbox rested cannot be read */
};

enum { /* what a session has besides variables and files */
       ENGINE_KIND_THREADS = 1,
       ENGINE_KIND_PROCESSES = 2,
       ENGINE_KIND_CONNECTIONS = 4,
};

struct engine_left { /* of the cells of a session: what they left besides variables */
	bool behind; /* before this run the variables went back to those before the last run */
	bool rests;  /* threads or processes of this one, which go on in the next run */
	uint32_t
	    gone; /* what earlier ones left, and the end of this one took with it: ENGINE_KIND_* */
	bool
	    carried; /* the variables are in a new interpreter: the old one could not go on in a fork */
	bool rested; /* the disk had them while the sandbox rested, but not all */
	uint32_t names_kept, names_gone;
	char names
	    [ENGINE_GONE_MAX]; /* the first of those that are gone, "con, pool"; UTF-8 without control characters */
	enum engine_lost lost; /* if the state is lost */
	uint64_t late
	    [2]; /* bytes of stdout and stderr, the first, that were written after the last run */
};

struct engine_run_result {
	enum engine_end end;
	int exit_code;   /* as in a shell: the status, or 128 + signal */
	int signal;      /* 0 unless a signal ended its first process */
	bool warm;       /* the interpreter was forked, not started */
	bool named_end;  /* the run reported its exit status before its memory was freed */
	bool state_lost; /* stateful: the variables of earlier runs are gone */
	bool state_kept; /* stateful: it returned or raised; its variables are the session's */
	struct engine_left left; /* stateful */
	uint64_t duration_ns;    /* from the start of the code to the end of its first process */
	/* User + system time of the whole sandbox from the begin of the run to its end, by the counter
	 * of its control group. Without control groups it is best effort: the first process, the
	 * children that it waited for, and the processes that init reaped; if the sandbox ended with
	 * the run, wall time * core limit. */
	uint64_t cpu_ns;
	/* The same between the sandbox's last run (at first: when it was made) and this one. A quota
	 * counts it, too. BACKGROUND: cpu_ns is that of the process alone, 0 if the sandbox ended with it; this is what the
	 * sandbox has used and no other result has told. */
	uint64_t cpu_before_ns;
	uint64_t peak_bytes; /* 0 = unknown */
	uint32_t killed;     /* processes that the run left behind and that init killed */
	uint32_t cell;       /* stateful: its number in tracebacks of the session; 0 = unknown */
	uint64_t output_total[3]; /* bytes written to each stream, delivered or not */
};

struct engine_run_spec {
	enum engine_run_kind kind;
	const char *code; /* PYTHON, STATEFUL: UTF-8 source */
	size_t code_len;
	const char *const *argv; /* ARGV: the command; PYTHON: sys.argv (NULL: ['-c']), and if its
				  * first word is an absolute path, the code is that file's. Such
				  * a run starts cold. NULL-terminated */
	const char *const *env;  /* extra NAME=VALUE, NULL-terminated, may be NULL */
	const char *cwd;         /* inside; NULL = /mnt/data */
	bool
	    root; /* ARGV, BACKGROUND without `code`: as the root user. The sandbox has one: ENGINE_CAP_ROOT of its policy */
	bool make_cwd;    /* make CWD if it is missing; it is below /mnt/data */
	bool report;      /* ARGV: the command may write a report (256 KiB at most) to its
				  * descriptor 3; it comes at the end as ENGINE_RESULT */
	bool display;     /* Python: save figures that are open and unsaved when the code has
				  * returned as figure-N.png in the workspace */
	bool restarts;    /* STATEFUL: the session ends first, with its variables, threads and
				  * processes; the run is the first of a new one */
	uint32_t context; /* STATEFUL: whose session, below ENGINE_CONTEXTS_MAX; 0 = the default
				  * one. It begins with its first run. Checkpoints have that of 0 */
	bool notebook;    /* Python: the value of a last expression comes as ENGINE_RESULT,
				  * and notebook syntax works (RT_NOTEBOOK of runtime/frames.h) */
	bool
	    errors; /* with `notebook` and STATEFUL: an exception that the code does not catch is not printed; it comes
			   * as a record (SHOWN_ERROR of sandbox/shown.h) */
	int stdin_fd; /* duplicated; -1 = /dev/null */
	uint64_t
	    timeout_ns; /* then its process group gets SIGTERM, or a stateful run SIGINT; 0 = none */
	/* BACKGROUND: it gets a terminal of this size, each 1 to ENGINE_TERMINAL_MAX, for standard input (`stdin_fd` is what
	 * is typed), output and error; all that it shows comes as ENGINE_STDOUT. 0 = none. */
	uint32_t rows, columns;
	uint64_t grace_ns;      /* from then until every process of the run is killed */
	uint64_t output_max[3]; /* bytes to deliver of each stream (index enum engine_stream). More
				  * is read and counted, but not delivered; 0 = all */
	uint64_t output_kill;   /* bytes: a stream that writes more ends the run; 0 = never */
	/* A piece of output, in order per stream. LEN > 0. May call engine_signal(). */
	void (*on_output)(struct engine_run *r, enum engine_stream s, const void *data, size_t len,
			  void *user);
	/* With `notebook`; may be NULL. The run has shown something besides text, after the output of stdout so far: a
	 * record (inside/records.h), whose bytes are whatever the sandbox wrote. DATA NULL: the text of the last one
	 * ends here. Those that are not shown at a place come before on_done. */
	void (*on_record)(struct engine_run *r, const void *data, size_t len, void *user);
	/* The end, after the last on_output. R is invalid afterwards. RES is NULL and E is set when
	 * the run could not be carried out. */
	void (*on_done)(struct engine_run *r, const struct engine_run_result *res,
			const struct err *e, void *user);
	void *user;
};

struct engine_file {    /* one entry of a listing */
	char name[256]; /* one component, NUL-terminated; any bytes but `/` */
	uint64_t size;
	int64_t mtime_ns;
	int64_t ctime_ns;
	uint64_t inode;
	mode_t mode;
	uint32_t nlink;    /* names of the inode */
	uint32_t uid, gid; /* as the sandbox counts them; 0 in what comes from a descriptor */
	bool attributes;   /* it has some if engine_list_attributes() asked */
};

struct engine_stat {
	struct engine_file file;      /* its name: the last part of the path; "" = a place itself */
	char target[ENGINE_PATH_MAX]; /* the text of a link, any bytes; else "" */
	mode_t target_mode; /* of a link: of what it leads to in the end; 0 = there is nothing */
	uint64_t target_size, attributes_len;
	char attributes[ENGINE_ATTRIBUTES_MAX]; /* as in engine_names.h; any bytes */
};

struct engine_usage { /* 0 = unused, or the engine does not count it */
	uint64_t memory_bytes, cpu_ns, workspace_bytes, workspace_inodes;
	uint32_t pids;
	bool host_is_full; /* the workspace takes no more data, for want of space on the host */
	bool has_packages; /* packages were installed into it, besides those of the image */
};

/* What a checkpoint holds, or what was restored. */
struct engine_checkpoint {
	bool state_kept;  /* it has an interpreter's variables; false = files only, and a restore
			  * starts a new session */
	bool state_lost;  /* save: the session's variables were lost before, and nobody knew yet */
	uint64_t files;   /* regular files copied */
	uint64_t bytes;   /* of their data */
	uint32_t skipped; /* sockets and devices, which cannot be copied */
	/* save: what the session has besides, and the checkpoint has not; restore: what ended with the session that
	 * was there before. ENGINE_KIND_* */
	uint32_t kinds;
};

/* Sandboxes made ahead of need. Figures since the start. */
struct engine_pool {
	uint32_t ready;       /* waiting now */
	uint64_t claimed;     /* creations that took one */
	uint64_t cold;        /* creations that could have taken one, but none was ready */
	uint64_t fill_failed; /* those that could not be made, or ended soon after */
};

/* The disk of the host, below workspaces. */
enum engine_space_state {
	ENGINE_SPACE_ENOUGH,
	ENGINE_SPACE_SHORT, /* no room for another sandbox, or one that is there was stopped */
	ENGINE_SPACE_FULL,  /* no sandbox can write new data */
};
struct engine_space {
	bool known; /* else all is 0 */
	enum engine_space_state state;
	uint32_t disks; /* of sandboxes that live */
	uint64_t free_bytes, reserve_bytes;
	uint64_t promised_bytes; /* what these disks may still take from the host */
};

typedef void (*engine_done_fn)(const struct err *e, void *user); /* E NULL = success */
typedef void (*engine_create_fn)(struct engine_sandbox *s, const struct engine_policy *policy,
				 const struct err *e, void *user);
typedef void (*engine_fd_fn)(int fd, const struct err *e, void *user);
typedef void (*engine_list_fn)(const struct engine_file *files, size_t n, bool more,
			       const struct err *e, void *user);
typedef void (*engine_usage_fn)(const struct engine_usage *u, const struct err *e, void *user);
/* C is valid during the call, NULL with E. */
typedef void (*engine_checkpoint_fn)(const struct engine_checkpoint *c, const struct err *e,
				     void *user);
typedef void (*engine_lost_fn)(struct engine_sandbox *s, const char *why, void *user);
typedef void (*engine_ration_fn)(struct engine_sandbox *s, void *user);

/* ---- engine (engine.c) ----------------------------------------------------------------------- */

#define ENGINE_TOOL_MAX 64

struct engine_config {
	const char *state_dir;  /* absolute; images are below `images/` */
	uint32_t max_sandboxes; /* at a time, with those of the pool and those that are ending */
	bool warm;              /* false = never keep a zygote */
	uint32_t pool;          /* sandboxes to make ahead of need, like the last one that was asked
				 * for; 0 = none */
	uint32_t pool_max;      /* the pool grows up to this when sandboxes are asked for often; at
				 * least `pool` */
	uint64_t rest_ns;       /* a sandbox that was idle for so long gives back the interpreters
				 * that it can get again; 0 = never */
	uint32_t spares;        /* so many idle sandboxes keep them at most, the most recently used
				 * ones; 0 = all */
	uint64_t idle_ns;       /* without any sandbox for so long the pool is emptied; 0 = never */
	uint64_t total_bytes;   /* memory of all sandboxes together; 0 = no limit */
	const char *install_tool;    /* what `pip install` names in a sandbox where it cannot work:
				   * [a-z_]{1,ENGINE_TOOL_MAX}; NULL = there is no such tool */
	struct {                     /* the container daemon; NULL or "" = the default */
		const char *host;    /* unix:///path or tcp://host:port */
		const char *certs;   /* folder of TLS certificates */
		const char *runtime; /* for levels that name none */
		const char *levels;  /* SANDBOX_LEVELS */
		const char *level;   /* SANDBOX_LEVEL */
	} docker;
	enum engine_workspace workspace;
	bool moves;              /* engine/disks.h may be used */
	struct {                 /* when an image's zygote ends; 0 = never */
		uint64_t idle_s; /* so long after the last sandbox of its image */
		uint64_t age_s;  /* the next request replaces a zygote that is older */
		uint64_t forks;  /* ... and one that has forked as often */
	} zygote;
};

/* Whether this build has the engine NAME ("native"); a known one that it lacks ("docker") is ERR_ENGINE_NOT_BUILT_IN. */
int engine_check_name(const char *name, struct err *e) MUST_CHECK;
/* First step: starts whatever needs the privileges that the process has now (the native engine
 * starts its monitor). Call it single-threaded, before any byte from outside is read. */
int engine_begin(const char *name, const struct engine_config *config, struct engine **ret,
		 struct err *e) MUST_CHECK;
/* The uid and gid that the front is to take when it gives up its privileges. Root's front becomes the user `caisson` if
 * there is one, else the uid that the engine keeps for it; other users keep their own. */
int engine_front_ids(const struct engine *g, uid_t *ret_uid, gid_t *ret_gid,
		     struct err *e) MUST_CHECK;
/* Second step, without privileges: the engine starts to work on LOOP. If it fails, G is closed. */
int engine_open(struct engine *g, sd_event *loop, struct err *e) MUST_CHECK;
/* Ends every sandbox, then the engine, and frees G. Callbacks that are still due are called with
 * ERR_CANCELLED from inside. Never blocks longer than 2 s. Also for an engine that was only begun.
 * NULL is fine. */
void engine_close(struct engine *g);

/* What can be enforced on this host, found out by trying. */
struct engine_probe {
	uint32_t enforced; /* enum engine_cap bits */
	uint32_t best_effort;
	bool usable; /* sandboxes can be made */
	/* What was found out about this host, for `caisson doctor`; NULL: the engine makes its
	 * sandboxes elsewhere. */
	const struct host_probe *host;
	const struct docker_about *docker; /* the same for the container daemon */
};
/* P is valid during the call, NULL with E. */
typedef void (*engine_probe_fn)(const struct engine_probe *p, const struct err *e, void *user);
/* Needs no engine_begin(). CB is called from LOOP, once; until then CONFIG stays valid. */
int engine_probe(const char *name, const struct engine_config *config, sd_event *loop,
		 engine_probe_fn cb, void *user, struct err *e) MUST_CHECK;
#define ENGINE_WHY_MAX 256
/* The engine that "auto" means here: native where this machine has what it needs, else docker. WHY gets
 * the reason in one line. Takes 10-20 ms. Another NAME means itself. */
const char *engine_choose(const char *name, char why[ENGINE_WHY_MAX]);

/* What a person does to get an image: words that its name follows. */
const char *engine_get_image(const struct engine *g);
/* What an engine enforces here, once it was begun: enum engine_cap bits. */
uint32_t engine_caps(const struct engine *g);
/* What the engine NAME can enforce on some host; 0: there is no such engine. */
uint32_t engine_caps_most(const char *name);
/* The levels of isolation that G has, once it was begun, and which of them are possible. */
const struct engine_levels *engine_levels(const struct engine *g);
/* The process that makes sandboxes may end, when somebody kills it: G makes none any more. CB is called then, once. It must
 * not close G. */
typedef void (*engine_end_fn)(const struct err *why, void *user);
void engine_on_end(struct engine *g, engine_end_fn cb, void *user);
/* The error if it has ended; NULL if not. */
const struct err *engine_lost(const struct engine *g);
void engine_pool(const struct engine *g, struct engine_pool *ret); /* all 0 without a pool */
/* As it was at the engine's last look, at most half a minute ago. */
void engine_space(const struct engine *g, struct engine_space *ret);
/* Memory of all sandboxes together, as the kernel counts it. CB is called once, maybe before this returns; BYTES 0: nobody
 * counts it here, or there are no sandboxes. */
typedef void (*engine_memory_fn)(uint64_t bytes, void *user);
void engine_memory(struct engine *g, engine_memory_fn cb, void *user);
/* BYTES more are to be written into a workspace that is in memory. OUT_OF_MEMORY if all sandboxes
 * together would then use more than engine_config.total_bytes. They count until uncount. */
int engine_count_upload(struct engine *g, uint64_t bytes, struct err *e) MUST_CHECK;
void engine_uncount_upload(struct engine *g, uint64_t bytes);
/* Whether the file FD of a workspace got ENOSPC because the host has no space left, although its workspace has. */
bool engine_host_is_full(int fd) MUST_CHECK;
/* Sandboxes like this one will be asked for: the engine may prepare for them in the background. */
void engine_prepare(struct engine *g, const struct engine_create *c);

/* Makes a sandbox; the callback gets the handle. */
int engine_create(struct engine *g, const struct engine_create *c, engine_create_fn cb, void *user,
		  struct err *e) MUST_CHECK;
/* Removes a stored workspace with all in it. SANDBOX_IN_USE while a sandbox has it. */
int engine_forget(struct engine *g, const char *persist_id, engine_done_fn cb, void *user,
		  struct err *e) MUST_CHECK;

/* ---- one sandbox (inside/) ------------------------------------------------------------------- */

/* S comes to rest: its session writes its variables to the stored workspace. engine_destroy() is next. */
int engine_store(struct engine_sandbox *s, engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
/* Kills everything in it and removes it. Before CB, a run in flight ends with ENGINE_END_KILLED (or ENGINE_END_LOST if the
 * sandbox was lost before, and its run has not been told yet). CB may be NULL. */
void engine_destroy(struct engine_sandbox *s, engine_done_fn cb, void *user);
/* CB (NULL: nobody) is called when the sandbox ends on its own, after the end of its run.
 * engine_destroy() must still be called. */
void engine_on_lost(struct engine_sandbox *s, engine_lost_fn cb, void *user);
/* How much of its workspace S gets from the disk of the host: with less than all, ENOSPC is for want of space there. As
 * at the engine's last look, at most a quarter of a second ago while space is short. */
enum engine_ration {
	ENGINE_RATION_ALL,
	ENGINE_RATION_PART,
	ENGINE_RATION_NONE, /* it can write no new data */
};
enum engine_ration engine_ration(const struct engine_sandbox *s) MUST_CHECK;
/* CB (NULL: nobody) is called when it has changed. It must not end S. */
void engine_on_ration(struct engine_sandbox *s, engine_ration_fn cb, void *user);
/* CPU time of everything that was in S so far; 0 = nothing counts it. */
uint64_t engine_cpu_ns(const struct engine_sandbox *s);
/* The listening socket of a sandbox that was created with `egress`, given out once; else -1. */
int engine_take_egress(struct engine_sandbox *s);
int engine_usage(struct engine_sandbox *s, engine_usage_fn cb, void *user,
		 struct err *e) MUST_CHECK;

/* Sets memory, CPU and processes of a sandbox that lives to those of L, also during a run; its other limits
 * stay. Either all three are as L says afterwards, or nothing has changed:
 *   LIMIT_NOT_CHANGEABLE  the engine or the host cannot change this limit later
 *   LIMIT_BELOW_USE       more memory is in use than L permits, or nearly so. Nothing is ever killed for it
 *   SESSION_BUSY          another such call is under way, or the engine lowers memory between runs only */
int engine_change(struct engine_sandbox *s, const struct engine_limits *l, engine_done_fn cb,
		  void *user, struct err *e) MUST_CHECK;
/* Whether the workspace of S, which is a session, can become a stored one where it is: 0, or NOT_KEEPABLE. */
int engine_check_keep(const struct engine_sandbox *s, struct err *e) MUST_CHECK;
/* The workspace of the session S becomes the stored one of PERSIST_ID: as if S had been made with it. S goes on, runs and
 * uploads too. When CB gets no error, all that was written before the call outlives every death and a loss of power.
 * CB is called at the latest when nothing of S is left. Errors of engine_check_keep(). */
int engine_keep(struct engine_sandbox *s, const char *persist_id, engine_done_fn cb, void *user,
		struct err *e) MUST_CHECK;

/* One run at a time per sandbox, a second is SESSION_BUSY; and BACKGROUND ones beside it. */
int engine_run(struct engine_sandbox *s, const struct engine_run_spec *spec,
	       struct engine_run **ret, struct err *e) MUST_CHECK;
/* SIGTERM or SIGINT to the run's process group; SIGKILL ends the whole run. SIGTERM interrupts a stateful run as its time
 * limit does, and ends it as killed. A BACKGROUND one takes all signals from 1 to 31. */
int engine_signal(struct engine_run *r, int signo) MUST_CHECK;
/* All processes of R, a BACKGROUND one, are stopped, or go on. Its deadline waits meanwhile. */
int engine_freeze(struct engine_run *r, bool frozen) MUST_CHECK;
/* Another size for the terminal of R. */
int engine_resize(struct engine_run *r, uint32_t rows, uint32_t columns) MUST_CHECK;
/* HOLD: the output of R is not read until it is let go, so R waits where its pipes are full. At the end all of it is
 * delivered. */
void engine_hold_output(struct engine_run *r, bool hold);
/* Ends the session of CONTEXT with all that it has started. No run of it is on. */
int engine_end_context(struct engine_sandbox *s, uint32_t context) MUST_CHECK;

/* PATH of these calls is relative to the workspace, with `/` between its parts and no empty, `.` or `..` part. With a `/`
 * at its beginning it names any other file of the sandbox ("/": the root). No link is followed, and nothing of /proc, /sys,
 * /dev or another mount is found. Files can be changed in the workspace, in /tmp and in /home/sandbox; elsewhere FORBIDDEN.
 * The callback gets a read-only descriptor of a regular file (else NOT_FOUND). */
int engine_open_file(struct engine_sandbox *s, const char *path, engine_fd_fn cb, void *user,
		     struct err *e) MUST_CHECK;
struct engine_port {
	uint16_t port;
	uint32_t pid;  /* of one that listens there, as the sandbox numbers it; 0 = unknown */
	char name[16]; /* of that process; any bytes */
};
typedef void (*engine_ports_fn)(const struct engine_port *ports, size_t n, const struct err *e,
				void *user);
/* The ports that engine_connect() reaches, smallest first. Errors as of that. */
int engine_list_ports(struct engine_sandbox *s, engine_ports_fn cb, void *user,
		      struct err *e) MUST_CHECK;
/* A socket of TCP that is, or is being, connected to PORT of the loopback of the sandbox. The sandbox has it, too: call only
 * what cannot wait, whatever its flags are (MSG_DONTWAIT; SO_LINGER is to be off before the close). PORT_CLOSED: nobody
 * listens there; PORT_UNAVAILABLE: no descriptor comes out of it. */
int engine_connect(struct engine_sandbox *s, uint16_t port, engine_fd_fn cb, void *user,
		   struct err *e) MUST_CHECK;
/* From now on init answers GET /health at PORT of the loopback with 200, unless somebody listens there. -ESRCH: S has ended. */
int engine_answer_health(struct engine_sandbox *s, uint16_t port) MUST_CHECK;

/* ---- watching ---- */

enum engine_change_kind { /* enum proto_change */
			  ENGINE_CHANGE_CREATE = 1,
			  ENGINE_CHANGE_WRITE,
			  ENGINE_CHANGE_REMOVE,
			  ENGINE_CHANGE_RENAME,
			  ENGINE_CHANGE_CHMOD,
};
struct engine_change {
	enum engine_change_kind kind;
	bool folder;
	const char *path; /* from the workspace on, or absolute like that of the watch; any bytes */
};
struct engine_news {
	/* Some changes are not known: whoever keeps a list of the folder lists it again. */
	bool overflow;
	/* Folders: there are too many, and from now on not all are watched. Ports: the smallest are told alone. */
	bool partial;
	const struct engine_change *changes;
	size_t n_changes;
	const struct engine_port *ports; /* smallest first; NULL: this is no watch of ports */
	size_t n_ports;
};
struct engine_watch;
/* The first call says that the watch has begun. Afterwards, each engine_watch_next() leads to one call, when there is
 * something. What nobody has asked for is gathered in the sandbox. NEWS NULL: it has ended, E says why, and the watch is
 * gone. */
typedef void (*engine_watch_fn)(const struct engine_news *news, const struct err *e, void *user);
/* Watches folder PATH ("" = the workspace), RECURSIVE: and all below it, for changes by anybody. Errors also come to CB:
 * NOT_FOUND; INVALID_ARGUMENT: it is no folder; BUDGET_EXCEEDED: the sandbox has too many; TOO_MANY_FILES: the kernel has. */
int engine_watch(struct engine_sandbox *s, const char *path, bool recursive, engine_watch_fn cb,
		 void *user, struct engine_watch **ret, struct err *e) MUST_CHECK;
/* Watches the ports that engine_connect() reaches: each news has all of them, also the first. A second may pass until a
 * change is known, and what was there for less is not told. Errors: BUDGET_EXCEEDED; PORT_UNAVAILABLE, at once. */
int engine_watch_ports(struct engine_sandbox *s, engine_watch_fn cb, void *user,
		       struct engine_watch **ret, struct err *e) MUST_CHECK;
void engine_watch_next(struct engine_watch *w);
void engine_unwatch(struct engine_watch *w); /* CB is not called any more */

/* How a file or folder is made: it may replace one; in a sandbox with a root user, it belongs to the user also in a folder of
 * the image, where all else that is made is root's. */
enum engine_file_how { ENGINE_FILE_OVERWRITE = 1, ENGINE_FILE_USERS = 2 };
/* Makes a file without a name (mode 0644) that is to become PATH. HOW: bits ENGINE_FILE_*. The callback gets a write-only
 * descriptor; *RET_PUT gets the number that engine_commit_file() takes. FILE_EXISTS unless it may replace what has the name.
 * Files for the same path may be written at the same time; there is a limit of them in one sandbox (TOO_MANY_FILES). */
int engine_put_file(struct engine_sandbox *s, const char *path, unsigned how, uint32_t *ret_put,
		    engine_fd_fn cb, void *user, struct err *e) MUST_CHECK;
/* KEEP: makes the missing parent folders and gives file PUT the name PATH, in one step; FILE_EXISTS as above. Not KEEP: drops
 * the file; no trace of it stays. PUT is free in both cases, also when this fails. */
int engine_commit_file(struct engine_sandbox *s, uint32_t put, const char *path, unsigned how,
		       bool keep, engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
int engine_remove_file(struct engine_sandbox *s, const char *path, bool recursive,
		       engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
/* Entries of folder PATH ("" = the workspace), of all types, sorted by name; at most ENGINE_FILES_MAX. A thread reads many. */
int engine_list_files(struct engine_sandbox *s, const char *path, engine_list_fn cb, void *user,
		      struct err *e) MUST_CHECK;

/* ST is valid during the call; NULL with E. */
typedef void (*engine_stat_fn)(const struct engine_stat *st, const struct err *e, void *user);
/* What PATH is, itself and not what a link leads to. */
int engine_stat_file(struct engine_sandbox *s, const char *path, engine_stat_fn cb, void *user,
		     struct err *e) MUST_CHECK;
/* A checkpoint holds the variables of the session and the files of the workspace. The caller
 * chooses its PLACE (0 to ENGINE_CHECKPOINTS_MAX-1). One of these calls at a time, and none during a
 * run (SESSION_BUSY). Checkpoints end with their sandbox, count as its memory, and no run sees
 * their files. A call that failed has changed nothing, unless it says CHECKPOINT_PARTIAL.
 *
 * save: into a free place. NO_SPACE, OUT_OF_MEMORY.
 * restore: the session and the files become what they were, in one of the ways below; the checkpoint stays.
 * CHECKPOINT_LOST: its interpreter has ended (a run may kill it); its files are still there.
 * drop: the place is free afterwards. */
enum engine_restore {
	ENGINE_RESTORE_ALL,
	ENGINE_RESTORE_FILES, /* the session starts anew */
	/* Only directly after save, and if the checkpoint has variables. The present session is set aside with its
	 * threads, processes and connections, all stopped; another one with the same variables takes its place. */
	ENGINE_RESTORE_PARK,
	/* The session that was set aside comes back; if it was killed meanwhile, or this call fails, it is gone, and
	 * the call is one of ENGINE_RESTORE_ALL. */
	ENGINE_RESTORE_RETURN,
};
int engine_save_checkpoint(struct engine_sandbox *s, uint32_t place, engine_checkpoint_fn cb,
			   void *user, struct err *e) MUST_CHECK;
int engine_restore_checkpoint(struct engine_sandbox *s, uint32_t place, enum engine_restore how,
			      engine_checkpoint_fn cb, void *user, struct err *e) MUST_CHECK;
int engine_drop_checkpoint(struct engine_sandbox *s, uint32_t place, engine_checkpoint_fn cb,
			   void *user, struct err *e) MUST_CHECK;
