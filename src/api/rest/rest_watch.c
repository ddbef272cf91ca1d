/* SPDX-License-Identifier: Apache-2.0 */
/* REST: what changes in a sandbox, files or ports, as a stream of events. The stream asks init for the next changes only
 * when its client has read the last ones, so a slow client costs no memory here: what it misses is gathered, and bounded,
 * in the sandbox.
 *
 * Nothing is kept for a client that comes back. It is told `overflow` instead, as one that was too slow; one that watches
 * ports is told all that there are. */
#include "api/rest/rest.h"
#include "base/json_text.h"
#include "base/loop.h"
#include "base/rand.h"
#include "sandbox/sandbox_work.h"

#include <string.h>

#define KEEPALIVE_NS (15 * NS_PER_S)
#define EPOCH_BYTES  4
#define TEXT_MAX     (1u << 20) /* of the events of one answer of init */

const struct rest_field rest_watch_query[] = {
    {"owner", REST_TEXT, false, 0, 63, NULL,
     "for administrators: id of the owner; empty means the local user"},
    {"path", REST_TEXT, false, 0, ENGINE_PATH_MAX, NULL, "a folder; missing: the workspace"},
    {"recursive", REST_BOOL, false, 0, 0, NULL, "also everything below it"},
    {"ports", REST_BOOL, false, 0, 0, NULL,
     "instead of files: the ports that programs in the sandbox listen on"},
    {"last_event_id", REST_TEXT, false, 0, 64, NULL,
     "as the header Last-Event-ID, for clients that cannot set it"},
    {.name = NULL}};

struct watching {
	struct rest_call *call;     /* until the watch has begun */
	struct http_stream *stream; /* after that */
	struct engine_watch *watch; /* NULL: it has ended */
	struct caller *who;         /* reference */
	struct budget_share place;
	sd_event_source *keepalive;
	bool again; /* the client was connected before */
	bool recursive;
	bool ports; /* instead of a folder */
	char epoch[2 * EPOCH_BYTES + 1];
	uint64_t seq; /* of the last event */
	char path[ENGINE_PATH_MAX];
	/* Of ports: what the client knows. */
	char sandbox[SANDBOX_ID_MAX + 1];
	bool partial;
	size_t n_known;
	struct engine_port *known; /* owned */
};

static void watching_free(struct watching *w)
{
	if (w->watch)
		engine_unwatch(w->watch);
	(void)sd_event_source_disable_unref(w->keepalive);
	budget_give(&w->place);
	free(w->known);
	caller_unref(w->who);
	free(w);
}

/* ---- to the client ---- */

/* Adds an event whose data is JSON. */
static int add(struct watching *w, struct buf *text, const char *name, const char *json)
{
	return buf_printf(text, "id: %s-%ju\nevent: %s\ndata: %s\n\n", w->epoch,
			  (uintmax_t)++w->seq, name, json);
}

static int add_change(struct watching *w, struct buf *text, struct buf *json,
		      const struct engine_change *c)
{
	static const char *const kinds[] = {
	    [ENGINE_CHANGE_CREATE] = "create", [ENGINE_CHANGE_WRITE] = "write",
	    [ENGINE_CHANGE_REMOVE] = "remove", [ENGINE_CHANGE_RENAME] = "rename",
	    [ENGINE_CHANGE_CHMOD] = "chmod",
	};

	buf_reset(json);
	const int r = json_text_object(json, "ssb", "type", kinds[c->kind], "path", c->path,
				       "folder", c->folder);
	return r < 0 ? r : add(w, text, "change", buf_str(json));
}

static int add_news(struct watching *w, struct buf *text, const struct engine_news *news)
{
	_cleanup_(buf_done) struct buf json = BUF_INIT(TEXT_MAX);
	int r = news->overflow ? add(w, text, "overflow", "{}") : 0;

	for (size_t i = 0; r == 0 && i < news->n_changes; i++)
		r = add_change(w, text, &json, &news->changes[i]);
	return r == 0 && news->partial ? add(w, text, "partial", "{}") : r;
}

