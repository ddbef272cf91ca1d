/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as the front sees it, whichever engine made it. engine.h has what callers do with one;
 * this header has what engines call, and what the files of this folder share.
 *
 * Theory of operation
 *
 * An engine starts our init as PID 1 of a sandbox and gives the front's end of the channel to
 * inside_started(). From then on the front talks to init alone: runs, files, checkpoints and the
 * usage of the workspace are one request and one answer each (proto.h). The front believes nothing
 * that init says: a message that is malformed, or that is not allowed in the sandbox's state, ends
 * the sandbox (inside_messages.c).
 *
 * Three parties end a sandbox, in any order: its owner (engine_destroy()), the sandbox itself (its
 * init ends, lies or stays silent: inside_lose()), and the engine, which says when nothing of it is
 * left (inside_gone()). The object is freed when the engine has said so and the owner has let go.
 * So the state tells who has done what, and inside_step() in inside_sandbox.c holds the table of
 * what may follow what:
 *
 *   ASKED     the engine was asked to make it
 *   STARTING  its init runs and sets the sandbox up
 *   READY     it can be used
 *   FAILED    it could not be made; its asker was told; the engine still has to remove it
 *   LOST      it ended on its own; its owner is told; the engine still has to remove it
 *   LEFT      nothing of it is left; its owner has not let go yet
 *   ENDING    its owner has let go; the engine has to remove it
 *   OVER      nothing is left and nobody holds it: it is about to be freed
 *
 *          STARTED          UP            DESTROY          GONE
 *   ASKED ---------> STARTING ---> READY ----------> ENDING -----> OVER
 *     |                 |            |                              ^
 *     | LOSE            | LOSE       | LOSE                         |
 *     +------> FAILED <-+            +---> LOST --- GONE ---> LEFT -+ DESTROY
 *                 +------ GONE ------------------------------------>+
 *
 * Not states, because they are independent of all this: whether a run is on (`run`), whether
 * somebody owns it (`pooled`), and what is known of its clean interpreter (`clean`). */
#pragma once

#include "base/list.h"
#include "engine/engine_ops.h"
#include "engine/front/inside/channel.h"
#include "engine/protocol/proto.h"

enum inside_state {
	INSIDE_ASKED = 1,
	INSIDE_STARTING,
	INSIDE_READY,
	INSIDE_FAILED,
	INSIDE_LOST,
	INSIDE_LEFT,
	INSIDE_ENDING,
	INSIDE_OVER,
	INSIDE_STATE_MAX_,
};

/* The clean interpreter of a sandbox, as far as the front knows (inside_warm.c). */
enum inside_clean {
	INSIDE_CLEAN_NONE,   /* it has ended, or there never was one */
	INSIDE_CLEAN_ASKED,  /* the engine was asked for one */
	INSIDE_CLEAN_THERE,  /* init has the channel to it */
	INSIDE_CLEAN_RESTED, /* given back until the next run */
	INSIDE_CLEAN_SPENT,  /* it became the first run itself; init asks for another one later */
};

struct inside_file_op; /* inside_files.c: a question to init about a file */

struct inside_usage_op {             /* a question about usage, to the engine and to init */
	struct list node;            /* of the sandbox */
	uint32_t seq;                /* of the question to init */
	bool from_engine, from_init; /* which answers have come */
	struct engine_usage usage;
	engine_usage_fn cb;
	void *user;
};

struct inside_checkpoint_op { /* one at a time; cb NULL = none */
	uint32_t seq;
	uint64_t oom_before; /* inside_oom_kills() when it was asked for */
	engine_checkpoint_fn cb;
	void *user;
};

struct inside_change_op { /* one at a time; cb NULL = none */
	struct engine_limits limits;
	engine_done_fn cb;
	void *user;
};

struct inside_store_op { /* one at a time; cb NULL = none */
	engine_done_fn cb;
	void *user;
};

struct inside_keep_op { /* one at a time; cb NULL = none */
	engine_done_fn cb;
	void *user;
};

/* Files with counters of the kernel, opened by the engine; -1 = there is none. Owned by the sandbox. */
struct inside_counters {
	int oom, peak; /* of the runs: out-of-memory kills, and the largest use of memory */
	int cpu;       /* of the sandbox: CPU time */
};

struct inside_pipe {
	int read, write; /* -1 = not made yet */
};

