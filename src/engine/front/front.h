/* SPDX-License-Identifier: Apache-2.0 */
/* What the front does for every maker: what the files of this folder share.
 *
 * A maker (the monitor of the native engine, the keeper of the one on containers) makes and ends sandboxes; the front
 * asks it with fixed-size messages. Each sandbox has a slot, which the front chooses and which is free again when the
 * maker has said MON_GONE. The maker passes on the channel to a new sandbox's init; from then on engine/front/inside
 * talks to init alone. What is kept here: slots, the pool, stored workspaces and the memory of all sandboxes
 * together. Nothing here knows which maker it is: each lists its operations itself (maker/native/native.c,
 * maker/docker/docker.c). */
#pragma once

#include "engine/engine_ops.h"
#include "engine/front/inside/channel.h"
#include "engine/front/inside/inside.h"
#include "engine/protocol/proto.h"

#include <sys/resource.h>

#define FRONT_HELLO_WAIT_MS 5000

struct front_sandbox {
	struct engine_sandbox base;
	uint32_t slot;
	bool gone;                     /* the monitor has said so; the slot is free */
	uint64_t image_dev, image_ino; /* of the image's root folder */
	struct list orphan;            /* of the engine: gone, but its owner has not let go */
	struct list pooled;            /* of the pool */
	uint64_t pooled_ns;            /* when it came into the pool */
};

/* Sandboxes that nobody owns yet (front_pool.c). */
struct front_pool {
	uint32_t min, max;              /* of `want`; max 0 = no pool */
	uint32_t want;                  /* how many to keep now */
	uint32_t n;                     /* how many there are */
	uint32_t low;                   /* fewest since the last look */
	uint64_t idle_ns;               /* engine_config.idle_ns */
	uint64_t asked_ns;              /* when a sandbox was last asked for */
	char root[ENGINE_NAME_MAX + 8]; /* the image's root folder, below `images` */
	struct engine_create key;       /* the request that the pool's sandboxes answer */
	bool has_key;
	struct front_sandbox *making;        /* the one that is being made */
	bool stale;                          /* `making` is of an older key */
	uint32_t failures;                   /* in a row */
	uint64_t claimed, cold, fill_failed; /* engine_pool */
	struct list sandboxes;               /* struct front_sandbox, the newest first */
	sd_event_source *timer;              /* fills */
	sd_event_source *look;               /* shrinks */
};

struct front_forget {     /* a stored workspace that is being removed */
	struct list node; /* of the engine */
	uint32_t seq;
	engine_done_fn cb;
	void *user;
};

/* Whether memory is short (front_memory.c). */
struct front_memory {
	uint64_t total_bytes; /* engine_config.total_bytes */
	uint64_t used_bytes;  /* by all sandboxes, at the last look */
	uint64_t written;     /* bytes that the front has written into workspaces in memory */
	uint64_t told;        /* of them, those that the monitor knows of */
	struct list askers;   /* struct front_asker: what the monitor answers next is for them */
	sd_event_source *timer;
};

struct front_engine {
	struct engine base;
	int monitor_fd; /* between begin and open, else -1 */
	pid_t monitor_pid;
	struct channel *monitor;
	bool dead;          /* the monitor has ended */
	bool any_reference; /* images have references of a container engine, not only names */
	uint32_t max;       /* slots */
	uint32_t
	    next_slot; /* slots are used in turn, so that a uid is used again as late as possible */
	struct front_sandbox **slots; /* NULL = free */
	struct list orphans;          /* struct front_sandbox */
	struct front_pool pool;
	struct list forgets; /* struct front_forget */
	uint32_t next_forget;
	struct list disks; /* struct front_disk */
	uint32_t next_disk;
	struct front_memory memory;
	rlim_t nofile; /* descriptors that this process may have */
	int images;    /* O_PATH of the folder of images, to look only; -1 = none */
};

static inline struct front_engine *front_engine_of(struct engine *g)
{
	return (struct front_engine *)g;
}

static inline struct front_sandbox *front_sandbox_of(struct engine_sandbox *s)
{
	return (struct front_sandbox *)s;
}