/* Adds an event and frees its data. */
static int add_json(struct watching *w, struct buf *text, const char *name, json_t *data)
{
	char *json = data ? json_dumps(data, JSON_COMPACT) : NULL;
	const int r = json ? add(w, text, name, json) : -ENOMEM;

	free(json);
	json_decref(data);
	return r;
}

static int add_port(struct watching *w, struct buf *text, const char *type,
		    const struct engine_port *p)
{
	json_t *data = rest_port_json(w->sandbox, p);

	(void)json_object_set_new(data, "type", json_string(type));
	return add_json(w, text, "port", data);
}

static int set_known(struct watching *w, const struct engine_news *news)
{
	struct engine_port *known = calloc(news->n_ports + 1, sizeof(*known));

	if (!known)
		return -ENOMEM;
	memcpy(known, news->ports, news->n_ports * sizeof(*known));
	free(w->known);
	w->known = known;
	w->n_known = news->n_ports;
	return 0;
}

static int add_partial(struct watching *w, struct buf *text, bool partial)
{
	const bool new = partial && !w->partial;

	w->partial = partial;
	return new ? add(w, text, "partial", "{}") : 0;
}

static int add_ports_start(struct watching *w, struct buf *text, const struct engine_news *news)
{
	json_t *all = json_array();
	int r;

	for (size_t i = 0; i < news->n_ports; i++)
		(void)json_array_append_new(all, rest_port_json(w->sandbox, &news->ports[i]));
	r = add_json(w, text, "start", json_pack("{s:o}", "ports", all));
	r = r < 0 ? r : set_known(w, news);
	return r < 0 ? r : add_partial(w, text, news->partial);
}

/* What differs from what the client knows; both lists begin with the smallest number. A port whose process is another one
 * now is told again. */
static int add_ports(struct watching *w, struct buf *text, const struct engine_news *news)
{
	size_t known = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && (i < news->n_ports || known < w->n_known);) {
		const struct engine_port *now = i < news->n_ports ? &news->ports[i] : NULL;
		const struct engine_port *was = known < w->n_known ? &w->known[known] : NULL;

		if (!now || (was && was->port < now->port)) {
			r = add_port(w, text, "end", was);
			known++;
			continue;
		}
		const bool same = was && was->port == now->port;
		if (!same || was->pid != now->pid)
			r = add_port(w, text, "listen", now);
		known += same;
		i++;
	}
	r = r < 0 ? r : set_known(w, news);
	return r < 0 ? r : add_partial(w, text, news->partial);
}

static int add_start(struct watching *w, struct buf *text)
{
	_cleanup_(buf_done) struct buf json = BUF_INIT(TEXT_MAX);
	int r = json_text_object(&json, "sb", "path", w->path, "recursive", w->recursive);

	r = r < 0 ? r : add(w, text, "start", buf_str(&json));
	return r == 0 && w->again ? add(w, text, "overflow", "{}") : r;
}

/* False: W is gone. */
static bool send_text(struct watching *w, const struct buf *text, int failed)
{
	if (failed == 0 &&
	    (text->len == 0 || http_stream_write(w->stream, buf_str(text), text->len) == 0))
		return true;
	http_stream_abort(w->stream);
	watching_free(w);
	return false;
}

/* The next changes, if the client has read all that it was sent. */
static void go_on(struct watching *w)
{
	if (auth_has_ended(w->who)) {
		http_stream_end(w->stream);
		watching_free(w);
	} else if (w->watch && http_stream_queued(w->stream) == 0) {
		engine_watch_next(w->watch);
	}
}

static void on_drain(void *user)
{
	go_on(user);
}

static void on_close(void *user)
{
	watching_free(user);
}