struct engine_sandbox { /* first member of every engine's own sandbox struct */
	struct engine *engine;
	enum inside_state state;
	struct channel *init;
	struct engine_policy policy;
	uint64_t made_memory; /* policy.limits.memory_bytes when it was made */
	char image[ENGINE_NAME_MAX];
	bool warm;       /* its runs may be forked */
	bool pooled;     /* made ahead of need; nobody owns it yet */
	uint32_t unheld; /* enum engine_cap: limits that the engine holds, but not here */

	/* who is to be told what */
	engine_create_fn create_cb;
	void *create_user;
	engine_done_fn destroy_cb;
	void *destroy_user;
	engine_lost_fn lost_cb;
	void *lost_user;
	const char *lost_why;
	bool telling; /* inside_gone() tells of the loss, and needs S until it is done */
	engine_ration_fn ration_cb;
	void *ration_user;
	enum engine_ration ration;
	sd_event_source *later; /* the callback of a destroy() or of inside_hand_over() */

	bool wants_egress;
	int egress; /* the listening socket until it is taken, else -1 */

	/* the run that is on, and what runs used */
	struct engine_run *run;
	struct list background; /* struct engine_run: what goes on beside it */
	uint32_t n_background;
	/* standard output and error of the session of each context, from its first run to its end */
	struct inside_pipe streams[ENGINE_CONTEXTS_MAX][2];
	struct inside_counters counters;
	/* CPU time up to the last look at the counter: when a run began or ended. Without a counter: of
	 * the runs that have ended, as init reported it. */
	uint64_t told_cpu_ns;
	uint64_t cpu_ns; /* of everything that was in it, from inside_gone(); 0 = unknown */

	/* Descriptors pass to init only: it has another kernel (gVisor's). Files go by inside_carried.c. */
	bool inward;
	struct list carried; /* struct inside_carried: what is being uploaded */

	/* questions to init */
	uint32_t next_seq;
	struct list ops;     /* struct inside_file_op, oldest first */
	struct list watches; /* struct engine_watch */
	unsigned n_watches;
	struct list answers; /* the same: answers that threads read */
	struct list usages;  /* struct inside_usage_op, oldest first */
	struct inside_checkpoint_op checkpoint;
	struct inside_change_op change;
	struct inside_keep_op keep;
	struct inside_store_op store;
	sd_event_source *patience; /* how long init may be silent; made with the first question */

	enum inside_clean clean;
	unsigned clean_asked;    /* how often the run that is on had to ask again */
	unsigned colds;          /* INIT_COLD since the last run or interpreter */
	uint64_t clean_retry_ns; /* not before, unless a run needs one */

	struct list idle; /* of engine.idle, if it is idle */
	uint64_t idle_since_ns;
};

/* ---- for engines (inside_sandbox.c, inside_usage.c, inside_warm.c) --------------------------- */

/* S (zeroed) is being made for C; CB hears of it. */
void inside_new(struct engine *g, struct engine_sandbox *s, const struct engine_create *c,
		engine_create_fn cb, void *user);
/* Its init runs: takes the front's end of the channel to it, and the descriptors of the kernel's
 * figures (-1 = there are none). */
void inside_started(struct engine_sandbox *s, int channel, const struct inside_counters *counters);
/* The CPU time of S since the last look (inside_cpu.c). False: there is no counter. */
bool inside_cpu_look(struct engine_sandbox *s, uint64_t *ret_ns);
/* Of a sandbox that is gone: what nobody has been told yet, which is told with this; 0 = nothing, or unknown. */
uint64_t inside_cpu_take_rest(struct engine_sandbox *s);
/* engine_run_result.cpu_ns of a run that ends with its sandbox, WALL_NS after it began. */
uint64_t inside_cpu_of_rest(const struct engine_sandbox *s, uint64_t wall_ns);
/* It could not be made, and nothing of it is there. Tells its asker why and frees S. */
void inside_refused(struct engine_sandbox *s, const struct err *e);
/* What a step of the set-up (enum proto_step) failed with, as a typed error. */
void inside_step_error(struct err *e, uint32_t step, int errnum);
/* Nothing of S is left. CPU_NS: what everything in it used together; 0 = unknown. S may be freed. */
void inside_gone(struct engine_sandbox *s, uint64_t cpu_ns);
/* What the host gives to the workspace of S has changed. */
void inside_rationed(struct engine_sandbox *s, enum engine_ration ration);
/* The engine is closed: tells everybody who waits for S, and frees it. */
void inside_cancel(struct engine_sandbox *s, const struct err *e);
/* Frees S and tells nobody. */
void inside_free(struct engine_sandbox *s);
/* S, which is READY and pooled, gets an owner: CB is called from the loop. */
int inside_hand_over(struct engine_sandbox *s, engine_create_fn cb, void *user) MUST_CHECK;
/* What the processes of the session of CONTEXT wrote and nobody has read is dropped. */
void inside_streams_close(struct engine_sandbox *s, uint32_t context);
/* Whether S can be used; sets E otherwise. */
int inside_check_ready(const struct engine_sandbox *s, struct err *e) MUST_CHECK;
/* A request could not be sent to init, or was not made: R is the -errno, WHAT says what failed. Sets E; errnos that
 * say nothing about the sandbox or this process become OTHERWISE. Returns < 0. */
