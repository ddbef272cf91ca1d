/* SPDX-License-Identifier: Apache-2.0 */
/* One client's stream of the events of all workers. Its ids are of this stream alone: a client that comes back is told so in `hello`
 * (`resumed` is false), and gets `resync`, as it is by a server of its own that has started anew. */
#include "fleet/router/feed.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define QUEUE_MAX    (128u << 10)                /* bytes that wait for one reader */
#define HELLO_US     (UINT64_C(2) * 1000 * 1000) /* for workers that have not said hello */
#define HEARTBEAT_NS (15 * NS_PER_S)
#define SILENT_NS    (10 * NS_PER_S) /* of a worker: its stream is over */
#define EPOCH_BYTES  4
#define TICK_OPENS                                                                                 \
	32u /* connections of all feeds in a second: all want one when a worker comes back */

struct feed {
	struct list node; /* of router.feeds */
	struct fleet_router *router;
	const struct bound *bound;
	struct http_request *req; /* until the answer begins */
	struct http_stream *stream;
	struct caller *who; /* reference */
	struct budget_share place;
	struct buf line, head;          /* what each worker is asked, but for who asks */
	char worker[FLEET_WORKER_SIZE]; /* the only one whose events are wanted; "" = all */
	struct list sources;
	sd_event_source *timer; /* until the answer begins */
	char epoch[2 * EPOCH_BYTES + 1];
	uint64_t seq;
	json_t *refusal;   /* of the first worker that refused */
	int status;        /* of that */
	bool resumes;      /* the client has named an event */
	uint64_t hello_ns; /* when the answer begins at the latest */
};

struct fleet_router *feed_router(const struct feed *d)
{
	return d->router;
}

const struct caller *feed_caller(const struct feed *d)
{
	return d->who;
}

static void feed_free(struct feed *d)
{
	d->timer = sd_event_source_disable_unref(d->timer);
	list_for_each(node, &d->sources)
		source_free(list_entry(node, struct source, node));
	list_remove(&d->node);
	caller_unref(d->who);
	json_decref(d->refusal);
	budget_give(&d->place);
	buf_done(&d->line);
	buf_done(&d->head);
	free(d);
}

/* ---- to the client ---- */

static bool feed_write(struct feed *d, const char *text, size_t len)
{
	if (http_stream_write(d->stream, text, len) == 0)
		return true;
	http_stream_abort(d->stream);
	feed_free(d);
	return false;
}

static bool tell(struct feed *d, const char *name, const char *data)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(FEED_EVENT_MAX + 2 * RELAY_BLOCK);

	if (buf_printf(&text, "id: %s-%ju\nevent: %s\ndata: ", d->epoch, (uintmax_t)++d->seq,
		       name) == 0 &&
	    buf_add_str(&text, data) == 0 && buf_add_str(&text, "\n\n") == 0)
		return feed_write(d, text.data, text.len);
	http_stream_abort(d->stream);
	feed_free(d);
	return false;
}

bool feed_is_slow(const struct feed *d, const struct source *s)
{
	return d->stream ? http_stream_queued(d->stream) >= QUEUE_MAX : s->live;
}

bool feed_take(struct source *s, const struct feed_event *v)
{
	struct feed *d = s->feed;

	/* What comes before `hello` is of no stream that we know. */
	if (!streq(v->name, "hello"))
		return !d->stream || !s->live || tell(d, v->name, v->data);
	/* What it had to tell before this, nobody has heard. One that could not go on says `resync` itself. */
	const bool late = d->stream && !s->last_id[0];
	s->live = s->settled = true;
	if (late)
		return tell(d, "resync", "{}");
	if (!d->stream)
		(void)sd_event_source_set_time_relative(d->timer, 0);
	return true;
}

static void on_close(void *user)
{
	feed_free(user);
}

static void on_drain(void *user)
{
	struct feed *d = user;

	list_for_each(node, &d->sources)
		if (!source_pump(list_entry(node, struct source, node)))
			return;
}

static bool is_live(const struct feed *d)
{
	list_for_each(node, &d->sources)
		if (list_entry(node, struct source, node)->live)
			return true;
	return false;
}

