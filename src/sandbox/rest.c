/* SPDX-License-Identifier: Apache-2.0 */
/* Variables are written by processes of the sandboxes, a few sandboxes at a time: one for each processor. The others wait in
 * a queue. One that somebody wants to open goes first. Each has a time limit, and so has the end of the server; what is
 * not written then is lost, as it is when a server is killed.
 *
 * Submitted code takes part, and may hang. So a sandbox that has not written after a second gives its place to the next
 * one and goes on beside it, and the first of each owner is before the second of any. Who has several at rest already
 * waits for one of them before another one is made: their processes live and count nowhere else. */
#include "sandbox/rest.h"

#include "base/kill_points.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <stdlib.h>
#include <unistd.h>

#define QUEUE_NS (600 * NS_PER_S)
#define SLOW_NS  NS_PER_S
#define WRITE_NS                                                                                   \
	(6 *                                                                                       \
	 NS_PER_S) /* a session gives itself three seconds, and its processes are forked before */
#define ALL_NS    (8 * NS_PER_S) /* when the server ends */
#define AT_LEAST  2              /* at a time */
#define OF_OWNER  4u             /* at rest, before the next sandbox waits */
#define ALL_LEAST 8u             /* the same of all owners, where fewer may be active */
#define ALL_MOST                                                                                   \
	32u /* their places come from those that the engine has for all sandboxes that end */

struct resting {
	struct list node;        /* of manager.resting, in the order of the queue */
	struct sandbox *sandbox; /* reference; it is in the table no more */
	struct engine_sandbox *handle;
	bool writes;
	bool slow;             /* its place is another one's */
	unsigned turn;         /* so many of its owner were before it */
	struct err failed;     /* it could not be asked */
	struct list followers; /* struct follower: they are made afterwards */
	uint64_t start_ns;
	sd_event_source *limit;
	sandbox_done_fn cb;
	void *user;
};

struct follower {
	struct list node;
	struct sandbox *sandbox; /* reference; of the same workspace, or of the same owner */
};

static void begin_some(struct manager *m);

static void leave_if_last(struct manager *m)
{
	if (m->rest_limit && list_is_empty(&m->resting))
		(void)sd_event_exit(m->config.loop, 0);
}

static void log_end(const struct resting *r, const struct err *e)
{
	if (!e)
		LOG_INFO("variables_kept", LOG_S("session_id", r->sandbox->id),
			 LOG_U("duration_ms", (now_ns() - r->start_ns) / NS_PER_MS));
	else if (e->code == ERR_NOT_FOUND || e->code == ERR_ENGINE_NOT_BUILT_IN)
		LOG_DEBUG("variables_none", LOG_S("session_id", r->sandbox->id),
			  LOG_S("error", e->text));
	else
		LOG_WARNING("variables_not_kept", LOG_S("session_id", r->sandbox->id),
			    LOG_S("error", e->text));
}

static void end(struct resting *r, const struct err *e)
{
	struct sandbox *s = r->sandbox;
	struct manager *m = s->manager;
	struct list followers = LIST_INIT(followers);
	struct follower *f;

	list_splice(&followers, &r->followers);
	list_remove(&r->node);
	m->n_resting--;
	m->n_writing -= r->writes && !r->slow;
	r->limit = sd_event_source_disable_unref(r->limit);
	log_end(r, e);
	if (m->closing)
		r->cb(e, r->user);
	else
		engine_destroy(r->handle, r->cb, r->user);
	free(r);
	while ((f = list_pop_first(&followers, struct follower, node))) {
		sandbox_make_now(f->sandbox, m->closing ? e : NULL);
		(void)sandbox_unref(f->sandbox);
		free(f);
	}
	if (!m->closing) {
		begin_some(m);
		leave_if_last(m);
	}
	(void)sandbox_unref(s);
}

static void on_stored(const struct err *e, void *user)
{
	KILL_POINT(STORE_TAKEN);
	end(user, e);
}

/* False: there is no memory for the timer. */
static bool is_slow_now(struct resting *r)
{
	if (!r->writes || r->slow || r->failed.code != ERR_NONE ||
	    sd_event_source_set_time_relative(r->limit, (WRITE_NS - SLOW_NS) / NS_PER_US) < 0 ||
	    sd_event_source_set_enabled(r->limit, SD_EVENT_ONESHOT) < 0)
		return false;
	r->slow = true;
	r->sandbox->manager->n_writing--;
	return true;
}

