/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes made ahead of need: the same request, sent by the same code, before anybody asks. So a
 * claim has the policy of a creation; what it saves is the time.
 *
 *   a creation that was asked for -> its request is the pool's key -> a moment later the pool fills
 * up the next creation with the same request -> takes one, and the pool fills up again A different
 * request empties the pool and becomes the key. One is made at a time and never at once after a
 * claim, so that filling does not compete with the run that the claim was for. */
#include "engine/native/client.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define FILL_DELAY_NS  (50 * NS_PER_MS)
#define FILL_SHIFT_MAX 10 /* after failures: at most 51 s */
#define SLOTS_LEFT     2  /* the pool never takes the last ones */

static void arm(struct native_engine *g);

static uint32_t pooled(const struct native_engine *g)
{
	uint32_t n = 0;

	for (const struct native_sandbox *s = g->pool.first; s; s = s->next_pooled)
		n++;
	return n;
}

static uint32_t free_slots(const struct native_engine *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->max && n < SLOTS_LEFT + 1; i++)
		n += g->slots[i] == NULL;
	return n;
}

static void unlink_pooled(struct native_engine *g, const struct native_sandbox *s)
{
	for (struct native_sandbox **at = &g->pool.first; *at; at = &(*at)->next_pooled) {
		if (*at != s)
			continue;
		*at = s->next_pooled;
		return;
	}
}

static void on_pooled_lost(struct engine_sandbox *base, const char *why UNUSED, void *user)
{
	struct native_engine *g = user;

	unlink_pooled(g, (struct native_sandbox *)base);
	g->base.ops->destroy(base, NULL, NULL);
	arm(g);
}

static void on_pooled(struct engine_sandbox *base, const struct engine_policy *policy UNUSED,
		      const struct err *e, void *user)
{
	struct native_engine *g = user;
	struct native_sandbox *s = (struct native_sandbox *)base;

	g->pool.making = false;
	if (e || g->closing || g->pool.stale) {
		g->pool.failures += e != NULL && g->pool.failures < FILL_SHIFT_MAX;
		g->pool.stale = false;
		if (s)
			g->base.ops->destroy(base, NULL, NULL);
	} else {
		g->pool.failures = 0;
		s->next_pooled = g->pool.first;
		g->pool.first = s;
		g->base.ops->on_lost(base, on_pooled_lost, g);
	}
	arm(g);
}

static int on_fill(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct native_engine *g = user;
	struct err e = ERR_INIT;

	if (g->closing || g->dead || g->pool.making || pooled(g) >= g->pool.want ||
	    free_slots(g) <= SLOTS_LEFT)
		return 0;
	g->pool.making = native_create_new(g, &g->pool.key, on_pooled, g, &e) == 0;
	return 0;
}

/* Without memory for the timer the pool stays empty: everything is then made on demand. */
static void arm(struct native_engine *g)
{
	uint64_t delay_us = (FILL_DELAY_NS << g->pool.failures) / NS_PER_US;

	g->pool.timer = sd_event_source_disable_unref(g->pool.timer);
	if (!g->closing && g->pool.has_key && !g->pool.making && pooled(g) < g->pool.want)
		(void)!sd_event_add_time_relative(g->loop, &g->pool.timer, CLOCK_MONOTONIC,
						  delay_us, 0, on_fill, g);
}

static bool same_limits(const struct engine_limits *a, const struct engine_limits *b)
{
	return a->memory_bytes == b->memory_bytes && a->cpu_milli == b->cpu_milli &&
	       a->pids == b->pids && a->workspace_bytes == b->workspace_bytes &&
	       a->workspace_inodes == b->workspace_inodes && a->tmp_bytes == b->tmp_bytes &&
	       a->nofile == b->nofile && a->explicit_mask == b->explicit_mask;
}

static bool is_key(const struct native_engine *g, const struct engine_create *c)
{
	return g->pool.has_key && streq(g->pool.key.image, c->image) &&
	       g->pool.key.warm == c->warm && same_limits(&g->pool.key.limits, &c->limits);
}

static void empty(struct native_engine *g)
{
	struct native_sandbox *s;

	while ((s = g->pool.first)) {
		g->pool.first = s->next_pooled;
		g->base.ops->on_lost(&s->base, NULL, NULL);
		g->base.ops->destroy(&s->base, NULL, NULL);
	}
	g->pool.stale = g->pool.making; /* the one on its way is of the old key */
}

bool native_pool_serves(const struct engine_create *c)
{
	return !c->persist_id && !c->egress && !c->helper_of;
}

void native_pool_note(struct native_engine *g, const struct engine_create *c)
{
	if (g->pool.want == 0 || !native_pool_serves(c))
		return;
	if (!is_key(g, c)) {
		empty(g);
		g->pool.key = *c;
		g->pool.has_key = true;
		g->pool.failures = 0;
	}
	arm(g);
}

static int on_claim(sd_event_source *source UNUSED, void *user)
{
	struct native_sandbox *s = user;
	engine_create_fn cb = s->create_cb;
	struct err e = ERR_INIT;

	s->claim = sd_event_source_disable_unref(s->claim);
	s->create_cb = NULL;
	if (s->state == NATIVE_READY) {
		cb(&s->base, &s->policy, NULL, s->create_user);
		return 0;
	}
	(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox ended before it was used");
	cb(NULL, NULL, &e, s->create_user);
	s->g->base.ops->destroy(&s->base, NULL, NULL);
	return 0;
}

bool native_pool_take(struct native_engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user)
{
	struct native_sandbox *s = is_key(g, c) ? g->pool.first : NULL;

	if (!s || s->state != NATIVE_READY ||
	    sd_event_add_defer(g->loop, &s->claim, on_claim, s) < 0)
		return false;
	g->pool.first = s->next_pooled;
	g->base.ops->on_lost(&s->base, NULL, NULL);
	s->create_cb = cb;
	s->create_user = user;
	arm(g);
	return true;
}

void native_pool_close(struct native_engine *g)
{
	g->pool.timer = sd_event_source_disable_unref(g->pool.timer);
	g->pool.first = NULL; /* they end with all others */
}
