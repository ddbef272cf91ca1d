/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine is: what it fills in, and the part of its state that engine/front/inside works with.
 * Only engines and engine/front/inside include this; callers use engine.h. README.md tells how to add an
 * engine.
 *
 * An operation that is NULL is one that the engine lacks. engine.c answers for it with
 * ERR_ENGINE_NOT_BUILT_IN, so neither callers nor engine/front/inside test for NULL. */
#pragma once

#include "base/list.h"
#include "engine/disks.h"
#include "engine/engine.h"

/* What each engine can enforce on some host: the columns of the table. */
#define CAP_IF_YES 1
#define CAP_IF_NO  0
enum {
#define C(name, bit, native, docker, needs) | CAP_IF_##native << (bit)
	ENGINE_CAPS_NATIVE = 0
#include "engine/protocol/caps.tbl.h"
	,
#undef C
#define C(name, bit, native, docker, needs) | CAP_IF_##docker << (bit)
	ENGINE_CAPS_DOCKER = 0
#include "engine/protocol/caps.tbl.h"
	,
#undef C
};

struct engine_ops {
	const char *name;
	uint32_t caps;         /* ENGINE_CAPS_...; what its maker says beyond them does not count */
	const char *get_image; /* engine_get_image(); NULL = `caisson image build` */

	/* ---- the engine itself ---- */

	/* engine_begin(): G is zeroed, and engine_ops.size bytes long. Sets G's front_uid. */
	int (*begin)(struct engine *g, const struct engine_config *config, struct err *e);
	size_t size; /* of the engine's own struct, which begins with struct engine */
	/* engine_open(): G's loop is set. Sets G's enforced and best_effort. */
	int (*open)(struct engine *g, struct err *e);
	/* engine_close(): ends what begin() and open() made. Calls inside_cancel() for every sandbox
	 * that is left. */
	void (*close)(struct engine *g);
	int (*probe)(const struct engine_config *config, sd_event *loop, engine_probe_fn cb,
		     void *user, struct err *e);
	void (*pool)(const struct engine *g, struct engine_pool *ret);
	void (*prepare)(struct engine *g, const struct engine_create *c);
	/* engine_memory(): CB follows. 0 or -errno. NULL = the engine counts nothing. */
	int (*memory)(struct engine *g, engine_memory_fn cb, void *user);
	/* engine_count_upload(). Both NULL = there is no limit on all sandboxes together. */
	int (*count_upload)(struct engine *g, uint64_t bytes, struct err *e);
	void (*uncount_upload)(struct engine *g, uint64_t bytes);
	int (*forget)(struct engine *g, const char *persist_id, engine_done_fn cb, void *user,
		      struct err *e);
	/* engine/disks.h. NULL = stored workspaces are no disks. */
	int (*disk)(struct engine *g, const struct engine_disk_order *o, struct err *e);

	/* ---- its sandboxes ---- */

	/* The most that open_files() of engine.c gives, because open files take something of the host that the
	 * engine does not limit; 0 = there is nothing. */
	uint32_t open_files_most;
	/* engine_create(): calls inside_new(), and later inside_started() or inside_refused(). */
	int (*create)(struct engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user, struct err *e);
	/* Kill S and remove it; inside_gone() follows. May be called twice for one sandbox. */
	void (*destroy)(struct engine_sandbox *s);
	/* What does S use? inside_used() follows. 0 or -errno. */
	int (*usage)(struct engine_sandbox *s);
	/* Sets memory, CPU and processes of S to those of L, all or none, and kills nothing;
	 * inside_changed() follows. -EBUSY: not during a run. NULL = the engine cannot. */
	int (*change)(struct engine_sandbox *s, const struct engine_limits *l);
	/* The workspace of the session S becomes the stored one of PERSIST_ID, in place; inside_kept() follows. 0 or
	 * -errno. NULL = the engine cannot. */
	int (*keep)(struct engine_sandbox *s, const char *persist_id);
	/* A new clean interpreter for S; inside_warmed() follows. 0 or -errno. */
	int (*warm)(struct engine_sandbox *s);
	/* S is ready: there may be room for another creation. NULL = the engine does not care. */
	void (*ready)(struct engine_sandbox *s);
	/* S is idle now. NULL = the engine does not care. */
	void (*idle)(struct engine_sandbox *s);
	/* Nobody knows S any more: free it, and what else the engine keeps for it. */
	void (*release)(struct engine_sandbox *s);
};

/* Sandboxes between runs, the least recently used first (inside_idle.c). */
struct engine_idle {
	uint64_t rest_ns;      /* engine_config.rest_ns */
	uint32_t max;          /* engine_config.spares */
	uint32_t n;            /* elements of `sandboxes` */
	struct list sandboxes; /* struct engine_sandbox */
	sd_event_source *timer;
};

struct engine { /* first member of every engine's own struct */
	const struct engine_ops *ops;
	sd_event *loop;  /* reference; NULL until engine_open() */
	uid_t front_uid; /* uid and gid that the engine keeps for a front of root's; 0 = none */
	uint32_t enforced, best_effort; /* enum engine_cap bits */
	struct engine_levels levels;    /* set by begin() */
	bool closing;
	char cold_image
	    [ENGINE_NAME_MAX]; /* the last one that inside_zygote_failed() was told of by a sandbox */
	struct err lost;       /* ERR_NONE, or why no sandbox can be made any more */
	engine_end_fn on_end;
	void *on_end_user;
	uint32_t next_run; /* serial of the last run */
	struct engine_idle idle;
	struct engine_space space; /* engine_space(); the engine keeps it up to date */
};

/* engine.c. A new engine, zeroed; engine_close() frees it. NULL: no memory. */
struct engine *engine_new(const struct engine_ops *ops);
/* What engine/front/inside asks of an engine; -ENOTSUP where it lacks the operation. */
int engine_ask_usage(struct engine_sandbox *s) MUST_CHECK;
int engine_ask_warm(struct engine_sandbox *s) MUST_CHECK;
int engine_ask_change(struct engine_sandbox *s, const struct engine_limits *l) MUST_CHECK;
bool engine_keeps(const struct engine *g);
int engine_ask_keep(struct engine_sandbox *s, const char *persist_id) MUST_CHECK;
bool engine_can_warm(const struct engine *g);
void engine_note_ready(struct engine_sandbox *s);
void engine_note_idle(struct engine_sandbox *s);
