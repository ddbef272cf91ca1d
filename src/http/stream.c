/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of unknown length, sent while their content is produced. */
#include "http/connection.h"

#include "base/promise.h"
#include "base/rand.h"

#include <stdio.h>
#include <string.h>

static struct http_conn *conn_of(struct http_stream *st)
{
	return CONTAINER_OF(st, struct http_conn, stream);
}

static struct http_stream *begin(struct http_request *req, int status, const char *type, bool sized,
				 uint64_t length, const struct http_stream_ops *ops, void *userdata)
{
	struct http_conn *c = req->conn;

	if (!PROMISE(c->state == HTTP_CONN_REQUEST))
		return NULL;
	if (c->http10 && !sized)
		c->keep_alive = false; /* the body ends when the connection does */
	if (reply_head(req, status, type, sized, length) < 0) {
		reply_failed(req);
		return NULL;
	}
	if (req->head.method == HTTP_HEAD) {
		reply_go(req);
		return NULL;
	}
	c->state = HTTP_CONN_STREAM;
	c->drain_owed = false;
	c->stream = (struct http_stream){.ops = ops,
					 .userdata = userdata,
					 .last_write_ns = now_ns(),
					 .chunked = !c->http10 && !sized,
					 .sized = sized,
					 .left = length,
					 .asks = ops && ops->on_room};
	conn_schedule(c);
	return &c->stream;
}

struct http_stream *http_stream_begin(struct http_request *req, int status, const char *type,
				      const struct http_stream_ops *ops, void *userdata)
{
	return begin(req, status, type, false, 0, ops, userdata);
}

struct http_stream *http_stream_begin_sized(struct http_request *req, int status, const char *type,
					    uint64_t length, const struct http_stream_ops *ops,
					    void *userdata)
{
	return begin(req, status, type, true, length, ops, userdata);
}

struct http_stream *http_stream_begin_sse(struct http_request *req,
					  const struct http_stream_ops *ops, void *userdata)
{
	/* no-transform and X-Accel-Buffering: proxies must neither compress nor buffer the stream.
	 */
	if (http_add_header(req, "Cache-Control", "no-cache, no-store, no-transform") < 0 ||
	    http_add_header(req, "X-Accel-Buffering", "no") < 0) {
		reply_failed(req);
		return NULL;
	}
	struct http_stream *st = http_stream_begin(req, 200, "text/event-stream", ops, userdata);
	if (st)
		st->events = true;
	return st;
}

/* TEXT, which may be NULL, comes before the last part. */
static int queue_all(struct http_conn *c, const struct iovec *iov, unsigned n,
		     struct shared_bytes *text, size_t total)
{
	char line[24];
	int r = 0;

	if (c->stream.chunked) {
		const int k = snprintf(line, sizeof(line), "%zx\r\n", total);

		r = out_add(&c->out, line, (size_t)k);
	}
	for (unsigned i = 0; r == 0 && i < n; i++) {
		if (text && i == n - 1)
			r = out_add_shared(&c->out, text);
		if (r == 0)
			r = out_add(&c->out, iov[i].iov_base, iov[i].iov_len);
	}
	if (r == 0 && c->stream.chunked)
		r = out_add(&c->out, "\r\n", 2);
	if (r < 0)
		conn_break(c); /* the queue may end with half a chunk */
	return r;
}

/* One message that is larger than the limit does not make the reader slow: the messages behind it
 * may wait. */
static bool is_full(const struct http_conn *c, struct http_stream *st)
{
	const size_t max = c->server->cfg.stream_queue_max;
	const size_t queued = out_queued(&c->out);

	if (queued <= max)
		st->largest = 0;
	return queued > max && queued - max > st->largest;
}

static int write_parts(struct http_stream *st, const struct iovec *iov, unsigned n,
		       struct shared_bytes *text)
{
	struct http_conn *c = conn_of(st);
	size_t total = text ? text->len : 0;
	int r;

	if (!PROMISE(c->state == HTTP_CONN_STREAM))
		return -ECONNRESET;
	if (c->broken)
		return 0; /* on_close will be called */
	if (is_full(c, st))
		return -ENOBUFS;
	for (unsigned i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (total == 0)
		return 0; /* an empty chunk would end the body */
	if (st->sized && !PROMISE(total <= st->left)) {
		conn_break(c);
		return 0;
	}
	st->left -= st->sized ? total : 0;
	st->last_write_ns = now_ns();
	r = queue_all(c, iov, n, text, total);
	if (r < 0)
		return r;
	if (total > st->largest)
		st->largest = total;
	if (c->in_run)
		return 0; /* sent in the next step, together with what else is written now */
	r = out_flush(c);
	if (r < 0 && r != -EAGAIN) {
		conn_break(c);
		return 0;
	}
	if (r == -EAGAIN)
		c->drain_owed = true;
	conn_update(c);
	return 0;
}

int http_stream_write_shared(struct http_stream *st, const char *head, size_t head_len,
			     struct shared_bytes *text, const char *tail, size_t tail_len)
{
	/* iov_base is not const, although writev(2) only reads it. */
	const struct iovec iov[] = {
	    {.iov_base = (void *)(uintptr_t)head, .iov_len = head_len},
	    {.iov_base = text->data, .iov_len = text->len},
	    {.iov_base = (void *)(uintptr_t)tail, .iov_len = tail_len},
	};
	const struct iovec ends[] = {iov[0], iov[2]};

	return text->len <= HTTP_SMALL_BODY ? write_parts(st, iov, 3, NULL)
					    : write_parts(st, ends, 2, text);
}

int http_stream_write(struct http_stream *st, const void *data, size_t len)
{
	/* iov_base is not const, although writev(2) only reads it. */
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};

	return write_parts(st, &iov, 1, NULL);
}

void http_stream_ask(struct http_stream *st)
{
	st->asks = true;
	conn_schedule(conn_of(st));
}

size_t http_stream_queued(const struct http_stream *st)
{
	const struct http_conn *c =
	    (const void *)((const char *)st - offsetof(struct http_conn, stream));

	return out_queued(&c->out);
}

uint64_t http_stream_last_write_ns(const struct http_stream *st)
{
	return st->last_write_ns;
}

void http_stream_end(struct http_stream *st)
{
	struct http_conn *c = conn_of(st);

	if (!PROMISE(c->state == HTTP_CONN_STREAM))
		return;
	c->state = HTTP_CONN_REPLY;
	if ((st->sized && st->left > 0) || (st->chunked && out_add(&c->out, "0\r\n\r\n", 5) < 0))
		c->broken = true;
	conn_schedule(c);
}

void http_stream_abort(struct http_stream *st)
{
	struct http_conn *c = conn_of(st);

	if (!PROMISE(c->state == HTTP_CONN_STREAM))
		return;
	c->state = HTTP_CONN_REPLY; /* without on_close: the owner ended it */
	conn_break(c);
}
