/* SPDX-License-Identifier: Apache-2.0 */
/* The front's half of the native engine: what the files of this folder share.
 *
 * The monitor makes and ends sandboxes; the front asks it with fixed-size messages. Each sandbox has
 * a slot, which the front chooses and which is free again when the monitor has said MON_GONE. The
 * monitor passes on the channel to a new sandbox's init; from then on engine/inside talks to init
 * alone. What is kept here is what only this engine has: slots, the pool, stored workspaces and the
 * memory of all sandboxes together. */
#pragma once

#include "engine/engine_ops.h"
#include "engine/inside/channel.h"
#include "engine/inside/inside.h"
#include "engine/inside/proto.h"
#include "engine/native/native.h"

#include <sys/resource.h>

#define FRONT_HELLO_WAIT_MS 5000

struct native_sandbox {
	struct engine_sandbox base;
	uint32_t slot;
	bool gone;                     /* the monitor has said so; the slot is free */
	uint64_t image_dev, image_ino; /* of the image's root folder */
	struct list orphan;            /* of the engine: gone, but its owner has not let go */
	struct list pooled;            /* of the pool */
	uint64_t pooled_ns;            /* when it came into the pool */
};

/* Sandboxes that nobody owns yet (front_pool.c). */
struct native_pool {
	uint32_t min, max;              /* of `want`; max 0 = no pool */
	uint32_t want;                  /* how many to keep now */
	uint32_t n;                     /* how many there are */
	uint32_t low;                   /* fewest since the last look */
	uint64_t idle_ns;               /* engine_config.idle_ns */
	uint64_t asked_ns;              /* when a sandbox was last asked for */
	char root[ENGINE_NAME_MAX + 8]; /* the image's root folder, below `images` */
	struct engine_create key;       /* the request that the pool's sandboxes answer */
	bool has_key;
	struct native_sandbox *making;       /* the one that is being made */
	bool stale;                          /* `making` is of an older key */
	uint32_t failures;                   /* in a row */
	uint64_t claimed, cold, fill_failed; /* engine_pool */
	struct list sandboxes;               /* struct native_sandbox, the newest first */
	sd_event_source *timer;              /* fills */
	sd_event_source *look;               /* shrinks */
};

struct native_forget {    /* a stored workspace that is being removed */
	struct list node; /* of the engine */
	uint32_t seq;
	engine_done_fn cb;
	void *user;
};

/* Whether memory is short (front_memory.c). */
struct native_memory {
	uint64_t total_bytes; /* engine_config.total_bytes */
	uint64_t used_bytes;  /* by all sandboxes, at the last look */
	uint64_t written;     /* bytes that the front has written into workspaces in memory */
	uint64_t told;        /* of them, those that the monitor knows of */
	sd_event_source *timer;
};

struct native_engine {
	struct engine base;
	int monitor_fd; /* between begin and open, else -1 */
	pid_t monitor_pid;
	struct channel *monitor;
	bool dead;          /* the monitor has ended */
	bool any_reference; /* images have references of a container engine, not only names */
	uint32_t max;       /* slots */
	uint32_t
	    next_slot; /* slots are used in turn, so that a uid is used again as late as possible */
	struct native_sandbox **slots; /* NULL = free */
	struct list orphans;           /* struct native_sandbox */
	struct native_pool pool;
	struct list forgets; /* struct native_forget */
	uint32_t next_forget;
	struct native_memory memory;
	rlim_t nofile; /* descriptors that this process may have */
	int images;    /* O_PATH of the folder of images, to look only; -1 = none */
};

static inline struct native_engine *native_engine_of(struct engine *g)
{
	return (struct native_engine *)g;
}

static inline struct native_sandbox *native_sandbox_of(struct engine_sandbox *s)
{
	return (struct native_sandbox *)s;
}

