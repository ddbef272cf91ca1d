/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of an exchange: what the server sends. Its head is read, judged and written anew; its body passes in blocks,
 * one in a turn of the client, and the next is read when the client has taken most of the last. */
#include "relay/relay.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

/* Interim answers of one server: they are read in one turn of the loop. */
#define INTERIM_MAX 32u

/* ---- reading ---- */

/* > 0, 0 = the end, -EAGAIN; every error of the connection is an end. */
static ssize_t receive(struct relay *x)
{
	/* Behind a head that is being judged there is room already (take_head()). */
	if (x->head_len == 0 && buf_reserve(&x->in, RELAY_BLOCK) < 0)
		return -ENOMEM;
	const size_t room = MIN(x->in.cap - x->in.len, (size_t)RELAY_BLOCK);
	const ssize_t n = x->io.ops->recv(&x->io, x->in.data + x->in.len, room);
	if (n == -EAGAIN)
		return n;
	x->in.len += n > 0 ? (size_t)n : 0;
	x->heard = x->heard || n > 0;
	x->eof = n <= 0;
	return MAX(n, (ssize_t)0);
}

/* ---- the body ---- */

static void finish(struct relay *x, bool whole)
{
	if (!whole)
		http_stream_abort(x->stream);
	else
		http_stream_end(x->stream);
	x->whole = whole;
	x->ops->ended(x);
}

/* Passes on what has come of the body. 1: the answer is over; 0: more is to come; < 0: it is none. A block may have thousands of
 * chunks: their data moves together in place, and goes out in one piece. */
static int pass_chunks(struct relay *x)
{
	size_t at = 0, kept = 0;
	int64_t used = 0;

	while (at < x->in.len && !http_chunk_done(&x->chunk)) {
		const char *data = NULL;
		size_t n = 0;

		used = http_chunk_next(&x->chunk, x->in.data + at, x->in.len - at, &data, &n);
		if (used < 0)
			break;
		if (data)
			memmove(x->in.data + kept, data, n);
		kept += n;
		at += (size_t)used;
	}
	x->surplus = at < x->in.len;
	x->in.len = 0;
	if (kept > 0 && http_stream_write(x->stream, x->in.data, kept) < 0)
		return -ENOMEM;
	return used < 0 ? -EBADMSG : http_chunk_done(&x->chunk);
}

static int pass(struct relay *x)
{
	const bool sized = x->reply.framing == RELAY_LENGTH;

	if (x->reply.framing == RELAY_CHUNKED)
		return pass_chunks(x);
	const size_t n = sized ? (size_t)MIN((uint64_t)x->in.len, x->left) : x->in.len;
	if (n > 0 && http_stream_write(x->stream, x->in.data, n) < 0)
		return -ENOMEM;
	x->left -= sized ? n : 0;
	x->surplus = n < x->in.len;
	x->in.len = 0;
	return sized && x->left == 0;
}

static bool on_room(void *user)
{
	struct relay *x = user;

	for (unsigned i = 0; i < 2; i++) { /* what came with the head, then one block */
		const int r = pass(x);

		if (r != 0 || x->eof) {
			/* What has no end of its own ends with the connection. */
			finish(x, r > 0 || (r == 0 && x->reply.framing == RELAY_UNTIL_CLOSE));
			return false;
		}
		if (i == 0 && receive(x) == -EAGAIN) {
			relay_want(x, EPOLLIN);
			return false;
		}
	}
	return true;
}

static void on_close(void *user)
{
	struct relay *x = user;

	x->ops->ended(x);
}

/* The request is over; from now on the client asks for what the server sends. */
static void note_answer(struct relay *x)
{
	x->req = NULL;
	x->patience = sd_event_source_disable_unref(x->patience);
	relay_stop_wanting(x, EPOLLIN);
}

static const struct http_stream_ops stream_ops = {on_close, NULL, on_room};

static void begin_answer(struct relay *x)
{
	const struct relay_reply *h = &x->reply;
	struct http_request *req = x->req;

	note_answer(x);
	x->left = h->length;
	/* The answer to HEAD has the head that GET would have got. */
	const bool head = http_request_method(req) == HTTP_HEAD;
	if (h->status == 204 || h->status == 304)
		http_respond(req, h->status, NULL, NULL, 0);
	else if (head ? h->has_length : h->framing == RELAY_LENGTH)
		x->stream =
		    http_stream_begin_sized(req, h->status, NULL, h->length, &stream_ops, x);
	else
		x->stream = http_stream_begin(req, h->status, NULL, &stream_ops, x);
	if (x->stream)
		return;
	x->whole = h->framing == RELAY_NO_BODY;
	x->ops->ended(x);
}

/* ---- upgrades ---- */

static bool on_message(bool text UNUSED, const void *data, size_t len, void *user)
{
	struct relay *x = user;

	if (!data) {
		x->client_ended = true;
		(void)relay_flush(x);
		return true;
	}
	if (x->out.len > 0 && x->out.len + len > RELAY_OUT_MAX) {
		x->body_waits = true;
		return false;
	}
	if (buf_add(&x->out, data, len) < 0)
		x->deaf = true;
	(void)relay_flush(x);
	return true;
}