/* All workers that have said something have refused. */
static void refuse(struct feed *d)
{
	size_t len = 0;
	char *text = jsonio_text(d->refusal, JSON_COMPACT, &len);

	http_request_on_gone(d->req, NULL, NULL);
	http_respond_take(d->req, d->status, HTTP_PROBLEM_TYPE, text, len);
	feed_free(d);
}

static bool is_settled(const struct feed *d)
{
	list_for_each(node, &d->sources)
		if (!list_entry(node, struct source, node)->settled)
			return false;
	return true;
}

static void begin_stream(struct feed *d)
{
	static const struct http_stream_ops ops = {.on_close = on_close, .on_drain = on_drain};
	struct http_request *req = d->req;
	char data[96];

	d->timer = sd_event_source_disable_unref(d->timer);
	d->req = NULL;
	http_request_on_gone(req, NULL, NULL);
	d->stream = http_stream_begin_sse(req, &ops, d);
	if (!d->stream) {
		feed_free(d);
		return;
	}
	(void)snprintf(data, sizeof(data), "{\"epoch\":\"%s\",\"seq\":1,\"resumed\":false}",
		       d->epoch);
	if (!tell(d, "hello", data) || (d->resumes && !tell(d, "resync", "{}")))
		return;
	on_drain(d);
}

