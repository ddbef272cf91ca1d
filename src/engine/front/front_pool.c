/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: sandboxes made ahead of need, with the same request and the same code as others. So a
 * sandbox from the pool has the same policy as a new one, and saves only time.
 *
 * The last request is the pool's key; a moment after it the pool fills up. The next creation with the
 * same request takes a sandbox from the pool (a claim), and the pool fills up again. A different
 * request empties the pool and becomes the key. The pool is also emptied when the image's name
 * belongs to another image now.
 *
 * Size. A claim that finds nothing doubles `want`, up to `max`. Every LOOK_NS the pool gives up half
 * of what was not needed in that time, down to `min`. When there was no sandbox but the pool's own
 * for `idle_ns`, the pool is emptied, so that the image's zygote can end too.
 *
 * Filling. One at a time, FILL_DELAY_NS after a claim, when the loop has nothing else to do and
 * nobody waits for a creation. */
#include "engine/front/front.h"

#include "base/kill_points.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FILL_DELAY_NS  (50 * NS_PER_MS)
#define FILL_SHIFT_MAX 10 /* after failures: at most 51 s */
#define SLOTS_LEFT     2  /* slots that the pool leaves free */
#define LOOK_NS        (5 * NS_PER_S)
#define LIVED_NS       (10 * NS_PER_S) /* a sandbox that ends sooner counts as a failure */

static void arm(struct front_engine *g);
static void arm_look(struct front_engine *g);

/* Whether there is room, and no caller waits for a creation. */
static bool may_fill(const struct front_engine *g)
{
	uint32_t free_slots = 0;

	for (uint32_t i = 0; i < g->max; i++) {
		const struct front_sandbox *s = g->slots[i];
		if (s && !s->base.pooled &&
		    (s->base.state == INSIDE_ASKED || s->base.state == INSIDE_STARTING))
			return false;
		free_slots += !s;
	}
	return free_slots > SLOTS_LEFT;
}

/* ---- members ---- */

static struct front_sandbox *newest(struct front_pool *p)
{
	return list_first(&p->sandboxes, struct front_sandbox, pooled);
}

static void unlink_pooled(struct front_engine *g, struct front_sandbox *s)
{
	if (list_is_empty(&s->pooled))
		return;
	list_remove(&s->pooled);
	g->pool.n--;
}

static void failed(struct front_pool *p)
{
	p->failures += p->failures < FILL_SHIFT_MAX;
	p->fill_failed++;
}

static void on_pooled_lost(struct engine_sandbox *base, const char *why UNUSED, void *user)
{
	struct front_engine *g = user;
	struct front_sandbox *s = (struct front_sandbox *)base;

	unlink_pooled(g, s);
	if (now_ns() - s->pooled_ns < LIVED_NS)
		failed(&g->pool);
	engine_destroy(base, NULL, NULL);
	arm(g);
}

static void on_pooled(struct engine_sandbox *base, const struct engine_policy *policy UNUSED,
		      const struct err *e, void *user)
{
	struct front_engine *g = user;
	struct front_sandbox *s = (struct front_sandbox *)base;

	g->pool.making = NULL;
	if (e || g->base.closing || g->pool.stale) {
		if (e)
			failed(&g->pool);
		g->pool.stale = false;
		if (s)
			engine_destroy(base, NULL, NULL);
	} else {
		KILL_POINT(POOL_FILLED);
		g->pool.failures = 0;
		s->pooled_ns = now_ns();
		list_prepend(&g->pool.sandboxes, &s->pooled);
		g->pool.n++;
		engine_on_lost(base, on_pooled_lost, g);
	}
	arm(g);
	arm_look(g);
}

/* Ends the oldest; claims take the newest, whose pages are in the caches. */
static void drop_one(struct front_engine *g)
{
	struct front_sandbox *s = list_last(&g->pool.sandboxes, struct front_sandbox, pooled);

	ASSERT(s);
	unlink_pooled(g, s);
	engine_on_lost(&s->base, NULL, NULL);
	engine_destroy(&s->base, NULL, NULL);
}

