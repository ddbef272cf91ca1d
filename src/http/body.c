/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies: reads their framing, checks their size, and gives the bytes to a reader. */
#include "http/connection.h"

#include <string.h>

size_t body_recv_size(const struct http_body *body)
{
	switch (body->framing) {
	case HTTP_BODY_CHUNKED:
		return HTTP_CHUNKED_RECV;
	case HTTP_BODY_LENGTH:
		return body->left < HTTP_SCRATCH_BYTES ? (size_t)body->left : HTTP_SCRATCH_BYTES;
	case HTTP_BODY_NONE:
		break;
	}
	return 0;
}

void body_begin(struct http_request *req)
{
	struct http_body *body = &req->body;
	const uint64_t max = req->match.row ? req->match.row->body_max : 0;

	body->framing = req->head.framing;
	body->left = req->head.content_length;
	body->max = max ? max : HTTP_BODY_MAX_DEFAULT;
	body->done = body->framing == HTTP_BODY_NONE ||
		     (body->framing == HTTP_BODY_LENGTH && body->left == 0);
}

/* Gives *N bytes to the reader. Afterwards *N says how many the reader took. Returns false when the
 * reader wants no more or has answered. */
static bool hand_over(struct http_conn *c, const char *data, size_t *n)
{
	struct http_request *req = c->req;
	struct http_body *body = &req->body;

	body->left -= body->framing == HTTP_BODY_LENGTH ? *n : 0;
	body->total += *n;
	const int r = body->on_data(req, data, *n, body->userdata);

	if (c->state != HTTP_CONN_REQUEST)
		return false; /* answered: neither REQ nor BODY may exist any more */
	const size_t untaken = body->untaken;
	body->untaken = 0;
	*n -= untaken;
	body->total -= untaken;
	if (body->framing == HTTP_BODY_LENGTH)
		body->left += untaken;
	else
		http_chunk_untake(&body->chunk, untaken);
	if (r < 0)
		body->wanted = false;
	return r >= 0;
}

static int finish(struct http_conn *c)
{
	struct http_body *body = &c->req->body;

	body->done = true;
	(void)body->on_data(c->req, NULL, 0, body->userdata);
	return 0;
}

static int feed_length(struct http_conn *c)
{
	struct http_body *body = &c->req->body;
	struct http_in *in = &c->in;
	size_t n = body->left < in->len ? (size_t)body->left : in->len;
	bool more = true;

	if (n > 0) {
		more = hand_over(c, in->data + in->off, &n);
		input_consume(in, n);
	}
	return more && body->left == 0 && !body->paused ? finish(c) : 0;
}

static int feed_chunked(struct http_conn *c)
{
	struct http_body *body = &c->req->body;
	struct http_in *in = &c->in;

	while (in->len > 0 && !body->paused) {
		const char *data;
		size_t n;
		const int64_t used =
		    http_chunk_next(&body->chunk, in->data + in->off, in->len, &data, &n);

		if (used < 0)
			return 400;
		if (n > body->max - body->total ||
		    http_chunk_announced(&body->chunk) > body->max - body->total - n)
			return 413;
		if (data) { /* for data, USED equals N */
			const bool more = hand_over(c, data, &n);

			input_consume(in, n);
			if (!more)
				return 0;
		} else {
			input_consume(in, (size_t)used);
		}
		if (http_chunk_done(&body->chunk))
			return finish(c);
	}
	return 0;
}

int body_feed(struct http_conn *c)
{
	switch (c->req->body.framing) {
	case HTTP_BODY_NONE:
		return finish(c);
	case HTTP_BODY_LENGTH:
		return feed_length(c);
	case HTTP_BODY_CHUNKED:
		return feed_chunked(c);
	}
	return 0;
}

void http_request_read_body(struct http_request *req, http_body_fn on_data, void *userdata)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_body *body = &req->body;
	struct http_conn *c = req->conn;

	ASSERT(!body->wanted);
	body->wanted = true;
	body->on_data = on_data;
	body->userdata = userdata;
	/* Also before an empty body, where RFC 9110 does not need it: the client of Java before release 20 never shows an
	 * answer that no 100 precedes. */
	if (req->head.expect_continue && c->in.len == 0 &&
	    out_add(&c->out, go_on, sizeof(go_on) - 1) < 0)
		conn_break(c);
	if (body->done) { /* there is no body: the loop reports its end */
		body->done = false;
		body->framing = HTTP_BODY_NONE;
	}
	conn_schedule(c);
}

void http_request_ask_for_room(struct http_request *req, bool (*has_room)(void *userdata))
{
	req->body.has_room = has_room;
}

void http_request_pause_body(struct http_request *req, size_t untaken)
{
	req->body.paused = true;
	req->body.untaken = untaken;
	if (!req->conn->in_run)
		conn_update(req->conn);
}

void http_request_resume_body(struct http_request *req)
{
	req->body.paused = false;
	conn_schedule(req->conn);
}