int inside_refuse(struct err *e, int r, enum err_code otherwise, const char *what);

/* The engine's figures; those of the workspace come from init. */
void inside_used(struct engine_sandbox *s, const struct engine_usage *u);
/* The answer to engine_ops.change: 0, or why nothing was changed. EBUSY: USED bytes of memory are in use;
 * ENOTSUP: WHAT (a PROTO_LIMIT_ bit) cannot be changed here. */
void inside_changed(struct engine_sandbox *s, int errnum, uint32_t what, uint64_t used);
/* The answer to engine_ops.keep: 0, or why the workspace is not stored. */
void inside_kept(struct engine_sandbox *s, int errnum);
/* The answer to engine_ops.warm: takes the channel to a new clean interpreter, -1 = there is none.
 * SOON: its zygote is ready, so a run should wait for it. */
void inside_warmed(struct engine_sandbox *s, int channel, bool soon);
/* Memory is short: the N sandboxes that were idle longest give back what they can get again. */
void inside_rest(struct engine *g, unsigned n);

/* ---- for engine.c (inside_idle.c) ------------------------------------------------------------ */

void inside_idle_close(struct engine *g);

/* ---- among the files of this folder ---------------------------------------------------------- */

/* inside_sandbox.c */
/* S cannot be used any more: ends what waits for it and has the engine remove it. */
void inside_lose(struct engine_sandbox *s, const char *why);
/* The second half of a loss: the run ends and the owner hears of it. */
void inside_tell_loss(struct engine_sandbox *s);
/* INIT_READY and INIT_FAILED. -EPROTO = a lie. */
int inside_up(struct engine_sandbox *s, const struct proto_init_ready *m, int *fds,
	      size_t n) MUST_CHECK;
int inside_set_up_failed(struct engine_sandbox *s, const struct proto_init_failed *m) MUST_CHECK;

/* inside_messages.c: the channel to S's init; takes FD. */
int inside_open_channel(struct engine_sandbox *s, int fd) MUST_CHECK;

/* inside_idle.c: S may have become idle, or have stopped being idle. */
void inside_idle_note(struct engine_sandbox *s);
void inside_idle_remove(struct engine_sandbox *s);

/* inside_warm.c */
/* What a run that may be forked is to say in INIT_RUN; asks for a clean interpreter if there is
 * none. */
enum proto_warm inside_clean_for_run(struct engine_sandbox *s);
/* A run was the clean interpreter, and has ended. */
void inside_clean_spent(struct engine_sandbox *s);
/* The zygote of IMAGE could not be started, so all its runs are cold, and nothing else says why. Logs what it SAID, any
 * PROTO_SAID_MAX bytes. */
void inside_zygote_failed(const char *image, const char said[PROTO_SAID_MAX]);
/* INIT_COLD. -EPROTO: there were too many. */
int inside_clean_lost(struct engine_sandbox *s, bool awaited) MUST_CHECK;
/* Between runs: asks for a new one if it was lost. */
void inside_clean_again(struct engine_sandbox *s);
/* Gives the interpreters back. */
void inside_clean_rest(struct engine_sandbox *s);

/* inside_args.c */
/* The sealed memfd `args` of proto.h, or -errno; its counts and size go to M. */
int inside_run_args(const struct engine_sandbox *s, const struct engine_run_spec *spec,
		    struct proto_init_run *m) MUST_CHECK;
/* Whether nothing in SPEC is read by an interpreter only when it starts. */
bool inside_run_can_be_warm(const struct engine_run_spec *spec);

/* inside_usage.c: counters of the kernel, through descriptors that the engine opened; 0 if unknown */
/* How often the kernel has killed something in the sandbox because memory was short. */
uint64_t inside_oom_kills(const struct engine_sandbox *s);
uint64_t inside_peak_bytes(const struct engine_sandbox *s); /* of memory, since the run began */

