/* SPDX-License-Identifier: Apache-2.0 */
/* envd: what changes in a folder, as a stream, or gathered by a watcher that the client asks again and again. Of a stream, the
 * sandbox is asked for the next changes when its client has read the last ones, so a slow client costs no memory here; and
 * a watcher that nobody asks stops asking the sandbox when it is full. What is missed then, the sandbox gathers.
 *
 * With includeEntry each event has what is there now, if anything is. It is looked up before the event is told, one after the other. An
 * entry may be large by the metadata of its file. Beyond ENTRIES_MAX events are told without. */
#include "faces/e2b/face.h"

#include "base/json_text.h"
#include "base/jsonio.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/workspace_inventory.h"

#include <stdlib.h>
#include <string.h>

#define SETTLE_NS    (250 * NS_PER_MS) /* after which the sandbox has told of a change */
#define UPLOAD_NS    (2 * NS_PER_S)
#define EVENTS_MAX   1000u /* that a watcher keeps */
#define KEEPALIVE_NS (30 * NS_PER_S)
#define KEEPALIVE    "{\"keepalive\":{}}"
#define TEXT_MAX     (4u * ENGINE_PATH_MAX + 256u)
#define ENTRY_MAX    (256u << 10) /* bytes of an entry as JSON, with the metadata of a file */
/* Bytes of entries that a watcher keeps, or that the client of a stream has not read. */
#define ENTRIES_MAX (1u << 20)

/* A change that waits for its entry. */
struct change {
	struct list node; /* of e2b_watch.changes */
	enum engine_change_kind kind;
	bool folder;
	char path[];
};

/* While the sandbox looks what a path is. */
struct looking {
	struct e2b_watch *watch; /* borrowed; NULL = it does not wait any more */
};

struct e2b_watch {
	struct list node;            /* of e2b_sandbox.watches; of a stream in no list */
	struct e2b_sandbox *owner;   /* borrowed: it outlives its watches */
	struct e2b_sandbox *sandbox; /* reference to it, of a stream and while CALL waits */
	struct e2b_call *call;       /* until the watch has begun */
	struct http_stream *stream;  /* NULL: it is a watcher */
	struct engine_watch *watch;  /* NULL: it has ended */
	struct e2b_stream of;
	struct budget_share share;
	sd_event_source *keepalive;
	unsigned number;
	bool streams, asked;     /* ASKED: the sandbox owes the next changes */
	json_t *events;          /* owned, of a watcher */
	size_t entry_bytes;      /* as JSON, of the entries in EVENTS */
	struct e2b_call *asker;  /* waits for the events until TIMER */
	bool entries;            /* the events are to have them */
	struct list changes;     /* struct change: not told yet */
	struct looking *looking; /* borrowed: for the first of them; NULL = none */
	sd_event_source *timer;
	char path[ENGINE_PATH_MAX];
};

static void answer(struct e2b_watch *w);

static void forget_looking(struct e2b_watch *w)
{
	if (w->looking)
		w->looking->watch = NULL;
	w->looking = NULL;
}

void e2b_watch_free(struct e2b_watch *w)
{
	struct change *change;

	forget_looking(w);
	while ((change = list_pop_first(&w->changes, struct change, node)))
		free(change);
	list_remove(&w->node);
	list_remove(&w->of.node);
	if (w->asker)
		answer(w);
	if (w->watch)
		engine_unwatch(w->watch);
	(void)sd_event_source_disable_unref(w->keepalive);
	budget_give(&w->share);
	json_decref(w->events);
	(void)e2b_sandbox_unref(w->sandbox);
	free(w);
}

void e2b_watches_done(struct e2b_sandbox *s)
{
	struct e2b_watch *w;

	while ((w = list_first(&s->watches, struct e2b_watch, node)))
		e2b_watch_free(w);
}

/* ---- events ---- */

static const char *type_of(enum engine_change_kind kind)
{
	static const char *const names[] = {
	    [ENGINE_CHANGE_CREATE] = "EVENT_TYPE_CREATE",
	    [ENGINE_CHANGE_WRITE] = "EVENT_TYPE_WRITE",
	    [ENGINE_CHANGE_REMOVE] = "EVENT_TYPE_REMOVE",
	    [ENGINE_CHANGE_RENAME] = "EVENT_TYPE_RENAME",
	    [ENGINE_CHANGE_CHMOD] = "EVENT_TYPE_CHMOD",
	};

	return names[kind];
}

/* A file that this face makes is written without a name, so the kernel tells of one change. Clients know the three of a file that
 * is made, gets its rights, and is written. */
