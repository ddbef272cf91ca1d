/* SPDX-License-Identifier: Apache-2.0 */
/* A short request of the router's own to a worker. */
#include "fleet/router/parts.h"

#include "base/jsonio.h"
#include "base/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#define TURN_BLOCKS 2 /* that are read in one turn of the loop */

struct fetch {
	struct worker *worker;
	struct link *link;
	struct http_io io;
	sd_event_source *source, *patience, *more; /* MORE: what epoll does not tell of */
	struct buf out, in;
	size_t scanned, head_len,
	    kept; /* bytes of a chunked body that are put together, behind the head */
	struct relay_reply reply;
	struct http_chunk chunk;
	bool ours; /* of the head, whose strings do not stay where they are */
	fetch_fn fn;
	void *user;
};

struct fetch *fetch_drop(struct fetch *x)
{
	if (!x)
		return NULL;
	x->worker->n_fetches--;
	x->source = sd_event_source_disable_unref(x->source);
	x->patience = sd_event_source_disable_unref(x->patience);
	x->more = sd_event_source_disable_unref(x->more);
	if (x->link)
		link_drop(x->link);
	if (x->io.fd >= 0)
		x->io.ops->close(&x->io, false);
	buf_done(&x->out);
	buf_done(&x->in);
	free(x);
	return NULL;
}

static void finish(struct fetch *x, const char *why)
{
	const struct fetch_answer a = {.status = why ? 0 : x->reply.status,
				       .why = why,
				       .body = why ? "" : x->in.data + x->head_len,
				       .len = why ? 0 : x->kept,
				       .ours = !why && x->ours};
	const fetch_fn fn = x->fn;
	void *user = x->user;

	x->source = sd_event_source_disable_unref(x->source);
	if (!why && !x->reply.closes && x->head_len + x->kept == x->in.len) {
		link_put(x->worker, &x->io);
		x->io = (struct http_io){.ops = &http_plain_io, .fd = -1};
	}
	fn(&a, user);
	(void)fetch_drop(x);
}

/* Puts the data of chunks together. 1: all is there; 0: not yet; < 0: it is none. */
static int join_chunks(struct fetch *x)
{
	size_t at = x->head_len + x->kept;

	while (at < x->in.len && !http_chunk_done(&x->chunk)) {
		const char *data = NULL;
		size_t n = 0;
		const int64_t used =
		    http_chunk_next(&x->chunk, x->in.data + at, x->in.len - at, &data, &n);

		if (used < 0)
			return -EBADMSG;
		if (data)
			memmove(x->in.data + x->head_len + x->kept, data, n);
		x->kept += data ? n : 0;
		at += (size_t)used;
	}
	const size_t rest = x->in.len - at;
	memmove(x->in.data + x->head_len + x->kept, x->in.data + at, rest);
	x->in.len = x->head_len + x->kept + rest;
	return http_chunk_done(&x->chunk);
}

/* The same of what has come. */
static int look(struct fetch *x)
{
	if (x->head_len == 0) {
		const size_t len = relay_reply_end(x->in.data, x->in.len, &x->scanned);

		if (len == 0)
			return x->in.len >= RELAY_HEAD_MAX ? -EBADMSG : 0;
		if (relay_reply_parse(x->in.data, len, false, &x->reply) < 0 ||
		    x->reply.status < 200)
			return -EBADMSG;
		const char *code = hop_error_of(&x->reply);
		x->ours = code && hop_is_ours(code);
		x->head_len = len;
	}
	if (x->reply.framing == RELAY_CHUNKED)
		return join_chunks(x);
	if (x->reply.framing != RELAY_LENGTH)
		return x->reply.framing == RELAY_NO_BODY ? 1 : -EBADMSG;
	x->kept = (size_t)MIN((uint64_t)(x->in.len - x->head_len), x->reply.length);
	return x->kept == x->reply.length;
}

static int on_more(sd_event_source *source, void *user);

/* Goes on in the next turn: others wait, too. */
static void wait_turn(struct fetch *x)
{
	sd_event *loop = x->worker->router->config.loop;

	if (!x->io.ops->pending(&x->io))
		return;
	if (x->more ? sd_event_source_set_enabled(x->more, SD_EVENT_ONESHOT) < 0
		    : sd_event_add_defer(loop, &x->more, on_more, x) < 0)
		finish(x, "no memory");
}

