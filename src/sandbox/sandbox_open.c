/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a sandbox for a caller: an existing one, a stored one that becomes active, or a new one. */
#include "base/kill_points.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/ids.h"
#include "sandbox/manager.h"

#include <string.h>

/* An answer that is known before the call has returned; its callback is called in the next turn of
 * the event loop. */
struct reply {
	struct list node; /* of the manager */
	struct manager *manager;
	sd_event_source *source;
	struct sandbox *sandbox; /* reference, or NULL with err set */
	struct err err;
	sandbox_fn cb;
	void *user;
};

/* ---- answers ---- */

static int on_reply(sd_event_source *source UNUSED, void *user)
{
	struct reply *r = user;

	loop_work("sandbox", "open");
	list_remove(&r->node);
	r->cb(r->sandbox, r->sandbox ? NULL : &r->err, r->user);
	(void)sandbox_unref(r->sandbox);
	(void)sd_event_source_disable_unref(r->source);
	free(r);
	return 0;
}

void manager_reply(struct manager *m, struct sandbox *s, const struct err *e, sandbox_fn cb,
		   void *user)
{
	struct reply *r = calloc(1, sizeof(*r));

	if (!r || sd_event_add_defer(m->config.loop, &r->source, on_reply, r) < 0) {
		/* Out of memory: the callback is called once, as promised, but not later. */
		struct err oom = ERR_INIT;
		(void)err_set(&oom, ERR_OUT_OF_MEMORY, ENOMEM, "opening a session");
		free(r);
		cb(NULL, &oom, user);
		return;
	}
	r->manager = m;
	r->sandbox = s ? sandbox_ref(s) : NULL;
	if (e)
		r->err = *e;
	r->cb = cb;
	r->user = user;
	list_prepend(&m->replies, &r->node);
}

void manager_flush_replies(struct manager *m)
{
	struct reply *r;

	while ((r = list_first(&m->replies, struct reply, node)) != NULL)
		(void)on_reply(NULL, r);
}

/* ---- creation ---- */

static int add_waiter(struct sandbox *s, sandbox_fn cb, void *user)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->cb = cb;
	w->user = user;
	list_append(&s->waiters, &w->node);
	return 0;
}

static void call_waiters(struct sandbox *s, const struct err *e)
{
	struct list waiters = LIST_INIT(waiters);
	struct waiter *w;

	list_splice(&waiters, &s->waiters);
	while ((w = list_pop_first(&waiters, struct waiter, node))) {
		w->cb(e ? NULL : s, e, w->user);
		free(w);
	}
}

/* S is made, or cannot be. */
static void end_making(struct sandbox *s, struct engine_sandbox *handle,
		       const struct engine_policy *policy, const struct err *e)
{
	struct err removed = ERR_INIT;

	free(TAKE_PTR(s->making));
	if (e) {
		LOG_OFTEN(LOG_LEVEL_ERROR, "session_create_failed", LOG_S("session_id", s->id),
			  LOG_S("error", e->text));
		s->state = SANDBOX_CLOSED;
		manager_table_remove(s);
		call_waiters(s, e);
	} else {
		s->handle = handle;
		s->policy = *policy;
		s->state = SANDBOX_READY;
		sandbox_open_gate(s);
		s->inventory_known = s->marks_whole = !s->stored; /* a new workspace is empty */
		sandbox_touch(s);
		engine_on_lost(handle, sandbox_on_lost, s);
		engine_on_ration(handle, sandbox_on_ration, s);
		s->stopped = engine_ration(handle) == ENGINE_RATION_NONE;
		LOG_INFO(
		    "session_created", LOG_S("session_id", s->id),
		    LOG_U("duration_ms", (manager_now(s->manager) - s->created_ns) / NS_PER_MS));
		sandbox_tell(s, SANDBOX_MADE, NULL); /* before a waiter's first run */
		if (manager_check_owner(s->manager, s->owner, &removed) < 0) {
			struct err ignored = ERR_INIT;

			/* First: a waiter may want to delete it. */
			(void)!sandbox_drop(s, NULL, NULL, &ignored);
			call_waiters(s, &removed);
		} else {
			call_waiters(s, NULL);
			sandbox_changed(s, NULL);
		}
	}
	(void)sandbox_unref(s);
}

