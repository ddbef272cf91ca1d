/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rest/pieces.h"

#include "base/loop.h"
#include "base/workers.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE_BYTES (32u << 10) /* copied to the connection in one turn */

struct pieces {
	const struct pieces_ops *ops;
	void *maker;
	struct rest_call
	    *call; /* until the answer begins; there is a store as long as there is a call */
	struct http_stream *stream; /* after that; NULL: the client has left */
	struct store *store;
	sd_event *loop;
	sd_event_source *turn; /* the next step on the loop, before there is a stream */
	char owner[STORE_OWNER_SIZE];
	enum pieces_next next;
	bool working; /* a thread, or somebody else, has the maker */
	struct buf out;
	size_t sent;
	int failed;
	struct err err;
};

bool pieces_is_full(const struct buf *out)
{
	return out->len >= PIECES_BYTES;
}

static void pieces_free(struct pieces *p)
{
	(void)sd_event_source_disable_unref(p->turn);
	p->ops->free(p->maker);
	buf_done(&p->out);
	free(p);
}

struct pieces *pieces_new(struct rest_call *c, const struct pieces_ops *ops, void *maker)
{
	struct pieces *p = maker ? calloc(1, sizeof(*p)) : NULL;

	if (!p) {
		if (maker)
			ops->free(maker);
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return NULL;
	}
	*p = (struct pieces){.ops = ops,
			     .maker = maker,
			     .call = c,
			     .store = c->api->config.store,
			     .loop = c->api->config.loop,
			     .out = BUF_INIT(PIECES_MAX)};
	(void)snprintf(p->owner, sizeof(p->owner), "%s", c->who ? c->who->owner : "");
	return p;
}

/* Whoever asked has left. */
static void on_gone(void *user)
{
	struct pieces *p = user;

	p->call->req = NULL;
	if (p->working)
		return;
	(void)rest_give(TAKE_PTR(p->call));
	pieces_free(p);
}

/* ---- steps ---- */

static void note(struct pieces *p, int r)
{
	if (r < 0)
		p->failed = r;
	else
		p->next = (enum pieces_next)r;
}

static void read_step(struct store *reading, void *user)
{
	struct pieces *p = user;

	note(p, p->ops->read(p->maker, reading, &p->out, &p->err));
}

static void on_step(void *user);

static void start_read(struct pieces *p)
{
	p->working = true;
	const int r = store_read(p->store, p->owner, read_step, on_step, p, &p->err);
	if (r == 0)
		return;
	p->failed = r;
	on_step(p);
}

static void work_step(void *user)
{
	read_step(NULL, user);
}

static void start_thread(struct pieces *p)
{
	if (p->next == PIECES_READ) {
		start_read(p);
		return;
	}
	p->working = true;
	const int refused = workers_run(p->owner, work_step, on_step, p);
	if (refused == 0) /* p->failed is the thread's, and P may be gone */
		return;
	p->failed = refused;
	on_step(p);
}

static void add_step(struct pieces *p)
{
	note(p, p->ops->add(p->maker, p, &p->out, &p->err));
	p->working = p->failed == 0 && p->next == PIECES_WAIT;
}

/* ---- the answer ---- */

static void on_close(void *user)
{
	struct pieces *p = user;

	p->stream = NULL;
	if (!p->working)
		pieces_free(p);
}

static bool end_stream(struct pieces *p)
{
	if (p->failed < 0)
		http_stream_abort(TAKE_PTR(p->stream)); /* the client sees that it is incomplete */
	else
		http_stream_end(TAKE_PTR(p->stream));
	pieces_free(p);
	return false;
}

static bool on_room(void *user)
{
	struct pieces *p = user;
	const size_t n = MIN(p->out.len - p->sent, (size_t)SLICE_BYTES);

	if (p->working)
		return false;
	if (n > 0) {
		if (http_stream_write(p->stream, buf_str(&p->out) + p->sent, n) < 0)
			p->failed = -ENOBUFS;
		p->sent += n;
		return p->failed == 0 || end_stream(p);
	}
	if (p->failed < 0 || p->next == PIECES_END)
		return end_stream(p);
	buf_done(&p->out); /* a piece may have been long */
	p->sent = 0;
	if (p->next != PIECES_HERE) {
		start_thread(p);
		return false;
	}
	add_step(p);
	return !p->working;
}

static const struct http_stream_ops stream_ops = {.on_close = on_close, .on_room = on_room};

static void begin_answer(struct pieces *p)
{
	struct http_request *req = rest_give(TAKE_PTR(p->call));
	const size_t len = p->out.len;
	const char *type = p->ops->begin ? p->ops->begin(p->maker, req) : "application/json";
	char *text;

	if (p->next != PIECES_END) {
		p->stream = http_stream_begin(req, 200, type, &stream_ops, p);
		if (!p->stream) /* the client has left, or it was a HEAD */
			pieces_free(p);
		return;
	}
	text = buf_take(&p->out);
	if (text)
		http_respond_take(req, 200, type, text, len);
	else
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
	pieces_free(p);
}

static void fail_answer(struct pieces *p)
{
	struct rest_call *c = TAKE_PTR(p->call);

	http_request_on_gone(c->req, rest_on_gone, c);
	if (p->err.code != ERR_NONE)
		rest_fail(c, &p->err);
	else
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	pieces_free(p);
}

/* ---- the first piece ---- */

static int on_turn(sd_event_source *source UNUSED, void *user);

/* P, which nobody works at, goes on. */
static void go_on(struct pieces *p)
{
	if (p->stream) {
		http_stream_ask(p->stream);
	} else if (!p->call || !p->call->req) {
		if (p->call)
			(void)rest_give(TAKE_PTR(p->call));
		pieces_free(p);
	} else if (p->failed < 0) {
		fail_answer(p);
	} else if (p->next == PIECES_END || pieces_is_full(&p->out)) {
		begin_answer(p);
	} else if (p->next != PIECES_HERE) {
		start_thread(p);
	} else if ((p->failed = p->turn ? sd_event_source_set_enabled(p->turn, SD_EVENT_ONESHOT)
					: sd_event_add_defer(p->loop, &p->turn, on_turn, p)) < 0) {
		fail_answer(p);
	} else {
		p->failed = 0;
	}
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct pieces *p = user;

	loop_work("http", p->call->route->path);
	add_step(p);
	if (!p->working)
		go_on(p);
	return 0;
}

static void on_step(void *user)
{
	struct pieces *p = user;

	loop_work("answer", "piece");
	p->working = false;
	go_on(p);
}

void pieces_begin(struct pieces *p, enum pieces_next next)
{
	if (p->call->req)
		http_request_on_gone(p->call->req, on_gone, p);
	pieces_go_on(p, next); /* also where the client has left: everything ends there */
}

void pieces_go_on(struct pieces *p, enum pieces_next next)
{
	p->next = next;
	on_step(p);
}

void pieces_fail(struct pieces *p, const struct err *e)
{
	p->failed = -EIO;
	p->err = *e;
	on_step(p);
}
