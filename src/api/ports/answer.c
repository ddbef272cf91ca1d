/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of an exchange: what the server sends. Its head is read, judged and written anew; its body passes in blocks,
 * one in a turn of the client, and the next is read when the client has taken most of the last. */
#include "api/ports/ports.h"
#include "base/text.h"
#include "base/walls.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* A page below /p/ has the address of this server. It runs as one of an origin of its own, which no other page shares, so it
 * reaches neither the API nor what a browser keeps for it. CSP Level 3, `sandbox`. */
#define POLICY "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"

/* Interim answers of one server: they are read in one turn of the loop. */
#define INTERIM_MAX 32u

/* ---- reading ---- */

/* > 0, 0 = the end, -EAGAIN; every error of the connection is an end. */
static ssize_t receive(struct exchange *x)
{
	if (buf_reserve(&x->in, PORT_BLOCK) < 0)
		return -ENOMEM;
	const ssize_t n = recv(x->fd, x->in.data + x->in.len, PORT_BLOCK, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	x->in.len += n > 0 ? (size_t)n : 0;
	x->eof = n <= 0;
	return MAX(n, (ssize_t)0);
}

/* ---- the head ---- */

/* What would act on more than the pages of this server: on all names of the host, on a proxy before us, which would give out
 * its own files or ask us in the name of the client, or, below a path, on the page of ours. */
static bool is_for_others(const struct exchange *x, const char *name)
{
	static const char *const always[] = {
	    "strict-transport-security", "alt-svc", "date", "nel", "report-to", "x-sendfile",
	};
	static const char accel[] = "x-accel-"; /* nginx acts on all of them */
	static const char *const names[] = {"set-cookie", "clear-site-data",
					    "service-worker-allowed", "www-authenticate"};

	if (!wall_stands(WALL_CROSSING))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		if (strcasecmp(name, always[i]) == 0)
			return true;
	if (strncasecmp(name, accel, sizeof(accel) - 1) == 0)
		return true;
	if (x->own_name)
		return false;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static int add_location(struct exchange *x, const char *name, const char *value)
{
	_cleanup_(buf_done) struct buf to = BUF_INIT(PORT_HEAD_MAX);
	const int r = port_location(x, value, &to);

	if (r == -EACCES) /* the client gets the status, and no place to go */
		return 0;
	return r < 0 ? r : http_add_header(x->req, name, buf_str(&to));
}

/* Without Domain (RFC 6265 §5.2.3), which would give the cookie to the servers of other sandboxes. */
static int add_cookie(struct exchange *x, const char *name, const char *value)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(PORT_HEAD_MAX);
	int r = 0;

	if (!wall_stands(WALL_CROSSING))
		return http_add_header(x->req, name, value);
	/* Browsers send "=NAME=VALUE" back as "NAME=VALUE" (RFC 6265bis §5.6). */
	const char *pair = value + strspn(value, "= \t");
	if (port_is_our_cookie(pair, strcspn(pair, ";")))
		return 0;
	for (const char *p = value; r == 0 && *p;) {
		const char *part = p + strspn(p, "; \t");
		const size_t len = strcspn(part, ";");

		if (b.len == 0 || strncasecmp(part, "domain", 6) != 0 || !strchr("=; \t", part[6]))
			r = buf_printf(&b, "%s%.*s", b.len > 0 ? "; " : "", (int)len, part);
		p = part + len;
	}
	return r < 0 ? r : http_add_header(x->req, name, buf_str(&b));
}

static int add_headers(struct exchange *x)
{
	const struct port_reply *h = &x->reply;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < h->n_fields; i++) {
		const char *name = h->fields[i].name, *value = h->fields[i].value;

		if (is_for_others(x, name))
			continue;
		if (strcasecmp(name, "location") == 0 || strcasecmp(name, "content-location") == 0)
			r = add_location(x, name, value);
		else if (strcasecmp(name, "set-cookie") == 0)
			r = add_cookie(x, name, value);
		else
			r = http_add_header(x->req, name, value);
	}
	return r < 0 || x->own_name ? r
				    : http_add_header(x->req, "Content-Security-Policy", POLICY);
}

/* ---- the body ---- */

static void finish(struct exchange *x, bool whole)
{
	if (!whole)
		http_stream_abort(x->stream);
	else
		http_stream_end(x->stream);
	port_free(x);
}

/* Passes on what has come of the body. 1: the answer is over; 0: more is to come; < 0: it is none. A block may have thousands of
 * chunks: their data moves together in place, and goes out in one piece. */
static int pass_chunks(struct exchange *x)
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
	x->in.len = 0;
	if (kept > 0 && http_stream_write(x->stream, x->in.data, kept) < 0)
		return -ENOMEM;
	return used < 0 ? -EBADMSG : http_chunk_done(&x->chunk);
}

static int pass(struct exchange *x)
{
	const bool sized = x->reply.framing == PORT_LENGTH;

	if (x->reply.framing == PORT_CHUNKED)
		return pass_chunks(x);
	const size_t n = sized ? (size_t)MIN((uint64_t)x->in.len, x->left) : x->in.len;
	if (n > 0 && http_stream_write(x->stream, x->in.data, n) < 0)
		return -ENOMEM;
	x->left -= sized ? n : 0;
	x->in.len = 0;
	return sized && x->left == 0;
}

