/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint, branch or fork has its sandbox to itself from its first step to its last one. */
#include "sandbox/manager.h"
#include "sandbox/run_life.h"
#include "sandbox/sandbox_work.h"

static bool is_held_by_work(const struct sandbox *s)
{
	list_for_each(l, &s->holds)
		if (!list_entry(l, struct sandbox_hold, node)->rests)
			return true;
	return false;
}

int sandbox_seize(struct sandbox *s, struct err *e)
{
	const bool ends = s->run && s->run->interrupted && !s->seizing;

	if (!sandbox_use(s, e))
		return -ENOENT;
	if ((s->run && !ends) || s->seized || !list_is_empty(&s->queue) ||
	    !list_is_empty(&s->uploads) || is_held_by_work(s) || file_writers_are_busy(s))
		return err_set(e, ERR_SESSION_BUSY, 0,
			       "Session %s is busy. Wait or use a different session.", s->id);
	s->seized = !ends;
	return ends ? 1 : 0;
}

void sandbox_seize_later(struct sandbox *s, struct seizing *w)
{
	s->seizing = w;
}

void sandbox_seize_now(struct sandbox *s)
{
	struct seizing *w = s->run || s->seized ? NULL : s->seizing;
	struct err e = ERR_INIT;
	int r = 0;

	if (!w)
		return;
	s->seizing = NULL;
	if (s->manager->closing || s->state != SANDBOX_READY)
		r = err_set(&e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended", s->id);
	else /* an upload may have begun meanwhile */
		r = sandbox_seize(s, &e);
	w->go(r < 0 ? &e : NULL, w->user);
}

void sandbox_yield(struct sandbox *s)
{
	s->seized = false;
	sandbox_touch(s);
	file_writers_go_on(s);
	sandbox_next_run(s);
}