static void on_created(struct engine_sandbox *handle, const struct engine_policy *policy,
		       const struct err *e, void *user);

/* The image has come, or has not: the engine is asked once more. USER: the reference of on_created(). */
static void on_image(const struct err *e, void *user)
{
	struct sandbox *s = user;
	struct manager *m = s->manager;
	const struct engine_policy none = {0};
	struct err failed = ERR_INIT;
	int r = 0;

	if (e)
		failed = *e;
	else if ((r = manager_start(m, &failed)) >= 0)
		r = engine_create(m->engine, &s->making->create, on_created, s, &failed);
	if (e || r < 0)
		end_making(s, NULL, &none, &failed);
}

void sandbox_make_now(struct sandbox *s, const struct err *e)
{
	on_image(e, s);
}

/* Whether S waits for its image, of which the engine has said that it is missing. */
static bool waits_for_image(struct sandbox *s)
{
	const struct manager *m = s->manager;
	struct err ignored = ERR_INIT;

	if (!m->config.want_image || !s->making || s->making->waited || m->closing)
		return false;
	s->making->waited = true;
	return m->config.want_image(m->config.user, s->image, on_image, s, &ignored) >= 0;
}

static void on_created(struct engine_sandbox *handle, const struct engine_policy *policy,
		       const struct err *e, void *user)
{
	struct sandbox *s = user; /* our reference from manager_make() */
	struct err missing = ERR_INIT;

	if (e && e->code == ERR_IMAGE_MISSING) { /* the engine's text does not have its name */
		if (waits_for_image(s))
			return;
		(void)err_set(&missing, ERR_IMAGE_MISSING, 0, "the image '%s' is not there; %s %s",
			      s->image, engine_get_image(manager_engine(s->manager)), s->image);
		e = &missing;
	}
	end_making(s, handle, policy, e);
}

static int keep_making(struct sandbox *s, const struct engine_create *create)
{
	struct making *making;

	if (!s->manager->config.want_image && !s->stored)
		return 0;
	making = calloc(1, sizeof(*making));
	if (!making)
		return -ENOMEM;
	making->create = *create;
	if (create->persist_id) {
		(void)snprintf(making->persist_id, sizeof(making->persist_id), "%s",
			       create->persist_id);
		making->create.persist_id = making->persist_id;
	}
	s->making = making;
	return 0;
}

static void make_id(const struct manager *m, char ret[SANDBOX_ID_MAX + 1])
{
	char random[SANDBOX_ID_DIGITS + FLEET_MARK_DIGITS + 1];
	const unsigned n = SANDBOX_ID_DIGITS + (m->config.fleet ? FLEET_MARK_DIGITS : 0);

	rand_hex(random, n / 2);
	(void)snprintf(ret, SANDBOX_ID_MAX + 1, "%s%s", SANDBOX_ID_PREFIX, random);
	fleet_id_mark(m->config.fleet, ret);
}

static struct sandbox *new_sandbox(struct manager *m, const char *owner, const char *id,
				   const struct sandbox_record *r)
{
	struct sandbox *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->own_id = !id;
	if (id)
		(void)snprintf(s->id, sizeof(s->id), "%s", id);
	else
		make_id(m, s->id);
	(void)snprintf(s->owner, sizeof(s->owner), "%s", owner);
	if (r) {
		s->stored = true;
		memcpy(s->name, r->name, sizeof(s->name));
		s->runs = r->runs;
		s->place = r->place[0] ? strdup(r->place) : NULL;
	}
	list_init(&s->node);
	list_init(&s->waiters);
	list_init(&s->queue);
	list_init(&s->beside);
	list_init(&s->uploads);
	list_init(&s->writers);
	list_init(&s->holds);
	list_init(&s->processes);
	m->refs++;
	s->manager = m;
	s->refs = 1;
	s->earlier = manager_ended(m, owner, s->id);
	s->created_ns = manager_now(m);
	s->used_ns = s->created_ns;
	return s;
}