static int on_limit(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct resting *r = user;
	struct err e = r->failed;

	loop_work("timer", "variables of a sandbox that rests");
	if (is_slow_now(r)) {
		begin_some(r->sandbox->manager);
		return 0;
	}
	if (e.code == ERR_NONE)
		(void)err_set(&e, ERR_ENGINE_UNAVAILABLE, 0, "it takes too long");
	end(r, &e);
	return 0;
}

/* It never ends here, so whoever calls may go on with all that it has. */
static void begin(struct resting *r)
{
	const bool asked = engine_store(r->handle, on_stored, r, &r->failed) == 0;

	r->writes = true;
	r->sandbox->manager->n_writing++;
	KILL_POINT(STORE_SENT);
	(void)sd_event_source_set_time_relative(r->limit, asked ? SLOW_NS / NS_PER_US : 0);
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

/* The first of each owner, then the second of each. */
static void add(struct manager *m, struct resting *r)
{
	struct list *before = &m->resting;

	list_for_each(l, &m->resting) {
		const struct resting *o = list_entry(l, struct resting, node);
		r->turn += streq(o->sandbox->owner, r->sandbox->owner);
	}
	list_for_each(l, &m->resting) {
		const struct resting *o = list_entry(l, struct resting, node);
		if (!o->writes && o->turn > r->turn) {
			before = l;
			break;
		}
	}
	list_append(before, &r->node);
	m->n_resting++;
}

bool rest_begins(struct sandbox *s, struct engine_sandbox *handle, sandbox_done_fn cb, void *user)
{
	struct manager *m = s->manager;
	struct resting *r = calloc(1, sizeof(*r));

	if (!r)
		return false;
	*r = (struct resting){
	    .sandbox = s, .handle = handle, .start_ns = now_ns(), .cb = cb, .user = user};
	if (sd_event_add_time_relative(m->config.loop, &r->limit, CLOCK_MONOTONIC,
				       QUEUE_NS / NS_PER_US, 1, on_limit, r) < 0) {
		free(r);
		return false;
	}
	(void)sandbox_ref(s);
	list_init(&r->followers);
	engine_on_lost(handle, NULL, NULL); /* it has ended for all who were told of it */
	engine_on_ration(handle, NULL, NULL);
	add(m, r);
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

/* The one for which another sandbox of OWNER waits if too many are at rest. Each has one that waits at most; so
 * as many wait as are at rest, and these have their places in the budget. */
static struct resting *find_crowd(const struct manager *m, const char *owner)
{
	const bool many =
	    m->n_resting >= MIN(MAX(m->config.stored.max_active, ALL_LEAST), ALL_MOST);
	struct resting *first = NULL;
	unsigned n = 0;

	list_for_each(l, &m->resting) {
		struct resting *r = list_entry(l, struct resting, node);
		const bool own = streq(r->sandbox->owner, owner);

		n += own;
		if (!first && (own || many) && list_is_empty(&r->followers))
			first = r;
	}
	return many || n >= OF_OWNER ? first : NULL;
}

bool rest_is(const struct manager *m, const char *owner, const char *id)
{
	return find(m, owner, id) != NULL;
}

bool rest_makes_wait(struct sandbox *s)
{
	struct resting *r = find(s->manager, s->owner, s->id);
	struct follower *f;

	if (!r)
		r = find_crowd(s->manager, s->owner);
	f = r ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		return false;
	f->sandbox = sandbox_ref(s);
	list_append(&r->followers, &f->node);
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
	/* Former values are masked only as long as it is active, and variables may have them. */
	s->rests = s->stored && s->has_variables && s->state == SANDBOX_READY && !s->has_former &&
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

static void leave_one(struct sandbox *s, void *user UNUSED)
{
	struct err e = ERR_INIT;

	if (s->stored && s->state != SANDBOX_CREATING && !sandbox_is_busy(s) &&
	    list_is_empty(&s->queue) && sandbox_rest(s, &e) < 0)
		LOG_ERROR("session_destroy_failed", LOG_S("session_id", s->id),
			  LOG_S("error", e.text));
}

void manager_leave_all(struct manager *m)
{
	m->leaving = true;
	if (m->engine && !engine_lost(m->engine))
		manager_each(m, NULL, leave_one, NULL);
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