static void empty(struct front_engine *g)
{
	while (!list_is_empty(&g->pool.sandboxes))
		drop_one(g);
	g->pool.stale = g->pool.making != NULL; /* the one that is being made has the old key */
}

/* ---- filling ---- */

static int on_fill(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct front_engine *g = user;
	struct err e = ERR_INIT;

	loop_work("timer", "pool");
	g->pool.timer = sd_event_source_disable_unref(g->pool.timer);
	if (g->base.closing || g->dead || g->pool.making || g->pool.n >= g->pool.want)
		return 0;
	if (!may_fill(g)) /* front_pool_room() arms it again */
		return 0;
	if (front_create_new(g, &g->pool.key, on_pooled, g, &e, &g->pool.making) < 0)
		failed(&g->pool);
	else
		g->pool.making->base.pooled = true;
	return 0;
}

/* Without memory for the timer the pool stays empty, and sandboxes are made on demand. */
static void arm(struct front_engine *g)
{
	uint64_t delay_us = (FILL_DELAY_NS << g->pool.failures) / NS_PER_US;

	g->pool.timer = sd_event_source_disable_unref(g->pool.timer);
	if (g->base.closing || !g->pool.has_key || g->pool.making || g->pool.n >= g->pool.want)
		return;
	if (sd_event_add_time_relative(g->base.loop, &g->pool.timer, CLOCK_MONOTONIC, delay_us, 1,
				       on_fill, g) >= 0)
		(void)sd_event_source_set_priority(g->pool.timer, SD_EVENT_PRIORITY_IDLE);
}

void front_pool_room(struct front_engine *g)
{
	if (!g->pool.timer)
		arm(g);
}

/* ---- size ---- */

static bool anybody_lives(const struct front_engine *g)
{
	for (uint32_t i = 0; i < g->max; i++)
		if (g->slots[i] && !g->slots[i]->base.pooled)
			return true;
	return false;
}

static void shrink(struct front_pool *p)
{
	uint32_t unneeded = MIN(p->low, p->n);

	if (p->want > p->min && unneeded > 0)
		p->want = MAX(p->min, p->want - (unneeded + 1) / 2);
	p->low = p->n;
}

void front_pool_shrink(struct front_engine *g)
{
	g->pool.want = g->pool.min;
	while (g->pool.n > g->pool.want)
		drop_one(g);
}

static int on_look(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct front_engine *g = user;
	struct front_pool *p = &g->pool;
	uint64_t now = now_ns();

	p->look = sd_event_source_disable_unref(p->look);
	if (anybody_lives(g))
		p->asked_ns = now;
	if (p->idle_ns > 0 && now - p->asked_ns >= p->idle_ns) {
		empty(g);
		p->has_key = false; /* the next request is the key again */
		p->want = p->min;
		return 0;
	}
	shrink(p);
	while (p->n > p->want)
		drop_one(g);
	arm_look(g);
	return 0;
}

static void arm_look(struct front_engine *g)
{
	struct front_pool *p = &g->pool;
	uint64_t wait = p->want > p->min ? LOOK_NS : 0;

	if (p->idle_ns > 0)
		wait = wait > 0 ? MIN(wait, p->idle_ns) : p->idle_ns;
	if (p->look || g->base.closing || !p->has_key || wait == 0)
		return;
	(void)!sd_event_add_time_relative(g->base.loop, &p->look, CLOCK_MONOTONIC, wait / NS_PER_US,
					  NS_PER_MS / NS_PER_US, on_look, g);
}

/* ---- requests ---- */

