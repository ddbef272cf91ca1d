/* SPDX-License-Identifier: Apache-2.0 */
/* The front side of the native engine: what the files of this folder share.
 *
 * A sandbox goes through
 *   CREATING -created and ready-> READY -destroy()-> ENDING -gone-> freed
 *   CREATING or READY -its channel ended, or it lied-> LOST -destroy()-> ENDING
 * `gone` = the monitor has said that nothing is left and the slot is free. An object lives until it
 * is gone *and* its owner has been told (failed creation, or the completion of destroy()). */
#pragma once

#include "engine/engine.h"
#include "engine/inside/channel.h"
#include "engine/inside/proto.h"

#include <sys/resource.h>

#define CLIENT_MAGIC UINT32_C(0x6e617476)

/* Sandboxes that nobody owns yet (front_pool.c). */
struct native_pool {
	uint32_t min, max;              /* of `want`; max 0 = no pool */
	uint32_t want;                  /* how many to keep now */
	uint32_t n;                     /* how many there are */
	uint32_t low;                   /* fewest since the last look */
	uint64_t idle_ns;               /* engine_config.idle_ns */
	uint64_t asked_ns;              /* last request */
	char root[ENGINE_NAME_MAX + 8]; /* the image's root folder, below `images` */
	struct engine_create key;       /* the request that they answer */
	bool has_key;
	struct native_sandbox *making;       /* one is on its way */
	bool stale;                          /* and is of an older key */
	uint32_t failures;                   /* in a row */
	uint64_t claimed, cold, fill_failed; /* engine_pool */
	struct native_sandbox *first;
	sd_event_source *timer; /* fills */
	sd_event_source *look;  /* shrinks */
};

/* Sandboxes between runs, in the order in which they were used last (front_warm.c). */
struct native_idle {
	uint64_t rest_ns; /* engine_config.rest_ns */
	struct native_sandbox *first, *last;
	sd_event_source *timer;
};

struct native_forget { /* an answer that is due */
	struct native_forget *next;
	uint32_t seq;
	engine_done_fn cb;
	void *user;
};

/* Whether memory is short (front_memory.c). */
struct native_press {
	uint64_t total_bytes; /* engine_config.total_bytes */
	uint64_t used_bytes;  /* of it, at the last look */
	sd_event_source *timer;
};

/* The clean interpreter of a sandbox, as far as the front knows. */
enum native_clean {
	NATIVE_CLEAN_NONE,   /* it has ended, or there never was one */
	NATIVE_CLEAN_ASKED,  /* the monitor was asked for one */
	NATIVE_CLEAN_THERE,  /* init has its channel */
	NATIVE_CLEAN_RESTED, /* given back until the next run */
	NATIVE_CLEAN_SPENT,  /* it was the first run itself; init asks for another a little later */
};

struct native_engine {
	struct engine base;
	uint32_t magic;
	sd_event *loop; /* referenced */
	struct chan *monitor;
	uint32_t enforced, best_effort;
	uint32_t max;
	uint32_t next_slot; /* round-robin, so that a uid is reused as late as possible */
	uint32_t next_run;
	struct native_sandbox **slots; /* by slot; NULL = free */
	bool dead;                     /* the monitor is gone */
	bool closing;
	struct native_sandbox *orphans; /* gone, but destroy() is still due */
	struct native_pool pool;
	struct native_forget *forgets;
	uint32_t next_forget;
	struct native_idle idle;
	struct native_press press;
	rlim_t nofile; /* descriptors of this process */
	int images;    /* O_PATH of the folder of images, -1 = there was none; for looking alone */
};

enum native_state { NATIVE_CREATING, NATIVE_READY, NATIVE_LOST, NATIVE_ENDING };

struct native_file_op {
	struct native_file_op *next;
	uint32_t seq;
	enum proto_file_op op;
	union {
		engine_fd_fn fd;
		engine_done_fn done;
		engine_list_fn list;
	} cb;
	void *user;
	char path[]; /* for messages */
};

struct native_usage_op {
	struct native_usage_op *next;
	uint32_t seq; /* of the question to init */
	bool from_monitor, from_init;
	struct engine_usage usage;
	engine_usage_fn cb;
	void *user;
};

struct native_point_op { /* one at a time; cb NULL = none */
	uint32_t seq;
	enum proto_point_op op;
	uint64_t oom_before; /* native_oom_kills() when it was asked for */
	engine_point_fn cb;
	void *user;
};