static int on_keepalive(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct watching *w = user;

	loop_work("timer", "watch");
	if (http_stream_last_write_ns(w->stream) + KEEPALIVE_NS <= now_ns() &&
	    http_stream_write(w->stream, ": \n\n", 4) < 0) {
		http_stream_abort(w->stream);
		watching_free(w);
		return 0;
	}
	(void)sd_event_source_set_time_relative(source, KEEPALIVE_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- from the sandbox ---- */

static void end(struct watching *w, const struct err *e)
{
	_cleanup_(buf_done) struct buf json = BUF_INIT(TEXT_MAX);
	_cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	int r = json_text_object(&json, "ss", "code", err_code_name(e->code), "message", e->text);

	r = r < 0 ? r : add(w, &text, "end", buf_str(&json));
	if (!send_text(w, &text, r))
		return;
	http_stream_end(w->stream);
	watching_free(w);
}

/* False: the client has left, and W is gone. */
static bool begin(struct watching *w)
{
	static const struct http_stream_ops ops = {.on_close = on_close, .on_drain = on_drain};
	sd_event *loop = w->call->api->config.loop;
	struct http_request *req = rest_give(TAKE_PTR(w->call));

	w->stream = req ? http_stream_begin_sse(req, &ops, w) : NULL;
	if (!w->stream) {
		watching_free(w);
		return false;
	}
	/* Without a timer a client behind a proxy may be cut, and comes back. */
	(void)sd_event_add_time_relative(loop, &w->keepalive, CLOCK_MONOTONIC,
					 KEEPALIVE_NS / NS_PER_US, 0, on_keepalive, w);
	return true;
}

static void on_news(const struct engine_news *news, const struct err *e, void *user)
{
	struct watching *w = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	const bool first = w->call != NULL;
	int r = 0;

	if (!news)
		w->watch = NULL;
	if (!news && first) {
		struct rest_call *c = w->call;

		watching_free(w);
		rest_fail(c, e);
		return;
	}
	if (!news) {
		end(w, e);
		return;
	}
	if (first && !begin(w))
		return;
	if (w->ports) {
		r = first ? add_ports_start(w, &text, news) : add_ports(w, &text, news);
	} else {
		r = first ? add_start(w, &text) : 0;
		r = r < 0 ? r : add_news(w, &text, news);
	}
	if (send_text(w, &text, r))
		go_on(w);
}

/* ---- the beginning ---- */

static int watch_folder(struct watching *w, struct sandbox *s, const char *given, struct err *e)
{
	if (given && *given && workspace_path(given, strlen(given), true, w->path, e) < 0)
		return -1;
	return sandbox_watch(s, w->path, w->recursive, on_news, w, &w->watch, e);
}

static int watch_ports(struct watching *w, struct sandbox *s, const char *given, struct err *e)
{
	if (given || w->recursive)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "`path` and `recursive` are for files: leave them out, or `ports`");
	return sandbox_watch_ports(s, on_news, w, &w->watch, e);
}

static void start(struct rest_call *c)
{
	const char *given = c->req ? http_request_query(c->req, "path") : NULL;
	struct watching *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	if (!w) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	w->call = c;
	w->who = caller_ref(c->who);
	w->recursive = c->req && rest_query_bool(c, "recursive");
	w->ports = c->req && rest_query_bool(c, "ports");
	(void)snprintf(w->sandbox, sizeof(w->sandbox), "%s", sandbox_id(c->sandbox));
	w->again = c->req && (http_request_header(c->req, "last-event-id") ||
			      http_request_query(c->req, "last_event_id"));
	rand_hex(w->epoch, EPOCH_BYTES);
	if (budget_take(c->api->config.budgets, c->who->owner, BUDGET_WATCHERS, 1, &w->place, &e) <
		0 ||
	    (w->ports ? watch_ports(w, c->sandbox, given, &e)
		      : watch_folder(w, c->sandbox, given, &e)) < 0) {
		watching_free(w);
		rest_fail(c, &e);
	}
}

void rest_watch(struct rest_call *c)
{
	rest_sandbox(c, start);
}
