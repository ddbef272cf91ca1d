/* SPDX-License-Identifier: Apache-2.0 */
/* Variables are written by processes of the sandboxes, a few sandboxes at a time: one for each processor. The others wait in
 * a queue. One that somebody wants to open goes first. Each has a time limit, and so has the end of the server; what is
 * not written then is lost, as it is when a server is killed. */
#include "sandbox/rest.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <stdlib.h>
#include <unistd.h>

#define WRITE_NS                                                                                   \
	(6 *                                                                                       \
	 NS_PER_S) /* a session gives itself three seconds, and its processes are forked before */
#define ALL_NS   (8 * NS_PER_S) /* when the server ends */
#define AT_LEAST 2              /* at a time */

struct resting {
	struct list node;        /* of manager.resting, in the order of the queue */
	struct sandbox *sandbox; /* reference; it is in the table no more */
	struct engine_sandbox *handle;
	bool writes;
	uint64_t start_ns;
	sd_event_source *limit; /* while it writes */
	struct sandbox *next;   /* reference: waits to be made of the same workspace; or NULL */
	sandbox_done_fn cb;
	void *user;
};

static void begin_some(struct manager *m);

static void leave_if_last(struct manager *m)
{
	if (m->rest_limit && list_is_empty(&m->resting))
		(void)sd_event_exit(m->config.loop, 0);
}

static void end(struct resting *r, const struct err *e)
{
	struct sandbox *s = r->sandbox;
	struct manager *m = s->manager;
	struct sandbox *next = r->next;

	list_remove(&r->node);
	m->n_writing -= r->writes;
	r->limit = sd_event_source_disable_unref(r->limit);
	if (e)
		LOG_WARNING("variables_not_kept", LOG_S("session_id", s->id),
			    LOG_S("error", e->text));
	else
		LOG_INFO("variables_kept", LOG_S("session_id", s->id),
			 LOG_U("duration_ms", (now_ns() - r->start_ns) / NS_PER_MS));
	if (m->closing)
		r->cb(e, r->user);
	else
		engine_destroy(r->handle, r->cb, r->user);
	(void)sandbox_unref(s);
	free(r);
	if (next)
		sandbox_make_now(next, m->closing ? e : NULL);
	(void)sandbox_unref(next);
	if (m->closing)
		return;
	begin_some(m);
	leave_if_last(m);
}

static void on_stored(const struct err *e, void *user)
{
	end(user, e);
}

static int on_limit(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct err e = ERR_INIT;

	loop_work("timer", "variables of a sandbox that rests");
	(void)err_set(&e, ERR_ENGINE_UNAVAILABLE, 0, "it takes too long");
	end(user, &e);
	return 0;
}

static void begin(struct resting *r)
{
	struct manager *m = r->sandbox->manager;
	struct err e = ERR_INIT;
	int left = sd_event_add_time_relative(m->config.loop, &r->limit, CLOCK_MONOTONIC,
					      WRITE_NS / NS_PER_US, 1, on_limit, r);

	r->writes = true;
	m->n_writing++;
	if (left < 0)
		left = err_set(&e, ERR_OUT_OF_MEMORY, -left, "a timer");
	else
		left = engine_store(r->handle, on_stored, r, &e);
	if (left < 0)
		end(r, &e);
}

static unsigned writing_max(void)
{
	const long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > AT_LEAST ? (unsigned)n : AT_LEAST;
}

static void begin_some(struct manager *m)
{
	while (m->n_writing < writing_max()) {
		struct resting *first = NULL;
		list_for_each(l, &m->resting) {
			struct resting *r = list_entry(l, struct resting, node);
			if (!r->writes) {
				first = r;
				break;
			}
		}
		if (!first)
			return;
		begin(first);
	}
}

bool rest_begins(struct sandbox *s, struct engine_sandbox *handle, sandbox_done_fn cb, void *user)
{
	struct manager *m = s->manager;
	struct resting *r = calloc(1, sizeof(*r));

	if (!r)
		return false;
	*r = (struct resting){.sandbox = sandbox_ref(s),
			      .handle = handle,
			      .start_ns = now_ns(),
			      .cb = cb,
			      .user = user};
	list_append(&m->resting, &r->node);
	begin_some(m);
	return true;
}

static struct resting *find(const struct manager *m, const char *owner, const char *id)
{
	list_for_each(l, &m->resting) {
		struct resting *r = list_entry(l, struct resting, node);
		if (streq(r->sandbox->id, id) && streq(r->sandbox->owner, owner))
			return r;
	}
	return NULL;
}

bool rest_makes_wait(struct sandbox *s)
{
	struct resting *r = find(s->manager, s->owner, s->id);

	if (!r || r->next)
		return false;
	r->next = sandbox_ref(s);
	if (!r->writes)
		begin(r);
	return true;
}

void rest_cut(struct manager *m, const char *owner, const char *id)
{
	struct resting *r = find(m, owner, id);
	struct err e = ERR_INIT;

	if (!r)
		return;
	(void)err_set(&e, ERR_CANCELLED, 0, "the sandbox is deleted");
	end(r, &e);
}

int sandbox_rest(struct sandbox *s, struct err *e)
{
	s->rests = s->stored && s->has_variables && s->state == SANDBOX_READY &&
		   s->manager->config.stored.variables;
	return sandbox_drop(s, NULL, NULL, e);
}

/* ---- all ---- */

void rest_end_all(struct manager *m)
{
	struct resting *r;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	while ((r = list_first(&m->resting, struct resting, node)) != NULL)
		end(r, &e);
}

static int on_all_limit(sd_event_source *source, uint64_t usec UNUSED, void *user UNUSED)
{
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

static void rest_one(struct sandbox *s, void *user UNUSED)
{
	struct err e = ERR_INIT;

	/* Background processes, uploads and watchers end with the server in any case. */
	const bool runs = sandbox_is_busy(s) || !list_is_empty(&s->queue);

	if (s->stored && s->has_variables && !runs && sandbox_rest(s, &e) < 0)
		LOG_ERROR("session_destroy_failed", LOG_S("session_id", s->id),
			  LOG_S("error", e.text));
}

int manager_rest_all(struct manager *m)
{
	if (m->engine && m->config.stored.variables && !engine_lost(m->engine))
		manager_each(m, NULL, rest_one, NULL);
	if (list_is_empty(&m->resting) || m->rest_limit ||
	    sd_event_add_time_relative(m->config.loop, &m->rest_limit, CLOCK_MONOTONIC,
				       ALL_NS / NS_PER_US, 1, on_all_limit, m) < 0)
		return sd_event_exit(m->config.loop, 0);
	return 0;
}
