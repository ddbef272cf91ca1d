/* SPDX-License-Identifier: Apache-2.0 */
/* What an idle sandbox costs, and how it gets its clean interpreter back.
 *
 * The clean interpreter can end (a run killed it, the kernel did when memory was short) and can be
 * given back (resting: the sandbox was idle for a setting). Either way a new one is forked from the
 * image's zygote:
 *
 *   front -MON_WARM-> monitor -MON_WARMED + channel-> front -INIT_WARM + channel-> init
 *                     monitor -RT_CLEAN + other end-> zygote
 *
 * Lost: asked for in the background, between runs, at most once in RETRY_NS. Given back: not before
 * the next run. Spent on the sandbox's first run: when init says that it is quiet. Whatever became
 * of it, a run asks for one and waits for it, and again when that one is lost, too (one that
 * arrives while a run ends is killed with what the run left). Where none is to be had, a run starts
 * cold, with the same result.
 *
 * Sandboxes between runs stand in a list, least recently used first; one timer looks at its head.
 */
#include "engine/native/front/front.h"

#include "base/fdio.h"
#include "base/rand.h"

#define RETRY_NS    NS_PER_S
#define AGAIN_MAX   3 /* for one run: an init that was taken over may say anything, as often */
#define ACCURACY_US (NS_PER_S / NS_PER_US) /* of the timer: nobody waits for it */

static int on_idle_timer(sd_event_source *source, uint64_t at, void *user);

/* ---- a new clean interpreter ---- */

static bool ask(struct native_sandbox *s)
{
	struct proto_mon_slot w = {.head = PROTO_HEAD(MON_WARM, proto_mon_slot), .slot = s->slot};

	if (s->g->dead || s->gone || chan_send(s->g->monitor, &w.head, NULL, 0) < 0)
		return false;
	s->clean = NATIVE_CLEAN_ASKED;
	s->clean_retry_at = now_ns() + RETRY_NS;
	return true;
}

enum proto_warm native_clean_for_run(struct native_sandbox *s)
{
	s->clean_again = 0;
	if (s->clean == NATIVE_CLEAN_THERE)
		return PROTO_WARM_YES;
	return s->clean == NATIVE_CLEAN_ASKED || ask(s) ? PROTO_WARM_COMING : PROTO_WARM_YES;
}

void native_clean_again(struct native_sandbox *s)
{
	if (s->warm && s->state == NATIVE_READY && !s->run && s->clean == NATIVE_CLEAN_NONE &&
	    now_ns() >= s->clean_retry_at)
		(void)ask(s);
}

void native_clean_spent(struct native_sandbox *s)
{
	if (s->clean == NATIVE_CLEAN_THERE)
		s->clean = NATIVE_CLEAN_SPENT;
}

void native_clean_lost(struct native_sandbox *s, bool awaited)
{
	if (s->clean == NATIVE_CLEAN_SPENT) /* as it was meant: nothing to be careful about */
		s->clean_retry_at = 0;
	if (s->clean == NATIVE_CLEAN_THERE || s->clean == NATIVE_CLEAN_SPENT)
		s->clean = NATIVE_CLEAN_NONE;
	if (!awaited || !s->run)
		native_clean_again(s);
	else if (s->clean != NATIVE_CLEAN_ASKED && s->clean_again++ < AGAIN_MAX)
		(void)ask(s);
}

void native_clean_came(struct native_sandbox *s, const struct proto_mon_warmed *m, int *fds,
		       size_t n)
{
	struct proto_init_warm w = {.head = PROTO_HEAD(INIT_WARM, proto_init_warm),
				    .soon = m->soon != 0};

	if (s->clean != NATIVE_CLEAN_ASKED || !s->init) {
		fd_close_many(fds, n);
		return;
	}
	s->clean = n == 1 ? NATIVE_CLEAN_THERE : NATIVE_CLEAN_NONE;
	(void)!chan_send(s->init, &w.head, fds, n); /* a channel that ended says so itself */
}

