/* SPDX-License-Identifier: Apache-2.0 */
/* Disks of stored sandboxes that are read for another server, while the sandboxes are at rest. */
#include "sandbox/moving.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "engine/disks.h"
#include "sandbox/manager.h"

#include <stdlib.h>
#include <string.h>

/* The disk of a sandbox that has just ended may be in use for a moment, while the engine takes it away. */
#define READ_TRIES    30
#define READ_PAUSE_US 100000u

struct departure {
	struct list node;        /* of manager.departures; of none after departure_end() */
	struct manager *manager; /* NULL: it is gone, and so are FN and all timers */
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	char key[SANDBOX_ID_MAX + 1];
	departure_fn fn; /* NULL: it was called */
	void (*wanted)(void *user);
	void *user;
	struct sandbox *follower; /* reference: is made afterwards; NULL = nobody waits */
	bool is_wanted;
	bool asked; /* the engine has not answered yet */
	bool ended; /* departure_end() was called meanwhile */
	unsigned tries;
	/* Disabled until they are needed, so that nothing can fail then. */
	sd_event_source *pause; /* before the engine is asked again */
	sd_event_source *call;  /* of WANTED */
	sd_event_source *limit; /* of the follower */
};

uint64_t manager_moving_version(const struct manager *m)
{
	return m->moving_version;
}

int moving_note_opened(struct manager *m, const char *id, struct err *e)
{
	const struct sandbox_records *records = m->config.stored.records;

	m->moving_version++;
	return records && records->moving ? records->moving->opened(records->user, id, e) : 0;
}

static struct departure *find_departure(const struct manager *m, const char *owner, const char *id)
{
	list_for_each(l, &m->departures) {
		struct departure *d = list_entry(l, struct departure, node);
		if (streq(d->id, id) && streq(d->owner, owner))
			return d;
	}
	return NULL;
}

bool manager_at_rest(struct manager *m, const char *owner, const char *id)
{
	return !manager_lookup(m, owner, id) && !rest_is(m, owner, id) && !stored_is_going(m, id) &&
	       !find_departure(m, owner, id) && !arrival_is(m, NULL, id);
}

static void drop_sources(struct departure *d)
{
	d->pause = sd_event_source_disable_unref(d->pause);
	d->call = sd_event_source_disable_unref(d->call);
	d->limit = sd_event_source_disable_unref(d->limit);
}

/* Whoever waits for the end of D is made. */
static void let_follower_go(struct departure *d)
{
	struct sandbox *s = TAKE_PTR(d->follower);
	struct err closing = ERR_INIT;

	if (!s)
		return;
	if (s->manager->closing)
		(void)err_set(&closing, ERR_CANCELLED, 0, "the server is shutting down");
	sandbox_make_now(s, s->manager->closing ? &closing : NULL);
	(void)sandbox_unref(s);
}

static void departure_free(struct departure *d)
{
	drop_sources(d);
	free(d);
}

static void tell(struct departure *d, int disk, const struct err *e)
{
	const departure_fn fn = TAKE_PTR(d->fn);

	fn(disk, e, d->user);
}

static void on_disk(int disk, const struct err *e, void *user);

static int ask(struct departure *d, struct err *e)
{
	const int r = engine_disk_read(d->manager->engine, d->key, on_disk, d, e);

	d->asked = r == 0;
	return r;
}

static int on_pause(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct departure *d = user;
	struct err e = ERR_INIT;

	loop_work("timer", "disk of a sandbox that is to be read");
	if (manager_start(d->manager, &e) < 0 || ask(d, &e) < 0)
		tell(d, -1, &e);
	return 0;
}

static int on_call(sd_event_source *source UNUSED, void *user)
{
	struct departure *d = user;

	loop_work("sandbox", "wanted while its disk is read");
	d->wanted(d->user);
	return 0;
}

/* The holder is too slow. The engine says what comes of a sandbox whose disk is still being read. */
static int on_limit(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct departure *d = user;

	loop_work("timer", "sandbox whose disk is read for too long");
	LOG_WARNING("departure_too_slow", LOG_S("session_id", d->id));
	let_follower_go(d);
	return 0;
}