/* inside_run.c */
int inside_run_ended(struct engine_sandbox *s, const struct proto_init_ended *m) MUST_CHECK;
/* inside_messages.c: what INIT_ENDED says of a session's names, and why a run never began. */
void inside_take_names(struct engine_left *left, const struct proto_init_ended *m);
void inside_start_failed(int errnum, bool background, struct err *e);
/* Ends the runs of S, if there are any, without init. E NULL: the run's result says END. */
void inside_run_abort(struct engine_sandbox *s, enum engine_end end, const struct err *e);
/* S is lost, so its run, if there is one, ends as lost. True = later, by inside_tell_loss(): when
 * the engine has said what the sandbox used, or has not said so for a few seconds. */
bool inside_run_lose(struct engine_sandbox *s);

/* inside_files.c */
/* INIT_FILED. */
int inside_filed(struct engine_sandbox *s, const struct proto_init_filed *m, int *fds,
		 size_t n) MUST_CHECK;
/* A question went to init, or an answer came: init may be silent for another two minutes. */
void inside_wait(struct engine_sandbox *s);
void inside_files_abort(struct engine_sandbox *s, const struct err *e);

/* inside_listing.c */
#define INSIDE_LIST_BATCH 64 /* entries that are read at once */
void inside_copy_entry(struct engine_file *to, const struct proto_entry *from);
/* Reads N entries from FD, sorted by name; *RET is to be freed. -EPROTO: a lie. */
int inside_read_list(int fd, uint32_t n, struct engine_file **ret) MUST_CHECK;

/* N ports as init tells them. -EPROTO: a lie. */
int inside_take_ports(const struct proto_port *rows, uint32_t n,
		      struct engine_port ret[PROTO_PORTS_MAX]) MUST_CHECK;
/* Reads N ports from FD, which is small and in memory. -EPROTO: a lie. */
int inside_read_ports(int fd, uint32_t n, struct engine_port ret[PROTO_PORTS_MAX]) MUST_CHECK;

/* inside_carried.c */
#define INSIDE_CARRIED                                                                             \
	"carried files" /* whose closing threads count for: memory of ours, which is quick */
/* A file of at most MOST bytes, which init fills; or -errno. */
int inside_carry_out(uint64_t most) MUST_CHECK;
/* Init says that FD has BYTES; it may be read from its beginning then. -EPROTO: a lie. */
int inside_carried_out(int fd, uint64_t bytes, int64_t mtime_ns) MUST_CHECK;
/* A file to write for the upload PUT, or -errno. */
int inside_carry_in(struct engine_sandbox *s, uint32_t put) MUST_CHECK;
/* The same file, for init; the caller's now. -ENOENT: there is no such upload. */
int inside_carried_in(struct engine_sandbox *s, uint32_t put) MUST_CHECK;
void inside_carried_abort(struct engine_sandbox *s);

/* inside_watch.c */
/* INIT_CHANGED. */
int inside_watch_told(struct engine_sandbox *s, const struct proto_init_changed *m) MUST_CHECK;
/* Does a watch wait for what init says at once? */
bool inside_watch_asks(const struct engine_sandbox *s);
void inside_watch_abort(struct engine_sandbox *s, const struct err *e);

/* inside_usage.c */
/* The answer to PROTO_FILE_MEASURE. */
int inside_measured(struct engine_sandbox *s, const struct proto_init_filed *m) MUST_CHECK;
void inside_usages_abort(struct engine_sandbox *s, const struct err *e);

/* inside_change.c */
void inside_change_abort(struct engine_sandbox *s, const struct err *e);

/* inside_keep.c: no answer can come any more. */
void inside_keep_abort(struct engine_sandbox *s, const struct err *e);

/* inside_store.c */
/* INIT_STORED. -EPROTO: nobody asked. */
int inside_stored(struct engine_sandbox *s, const struct proto_init_stored *m) MUST_CHECK;
/* E NULL: the variables are written. */
void inside_store_abort(struct engine_sandbox *s, const struct err *e);

/* inside_checkpoints.c */
/* INIT_CHECKPOINTED. */
int inside_checkpointed(struct engine_sandbox *s,
			const struct proto_init_checkpointed *m) MUST_CHECK;
void inside_checkpoints_abort(struct engine_sandbox *s, const struct err *e);