static bool was_uploaded(const struct e2b_watch *w, const struct engine_change *change)
{
	const struct e2b_sandbox *s = w->owner;
	const uint64_t hash = path_hash(change->path);

	for (size_t i = 0; i < ARRAY_SIZE(s->uploads); i++)
		if (s->uploads[i].hash == hash && s->uploads[i].at_ns + UPLOAD_NS > now_ns())
			return change->kind == ENGINE_CHANGE_CREATE && !change->folder;
	return false;
}

void e2b_note_change(struct e2b_sandbox *s, const char *path, bool uploads)
{
	s->changed_ns = now_ns();
	if (uploads)
		s->uploads[s->next_upload++ % ARRAY_SIZE(s->uploads)] =
		    (struct e2b_upload){.hash = path_hash(path), .at_ns = s->changed_ns};
}

/* The name of what changed, from the watched folder on. */
static const char *name_in(const struct e2b_watch *w, const char *path)
{
	const size_t len = strlen(w->path);

	if (len > 0 && strncmp(path, w->path, len) == 0 &&
	    (path[len] == '/' || streq(w->path, "/")))
		return path + len + (path[len] == '/');
	return path;
}

/* False: W is gone. */
static bool send(struct e2b_watch *w, const char *text, size_t len)
{
	if (e2b_send_frame(w->stream, false, text, len) == 0)
		return true;
	http_stream_abort(w->stream);
	e2b_watch_free(w);
	return false;
}

/* Puts the entry into the object at the end of TEXT. */
static int add_entry(struct buf *text, const json_t *entry)
{
	size_t len;
	_cleanup_free_ char *json = jsonio_text(entry, JSON_COMPACT, &len);

	if (!json)
		return -ENOMEM;
	text->len--; /* the brace */
	int r = buf_add_str(text, ",\"entry\":");

	r = r < 0 ? r : buf_add(text, json, len);
	return r < 0 ? r : buf_add_str(text, "}");
}

/* ENTRY: borrowed; NULL = none. */
static bool send_change(struct e2b_watch *w, const struct engine_change *change,
			enum engine_change_kind kind, const json_t *entry)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(8 * TEXT_MAX + ENTRY_MAX);
	int r = buf_add_str(&text, "{\"filesystem\":");

	r = r < 0 ? r
		  : json_text_object(&text, "ss", "name", name_in(w, change->path), "type",
				     type_of(kind));
	if (entry && http_stream_queued(w->stream) < ENTRIES_MAX)
		r = r < 0 ? r : add_entry(&text, entry);
	r = r < 0 ? r : buf_add_str(&text, "}");
	return r < 0 || send(w, text.data, text.len);
}

static void keep_change(struct e2b_watch *w, const struct engine_change *change,
			enum engine_change_kind kind, json_t *entry)
{
	if (json_array_size(w->events) >= EVENTS_MAX)
		return;
	const size_t bytes = entry ? json_dumpb(entry, NULL, 0, JSON_COMPACT) : 0;

	if (bytes > ENTRIES_MAX - w->entry_bytes)
		entry = NULL;
	else
		w->entry_bytes += bytes;
	(void)json_array_append_new(w->events, json_pack("{s:o, s:s, s:O*}", "name",
							 e2b_text_json(name_in(w, change->path)),
							 "type", type_of(kind), "entry", entry));
}

/* False: W is gone. */
static bool tell_change(struct e2b_watch *w, const struct engine_change *change, json_t *entry)
{
	static const enum engine_change_kind all[] = {ENGINE_CHANGE_CREATE, ENGINE_CHANGE_CHMOD,
						      ENGINE_CHANGE_WRITE};
	const size_t n = was_uploaded(w, change) ? ARRAY_SIZE(all) : 1;

	for (size_t i = 0; i < n; i++) {
		const enum engine_change_kind kind = i == 0 ? change->kind : all[i];

		if (!w->streams)
			keep_change(w, change, kind, entry);
		else if (!send_change(w, change, kind, entry))
			return false;
	}
	return true;
}

/* ---- the watch ---- */

static void go_on(struct e2b_watch *w)
{
	if (!w->watch || w->asked || !list_is_empty(&w->changes))
		return;
	if (w->streams ? http_stream_queued(w->stream) > 0
		       : json_array_size(w->events) >= EVENTS_MAX / 2)
		return;
	w->asked = true;
	engine_watch_next(w->watch);
}

/* ---- entries ---- */

static bool keep_for_entry(struct e2b_watch *w, const struct engine_change *from)
{
	const size_t len = strlen(from->path);
	struct change *change = calloc(1, sizeof(*change) + len + 1);

	if (!change)
		return false;
	change->kind = from->kind;
	change->folder = from->folder;
	memcpy(change->path, from->path, len);
	list_append(&w->changes, &change->node);
	return true;
}