static int make_sources(struct departure *d)
{
	sd_event *loop = d->manager->config.loop;
	int r = sd_event_add_time(loop, &d->pause, CLOCK_MONOTONIC, UINT64_MAX, 1, on_pause, d);

	r = r < 0 ? r
		  : sd_event_add_time(loop, &d->limit, CLOCK_MONOTONIC, UINT64_MAX, 1, on_limit, d);
	r = r < 0 ? r : sd_event_add_defer(loop, &d->call, on_call, d);
	r = r < 0 ? r : sd_event_source_set_enabled(d->pause, SD_EVENT_OFF);
	r = r < 0 ? r : sd_event_source_set_enabled(d->limit, SD_EVENT_OFF);
	return r < 0 ? r : sd_event_source_set_enabled(d->call, SD_EVENT_OFF);
}

/* From the loop, because the holder may end D from inside, and whoever wants the sandbox is not ready for an answer. */
static void call_holder(struct departure *d)
{
	d->is_wanted = true;
	(void)sd_event_source_set_enabled(d->call, SD_EVENT_ONESHOT);
}

static void start_timer(sd_event_source *timer, uint64_t usec)
{
	(void)sd_event_source_set_time_relative(timer, usec);
	(void)sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static void on_disk(int disk, const struct err *e, void *user)
{
	struct departure *d = user;
	struct err wanted = ERR_INIT;

	d->asked = false;
	if (d->ended) {
		(void)fd_close(disk);
		let_follower_go(d);
		departure_free(d);
		return;
	}
	if (!e && d->is_wanted) { /* before there was anything to hold */
		(void)err_set(&wanted, ERR_SANDBOX_IN_USE, 0, "the sandbox is wanted");
		disk = fd_close(disk);
		e = &wanted;
	} else if (e && e->code == ERR_SANDBOX_IN_USE && !d->is_wanted && ++d->tries < READ_TRIES) {
		start_timer(d->pause, READ_PAUSE_US);
		return;
	}
	tell(d, disk, e);
}

static struct departure *departure_new(struct manager *m, const struct sandbox_record *record)
{
	struct departure *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->manager = m;
	list_init(&d->node);
	memcpy(d->owner, record->owner, sizeof(d->owner));
	memcpy(d->id, record->id, sizeof(d->id));
	memcpy(d->key, record->key, sizeof(d->key));
	if (make_sources(d) >= 0)
		return d;
	departure_free(d);
	return NULL;
}

int manager_depart(struct manager *m, const char *owner, const char *id, departure_fn fn,
		   void (*wanted)(void *user), void *user, struct departure **ret, struct err *e)
{
	struct sandbox_record record;
	int r = manager_start(m, e);

	r = r < 0 ? r : manager_get_stored(m, owner, id, &record, e);
	if (r == 0)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "there is no stored sandbox %s", id);
	if (r > 0 && !manager_at_rest(m, owner, id))
		return err_set(e, ERR_SANDBOX_IN_USE, 0, "sandbox %s is not at rest", id);
	if (r < 0)
		return r;
	struct departure *d = departure_new(m, &record);
	if (!d)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a sandbox that leaves");
	d->fn = fn;
	d->wanted = wanted;
	d->user = user;
	r = ask(d, e);
	if (r < 0) {
		departure_free(d);
		return r;
	}
	list_append(&m->departures, &d->node);
	*ret = d;
	return 0;
}

struct departure *departure_end(struct departure *d)
{
	if (!d)
		return NULL;
	list_remove(&d->node);
	d->ended = true;
	drop_sources(d);
	if (d->manager)
		d->manager->moving_version++;
	if (d->asked)
		return NULL; /* on_disk() is still to come */
	let_follower_go(d);
	departure_free(d);
	return NULL;
}

bool departure_makes_wait(struct sandbox *s)
{
	struct departure *d = find_departure(s->manager, s->owner, s->id);

	if (!d || d->follower)
		return false;
	d->follower = sandbox_ref(s);
	start_timer(d->limit, s->manager->departure_wait_us);
	call_holder(d);
	return true;
}

void departure_cut(struct manager *m, const char *owner, const char *id)
{
	struct departure *d = find_departure(m, owner, id);

	if (d)
		call_holder(d);
}

/* The engine is closed: what is left waits for its holder alone. */
void departures_end_all(struct manager *m)
{
	struct departure *d;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	while ((d = list_pop_first(&m->departures, struct departure, node))) {
		drop_sources(d);
		let_follower_go(d);
		d->manager = NULL;
		if (d->fn)
			tell(d, -1, &e);
	}
}