static void receive(struct fetch *x)
{
	for (unsigned i = 0;; i++) {
		if (i == TURN_BLOCKS) {
			wait_turn(x);
			return;
		}
		if (buf_reserve(&x->in, RELAY_BLOCK) < 0) {
			finish(x, "its answer is too large");
			return;
		}
		const ssize_t n = x->io.ops->recv(&x->io, x->in.data + x->in.len, RELAY_BLOCK);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			finish(x, "it ended the connection");
			return;
		}
		x->in.len += (size_t)n;
		const int r = look(x);
		if (r != 0) {
			finish(x, r < 0 ? "its answer is not one of HTTP/1.1" : NULL);
			return;
		}
	}
}

static int on_more(sd_event_source *source UNUSED, void *user)
{
	loop_work("fleet", "state");
	receive(user);
	return 0;
}

static int on_io(sd_event_source *source, int fd UNUSED, uint32_t revents, void *user)
{
	struct fetch *x = user;

	loop_work("fleet", "state");
	while (x->out.len > 0) {
		struct iovec iov = {x->out.data, x->out.len};
		const ssize_t n = x->io.ops->send(&x->io, &iov, 1, false);

		if (n < 0 && n != -EAGAIN) {
			finish(x, "it ended the connection");
			return 0;
		}
		if (n < 0) { /* what it sends before it has read the question waits */
			(void)sd_event_source_set_io_events(source, EPOLLOUT);
			return 0;
		}
		buf_consume(&x->out, (size_t)n);
	}
	(void)sd_event_source_set_io_events(source, EPOLLIN);
	if (revents & ~(uint32_t)EPOLLOUT)
		receive(x);
	return 0;
}

static void on_link(struct http_io *io, const char *why, bool reused UNUSED, void *user)
{
	struct fetch *x = user;

	x->link = NULL;
	if (io)
		x->io = *io;
	if (!io)
		finish(x, why);
	else if (sd_event_add_io(x->worker->router->config.loop, &x->source, x->io.fd,
				 EPOLLIN | EPOLLOUT, on_io, x) < 0)
		finish(x, "no memory");
}

static int on_time(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct fetch *x = user;

	(void)source;
	finish(x, "it did not answer in time");
	return 0;
}

/* The connection is looked for in a turn of its own, so that FN is never called before fetch_begin() has returned. */
static int on_begin(sd_event_source *source UNUSED, void *user)
{
	struct fetch *x = user;

	x->source = sd_event_source_disable_unref(x->source);
	struct link *link;
	link_get(x->worker, false, on_link, x, &link);
	if (link)
		x->link = link;
	return 0;
}

struct fetch *fetch_begin(struct worker *w, const char *head, size_t max, unsigned timeout_ms,
			  fetch_fn fn, void *user)
{
	struct fetch *x = calloc(1, sizeof(*x));
	sd_event *loop = w->router->config.loop;

	if (!x)
		return NULL;
	x->worker = w;
	w->n_fetches++;
	x->fn = fn;
	x->user = user;
	x->io = (struct http_io){.ops = &http_plain_io, .fd = -1};
	buf_init(&x->in, max + RELAY_HEAD_MAX + RELAY_BLOCK);
	buf_init(&x->out, RELAY_BUF_MAX);
	if (buf_add_str(&x->out, head) < 0 ||
	    sd_event_add_defer(loop, &x->source, on_begin, x) < 0 ||
	    sd_event_add_time_relative(loop, &x->patience, CLOCK_MONOTONIC,
				       (uint64_t)timeout_ms * 1000, 0, on_time, x) < 0)
		return fetch_drop(x);
	return x;
}

int fetch_json(const struct fetch_answer *a, size_t max, size_t depth_max, json_t **ret)
{
	const size_t n = jsonio_count(a->body, a->len, max, depth_max);

	return n > 0 && n <= max ? jsonio_read(a->body, a->len, JSON_REJECT_DUPLICATES, ret, NULL)
				 : -EBADMSG;
}
