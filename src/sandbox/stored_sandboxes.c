/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes: creation, listing, activation, deletion. struct sandbox_records keeps their
 * records, the engine keeps their files. */
#include "base/kill_points.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <string.h>

#define UUID_LEN 36
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
	sandbox_done_fn cb;
	void *user;
	unsigned tries;
	sd_event_source *pause;
};

static const struct sandbox_records *records_of(const struct manager *m)
{
	return m->config.stored.records;
}

bool stored_is_uuid(const char *id)
{
	for (size_t i = 0; i < UUID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? id[i] != '-' : !strchr("0123456789abcdef", id[i]) || !id[i])
			return false;
	}
	return id[UUID_LEN] == '\0';
}

static bool is_going(const struct manager *m, const char *id)
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

	if (!records_of(m) || !stored_is_uuid(id) || is_going(m, id))
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

	if (!is_going(each->manager, r->id))
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

/* ---- activation ---- */

int stored_make_room(struct manager *m, struct err *e)
{
	struct sandbox *oldest = NULL;

	if (m->n_stored < m->config.stored.max_active)
		return 0;
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			if (s->stored && s->state != SANDBOX_CREATING && sandbox_is_idle(s) &&
			    (!oldest || s->used_ns < oldest->used_ns))
				oldest = s;
		}
	if (!oldest)
		return err_set(e, ERR_MAX_SESSIONS, 0,
			       "All %u sandboxes that may be active at a time are at work. Wait "
			       "until one of them has finished.",
			       m->config.stored.max_active);
	LOG_INFO("sandbox_makes_room", LOG_S("session_id", oldest->id));
	return sandbox_drop(oldest, NULL, NULL, e);
}

int stored_open(struct manager *m, const char *owner, const char *id, sandbox_fn cb, void *user,
		struct err *e)
{
	struct sandbox_record record;
	int r = manager_get_stored(m, owner, id, &record, e);

	if (r <= 0)
		return r;
	if (records_of(m)->note_use)
		records_of(m)->note_use(records_of(m)->user, id);
	struct sandbox_options options = {0};
	r = manager_stored_options(m, &record, &options, e);
	r = r < 0 ? r : manager_make(m, owner, id, &record, NULL, &options, cb, user, e);
	sandbox_options_done(&options);
	return r < 0 ? r : 1;
}

/* ---- a creation that failed ---- */

static void on_forgotten(const struct err *e, void *user);
static void deletion_end(struct deletion *d, const struct err *e);

/* Removes the workspace, if there is one, and then the record. If the workspace cannot be removed,
 * the record stays: it is listed as a sandbox, which a client can delete. */
static void unmake(struct manager *m, const char *id)
{
	struct deletion *d = calloc(1, sizeof(*d));
	struct engine *g = m->engine;
	struct err e = ERR_INIT;

	if (!d)
		return;
	d->manager = m;
	(void)snprintf(d->id, sizeof(d->id), "%s", id);
	list_prepend(&m->deletions, &d->node);
	if (engine_forget(g, id, on_forgotten, d, &e) == 0)
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
	char id[SANDBOX_ID_MAX + 1];
	sandbox_fn cb;
	void *user;
};

static void on_made(struct sandbox *s, const struct err *e, void *user)
{
	struct creation *c = user;

	if (e && e->code != ERR_CANCELLED)
		unmake(c->manager, c->id);
	c->cb(s, e, c->user);
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

static int add_record(struct manager *m, const char *owner, const char *name,
		      const struct sandbox_choice *network, const struct sandbox_options *options,
		      struct sandbox_record *ret, struct err *e)
{
	const struct sandbox_records *records = records_of(m);
	_cleanup_(buf_done) struct buf env = BUF_INIT(SANDBOX_ENV_TEXT_MAX);

	*ret = (struct sandbox_record){0};
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
	memcpy(ret->image, m->config.stored.image, sizeof(ret->image));
	if (network)
		ret->network = *network;
	int r = options ? write_options(m, options, ret, &env, e) : 0;
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
	struct sandbox_record record;
	struct err e = ERR_INIT;
	struct err ignored = ERR_INIT;
	struct creation *c = calloc(1, sizeof(*c));

	if (!c)
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a new sandbox");
	if (!c || add_record(m, owner, name, network, options, &record, &e) < 0) {
		free(c);
		manager_reply(m, NULL, &e, cb, user);
		return;
	}
	*c = (struct creation){.manager = m, .cb = cb, .user = user};
	memcpy(c->id, record.id, sizeof(c->id));
	KILL_POINT(RECORD_ADDED);
	if (manager_make(m, owner, record.id, &record, NULL, options, on_made, c, &e) < 0) {
		(void)!records_of(m)->remove(records_of(m)->user, record.id, &ignored);
		free(c);
		manager_reply(m, NULL, &e, cb, user);
	}
}

/* ---- deletion ---- */

static void on_dropped(const struct err *e, void *user);

static void deletion_end(struct deletion *d, const struct err *e)
{
	list_remove(&d->node);
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
	if (!e && records_of(d->manager)->remove(records_of(d->manager)->user, d->id, &own) < 0)
		e = &own;
	KILL_POINT(RECORD_REMOVED);
	const struct manager_witness *w = &d->manager->witness;
	if (!e && w->news)
		w->news(w->user, d->owner, d->id, NULL, SANDBOX_REMOVED, NULL);
	deletion_end(d, e);
}

static void on_dropped(const struct err *e, void *user)
{
	struct deletion *d = user;
	struct engine *g = d->manager->engine;
	struct err own = ERR_INIT;

	if (!e && d->manager->closing)
		(void)err_set(&own, ERR_CANCELLED, 0, "the server is shutting down");
	else if (!e && engine_forget(g, d->id, on_forgotten, d, &own) == 0)
		return;
	deletion_end(d, e ? e : &own);
}

static int delete_stored(struct manager *m, const char *owner, const char *id, struct sandbox *s,
			 sandbox_done_fn cb, void *user, struct err *e)
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
	(void)snprintf(d->owner, sizeof(d->owner), "%s", owner);
	(void)snprintf(d->id, sizeof(d->id), "%s", id);
	list_prepend(&m->deletions, &d->node);
	r = s ? sandbox_drop(s, on_dropped, d, e)
	      : engine_forget(m->engine, id, on_forgotten, d, e);
	if (r < 0) {
		list_remove(&d->node);
		free(d);
	}
	return r;
}

int manager_delete(struct manager *m, const char *owner, const char *id, bool force,
		   sandbox_done_fn cb, void *user, struct err *e)
{
	struct sandbox *s = manager_lookup(m, owner, id);

	if (s && (s->state == SANDBOX_CREATING || (s->run && !force)))
		return err_set(e, ERR_SESSION_BUSY, 0, "Session %s is currently executing code",
			       s->id);
	if (s && !s->stored)
		return sandbox_close(s, force, cb, user, e);
	int r = manager_get_stored(m, owner, id, NULL, e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "No active session with id %s", id);
	return delete_stored(m, owner, id, s, cb, user, e);
}

void stored_forget_deletions(struct manager *m)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	struct deletion *d;

	while ((d = list_first(&m->deletions, struct deletion, node)) != NULL)
		deletion_end(d, &e);
}