static bool on_room(void *user)
{
	struct exchange *x = user;

	for (unsigned i = 0; i < 2; i++) { /* what came with the head, then one block */
		const int r = pass(x);

		if (r != 0 || x->eof) {
			/* What has no end of its own ends with the connection. */
			finish(x, r > 0 || (r == 0 && x->reply.framing == PORT_UNTIL_CLOSE));
			return false;
		}
		if (i == 0 && receive(x) == -EAGAIN) {
			port_want(x, EPOLLIN);
			return false;
		}
	}
	return true;
}

static void on_close(void *user)
{
	port_free(user);
}

/* The request is over; from now on the client asks for what the server sends. */
static void note_answer(struct exchange *x)
{
	x->req = NULL;
	x->patience = sd_event_source_disable_unref(x->patience);
	port_stop_wanting(x, EPOLLIN);
}

static const struct http_stream_ops stream_ops = {on_close, NULL, on_room};

static void begin_answer(struct exchange *x)
{
	const struct port_reply *h = &x->reply;
	struct http_request *req = x->req;

	note_answer(x);
	x->left = h->length;
	/* The answer to HEAD has the head that GET would have got. */
	const bool head = http_request_method(req) == HTTP_HEAD;
	if (h->status == 204 || h->status == 304)
		http_respond(req, h->status, NULL, NULL, 0);
	else if (head ? h->has_length : h->framing == PORT_LENGTH)
		x->stream =
		    http_stream_begin_sized(req, h->status, NULL, h->length, &stream_ops, x);
	else
		x->stream = http_stream_begin(req, h->status, NULL, &stream_ops, x);
	if (!x->stream)
		port_free(x);
}

/* ---- upgrades ---- */

static bool on_message(bool text UNUSED, const void *data, size_t len, void *user)
{
	struct exchange *x = user;

	if (!data) {
		x->client_ended = true;
		(void)port_flush(x);
		return true;
	}
	if (x->out.len > 0 && x->out.len + len > PORT_OUT_MAX) {
		x->body_waits = true;
		return false;
	}
	if (buf_add(&x->out, data, len) < 0)
		x->deaf = true;
	(void)port_flush(x);
	return true;
}

static bool on_socket_room(void *user)
{
	struct exchange *x = user;

	for (unsigned i = 0; i < 2; i++) {
		const int r =
		    x->in.len > 0 ? http_socket_send(x->socket, false, x->in.data, x->in.len) : 0;

		x->in.len = 0;
		if (r < 0 || x->eof || x->deaf) {
			http_socket_end(x->socket, 1000, "");
			port_free(x);
			return false;
		}
		if (i == 0 && receive(x) == -EAGAIN) {
			port_want(x, EPOLLIN);
			return false;
		}
	}
	return true;
}

static const struct http_socket_ops socket_ops = {on_message, on_socket_room, on_close};

static void begin_socket(struct exchange *x)
{
	struct http_request *req = x->req;

	if (!x->upgrades) {
		port_refuse(x, ERR_BAD_GATEWAY,
			    "the server changed the protocol without being asked");
		return;
	}
	note_answer(x);
	x->socket = http_socket_begin_raw(req, &socket_ops, x);
	if (!x->socket)
		port_free(x);
}

/* ---- the end of the head ---- */

/* The head is in the first LEN bytes of IN. False: X is gone. */
static bool take_head(struct exchange *x, size_t len)
{
	const bool head = http_request_method(x->req) == HTTP_HEAD;

	if (port_reply_parse(x->in.data, len, head, &x->reply) < 0) {
		port_refuse(x, ERR_BAD_GATEWAY,
			    "the server's answer is not one of HTTP/1.1, or its head is too large");
		return false;
	}
	x->scanned = 0;
	if (x->reply.status < 200 && x->reply.status != 101) { /* an interim answer */
		buf_consume(&x->in, len);
		if (++x->interim <= INTERIM_MAX)
			return true;
		port_refuse(x, ERR_BAD_GATEWAY, "the server has sent too many interim answers");
		return false;
	}
	/* the strings of the head are in IN */
	const int r = add_headers(x);
	buf_consume(&x->in, len);
	if (r < 0) {
		http_drop_headers(x->req); /* they are of an answer that is not given */
		port_refuse(x, ERR_BAD_GATEWAY, "the head of the server's answer is too large");
	} else if (x->reply.status == 101) {
		begin_socket(x);
	} else {
		begin_answer(x);
	}
	return false;
}

static void read_head(struct exchange *x)
{
	for (;;) {
		const size_t len = port_reply_end(x->in.data, x->in.len, &x->scanned);

		if (len > 0) {
			if (!take_head(x, len))
				return;
			continue;
		}
		if (x->in.len >= PORT_HEAD_MAX) {
			port_refuse(x, ERR_BAD_GATEWAY,
				    "the head of the server's answer is too large");
			return;
		}
		if (x->eof) {
			port_refuse(x, ERR_BAD_GATEWAY,
				    x->in.len > 0
					? "the server ended within the head of its answer"
					: "the server ended the connection without an answer");
			return;
		}
		const ssize_t n = receive(x);
		if (n == -EAGAIN)
			return;
		if (n < 0) {
			port_refuse(x, ERR_OUT_OF_MEMORY, "no memory");
			return;
		}
	}
}

void port_read(struct exchange *x)
{
	if (!x->stream && !x->socket) {
		read_head(x);
		return;
	}
	port_stop_wanting(x, EPOLLIN);
	if (x->stream)
		http_stream_ask(x->stream);
	else
		http_socket_ask(x->socket);
}