struct engine_create manager_request(const struct manager *m)
{
	struct engine_create c = {.limits = m->config.limits,
				  .warm = m->config.warm,
				  .egress = manager_has_network(m, m->config.network)};

	memcpy(c.image, m->config.image, sizeof(c.image));
	return c;
}

static struct engine_create stored_request(const struct manager *m, const struct sandbox_record *r)
{
	struct engine_create c = {
	    .limits = m->config.stored.limits, .warm = m->config.warm, .persist_id = r->key};

	memcpy(c.image, r->image[0] ? r->image : m->config.stored.image, sizeof(c.image));
	return c;
}

unsigned manager_places(const struct manager *m, unsigned *ret_max)
{
	*ret_max = m->config.max_sandboxes;
	return m->n - m->n_stored;
}

static int check_room(struct manager *m, const char *owner, struct err *e)
{
	unsigned max;

	if (manager_places(m, &max) >= max && session_give_up(m, owner) < 0 &&
	    session_give_up_kept(m) < 0) {
		LOG_OFTEN(LOG_LEVEL_WARNING, "max_sessions_reached", LOG_U("limit", max));
		return err_set(
		    e, ERR_MAX_SESSIONS, 0,
		    "Maximum %u concurrent sessions reached. Close an existing session first.",
		    max);
	}
	return 0;
}

/* A share of the budget. A user who is at the bound gives up an empty session, or an idle stored sandbox, of the own. */
static int take_share(struct manager *m, struct sandbox *s, struct err *e)
{
	if (s->stored)
		return stored_take_place(m, s->owner, &s->share, e);
	int r = budget_take(m->config.budgets, s->owner, BUDGET_SANDBOXES, 1, &s->share, e);

	if (r == -EDQUOT && session_give_up(m, s->owner) == 0)
		r = budget_take(m->config.budgets, s->owner, BUDGET_SANDBOXES, 1, &s->share, e);
	return r;
}

static int set_options(struct sandbox *s, const struct sandbox_options *options, struct err *e)
{
	if (sandbox_options_copy(options, &s->options) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a new session");
	if (!s->stored)
		memcpy(s->name, options->name, sizeof(s->name));
	return 0;
}

/* On success the caller is a waiter; on_created() calls it back. */
int manager_make(struct manager *m, const char *owner, const char *id,
		 const struct sandbox_record *record, const struct sandbox_choice *network,
		 const struct sandbox_options *options, sandbox_fn cb, void *user, struct err *e)
{
	int r = manager_check_owner(m, owner, e);

	if (r == 0 && id && !record && arrival_is(m, owner, id))
		r = err_set(e, ERR_SESSION_BUSY, 0,
			    "Sandbox %s is coming from another server. Try again.", id);
	r = r < 0 ? r : manager_start(m, e);
	r = r < 0 || record ? r : check_room(m, owner, e);
	if (r < 0)
		return r;
	struct sandbox *s = new_sandbox(m, owner, id, record);
	r = s ? sandbox_set_choice(s, record ? &record->network : network, e) : -ENOMEM;
	if (r == 0 && options)
		r = set_options(s, options, e);
	if (r == 0 && record)
		s->own_id = stored_has_own_id(record, &s->options);
	if (s && r == 0)
		r = take_share(m, s, e);
	if (r < 0 || add_waiter(s, cb, user) < 0) {
		if (s)
			budget_give(&s->share);
		(void)sandbox_unref(s);
		return r < 0 && s ? r : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a new session");
	}
	struct engine_create create = record ? stored_request(m, record) : manager_request(m);
	create.egress = sandbox_has_way_out(s);
	create.owner = s->owner;
	manager_apply_options(m, &s->options, &create);
	memcpy(s->image, create.image, sizeof(s->image));
	LOG_INFO("session_creating", LOG_S("session_id", s->id));
	manager_table_add(m, s); /* takes the first reference */
	KILL_POINT(SANDBOX_RESERVED);
	r = keep_making(s, &create);
	(void)sandbox_ref(s); /* of on_created() */
	if (r == 0 && s->stored && s->making && (departure_makes_wait(s) || rest_makes_wait(s)))
		return 0;
	r = r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a new session")
		  : engine_create(m->engine, &create, on_created, s, e);
	if (r < 0) {
		s->state = SANDBOX_CLOSED;
		free(list_pop_first(&s->waiters, struct waiter, node));
		manager_table_remove(s);
		(void)sandbox_unref(s);
	}
	return r;
}

/* The id is unknown: makes a session with it, or refuses. */
static int open_new(struct manager *m, const char *owner, const char *id, bool make, sandbox_fn cb,
		    void *user, struct err *e)
{
	if (!make || (id && m->config.stored.strict_ids && stored_is_uuid(id)))
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "No active session with id %s", id);
	return manager_make(m, owner, id, NULL, NULL, NULL, cb, user, e);
}