static bool on_socket_room(void *user)
{
	struct relay *x = user;

	for (unsigned i = 0; i < 2; i++) {
		const int r =
		    x->in.len > 0 ? http_socket_send(x->socket, false, x->in.data, x->in.len) : 0;

		x->in.len = 0;
		if (r < 0 || x->eof || x->deaf) {
			http_socket_end(x->socket, 1000, "");
			x->ops->ended(x);
			return false;
		}
		if (i == 0 && receive(x) == -EAGAIN) {
			relay_want(x, EPOLLIN);
			return false;
		}
	}
	return true;
}

static const struct http_socket_ops socket_ops = {on_message, on_socket_room, on_close};

static void begin_socket(struct relay *x)
{
	struct http_request *req = x->req;

	note_answer(x);
	x->socket = http_socket_begin_raw(req, &socket_ops, x);
	if (!x->socket)
		x->ops->ended(x);
}

/* ---- the end of the head ---- */

/* The head of the answer is parsed. False: X is gone, or its answer has begun; true: more of it is needed first. */
static bool take_reply(struct relay *x)
{
	const enum relay_verdict verdict = x->ops->judge ? x->ops->judge(x) : RELAY_PASS;

	if (verdict != RELAY_PASS)
		return verdict == RELAY_WAIT;
	if (x->reply.status == 101 && !x->upgrades) {
		x->ops->failed(x, ERR_BAD_GATEWAY,
			       "the server changed the protocol without being asked");
		return false;
	}
	/* the strings of the head are in IN */
	const int r = x->ops->add_fields(x);
	buf_consume(&x->in, x->head_len);
	x->head_len = 0;
	if (r < 0) {
		http_drop_headers(x->req); /* they are of an answer that is not given */
		x->ops->failed(x, ERR_BAD_GATEWAY, "the head of the server's answer is too large");
	} else if (x->reply.status == 101) {
		begin_socket(x);
	} else {
		begin_answer(x);
	}
	return false;
}

/* The head is in the first LEN bytes of IN. 1: it is parsed; 0: it was an interim answer; < 0: X is gone. */
static int take_head(struct relay *x, size_t len)
{
	const bool head = http_request_method(x->req) == HTTP_HEAD;

	/* The strings of the head stay where they are while the owner judges by the body. */
	if (x->ops->judge && buf_reserve(&x->in, RELAY_JUDGED_MAX) < 0) {
		x->ops->failed(x, ERR_OUT_OF_MEMORY, "no memory");
		return -ENOMEM;
	}
	if (relay_reply_parse(x->in.data, len, head, &x->reply) < 0) {
		x->ops->failed(
		    x, ERR_BAD_GATEWAY,
		    "the server's answer is not one of HTTP/1.1, or its head is too large");
		return -EBADMSG;
	}
	x->scanned = 0;
	if (x->reply.status >= 200 || x->reply.status == 101) {
		x->head_len = len;
		return 1;
	}
	buf_consume(&x->in, len);
	if (++x->interim <= INTERIM_MAX)
		return 0;
	x->ops->failed(x, ERR_BAD_GATEWAY, "the server has sent too many interim answers");
	return -EBADMSG;
}

/* Looks at what has come of the head. 1: more is needed; 0: look again; < 0: X is gone, or its answer has begun. */
static int look(struct relay *x)
{
	const size_t len = relay_reply_end(x->in.data, x->in.len, &x->scanned);

	if (len > 0) {
		const int r = take_head(x, len);

		return r <= 0 ? r : take_reply(x) ? 1 : -ECANCELED;
	}
	if (x->in.len < RELAY_HEAD_MAX)
		return 1;
	x->ops->failed(x, ERR_BAD_GATEWAY, "the head of the server's answer is too large");
	return -EBADMSG;
}

static void read_head(struct relay *x)
{
	for (;;) {
		int r;

		do
			r = x->head_len == 0 ? look(x) : take_reply(x) ? 1 : -ECANCELED;
		while (r == 0);
		if (r < 0)
			return;
		if (x->eof) {
			x->ops->failed(x, ERR_BAD_GATEWAY,
				       x->in.len > 0
					   ? "the server ended within the head of its answer"
					   : "the server ended the connection without an answer");
			return;
		}
		const ssize_t n = receive(x);
		if (n == -EAGAIN)
			return;
		if (n < 0) {
			x->ops->failed(x, ERR_OUT_OF_MEMORY, "no memory");
			return;
		}
	}
}

void relay_read(struct relay *x)
{
	if (!x->stream && !x->socket) {
		read_head(x);
		return;
	}
	relay_stop_wanting(x, EPOLLIN);
	if (x->stream)
		http_stream_ask(x->stream);
	else
		http_socket_ask(x->socket);
}
