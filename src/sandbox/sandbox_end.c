/* SPDX-License-Identifier: Apache-2.0 */
/* How a sandbox ends: on request, or on its own. */
#include "base/kill_points.h"
#include "base/log.h"
#include "base/rand.h"
#include "sandbox/checkpoints.h"
#include "sandbox/manager.h"

#include <stdlib.h>

struct closing {
	struct sandbox *sandbox; /* reference */
	uint64_t start_ns;
	sandbox_done_fn cb;
	void *user;
};

static void on_destroyed(const struct err *e, void *user)
{
	struct closing *c = user;

	c->sandbox->manager->moving_version += c->sandbox->stored;
	if (e && e->code != ERR_CANCELLED)
		LOG_ERROR("session_destroy_failed", LOG_S("session_id", c->sandbox->id),
			  LOG_S("error", e->text));
	else
		LOG_INFO("session_destroyed", LOG_S("session_id", c->sandbox->id),
			 LOG_U("duration_ms", (now_ns() - c->start_ns) / NS_PER_MS));
	if (c->cb)
		c->cb(e, c->user);
	(void)sandbox_unref(c->sandbox);
	free(c);
}

int sandbox_close(struct sandbox *s, bool force, sandbox_done_fn cb, void *user, struct err *e)
{
	if (s->state != SANDBOX_READY && s->state != SANDBOX_LOST)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "No active session with id %s", s->id);
	if (sandbox_is_busy(s) && !force)
		return err_set(e, ERR_SESSION_BUSY, 0, "Session %s is currently executing code",
			       s->id);
	if (s->keeping && !force)
		return err_set(e, ERR_SESSION_BUSY, 0, "Sandbox %s is being kept. Try again.",
			       s->id);
	if (s->stored)
		return manager_delete(s->manager, s->owner, s->id, force, cb, user, e);
	session_note_end(s, SANDBOX_END_DELETED);
	return sandbox_drop(s, cb, user, e);
}

int sandbox_drop(struct sandbox *s, sandbox_done_fn cb, void *user, struct err *e)
{
	struct closing *c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "closing session %s", s->id);
	*c = (struct closing){
	    .sandbox = sandbox_ref(s), .start_ns = now_ns(), .cb = cb, .user = user};
	LOG_INFO("session_destroying", LOG_S("session_id", s->id));
	struct engine_sandbox *handle = TAKE_PTR(s->handle);
	sandbox_close_gate(s);
	s->state = SANDBOX_CLOSED;
	s->manager->moving_version += s->stored;
	manager_table_remove(s);
	KILL_POINT(CLOSE_MARKED);
	(void)sandbox_ref(s); /* without memory the engine calls back at once */
	if (!s->rests || !rest_begins(s, handle, on_destroyed, c))
		engine_destroy(handle, on_destroyed, c);
	file_writers_end(s);
	sandbox_end_holds(s);
	sandbox_tell(s, SANDBOX_ENDED, NULL);
	sandbox_changed(s, NULL);
	(void)sandbox_unref(s);
	return 0;
}

/* People are told once when its writing stops, and once when it goes on. */
void sandbox_on_ration(struct engine_sandbox *handle, void *user)
{
	struct sandbox *s = user;
	const bool stopped = engine_ration(handle) == ENGINE_RATION_NONE;

	if (s->stopped == stopped)
		return;
	s->stopped = stopped;
	LOG_OFTEN(LOG_LEVEL_WARNING,
		  stopped ? "sandbox_stopped_by_host_disk" : "sandbox_writes_again",
		  LOG_S("session_id", s->id));
	sandbox_tell(s, SANDBOX_CHANGED, NULL);
}

void sandbox_on_lost(struct engine_sandbox *handle UNUSED, const char *why, void *user)
{
	struct sandbox *s = user;

	LOG_WARNING("session_lost", LOG_S("session_id", s->id), LOG_S("why", why));
	if (s->state == SANDBOX_READY)
		s->state = SANDBOX_LOST;
	file_writers_end(s);
	sandbox_end_holds(s);
	sandbox_uncount_all(s); /* its workspace has ended with it */
}