/* ---- resting ---- */

static void unlist(struct native_sandbox *s)
{
	struct native_idle *l = &s->g->idle;

	if (!s->listed)
		return;
	*(s->idle_before ? &s->idle_before->idle_after : &l->first) = s->idle_after;
	*(s->idle_after ? &s->idle_after->idle_before : &l->last) = s->idle_before;
	s->idle_before = s->idle_after = NULL;
	s->listed = false;
}

/* Without memory for the timer nobody rests. */
static void arm(struct native_engine *g)
{
	struct native_idle *l = &g->idle;

	if (l->timer || !l->first || l->rest_ns == 0 || g->closing)
		return;
	(void)!sd_event_add_time(g->loop, &l->timer, CLOCK_MONOTONIC,
				 (l->first->idle_since + l->rest_ns) / NS_PER_US + 1, ACCURACY_US,
				 on_idle_timer, g);
}

void native_idle_note(struct native_sandbox *s)
{
	struct native_idle *l = &s->g->idle;

	unlist(s);
	if (s->g->closing || s->state != NATIVE_READY || s->pooled || s->run || !s->warm ||
	    s->clean == NATIVE_CLEAN_RESTED)
		return;
	s->idle_since = now_ns();
	s->idle_before = l->last;
	*(l->last ? &l->last->idle_after : &l->first) = s;
	l->last = s;
	s->listed = true;
	arm(s->g);
	native_press_note(s->g);
}

static void put_to_rest(struct native_sandbox *s)
{
	struct proto_init_note r = {.head = PROTO_HEAD(INIT_REST, proto_init_note)};

	unlist(s);
	if (s->init && chan_send(s->init, &r.head, NULL, 0) == 0)
		s->clean = NATIVE_CLEAN_RESTED;
}

static int on_idle_timer(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct native_engine *g = user;
	struct native_idle *l = &g->idle;
	uint64_t now = now_ns();

	l->timer = sd_event_source_disable_unref(l->timer);
	while (l->first && now - l->first->idle_since >= l->rest_ns)
		put_to_rest(l->first);
	arm(g);
	return 0;
}

void native_idle_evict(struct native_engine *g, uint32_t n)
{
	for (; n > 0 && g->idle.first; n--)
		put_to_rest(g->idle.first);
}

void native_idle_close(struct native_engine *g)
{
	g->idle.timer = sd_event_source_disable_unref(g->idle.timer);
}

/* ---- on demand ---- */

static void frozen(struct native_sandbox *s, const struct err *e)
{
	engine_done_fn cb = s->freeze_cb;

	s->freeze = sd_event_source_disable_unref(s->freeze);
	s->freeze_cb = NULL;
	if (cb)
		cb(e, s->freeze_user);
}

static int on_frozen(sd_event_source *source UNUSED, void *user)
{
	frozen(user, NULL);
	return 0;
}

void native_freeze_abort(struct native_sandbox *s, const struct err *e)
{
	frozen(s, e);
}

int native_freeze(struct engine_sandbox *base, bool rest, engine_done_fn cb, void *user,
		  struct err *e)
{
	struct native_sandbox *s = native_sandbox_of(base);
	int r = native_check_ready(s, e);

	if (r < 0)
		return r;
	if (s->freeze_cb || (rest && s->run))
		return err_set(e, ERR_SESSION_BUSY, EBUSY, "a run is in progress");
	if (sd_event_add_defer(s->g->loop, &s->freeze, on_frozen, s) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "sandbox");
	s->freeze_cb = cb;
	s->freeze_user = user;
	if (rest && s->clean != NATIVE_CLEAN_RESTED && s->warm)
		put_to_rest(s);
	else if (!rest && s->clean == NATIVE_CLEAN_RESTED && ask(s))
		native_idle_note(s);
	return 0;
}