/* The first of the changes that wait. ENTRY is taken; NULL = nothing is there. False: W is gone. */
static bool tell_first(struct e2b_watch *w, json_t *entry)
{
	struct change *change = list_pop_first(&w->changes, struct change, node);
	const struct engine_change c = {
	    .kind = change->kind, .folder = change->folder, .path = change->path};
	const bool there = tell_change(w, &c, entry);

	json_decref(entry);
	free(change);
	return there;
}

static void look_at_next(struct e2b_watch *w);

static void on_entry(const struct engine_stat *st, const struct err *e, void *user)
{
	struct looking *l = user;
	struct e2b_watch *w = l->watch;

	free(l);
	if (!w)
		return;
	w->looking = NULL;
	const struct change *change = list_first(&w->changes, struct change, node);

	if (tell_first(w, e ? NULL : e2b_stat_json(change->path, st)))
		look_at_next(w);
}

/* False: what is at the path is not looked up. */
static bool look_at(struct e2b_watch *w, const struct change *change)
{
	struct sandbox *s = w->owner->sandbox;
	struct err ignored = ERR_INIT;
	struct looking *l =
	    change->kind == ENGINE_CHANGE_REMOVE || !s ? NULL : calloc(1, sizeof(*l));

	if (!l)
		return false;
	l->watch = w;
	w->looking = l;
	if (sandbox_stat(s, change->path, on_entry, l, &ignored) == 0)
		return true;
	w->looking = NULL;
	free(l);
	return false;
}

static void look_at_next(struct e2b_watch *w)
{
	const struct change *change;

	while ((change = list_first(&w->changes, struct change, node))) {
		if (look_at(w, change) || !tell_first(w, NULL))
			return;
	}
	go_on(w);
}

/* ---- its course ---- */

static void on_drain(void *user)
{
	go_on(user);
}

static void on_close(void *user)
{
	e2b_watch_free(user);
}

static void on_cut(struct e2b_stream *st, bool ended UNUSED)
{
	struct e2b_watch *w = CONTAINER_OF(st, struct e2b_watch, of);

	http_stream_abort(w->stream);
	e2b_watch_free(w);
}