struct native_sandbox {
	struct engine_sandbox base;
	struct native_engine *g;
	uint32_t slot;
	enum native_state state;
	bool gone;
	bool created, ready; /* both halves of a creation */
	bool warm;           /* its runs may be forked */
	bool pooled;         /* nobody owns it yet */
	enum native_clean clean;
	uint32_t clean_again;    /* how often it was asked for anew, for the run that is on */
	uint64_t clean_retry_at; /* NONE: not asked for again before, but by need */
	bool listed;             /* in native_engine.idle */
	uint64_t idle_since;
	struct native_sandbox *idle_before, *idle_after;
	uint64_t image_dev, image_ino;
	sd_event_source *freeze; /* completion of freeze() */
	engine_done_fn freeze_cb;
	void *freeze_user;
	struct chan *init;
	struct engine_policy policy;
	engine_create_fn create_cb;
	void *create_user;
	engine_done_fn destroy_cb;
	void *destroy_user;
	engine_lost_fn lost_cb;
	void *lost_user;
	const char *lost_why;
	sd_event_source *later; /* completion of destroy() on something that is gone already */
	int oom, peak;
	bool wants_egress;
	int egress; /* the listening socket until it is taken, -1 */
	struct engine_run *run;
	uint64_t told_cpu_ns; /* of its runs that have ended, as init told it */
	uint64_t cpu_ns;      /* gone: of all that was in it; 0 = nobody counted */
	uint32_t next_seq;
	struct native_file_op *ops, **ops_last;
	struct native_usage_op *usages, **usages_last;
	struct native_point_op point;
	sd_event_source *patience; /* with init's answers to these; made at the first one */
	struct native_sandbox *next_orphan;
	struct native_sandbox *next_pooled;
	uint64_t pooled_ns;     /* since when */
	sd_event_source *claim; /* of the pool: its owner is about to hear of it */
};

/* front_engine.c */
struct native_engine *native_engine_of(struct engine *g);

static inline struct native_sandbox *native_sandbox_of(struct engine_sandbox *s)
{
	return (struct native_sandbox *)s;
}

/* front_create.c */
/* Descriptors of this process that new sandboxes leave to others. */
#define NATIVE_DESCRIPTORS_LEFT 64
int native_create(struct engine *base, const struct engine_create *c, engine_create_fn cb,
		  void *user, struct err *e) MUST_CHECK;
/* One that is new; native_create() without the pool. *RET is for the caller to mark, until CB. */
int native_create_new(struct native_engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user, struct err *e, struct native_sandbox **ret) MUST_CHECK;
void native_prepare(struct engine *base, const struct engine_create *c);
int native_take_egress(struct engine_sandbox *base);
/* The monitor's answer; takes the descriptors. -EPROTO = a lie. */
int native_created(struct native_engine *g, const struct proto_mon_created *m, int *fds,
		   size_t n) MUST_CHECK;

/* front_end.c */
void native_destroy(struct engine_sandbox *base, engine_done_fn cb, void *user);
void native_on_lost(struct engine_sandbox *base, engine_lost_fn cb, void *user);
/* The sandbox is not what it was: ends its run and everything that waits, and tells the owner. */
void native_lose(struct native_sandbox *s, const char *why);
/* What native_lose() put off: its run ends, and its owner hears of the loss. */
void native_tell_loss(struct native_sandbox *s);
/* The creation of S has failed: tells whoever asked for it. */
void native_fail_create(struct native_sandbox *s, const struct err *e);
/* Asks the monitor for the end of S. */
void native_ask_destroy(const struct native_sandbox *s);
/* The monitor says that its slot is free and nothing of S is left. S may be freed. */
void native_gone(struct native_sandbox *s);
/* The engine is closed: tells everybody who waits for S, and frees it. */
void native_cancel(struct native_sandbox *s, const struct err *e);
void native_sandbox_free(struct native_sandbox *s);

/* front_warm.c */
/* S may have become idle, or be idle no more. */
void native_idle_note(struct native_sandbox *s);
void native_idle_close(struct native_engine *g);
/* What a run that can be warm is to say of it; asks for a clean interpreter where there is none. */
enum proto_warm native_clean_for_run(struct native_sandbox *s);
/* A run was it, and has ended. */
void native_clean_spent(struct native_sandbox *s);
/* Init has lost it, or wants another one now. AWAITED: a run waits for that. */
void native_clean_lost(struct native_sandbox *s, bool awaited);
/* Between runs: asks for one where it was lost. */
void native_clean_again(struct native_sandbox *s);
/* The monitor's answer; takes the descriptors. */
void native_clean_came(struct native_sandbox *s, const struct proto_mon_warmed *m, int *fds,
		       size_t n);
int native_freeze(struct engine_sandbox *base, bool frozen, engine_done_fn cb, void *user,
		  struct err *e) MUST_CHECK;
void native_freeze_abort(struct native_sandbox *s, const struct err *e);

/* The N that were used the longest time ago give back what they can. */
void native_idle_evict(struct native_engine *g, uint32_t n);

