/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sandbox, seen from the front: lost, destroyed, or gone by itself. */
#include "engine/native/front/front.h"

#include "base/fdio.h"
#include "base/kill_points.h"

/* ---- the end of a sandbox ---- */

void native_sandbox_free(struct native_sandbox *s)
{
	struct native_sandbox **at = &s->g->orphans;

	while (*at && *at != s)
		at = &(*at)->next_orphan;
	if (*at)
		*at = s->next_orphan;
	if (!s->gone)
		s->g->slots[s->slot] = NULL;
	s->init = chan_free(s->init);
	s->oom = fd_close(s->oom);
	s->peak = fd_close(s->peak);
	s->egress = fd_close(s->egress);
	s->later = sd_event_source_disable_unref(s->later);
	s->patience = sd_event_source_disable_unref(s->patience);
	s->claim = sd_event_source_disable_unref(s->claim);
	native_idle_note(s); /* whatever its state: it is idle no more */
	free(s);
}

void native_ask_destroy(const struct native_sandbox *s)
{
	struct proto_mon_slot d = {.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot),
				   .slot = s->slot,
				   .flags = (s->pooled ? PROTO_SLOT_UNUSED : 0) |
					    (s->run ? PROTO_SLOT_COUNT : 0)};

	if (!s->gone && !s->g->dead)
		(void)!chan_send(s->g->monitor, &d.head, NULL,
				 0); /* a channel that ended says so itself */
}

/* Tells whoever waits for S, but for its run, that it is over. */
static void tell_others(struct native_sandbox *s, const struct err *e)
{
	native_files_abort(s, e);
	native_freeze_abort(s, e);
	native_points_abort(s, e);
}

void native_fail_create(struct native_sandbox *s, const struct err *e)
{
	engine_create_fn cb = s->create_cb;

	s->create_cb = NULL;
	s->state = NATIVE_LOST;
	s->init = chan_free(s->init);
	if (cb)
		cb(NULL, NULL, e, s->create_user);
}

void native_tell_loss(struct native_sandbox *s)
{
	native_run_abort(s, ENGINE_END_LOST, NULL);
	if (s->lost_cb && s->state == NATIVE_LOST)
		s->lost_cb(&s->base, s->lost_why, s->lost_user);
}

void native_lose(struct native_sandbox *s, const char *why)
{
	struct err e = ERR_INIT;

	s->init = chan_free(s->init);
	native_ask_destroy(s);
	(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox is gone: %s", why);
	if (s->state == NATIVE_CREATING) {
		native_fail_create(s, &e);
	} else if (s->state == NATIVE_READY) {
		s->state = NATIVE_LOST;
		s->lost_why = why;
		bool later = native_run_lose(s);
		tell_others(s, &e);
		if (!later)
			native_tell_loss(s);
	}
}

static void finish_destroy(struct native_sandbox *s)
{
	engine_done_fn cb = s->destroy_cb;
	void *user = s->destroy_user;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the sandbox was closed");
	native_run_abort(s, ENGINE_END_KILLED, NULL);
	tell_others(s, &e);
	native_sandbox_free(s);
	if (cb)
		cb(NULL, user);
}

/* The slot is free and nothing of S is left. */
static void sandbox_is_gone(struct native_sandbox *s)
{
	s->g->slots[s->slot] = NULL;
	s->gone = true;
	s->next_orphan = s->g->orphans;
	s->g->orphans = s;
	native_pool_room(s->g);
	switch (s->state) {
	case NATIVE_ENDING:
		finish_destroy(s);
		break;
	case NATIVE_CREATING:
	case NATIVE_READY:
		native_lose(s, "it ended on its own");
		break;
	case NATIVE_LOST:
		if (s->run)
			native_tell_loss(s);
		break;
	default:
		break;
	}
}

/* A failed creation leaves an object that nobody owns: it goes with its slot. */
void native_gone(struct native_sandbox *s)
{
	bool unowned = s->state == NATIVE_CREATING || (s->state == NATIVE_LOST && !s->created);

	KILL_POINT(GONE_TAKEN);
	sandbox_is_gone(s);
	if (unowned)
		native_sandbox_free(s);
}

static int on_later(sd_event_source *source UNUSED, void *user)
{
	finish_destroy(user);
	return 0;
}

void native_destroy(struct engine_sandbox *base, engine_done_fn cb, void *user)
{
	struct native_sandbox *s = native_sandbox_of(base);

	ASSERT(s->state != NATIVE_ENDING && s->state != NATIVE_CREATING);
	s->destroy_cb = cb;
	s->destroy_user = user;
	s->state = NATIVE_ENDING;
	native_idle_note(s);
	if (!s->gone && !s->g->dead) {
		native_ask_destroy(s);
		KILL_POINT(DESTROY_SENT);
		return;
	}
	if (sd_event_add_defer(s->g->loop, &s->later, on_later, s) < 0)
		finish_destroy(
		    s); /* no memory for waiting: the promise about order yields to not leaking */
}

void native_on_lost(struct engine_sandbox *base, engine_lost_fn cb, void *user)
{
	struct native_sandbox *s = native_sandbox_of(base);

	s->lost_cb = cb;
	s->lost_user = user;
}

void native_cancel(struct native_sandbox *s, const struct err *e)
{
	native_run_abort(s, ENGINE_END_KILLED, e);
	tell_others(s, e);
	if (s->create_cb)
		native_fail_create(s, e);
	if (s->destroy_cb)
		s->destroy_cb(e, s->destroy_user);
	s->destroy_cb = NULL;
	native_sandbox_free(s);
}