static int on_keepalive(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct e2b_watch *w = user;

	loop_work("timer", "watch of E2B");
	if (http_stream_last_write_ns(w->stream) + KEEPALIVE_NS <= now_ns() &&
	    !send(w, KEEPALIVE, sizeof(KEEPALIVE) - 1))
		return 0;
	(void)sd_event_source_set_time_relative(source, KEEPALIVE_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* False: W is gone. */
static bool begin_stream(struct e2b_watch *w)
{
	static const struct http_stream_ops ops = {.on_close = on_close, .on_drain = on_drain};
	static const char start[] = "{\"start\":{}}";
	sd_event *loop = w->call->face->config.loop;
	struct http_request *req = e2b_give(TAKE_PTR(w->call));

	if (req)
		(void)http_add_header(req, "X-Accel-Buffering", "no");
	w->stream = req ? http_stream_begin(req, 200, "application/connect+json", &ops, w) : NULL;
	if (!w->stream) {
		e2b_watch_free(w);
		return false;
	}
	list_append(&w->sandbox->streams, &w->of.node);
	(void)sd_event_add_time_relative(loop, &w->keepalive, CLOCK_MONOTONIC,
					 KEEPALIVE_NS / NS_PER_US, 0, on_keepalive, w);
	return send(w, start, sizeof(start) - 1);
}

static bool begin_watcher(struct e2b_watch *w)
{
	struct e2b_call *c = TAKE_PTR(w->call);
	struct e2b_sandbox *s = c->sandbox;
	char id[16];

	/* It ended meanwhile, and so will the watch; or nobody learns its number, and nobody could remove it. */
	if (!s->sandbox || !c->req) {
		e2b_watch_free(w);
		e2b_refuse(c, ERR_SANDBOX_LOST, "the sandbox has ended");
		return false;
	}
	list_append(&s->watches, &w->node);
	w->number = ++s->last_watch;
	w->sandbox = e2b_sandbox_unref(w->sandbox);
	(void)snprintf(id, sizeof(id), "w%u", w->number);
	e2b_reply(c, 200, json_pack("{s:s}", "watcherId", id));
	return true;
}

static void end(struct e2b_watch *w, const struct err *e)
{
	struct e2b_call *c = TAKE_PTR(w->call);
	struct http_stream *st = w->stream;
	const bool lost = e->code == ERR_SANDBOX_LOST || e->code == ERR_CANCELLED;

	w->watch = NULL;
	forget_looking(w);
	while (!list_is_empty(&w->changes))
		if (!tell_first(w, NULL))
			return;
	if (!c && !st) /* of a watcher the client may still ask for the last events */
		return;
	e2b_watch_free(w);
	if (c)
		e2b_fail(c, e);
	else if (lost)
		http_stream_abort(st);
	else
		e2b_stream_finish(st, e);
}

static void on_news(const struct engine_news *news, const struct err *e, void *user)
{
	struct e2b_watch *w = user;

	w->asked = false;
	if (!news) {
		end(w, e);
		return;
	}
	if (w->call && !(w->streams ? begin_stream(w) : begin_watcher(w)))
		return;
	for (size_t i = 0; i < news->n_changes; i++)
		if (!(w->entries && keep_for_entry(w, &news->changes[i])) &&
		    !tell_change(w, &news->changes[i], NULL))
			return;
	if (w->entries && !w->looking)
		look_at_next(w);
	else
		go_on(w);
}

static void begin(struct e2b_call *c, bool streams)
{
	const char *given = json_string_value(json_object_get(c->body, "path"));
	const bool recursive = json_is_true(json_object_get(c->body, "recursive"));
	struct e2b_watch *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	if (!w) {
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "a watch");
		return;
	}
	list_init(&w->node);
	list_init(&w->of.node);
	list_init(&w->changes);
	w->entries = json_is_true(json_object_get(c->body, "includeEntry"));
	w->of.cut = on_cut;
	w->streams = streams;
	w->owner = c->sandbox;
	w->sandbox = e2b_sandbox_ref(c->sandbox);
	w->events = streams ? NULL : json_array();
	w->call = c;
	int r = e2b_check_user(c, &e);
	if (r == 0 && !given)
		r = err_set(&e, ERR_INVALID_ARGUMENT, 0, "path: a folder");
	r = r < 0 ? r : e2b_path(c, given, w->path, &e);
	r = r < 0 ? r
		  : budget_take(c->face->config.budgets, c->who->owner, BUDGET_WATCHERS, 1,
				&w->share, &e);
	r = r < 0
		? r
		: sandbox_watch(c->sandbox->sandbox, w->path, recursive, on_news, w, &w->watch, &e);
	if (r == 0)
		return;
	e2b_watch_free(w);
	e2b_fail(c, &e);
}

void e2b_watch_dir(struct e2b_call *c)
{
	begin(c, true);
}

void e2b_create_watcher(struct e2b_call *c)
{
	begin(c, false);
}

/* ---- watchers ---- */

/* The watcher that the body names; NULL after it has answered. */
static struct e2b_watch *need(struct e2b_call *c)
{
	const char *id = json_string_value(json_object_get(c->body, "watcherId"));
	uint64_t number = 0;

	if (id && id[0] == 'w' && parse_u64(id + 1, 1, UINT32_MAX, &number) == 0)
		list_for_each(l, &c->sandbox->watches) {
			struct e2b_watch *w = list_entry(l, struct e2b_watch, node);

			if (w->number == number)
				return w;
		}
	e2b_refuse(c, ERR_NOT_FOUND, "there is no such watcher");
	return NULL;
}

static void reply_events(struct e2b_watch *w, struct e2b_call *c)
{
	json_t *events = w->events;

	w->events = json_array();
	w->entry_bytes = 0;
	go_on(w);
	e2b_reply(c, 200, json_pack("{s:o}", "events", events));
}

static void answer(struct e2b_watch *w)
{
	w->timer = sd_event_source_disable_unref(w->timer);
	reply_events(w, TAKE_PTR(w->asker));
}

static int on_settled(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	loop_work("timer", "watcher of E2B");
	answer(user);
	return 0;
}

/* The sandbox gathers changes for a moment. A client that has changed a file itself and asks at once gets that change. */
void e2b_watcher_events(struct e2b_call *c)
{
	struct e2b_watch *w = need(c);

	if (!w)
		return;
	const uint64_t settled = c->sandbox->changed_ns + SETTLE_NS, now = now_ns();
	if (c->sandbox->changed_ns == 0 || settled <= now || w->asker || !w->watch ||
	    sd_event_add_time_relative(c->face->config.loop, &w->timer, CLOCK_MONOTONIC,
				       (settled - now) / NS_PER_US, 1, on_settled, w) < 0)
		reply_events(w, c);
	else
		w->asker = c;
}

void e2b_remove_watcher(struct e2b_call *c)
{
	struct e2b_watch *w = need(c);

	if (!w)
		return;
	e2b_watch_free(w);
	e2b_reply(c, 200, json_object());
}