/* front_engine.c */
int front_open(struct engine *base, struct err *e) MUST_CHECK;
void front_close(struct engine *base);
int front_usage(struct engine_sandbox *s) MUST_CHECK;
int front_change(struct engine_sandbox *s, const struct engine_limits *l) MUST_CHECK;
int front_warm(struct engine_sandbox *s) MUST_CHECK;
int front_keep(struct engine_sandbox *s, const char *persist_id) MUST_CHECK;
void front_ready(struct engine_sandbox *s);
void front_idle(struct engine_sandbox *s);
/* The maker has ended, or the engine was closed. */
int front_refuse_dead(const struct front_engine *g, struct err *e);

/* front_start.c */
/* Makes a zeroed engine ready for front_open() and front_close(). */
void front_init(struct front_engine *g, const struct engine_config *config);
/* Starts this program again with ARGV as the process that makes the sandboxes, and waits until it is
 * up. */
int front_start(struct front_engine *g, const char *const argv[],
		const struct engine_config *config, struct err *e) MUST_CHECK;

/* front_create.c */
int front_create(struct engine *base, const struct engine_create *c, engine_create_fn cb,
		 void *user, struct err *e) MUST_CHECK;
/* Never from the pool. The caller may mark *RET before CB is called. */
int front_create_new(struct front_engine *g, const struct engine_create *c, engine_create_fn cb,
		     void *user, struct err *e, struct front_sandbox **ret) MUST_CHECK;
/* MON_CREATED. -EPROTO = it cannot be. */
int front_created(struct front_engine *g, const struct proto_mon_created *m, int *fds,
		  size_t n) MUST_CHECK;
/* MON_GONE, or the monitor has ended. S may be freed. */
void front_gone(struct front_sandbox *s, uint64_t cpu_ns);
void front_destroy(struct engine_sandbox *base);
void front_release(struct engine_sandbox *base);

/* front_stored.c */
int front_check_stored(const struct front_engine *g, const struct engine_create *c,
		       struct err *e) MUST_CHECK;
int front_forget(struct engine *base, const char *persist_id, engine_done_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* MON_FORGOTTEN. */
int front_forgotten(struct front_engine *g, const struct proto_mon_forgotten *m) MUST_CHECK;
/* No answer will come any more. */
void front_forget_abort(struct front_engine *g, const struct err *e);

/* front_disks.c */
int front_disk(struct engine *base, const struct engine_disk_order *o, struct err *e) MUST_CHECK;
/* MON_DISK_HAD; FILE: the callee's. */
int front_disk_had(struct front_engine *g, const struct proto_mon_disk_had *m, int file) MUST_CHECK;
/* No answer will come any more. */
void front_disks_abort(struct front_engine *g, const struct err *e);

/* front_pool.c */
void front_pool_figures(const struct engine *base, struct engine_pool *ret);
void front_prepare(struct engine *base, const struct engine_create *c);
/* C was asked for: the pool is to hold such sandboxes. */
void front_pool_note(struct front_engine *g, const struct engine_create *c);
/* Whether sandboxes like this one may be made ahead of need. */
bool front_pool_serves(const struct front_engine *g, const struct engine_create *c) MUST_CHECK;
/* True = CB will be called with one from the pool. */
bool front_pool_take(struct front_engine *g, const struct engine_create *c, engine_create_fn cb,
		     void *user) MUST_CHECK;
/* A creation or a sandbox has ended: there may be room to fill the pool. */
void front_pool_room(struct front_engine *g);
/* Memory is short: only the minimum stays. */
void front_pool_shrink(struct front_engine *g);
void front_pool_close(struct front_engine *g);

/* front_memory.c */
/* There is something that could be given back. */
void front_memory_note(struct front_engine *g);
void front_memory_used(struct front_engine *g, uint64_t bytes);
int front_memory_ask(struct engine *base, engine_memory_fn cb, void *user) MUST_CHECK;
void front_memory_abort(struct front_engine *g); /* nothing is answered any more */
/* Refuses a creation when all sandboxes together are near their total. */
int front_memory_count(struct engine *base, uint64_t bytes, struct err *e) MUST_CHECK;
void front_memory_uncount(struct engine *base, uint64_t bytes);
int front_memory_check(struct front_engine *g, struct err *e) MUST_CHECK;
void front_memory_close(struct front_engine *g);