static bool same_limits(const struct engine_limits *a, const struct engine_limits *b)
{
	return a->memory_bytes == b->memory_bytes && a->cpu_milli == b->cpu_milli &&
	       a->pids == b->pids && a->pids_most == b->pids_most &&
	       a->workspace_bytes == b->workspace_bytes &&
	       a->workspace_inodes == b->workspace_inodes && a->tmp_bytes == b->tmp_bytes &&
	       a->nofile == b->nofile && a->explicit_mask == b->explicit_mask;
}

static bool is_key(const struct front_engine *g, const struct engine_create *c)
{
	return g->pool.has_key && streq(g->pool.key.image, c->image) &&
	       g->pool.key.warm == c->warm && g->pool.key.root == c->root &&
	       same_limits(&g->pool.key.limits, &c->limits);
}

/* Whether S is of the image that has the name now. If the front may not look, it assumes so. */
static bool is_current(const struct front_engine *g, const struct front_sandbox *s)
{
	struct stat st;

	if (g->images < 0 || fstatat(g->images, g->pool.root, &st, 0) < 0)
		return g->images < 0 || errno != ENOENT;
	return st.st_dev == s->image_dev && st.st_ino == s->image_ino;
}

static void take_key(struct front_engine *g, const struct engine_create *c)
{
	struct front_pool *p = &g->pool;

	empty(g);
	p->key = *c;
	p->key.owner = NULL; /* it goes with its sandbox; what waits in the pool is the server's */
	p->has_key = true;
	(void)snprintf(p->root, sizeof(p->root), "%s/root", c->image);
	p->failures = 0;
	p->want = p->min;
	p->asked_ns = now_ns();
}

bool front_pool_serves(const struct front_engine *g, const struct engine_create *c)
{
	const struct engine_levels *l = &g->base.levels;

	/* The pool has the usual level alone: others are asked for seldom, and cost more. */
	return !c->persist_id && !c->egress && !c->helper_of && !c->single &&
	       (!c->level[0] || streq(c->level, l->at[l->usual].name));
}

void front_pool_note(struct front_engine *g, const struct engine_create *c)
{
	if (g->pool.max == 0 || !front_pool_serves(g, c))
		return;
	if (!is_key(g, c))
		take_key(g, c);
	arm(g);
	arm_look(g);
}

/* A claim found nothing, so there should have been more. */
static void missed(struct front_engine *g)
{
	struct front_pool *p = &g->pool;

	p->cold++;
	p->low = 0;
	p->want = MIN(p->max, MAX(p->want * 2, 1u));
	p->look = sd_event_source_disable_unref(p->look); /* it may be set to the idle time */
	arm_look(g);
}

bool front_pool_take(struct front_engine *g, const struct engine_create *c, engine_create_fn cb,
		     void *user)
{
	struct front_pool *p = &g->pool;

	if (!is_key(g, c)) {
		p->cold += p->max > 0;
		return false;
	}
	p->asked_ns = now_ns();
	struct front_sandbox *s = newest(p);
	if (s && !is_current(g, s)) {
		empty(g);
		s = NULL;
	}
	if (!s || inside_hand_over(&s->base, cb, user) < 0) {
		missed(g);
		return false;
	}
	unlink_pooled(g, s);
	p->low = MIN(p->low, p->n);
	p->claimed++;
	arm(g);
	KILL_POINT(POOL_CLAIMED);
	return true;
}

void front_prepare(struct engine *base, const struct engine_create *c)
{
	front_pool_note(front_engine_of(base), c);
}

void front_pool_figures(const struct engine *base, struct engine_pool *ret)
{
	const struct front_pool *p = &((const struct front_engine *)base)->pool;

	*ret = (struct engine_pool){
	    .ready = p->n, .claimed = p->claimed, .cold = p->cold, .fill_failed = p->fill_failed};
}

void front_pool_close(struct front_engine *g)
{
	g->pool.timer = sd_event_source_disable_unref(g->pool.timer);
	g->pool.look = sd_event_source_disable_unref(g->pool.look);
	/* The engine ends these sandboxes with all others. */
	while (list_pop(&g->pool.sandboxes))
		g->pool.n--;
}
