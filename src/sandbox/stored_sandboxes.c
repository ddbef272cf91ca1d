/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes: creation, listing, activation, deletion. struct sandbox_records keeps their
 * records, the engine keeps their files. */
#include "base/kill_points.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/ids.h"
#include "sandbox/manager.h"
#include "sandbox/moving.h"
#include "sandbox/rest.h"

#include <string.h>

/* The files of a sandbox that has just ended may be in use for a moment, while they are written to
 * the disk. A deletion that gets SANDBOX_IN_USE tries again: 50 times, 100 ms apart. */
#define FORGET_TRIES    50
#define FORGET_PAUSE_US 100000u

/* A deletion under way. From the call until files and record are gone, its id is not found. */
struct deletion {
	struct list node; /* of the manager */
	struct manager *manager;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	char key[SANDBOX_ID_MAX + 1]; /* of its files */
	bool quiet;                   /* the observer is not told */
	bool leaves;                  /* another server has it */
	sandbox_done_fn cb;
	void *user;
	unsigned tries;
	sd_event_source *pause;
};

static const struct sandbox_records *records_of(const struct manager *m)
{
	return m->config.stored.records;
}

/* Of a sandbox without files. If it fails, the sandbox is listed, and a client can delete it. */
static void remove_record(struct manager *m, const char *id)
{
	struct err ignored = ERR_INIT;

	(void)!records_of(m)->remove(records_of(m)->user, id, &ignored);
}

bool stored_is_going(const struct manager *m, const char *id)
{
	list_for_each(l, &m->deletions)
		if (streq(list_entry(l, struct deletion, node)->id, id))
			return true;
	return false;
}

int manager_get_stored(struct manager *m, const char *owner, const char *id,
		       struct sandbox_record *ret, struct err *e)
{
	struct sandbox_record r;

	if (!records_of(m) || !stored_may_be(owner, id) || stored_is_going(m, id) ||
	    arrival_is(m, NULL, id))
		return 0;
	return records_of(m)->get(records_of(m)->user, owner, id, ret ? ret : &r, e);
}

struct each {
	const struct manager *manager;
	sandbox_record_fn fn;
	void *arg;
};

static void on_each(const struct sandbox_record *r, void *arg)
{
	const struct each *each = arg;

	if (!stored_is_going(each->manager, r->id) && !arrival_is(each->manager, NULL, r->id))
		each->fn(r, each->arg);
}

int manager_each_stored(struct manager *m, const char *owner, sandbox_record_fn fn, void *arg,
			struct err *e)
{
	struct each each = {.manager = m, .fn = fn, .arg = arg};

	if (!records_of(m))
		return 0;
	return records_of(m)->each(records_of(m)->user, owner, on_each, &each, e);
}

/* ---- changes of records that go to the disk ---- */

struct settling {
	struct list node;
	struct manager *manager; /* NULL: it is gone, and CB was called */
	sandbox_done_fn cb;
	void *user;
};

static void settling_end(struct settling *w, const struct err *e)
{
	list_remove(&w->node);
	w->manager = NULL;
	w->cb(e, w->user);
}

static void on_settled(const struct err *e, void *user)
{
	struct settling *w = user;

	if (w->manager)
		settling_end(w, e);
	free(w);
}

void stored_settle(struct manager *m, sandbox_done_fn cb, void *user)
{
	const struct sandbox_records *records = records_of(m);
	struct settling *w = records->settle ? malloc(sizeof(*w)) : NULL;
	struct err e = ERR_INIT;
	int r = 1;

	if (w) {
		*w = (struct settling){.manager = m, .cb = cb, .user = user};
		list_append(&m->settlings, &w->node);
		r = records->settle(records->user, on_settled, w, &e);
	} else if (records->settle) {
		r = err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a stored sandbox");
	}
	if (r == 0)
		return;
	if (w)
		list_remove(&w->node);
	free(w);
	cb(r < 0 ? &e : NULL, user);
}