/* What every engine whose sandboxes a process of its own makes has in its struct engine_ops, beside `change`. */
#define NATIVE_FRONT_OPS                                                                           \
	.size = sizeof(struct native_engine), .open = native_open, .close = native_close,          \
	.pool = native_pool_figures, .prepare = native_prepare,                                    \
	.count_upload = native_memory_count, .uncount_upload = native_memory_uncount,              \
	.forget = native_forget, .create = native_create, .destroy = native_destroy,               \
	.usage = native_usage, .warm = native_warm, .ready = native_ready, .idle = native_idle,    \
	.release = native_release

/* front_engine.c */
int native_open(struct engine *base, struct err *e) MUST_CHECK;
void native_close(struct engine *base);
int native_usage(struct engine_sandbox *s) MUST_CHECK;
int native_change(struct engine_sandbox *s, const struct engine_limits *l) MUST_CHECK;
int native_warm(struct engine_sandbox *s) MUST_CHECK;
void native_ready(struct engine_sandbox *s);
void native_idle(struct engine_sandbox *s);

/* front_start.c */
/* Makes a zeroed engine ready for native_open() and native_close(). */
void native_init(struct native_engine *g, const struct engine_config *config);
/* Starts this program again with ARGV as the process that makes the sandboxes, and waits until it is
 * up. */
int native_start(struct native_engine *g, const char *const argv[],
		 const struct engine_config *config, struct err *e) MUST_CHECK;
int native_begin(struct engine *base, const struct engine_config *config, struct err *e) MUST_CHECK;

/* front_create.c */
int native_create(struct engine *base, const struct engine_create *c, engine_create_fn cb,
		  void *user, struct err *e) MUST_CHECK;
/* Never from the pool. The caller may mark *RET before CB is called. */
int native_create_new(struct native_engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user, struct err *e, struct native_sandbox **ret) MUST_CHECK;
/* MON_CREATED. -EPROTO = it cannot be. */
int native_created(struct native_engine *g, const struct proto_mon_created *m, int *fds,
		   size_t n) MUST_CHECK;
/* MON_GONE, or the monitor has ended. S may be freed. */
void native_gone(struct native_sandbox *s, uint64_t cpu_ns);
void native_destroy(struct engine_sandbox *base);
void native_release(struct engine_sandbox *base);

/* front_stored.c */
int native_check_stored(const struct native_engine *g, const struct engine_create *c,
			struct err *e) MUST_CHECK;
int native_forget(struct engine *base, const char *persist_id, engine_done_fn cb, void *user,
		  struct err *e) MUST_CHECK;
/* MON_FORGOTTEN. */
int native_forgotten(struct native_engine *g, const struct proto_mon_forgotten *m) MUST_CHECK;
/* No answer will come any more. */
void native_forget_abort(struct native_engine *g, const struct err *e);

/* front_pool.c */
void native_pool_figures(const struct engine *base, struct engine_pool *ret);
void native_prepare(struct engine *base, const struct engine_create *c);
/* C was asked for: the pool is to hold such sandboxes. */
void native_pool_note(struct native_engine *g, const struct engine_create *c);
/* Whether sandboxes like this one may be made ahead of need. */
bool native_pool_serves(const struct native_engine *g, const struct engine_create *c) MUST_CHECK;
/* True = CB will be called with one from the pool. */
bool native_pool_take(struct native_engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user) MUST_CHECK;
/* A creation or a sandbox has ended: there may be room to fill the pool. */
void native_pool_room(struct native_engine *g);
/* Memory is short: only the minimum stays. */
void native_pool_shrink(struct native_engine *g);
void native_pool_close(struct native_engine *g);

/* front_memory.c */
/* There is something that could be given back. */
void native_memory_note(struct native_engine *g);
void native_memory_used(struct native_engine *g, uint64_t bytes);
/* Refuses a creation when all sandboxes together are near their total. */
int native_memory_count(struct engine *base, uint64_t bytes, struct err *e) MUST_CHECK;
void native_memory_uncount(struct engine *base, uint64_t bytes);
int native_memory_check(struct native_engine *g, struct err *e) MUST_CHECK;
void native_memory_close(struct native_engine *g);

/* front_probe.c */
int native_engine_probe(const struct engine_config *config, sd_event *loop, engine_probe_fn cb,
			void *user, struct err *e) MUST_CHECK;