/* All workers have said hello, or had the time for it. */
static int on_timer(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct feed *d = user;

	loop_work("fleet", "feed");
	const uint64_t now = now_ns();
	if (is_settled(d) || now >= d->hello_ns) {
		if (d->refusal && !is_live(d))
			refuse(d);
		else
			begin_stream(d);
		return 0;
	}
	(void)sd_event_source_set_time_relative(source, (d->hello_ns - now) / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- to workers ---- */

int feed_write_head(struct feed *d, struct source *s, struct buf *ret)
{
	int r = buf_add(ret, d->line.data, d->line.len);

	r = r < 0 ? r : buf_add(ret, d->head.data, d->head.len);
	if (r == 0 && s->last_id[0])
		r = buf_printf(ret, "Last-Event-ID: %s\r\n", s->last_id);
	r = r < 0 ? r : hop_add_caller(d->router, d->who, NULL, ret);
	return r < 0 ? r : buf_add_str(ret, "\r\n");
}

void feed_source_failed(struct source *s, int status, const char *answer, size_t len)
{
	struct feed *d = s->feed;

	if (status > 0 && hop_says_ours(answer, len))
		LOG_OFTEN(LOG_LEVEL_ERROR, "identity_refused", LOG_S("worker", s->id));
	else if (d->req && status >= 400 && status < 500 && !d->refusal &&
		 jsonio_read(answer, len, 0, &d->refusal, NULL) == 0)
		d->status = status;
	if (d->timer)
		(void)sd_event_source_set_time_relative(d->timer, 0);
}

static struct source *source_of(struct feed *d, const char *id)
{
	list_for_each(node, &d->sources) {
		struct source *s = list_entry(node, struct source, node);

		if (streq(s->id, id))
			return s;
	}
	return NULL;
}

/* Leaves sources whose worker is out of the list, or has another short id now. True: there is room for another source. */
static bool tidy(struct feed *d)
{
	size_t n = 0;

	list_for_each(node, &d->sources) {
		struct source *s = list_entry(node, struct source, node);

		if (s->worker ? !streq(s->worker->id, s->id) : !worker_find(d->router, s->id))
			source_free(s);
		else
			n++;
	}
	return n < FLEET_MEMBERS_MAX;
}

/* Connects to workers that are there, at most *OPENS times, and leaves those that are gone. */
static void go_on(struct feed *d, unsigned *opens)
{
	const uint64_t now = now_ns();
	bool room = tidy(d);

	list_for_each(node, &d->router->workers) {
		struct worker *w = list_entry(node, struct worker, node);
		struct source *s = source_of(d, w->id);

		if (!w->known || w->refused || (d->worker[0] && !streq(d->worker, w->id)))
			continue;
		if (!s && room && (s = source_new(d, w->id))) {
			list_append(&d->sources, &s->node);
			room = tidy(d);
		}
		if (s && s->worker && s->worker->missed > 0 && now - s->worker->good_ns > SILENT_NS)
			source_close(s);
		else if (s && !s->worker && w->missed == 0 && w->listed && now >= s->again_ns &&
			 *opens > 0) {
			(*opens)--;
			source_open(s, w);
		}
	}
}

void feeds_go(struct fleet_router *f)
{
	unsigned opens = TICK_OPENS;

	list_for_each(node, &f->feeds) {
		struct feed *d = list_entry(node, struct feed, node);

		go_on(d, &opens);
		if (d->stream && http_stream_last_write_ns(d->stream) + HEARTBEAT_NS <= now_ns())
			(void)feed_write(d, ": \n\n", 4);
	}
}

/* ---- a client ---- */

static void on_gone(void *user)
{
	feed_free(user);
}

static int read_request(struct feed *d)
{
	static const char *const ours[] = {"api_key", "last_event_id", NULL};
	const char *sandbox = http_request_query(d->req, "sandbox");
	const struct worker *first = list_first(&d->router->workers, struct worker, node);

	d->resumes = http_request_header(d->req, "last-event-id") ||
		     http_request_query(d->req, "last_event_id");
	if (sandbox && fleet_id_has_form(sandbox) &&
	    !fleet_id_worker(d->router->config.key, sandbox, d->worker))
		return -ENOENT;
	int r = buf_printf(&d->line, "GET %s", http_request_path(d->req));
	r = r < 0 ? r : hop_add_query(d->req, ours, '?', &d->line);
	r = r < 0 ? r : buf_add_str(&d->line, " HTTP/1.1\r\n");
	return r < 0 ? r
		     : hop_write_fields(d->bound, d->req, NULL, first, "last-event-id", &d->head);
}

static struct feed *feed_new(struct fleet_router *f, struct http_request *req,
			     const struct caller *who)
{
	struct feed *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->router = f;
	d->req = req;
	d->who = caller_ref(who);
	d->hello_ns = now_ns() + HELLO_US * NS_PER_US;
	list_init(&d->sources);
	list_append(&f->feeds, &d->node);
	buf_init(&d->line, RELAY_BUF_MAX);
	buf_init(&d->head, RELAY_BUF_MAX);
	rand_hex(d->epoch, EPOCH_BYTES);
	return d;
}

static int begin(struct feed *d, struct err *e)
{
	struct fleet_router *f = d->router;
	int r = budget_take(f->config.budgets, d->who->owner, BUDGET_FOLLOWERS, 1, &d->place, e);

	if (r < 0)
		return r;
	r = read_request(d);
	if (r == -ENOENT)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "There is no such sandbox");
	if (r == 0)
		r = sd_event_add_time_relative(f->config.loop, &d->timer, CLOCK_MONOTONIC, HELLO_US,
					       0, on_timer, d);
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "no memory for events") : 0;
}

void feed_begin(const struct bound *b, struct http_request *req, const struct caller *who)
{
	struct fleet_router *f = b->router;
	struct err e = ERR_INIT;

	if (list_is_empty(&f->workers)) {
		hop_respond(b, req, ERR_FLEET_EMPTY, "no worker of this fleet is ready");
		return;
	}
	struct feed *d = feed_new(f, req, who);
	if (!d) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory for events", NULL);
		return;
	}
	d->bound = b;
	if (begin(d, &e) < 0) {
		feed_free(d);
		http_respond_problem(req, e.code, e.text, NULL);
		return;
	}
	http_request_on_gone(req, on_gone, d);
	unsigned opens = FLEET_MEMBERS_MAX;
	go_on(d, &opens);
	if (is_settled(d)) /* there is nobody to wait for */
		(void)sd_event_source_set_time_relative(d->timer, 0);
}

void feeds_done(struct fleet_router *f)
{
	list_for_each(node, &f->feeds)
		feed_free(list_entry(node, struct feed, node));
}