/* ---- activation ---- */

/* Deactivates the stored sandbox of OWNER that was idle longest; NULL: of anybody. ENOENT: none is idle. */
static int give_up_idle(struct manager *m, const char *owner, struct err *e)
{
	struct sandbox *oldest = NULL;

	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			if (s->stored && (!owner || streq(s->owner, owner)) &&
			    s->state != SANDBOX_CREATING && sandbox_is_idle(s) &&
			    (!oldest || s->used_ns < oldest->used_ns))
				oldest = s;
		}
	if (!oldest)
		return -ENOENT;
	LOG_INFO("sandbox_makes_room", LOG_S("session_id", oldest->id));
	return sandbox_rest(oldest, e);
}

int stored_take_place(struct manager *m, const char *owner, struct budget_share *ret, struct err *e)
{
	struct budgets *b = m->config.budgets;
	const bool full = m->n_stored >= m->config.stored.max_active;

	if (full || !budget_fits(b, owner, BUDGET_ACTIVE_STORED, 1)) {
		/* Nobody loses a sandbox to a user who is at the own bound. */
		const bool any = budget_fits_instead(b, owner, BUDGET_ACTIVE_STORED, 1);
		const int r = give_up_idle(m, any ? NULL : owner, e);

		if (r == -ENOENT && any)
			return err_set(e, ERR_MAX_SESSIONS, 0,
				       "All %u sandboxes that may be active at a time are at work. "
				       "Wait until one of them has finished.",
				       m->config.stored.max_active);
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return budget_take(b, owner, BUDGET_ACTIVE_STORED, 1, ret, e);
}

int stored_open(struct manager *m, const char *owner, const char *id, sandbox_fn cb, void *user,
		struct err *e)
{
	struct sandbox_record record;
	int r = manager_get_stored(m, owner, id, &record, e);

	if (r <= 0)
		return r;
	if (m->leaving)
		return err_set(e, ERR_SANDBOX_MOVING, 0, "the worker of sandbox %s is about to end",
			       id);
	if (records_of(m)->note_use)
		records_of(m)->note_use(records_of(m)->user, id);
	struct sandbox_options options = {0};
	r = manager_stored_options(m, &record, &options, e);
	r = r < 0 ? r : moving_note_opened(m, id, e);
	r = r < 0 ? r : manager_make(m, owner, id, &record, NULL, &options, cb, user, e);
	sandbox_options_done(&options);
	return r < 0 ? r : 1;
}

/* ---- a creation that failed ---- */

static void on_forgotten(const struct err *e, void *user);
static void deletion_end(struct deletion *d, const struct err *e);

/* If the workspace cannot be removed, the record stays: it is listed as a sandbox, which a client can delete. */
void stored_unmake(struct manager *m, const char *id, const char *key, bool quiet)
{
	struct deletion *d = calloc(1, sizeof(*d));
	struct engine *g = m->engine;
	struct err e = ERR_INIT;

	if (!d)
		return;
	d->manager = m;
	(void)snprintf(d->id, sizeof(d->id), "%s", id);
	(void)snprintf(d->key, sizeof(d->key), "%s", key);
	d->quiet = quiet;
	list_prepend(&m->deletions, &d->node);
	if (engine_forget(g, key, on_forgotten, d, &e) == 0)
		return;
	if (e.code ==
	    ERR_ENGINE_NOT_BUILT_IN) /* the engine stores nothing: only the record is removed */
		on_forgotten(NULL, d);
	else
		deletion_end(d, &e);
}

/* ---- creation ---- */

struct creation {
	struct manager *manager;
	struct sandbox_record record;
	sandbox_fn cb;
	void *user;
};

static void on_made(struct sandbox *s, const struct err *e, void *user)
{
	struct creation *c = user;

	if (e && e->code != ERR_CANCELLED)
		stored_unmake(c->manager, c->record.id, c->record.key, false);
	c->cb(s, e, c->user);
	free(c);
}

/* The record is on the disk, so whatever happens to its files there is something that leads to them. Meanwhile its owner
 * may have been removed, and the record with it. */
static void on_recorded(const struct err *e, void *user)
{
	struct creation *c = user;
	struct manager *m = c->manager;
	struct sandbox_options options = {0};
	struct err own = e ? *e : ERR_INIT;
	int r = e ? -EIO : manager_get_stored(m, c->record.owner, c->record.id, NULL, &own);

	if (r == 0)
		r = err_set(&own, ERR_SESSION_NOT_FOUND, 0, "Sandbox %s was deleted meanwhile",
			    c->record.id);
	r = r < 0 ? r : manager_stored_options(m, &c->record, &options, &own);
	r = r < 0 ? r
		  : manager_make(m, c->record.owner, c->record.id, &c->record, NULL, &options,
				 on_made, c, &own);
	sandbox_options_done(&options);
	if (r >= 0)
		return;
	if (own.code != ERR_CANCELLED)
		remove_record(m, c->record.id);
	manager_reply(m, NULL, &own, c->cb, c->user);
	free(c);
}

/* Puts OPTIONS into the record; ENV gets the text of the environment. */
static int write_options(struct manager *m, const struct sandbox_options *options,
			 struct sandbox_record *ret, struct buf *env, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(sizeof(ret->options) - 1);

	if (sandbox_options_text(options, &text, env) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a new sandbox");
	(void)!text_copy(ret->options, sizeof(ret->options), buf_str(&text));
	if (sandbox_option_given(options, SANDBOX_OPTION_IMAGE))
		memcpy(ret->image, options->image, sizeof(ret->image));
	if (sandbox_option_given(options, SANDBOX_OPTION_DISK))
		ret->disk_bytes = (uint64_t)options->number[SANDBOX_OPTION_DISK] << 20;
	return manager_check_options(m, options, e);
}

/* A stored sandbox outlives the locks that keep such an image. */
static int check_image(const char *image, struct err *e)
{
	if (strncmp(image, SANDBOX_PULLED_IMAGE, strlen(SANDBOX_PULLED_IMAGE)) != 0)
		return 0;
	return err_set(
	    e, ERR_FORBIDDEN, 0,
	    "image %s was downloaded for builds and goes when there is no room for it, so no "
	    "stored sandbox can have it; use another image of the server, which the operator "
	    "can download with 'caisson image pull', or a sandbox that is not stored",
	    image);
}

int stored_add_record(struct manager *m, const char *owner, const char *name,
		      const struct sandbox_choice *network, const struct sandbox_options *options,
		      struct sandbox_record *ret, struct err *e)
{
	const struct sandbox_records *records = records_of(m);
	_cleanup_(buf_done) struct buf env = BUF_INIT(SANDBOX_ENV_TEXT_MAX);

	if (options && (!name || !*name))
		name = options->name;
	if (!records)
		return err_set(e, ERR_ENGINE_NOT_BUILT_IN, 0,
			       "this server keeps no sandboxes beyond a session");
	if (m->closing)
		return err_set(e, ERR_CANCELLED, 0, "the server is shutting down");
	if (text_copy(ret->name, sizeof(ret->name), name ? name : "") < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "a name may have %d bytes at most",
			       SANDBOX_NAME_MAX);
	if (text_copy(ret->owner, sizeof(ret->owner), owner) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "the owner's name is too long");
	if (!ret->image[0])
		memcpy(ret->image, m->config.stored.image, sizeof(ret->image));
	if (network)
		ret->network = *network;
	int r = options ? write_options(m, options, ret, &env, e) : 0;
	r = r < 0 ? r : check_image(ret->image, e);
	r = r < 0 ? r
		  : records->add(records->user, ret, buf_str(&env), m->config.stored.owner_max, e);
	if (env.data)
		explicit_bzero(env.data, env.len);
	return r;
}

void manager_create(struct manager *m, const char *owner, const char *name,
		    const struct sandbox_choice *network, const struct sandbox_options *options,
		    sandbox_fn cb, void *user)
{
	struct err e = ERR_INIT;
	struct creation *c = calloc(1, sizeof(*c));

	if (!c)
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a new sandbox");
	if (!c || stored_add_record(m, owner, name, network, options, &c->record, &e) < 0) {
		free(c);
		manager_reply(m, NULL, &e, cb, user);
		return;
	}
	c->manager = m;
	c->cb = cb;
	c->user = user;
	KILL_POINT(RECORD_ADDED);
	stored_settle(m, on_recorded, c);
}

/* ---- deletion ---- */

static void on_dropped(const struct err *e, void *user);

static void deletion_end(struct deletion *d, const struct err *e)
{
	list_remove(&d->node);
	d->manager->moving_version++;
	if (e)
		LOG_ERROR("sandbox_delete_failed", LOG_S("session_id", d->id),
			  LOG_S("error", e->text));
	else
		LOG_INFO("sandbox_deleted", LOG_S("session_id", d->id));
	d->pause = sd_event_source_disable_unref(d->pause);
	if (d->cb)
		d->cb(e, d->user);
	free(d);
}

static int on_pause(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct deletion *d = user;

	d->pause = sd_event_source_disable_unref(d->pause);
	on_dropped(NULL, d);
	return 0;
}

static void on_record_removed(const struct err *e, void *user)
{
	struct deletion *d = user;
	const struct manager_observer *w = &d->manager->observer;

	KILL_POINT(RECORD_REMOVED);
	if (!e && w->news && !d->quiet)
		w->news(w->user, d->owner, d->id, NULL, SANDBOX_REMOVED, NULL);
	deletion_end(d, e);
}

static int remove_for_good(const struct deletion *d, struct err *e)
{
	const struct sandbox_records *records = records_of(d->manager);

	return d->leaves ? records->moving->leave(records->user, d->id, e)
			 : records->remove(records->user, d->id, e);
}

/* Removes the record last: as long as it is listed, a client can repeat the deletion. */
static void on_forgotten(const struct err *e, void *user)
{
	struct deletion *d = user;
	struct err own = ERR_INIT;

	if (e && e->code == ERR_SANDBOX_IN_USE && ++d->tries < FORGET_TRIES &&
	    sd_event_add_time_relative(d->manager->config.loop, &d->pause, CLOCK_MONOTONIC,
				       FORGET_PAUSE_US, 1, on_pause, d) >= 0)
		return;
	KILL_POINT(FORGOTTEN_TAKEN);
	if (!e && remove_for_good(d, &own) < 0)
		e = &own;
	if (e)
		deletion_end(d, e);
	else
		stored_settle(d->manager, on_record_removed, d);
}

static void on_dropped(const struct err *e, void *user)
{
	struct deletion *d = user;
	struct engine *g = d->manager->engine;
	struct err own = ERR_INIT;

	if (!e && d->manager->closing)
		(void)err_set(&own, ERR_CANCELLED, 0, "the server is shutting down");
	else if (!e && engine_forget(g, d->key, on_forgotten, d, &own) == 0)
		return;
	deletion_end(d, e ? e : &own);
}

static int delete_stored(struct manager *m, const struct sandbox_record *record, struct sandbox *s,
			 bool leaves, sandbox_done_fn cb, void *user, struct err *e)
{
	int r = manager_start(m, e);

	if (r < 0)
		return r;
	struct deletion *d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a deletion");
	d->manager = m;
	d->cb = cb;
	d->user = user;
	d->quiet = d->leaves = leaves;
	memcpy(d->owner, record->owner, sizeof(d->owner));
	memcpy(d->id, record->id, sizeof(d->id));
	memcpy(d->key, record->key, sizeof(d->key));
	list_prepend(&m->deletions, &d->node);
	rest_cut(m, d->owner, d->id);
	departure_cut(m, d->owner, d->id);
	r = s ? sandbox_drop(s, on_dropped, d, e)
	      : engine_forget(m->engine, d->key, on_forgotten, d, e);
	if (r < 0) {
		list_remove(&d->node);
		free(d);
	}
	return r;
}

/* A deletion of a sandbox that is still being made. */
struct late_deletion {
	struct manager *manager;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	bool leaves;
	sandbox_done_fn cb; /* may be NULL */
	void *user;
};

static void on_made_to_delete(struct sandbox *s UNUSED, const struct err *e UNUSED, void *user)
{
	struct late_deletion *d = user;
	struct err error = ERR_INIT;

	/* Also if it could not be made: a stored one has a record and files. */
	const int r =
	    d->leaves ? manager_leave(d->manager, d->owner, d->id, d->cb, d->user, &error)
		      : manager_delete(d->manager, d->owner, d->id, true, d->cb, d->user, &error);
	if (r < 0 && d->cb)
		d->cb(&error, d->user);
	free(d);
}

static int delete_when_made(struct sandbox *s, bool leaves, sandbox_done_fn cb, void *user,
			    struct err *e)
{
	struct late_deletion *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a deletion");
	*d =
	    (struct late_deletion){.manager = s->manager, .leaves = leaves, .cb = cb, .user = user};
	memcpy(d->owner, s->owner, sizeof(d->owner));
	memcpy(d->id, s->id, sizeof(d->id));
	manager_activate(s->manager, s->owner, s->id, on_made_to_delete, d);
	return 0;
}

int manager_delete(struct manager *m, const char *owner, const char *id, bool force,
		   sandbox_done_fn cb, void *user, struct err *e)
{
	struct sandbox *s = manager_lookup(m, owner, id);
	struct sandbox_record record;

	if (s && s->state == SANDBOX_CREATING && force)
		return delete_when_made(s, false, cb, user, e);
	if (s && (s->state == SANDBOX_CREATING || (s->run && !force)))
		return err_set(e, ERR_SESSION_BUSY, 0, "Session %s is currently executing code",
			       s->id);
	if (s && !s->stored)
		return sandbox_close(s, force, cb, user, e);
	int r = manager_get_stored(m, owner, id, &record, e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "No active session with id %s", id);
	return delete_stored(m, &record, s, false, cb, user, e);
}

int manager_leave(struct manager *m, const char *owner, const char *id, sandbox_done_fn cb,
		  void *user, struct err *e)
{
	struct sandbox *s = manager_lookup(m, owner, id);
	struct sandbox_record record;
	const int r = manager_get_stored(m, owner, id, &record, e);

	if (r <= 0)
		return r < 0 ? r
			     : err_set(e, ERR_SESSION_NOT_FOUND, 0, "there is no stored sandbox %s",
				       id);
	if (s && s->state == SANDBOX_CREATING)
		return delete_when_made(s, true, cb, user, e);
	if (s && !s->stored)
		return err_set(e, ERR_SESSION_BUSY, 0, "Sandbox %s is being kept. Try again.", id);
	return delete_stored(m, &record, s, true, cb, user, e);
}

void stored_begin(struct manager *m)
{
	list_init(&m->deletions);
	list_init(&m->settlings);
	list_init(&m->resting);
	list_init(&m->departures);
	m->departure_wait_us = MOVING_WAIT_S * UINT64_C(1000000);
	list_init(&m->arrivals);
}

void stored_end_all(struct manager *m)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	struct settling *w;
	struct deletion *d;

	while ((w = list_first(&m->settlings, struct settling, node)) != NULL)
		settling_end(w, &e);
	while ((d = list_first(&m->deletions, struct deletion, node)) != NULL)
		deletion_end(d, &e);
	departures_end_all(m);
	arrivals_end_all(m);
}
