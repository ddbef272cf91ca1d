/* SPDX-License-Identifier: Apache-2.0 */
/* Idle sandboxes give back the interpreters that they can get again: after a time (the setting
 * SANDBOX_REST_S), when more sandboxes are idle than may keep interpreters (SANDBOX_SPARES), or when
 * memory is short. Variables and files are never touched.
 *
 * Sandboxes between runs are in a list, the least recently used first. One timer looks at its
 * head. */
#include "engine/front/inside/inside.h"

#include "base/rand.h"

#define ACCURACY_US (NS_PER_S / NS_PER_US) /* of the timer: nobody waits for it */

static int on_timer(sd_event_source *source, uint64_t at, void *user);

static struct engine_sandbox *longest_idle(struct engine *g)
{
	return list_first(&g->idle.sandboxes, struct engine_sandbox, idle);
}

/* Without memory for the timer no sandbox rests. */
static void arm(struct engine *g)
{
	struct engine_idle *l = &g->idle;
	const struct engine_sandbox *s = longest_idle(g);

	if (l->timer || !s || l->rest_ns == 0 || g->closing)
		return;
	(void)!sd_event_add_time(g->loop, &l->timer, CLOCK_MONOTONIC,
				 (s->idle_since_ns + l->rest_ns) / NS_PER_US + 1, ACCURACY_US,
				 on_timer, g);
}

void inside_idle_remove(struct engine_sandbox *s)
{
	if (list_is_empty(&s->idle))
		return;
	list_remove(&s->idle);
	s->engine->idle.n--;
}

static void rest(struct engine_sandbox *s)
{
	inside_idle_remove(s);
	inside_clean_rest(s);
}

void inside_idle_note(struct engine_sandbox *s)
{
	struct engine *g = s->engine;

	inside_idle_remove(s);
	if (g->closing || s->state != INSIDE_READY || s->pooled || s->run || s->checkpoint.cb ||
	    !s->warm || s->clean == INSIDE_CLEAN_RESTED || !engine_can_warm(g))
		return;
	s->idle_since_ns = now_ns();
	list_append(&g->idle.sandboxes, &s->idle);
	g->idle.n++;
	if (g->idle.max > 0 && g->idle.n > g->idle.max)
		rest(longest_idle(g));
	arm(g);
	engine_note_idle(s);
}

static int on_timer(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct engine *g = user;
	struct engine_idle *l = &g->idle;
	uint64_t now = now_ns();
	struct engine_sandbox *s;

	l->timer = sd_event_source_disable_unref(l->timer);
	while ((s = longest_idle(g)) && now - s->idle_since_ns >= l->rest_ns)
		rest(s);
	arm(g);
	return 0;
}

void inside_rest(struct engine *g, unsigned n)
{
	struct engine_sandbox *s;

	for (; n > 0 && (s = longest_idle(g)); n--)
		rest(s);
}

void inside_idle_close(struct engine *g)
{
	g->idle.timer = sd_event_source_disable_unref(g->idle.timer);
}