/* The sandbox is in the table: answers in the next turn, or when its creation has ended. */
static int open_known(struct manager *m, struct sandbox *s, sandbox_fn cb, void *user,
		      struct err *e)
{
	if (s->state == SANDBOX_CREATING)
		return add_waiter(s, cb, user) == 0
			   ? 0
			   : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "session %s", s->id);
	LOG_DEBUG("session_reused", LOG_S("session_id", s->id));
	manager_reply(m, s, NULL, cb, user);
	return 0;
}

static int check_name(const struct manager *m, const char *owner, const char *id, struct err *e)
{
	if (m->closing)
		return err_set(e, ERR_CANCELLED, 0, "the server is shutting down");
	if ((id && !parse_is_session_id(id, strlen(id))) || strlen(owner) > SANDBOX_OWNER_MAX)
		return err_set(e, ERR_INVALID_SESSION_ID, 0, "not a session id");
	return 0;
}

static void open_any(struct manager *m, const char *owner, const char *id, bool make, sandbox_fn cb,
		     void *user)
{
	struct err e = ERR_INIT;
	struct err ignored = ERR_INIT;
	int r = check_name(m, owner, id, &e);
	struct sandbox *s = id && r == 0 ? manager_lookup(m, owner, id) : NULL;

	if (s && s->state == SANDBOX_LOST && s->stored) {
		/* Its files still exist: it is made active again with new processes. */
		(void)!sandbox_drop(s, NULL, NULL, &ignored);
		s = NULL;
	}
	if (s) {
		r = open_known(m, s, cb, user, &e);
	} else if (r == 0) {
		r = id ? stored_open(m, owner, id, cb, user, &e) : 0;
		if (r == 0)
			r = open_new(m, owner, id, make, cb, user, &e);
	}
	if (r < 0)
		manager_reply(m, NULL, &e, cb, user);
}

void manager_open(struct manager *m, const char *owner, const char *id, sandbox_fn cb, void *user)
{
	open_any(m, owner, id, true, cb, user);
}

void manager_open_new(struct manager *m, const char *owner, const char *id,
		      const struct sandbox_choice *network, const struct sandbox_options *options,
		      sandbox_fn cb, void *user)
{
	struct err e = ERR_INIT;
	int r = check_name(m, owner, id, &e);

	r = r == 0 && options ? manager_check_options(m, options, &e) : r;
	if (r == 0 && id && options && manager_options_public(m, options))
		r = sandbox_refuse_guessable(&e);
	if (r == 0 && id && manager_lookup(m, owner, id))
		r = 1;
	r = r == 0 && id ? manager_get_stored(m, owner, id, NULL, &e) : r;
	if (r > 0)
		r = err_set(&e, ERR_ALREADY_EXISTS, 0, "Session %s is there already", id);
	if (r == 0 && id && m->config.stored.strict_ids && stored_is_uuid(id))
		r = err_set(&e, ERR_SESSION_NOT_FOUND, 0, "No active session with id %s", id);
	r = r < 0 ? r : manager_make(m, owner, id, NULL, network, options, cb, user, &e);
	if (r < 0)
		manager_reply(m, NULL, &e, cb, user);
}

void manager_activate(struct manager *m, const char *owner, const char *id, sandbox_fn cb,
		      void *user)
{
	open_any(m, owner, id, false, cb, user);
}