/* front_memory.c */
/* There is something to look after: a sandbox has come, or is idle now. */
void native_press_note(struct native_engine *g);
void native_press_used(struct native_engine *g, uint64_t bytes);
/* Refuses a creation that there is no memory for. */
int native_press_check(struct native_engine *g, struct err *e) MUST_CHECK;
void native_press_close(struct native_engine *g);

/* front_stored.c */
int native_check_stored(const struct native_engine *g, const struct engine_create *c,
			struct err *e) MUST_CHECK;
int native_forget(struct engine *base, const char *persist_id, engine_done_fn cb, void *user,
		  struct err *e) MUST_CHECK;
int native_forgotten(struct native_engine *g, const struct proto_mon_forgotten *m) MUST_CHECK;
/* No answer will come any more. */
void native_forget_abort(struct native_engine *g, const struct err *e);

/* front_pool.c */
void native_pool_figures(const struct engine *base, struct engine_pool *ret);
void native_pool_note(struct native_engine *g,
		      const struct engine_create *c); /* it was asked for */
/* Whether sandboxes like this one may be made ahead. */
bool native_pool_serves(const struct engine_create *c) MUST_CHECK;
/* True = CB will be called with one from the pool. */
bool native_pool_take(struct native_engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user) MUST_CHECK;
/* A creation or a sandbox has ended: there may be room now. */
void native_pool_room(struct native_engine *g);
/* Memory is short: no more than the least. */
void native_pool_press(struct native_engine *g);
void native_pool_close(struct native_engine *g);

/* inside/inside_args.c */
/* The sealed memfd `args` of proto.h, or -errno; its counts and size go to M. */
int native_run_args(const struct engine_run_spec *spec, struct proto_init_run *m) MUST_CHECK;
/* Whether nothing in SPEC is read by an interpreter only when it starts. */
bool native_run_can_be_warm(const struct engine_run_spec *spec);

/* inside/inside_run.c */
int native_run(struct engine_sandbox *base, const struct engine_run_spec *spec,
	       struct engine_run **ret, struct err *e) MUST_CHECK;
int native_signal(struct engine_run *r, int signo);
int native_run_ended(struct native_sandbox *s, const struct proto_init_ended *m) MUST_CHECK;
/* How often the kernel has killed something in the sandbox for want of memory; 0 where no group
 * counts it. */
uint64_t native_oom_kills(const struct native_sandbox *s);
/* Ends the run of S, if there is one, from this side. E NULL: with END. */
void native_run_abort(struct native_sandbox *s, enum engine_end end, const struct err *e);
/* S is lost: its run, if there is one, ends as lost. True = later, by native_tell_loss(), when the
 * monitor has said what it used, or does not say so for a few seconds. */
bool native_run_lose(struct native_sandbox *s);

/* inside/inside_files.c */
int native_open_file(struct engine_sandbox *base, const char *path, engine_fd_fn cb, void *user,
		     struct err *e) MUST_CHECK;
int native_put_file(struct engine_sandbox *base, const char *path, bool overwrite,
		    uint32_t *ret_put, engine_fd_fn cb, void *user, struct err *e) MUST_CHECK;
int native_commit_file(struct engine_sandbox *base, uint32_t put, const char *path, bool overwrite,
		       bool keep, engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
int native_remove_file(struct engine_sandbox *base, const char *path, bool recursive,
		       engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
int native_list_files(struct engine_sandbox *base, const char *path, engine_list_fn cb, void *user,
		      struct err *e) MUST_CHECK;
int native_usage(struct engine_sandbox *base, engine_usage_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* An answer of init; takes the descriptors. -EPROTO = a lie. */
int native_filed(struct native_sandbox *s, const struct proto_init_filed *m, int *fds,
		 size_t n) MUST_CHECK;
/* A question is on its way to init, or an answer has come: the wait for the next begins anew. */
void native_wait_for_init(struct native_sandbox *s);
void native_used(struct native_sandbox *s, const struct proto_mon_used *m);
void native_files_abort(struct native_sandbox *s, const struct err *e);
/* Whether S takes requests; sets E otherwise. */
int native_check_ready(const struct native_sandbox *s, struct err *e) MUST_CHECK;

/* inside/inside_checkpoints.c */
int native_save_point(struct engine_sandbox *base, uint32_t place, engine_point_fn cb, void *user,
		      struct err *e) MUST_CHECK;
int native_restore_point(struct engine_sandbox *base, uint32_t place, bool files_only,
			 engine_point_fn cb, void *user, struct err *e) MUST_CHECK;
int native_drop_point(struct engine_sandbox *base, uint32_t place, engine_point_fn cb, void *user,
		      struct err *e) MUST_CHECK;
int native_pointed(struct native_sandbox *s, const struct proto_init_pointed *m) MUST_CHECK;
void native_points_abort(struct native_sandbox *s, const struct err *e);
