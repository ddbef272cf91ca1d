/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that have become WebSockets. They read through ws_reader.h and send through the queue of answers. Neither side
 * makes the other hold memory without bound:
 *
 *   a client that sends too much    its messages have a bound, and are read only while the owner has room for them
 *   a client that does not read     the owner is asked for more only while little waits, so it keeps positions, not bytes.
 *                                   What waits counts for the client's user, and must move within the stall time
 *   a client that sends pings only  one answer waits at most
 *
 * A socket ends with the connection: after the close frame our side is shut down, and what still comes is thrown away. */
#include "http/connection.h"

#include "base/promise.h"
#include "base/text.h"
#include "base/walls.h"
#include "http/ws_accept.h"

#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define RECV_BYTES (16u << 10)
#define VERSION    "13"

/* ---- the upgrade ---- */

/* Is TOKEN in one of the lists of the headers NAME? */
static bool has_token(const struct http_request *req, const char *name, const char *token)
{
	static const char seps[] = ", \t";

	for (unsigned i = 0; i < req->head.n_fields; i++) {
		const struct http_field *f = &req->head.fields[i];
		const char *p = req->text + f->value;

		if (strcasecmp(req->text + f->name, name) != 0)
			continue;
		for (p += strspn(p, seps); *p; p += strspn(p, seps)) {
			const size_t n = strcspn(p, seps);

			if (n == strlen(token) && strncasecmp(p, token, n) == 0)
				return true;
			p += n;
		}
	}
	return false;
}

bool http_request_wants_socket(const struct http_request *req)
{
	return has_token(req, "upgrade", "websocket");
}

bool http_request_may_upgrade(const struct http_request *req)
{
	return req->head.method == HTTP_GET && req->head.minor > 0 &&
	       req->head.framing == HTTP_BODY_NONE && has_token(req, "connection", "upgrade") &&
	       http_request_wants_socket(req);
}

/* RFC 6455 §4.2.1. Answers and returns false if the request is no proper handshake. */
static bool check_handshake(struct http_request *req)
{
	const char *version = http_request_header(req, "sec-websocket-version");
	const char *key = http_request_header(req, "sec-websocket-key");

	if (!http_request_may_upgrade(req)) {
		http_respond_problem(
		    req, ERR_BAD_REQUEST,
		    "a WebSocket begins with GET of HTTP/1.1 without a body, and with the headers "
		    "Connection: Upgrade and Upgrade: websocket",
		    NULL);
	} else if (!version || !streq(version, VERSION)) {
		(void)http_add_header(req, "Sec-WebSocket-Version", VERSION);
		http_respond_problem(req, ERR_UPGRADE_REQUIRED,
				     "this server speaks version " VERSION " of WebSocket", NULL);
	} else if (!key || !ws_is_key(key)) {
		http_respond_problem(req, ERR_BAD_REQUEST,
				     "Sec-WebSocket-Key is not 16 bytes as base64", NULL);
	} else {
		return true;
	}
	return false;
}

/* ACCEPT NULL: the owner has added what the protocol needs. */
static int add_head(struct http_request *req, const char *accept)
{
	_cleanup_(buf_done) struct buf head = BUF_INIT(HTTP_EXTRA_MAX + 1024);
	int r =
	    buf_printf(&head, "HTTP/1.1 101 %s\r\n%sUpgrade: websocket\r\nConnection: Upgrade\r\n",
		       http_status_text(101), server_date_line(req->conn->server));

	if (r == 0 && accept)
		r = buf_printf(&head, "Sec-WebSocket-Accept: %s\r\n", accept);
	r = r < 0 ? r : buf_add(&head, buf_str(&req->extra), req->extra.len);
	r = r < 0 ? r : buf_add_str(&head, "\r\n");
	return r < 0 ? r : out_add_head(req->conn, head.data, head.len);
}

static struct http_socket *begin(struct http_request *req, const char *accept,
				 const struct http_socket_ops *ops, void *userdata)
{
	struct http_conn *c = req->conn;
	struct http_socket *s = calloc(1, sizeof(*s));
	const int on = 1;

	if (!s || add_head(req, accept) < 0) {
		free(s);
		reply_failed(req);
		return NULL;
	}
	*s = (struct http_socket){.conn = c,
				  .ops = ops,
				  .userdata = userdata,
				  .raw = !accept,
				  .asks = ops->on_room != NULL};
	req->on_gone = NULL;
	req->status = 101;
	c->socket = s;
	c->keep_alive = false;
	c->state = HTTP_CONN_SOCKET;
	/* A terminal may be silent for days. The kernel asks whether the client's machine is still there, and no timer of ours
	 * runs. Sockets that are not of TCP have no such option, and need none. */
	(void)setsockopt(c->io.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	conn_schedule(c);
	return s;
}

struct http_socket *http_socket_begin(struct http_request *req, const struct http_socket_ops *ops,
				      size_t message_max, void *userdata)
{
	char accept[WS_ACCEPT_SIZE];
	struct http_socket *s;

	if (!PROMISE(req->conn->state == HTTP_CONN_REQUEST) || !check_handshake(req))
		return NULL;
	ws_accept(http_request_header(req, "sec-websocket-key"), accept);
	s = begin(req, accept, ops, userdata);
	if (s)
		ws_reader_init(&s->reader, message_max, true);
	return s;
}

struct http_socket *http_socket_begin_raw(struct http_request *req,
					  const struct http_socket_ops *ops, void *userdata)
{
	if (!PROMISE(req->conn->state == HTTP_CONN_REQUEST && http_request_may_upgrade(req)))
		return NULL;
	return begin(req, NULL, ops, userdata);
}

struct http_socket *socket_free(struct http_socket *s)
{
	if (s)
		ws_reader_done(&s->reader);
	free(s);
	return NULL;
}

/* ---- sending ---- */

static int add_frame(struct http_conn *c, enum ws_opcode opcode, const void *data, size_t len)
{
	uint8_t head[WS_HEAD_MAX];
	int r = out_add(&c->out, head, ws_write_head(opcode, len, NULL, head));

	r = r < 0 ? r : out_add(&c->out, data, len);
	if (r < 0)
		conn_break(c); /* the queue may end with half a frame */
	return r;
}

int http_socket_send(struct http_socket *s, bool text, const void *data, size_t len)
{
	if (!PROMISE(s->conn->state == HTTP_CONN_SOCKET))
		return -ENOMEM;
	if (s->conn->broken)
		return 0; /* on_close will be called */
	int r;

	if (!s->raw)
		r = add_frame(s->conn, text ? WS_TEXT : WS_BINARY, data, len);
	else if ((r = out_add(&s->conn->out, data, len)) < 0)
		conn_break(s->conn);
	conn_schedule(s->conn);
	return r;
}

void http_socket_ask(struct http_socket *s)
{
	s->asks = s->ops->on_room != NULL;
	conn_schedule(s->conn);
}

void http_socket_resume(struct http_socket *s)
{
	s->paused = false;
	conn_schedule(s->conn);
}

/* From here on nothing is read, and the connection closes when all has been sent. */
static void add_close(struct http_conn *c, unsigned code, const char *reason)
{
	uint8_t data[WS_CONTROL_MAX] = {(uint8_t)(code >> 8), (uint8_t)code};
	const size_t n = text_utf8_cut(reason, strlen(reason), sizeof(data) - 2);
	const bool has_code = code != WS_CODE_NONE;

	memcpy(data + 2, reason, n);
	c->state = HTTP_CONN_REPLY;
	if (!c->broken && !c->socket->raw)
		(void)add_frame(c, WS_CLOSE, data, has_code ? 2 + n : 0);
	conn_schedule(c);
}

void http_socket_end(struct http_socket *s, unsigned code, const char *reason)
{
	if (PROMISE(s->conn->state == HTTP_CONN_SOCKET))
		add_close(s->conn, code, reason);
}

void socket_fail(struct http_conn *c, unsigned code, const char *reason)
{
	add_close(c, code, reason);
	c->socket->ops->on_close(c->socket->userdata);
}

/* ---- receiving ---- */

static void hear(struct http_conn *c, const struct ws_heard *heard)
{
	struct http_socket *s = c->socket;

	switch (heard->opcode) {
	case WS_TEXT:
	case WS_BINARY:
		s->paused = !s->ops->on_message(heard->opcode == WS_TEXT, heard->data, heard->len,
						s->userdata);
		s->held = s->paused ? *heard : (struct ws_heard){0};
		break;
	case WS_PING:
		s->pong = true;
		s->n_pong = (unsigned)heard->len;
		memcpy(s->pong_data, heard->data, heard->len);
		break;
	case WS_CLOSE: /* the answer has the client's code */
		socket_fail(c, heard->code, "");
		break;
	case WS_PONG:
	case WS_CONTINUATION:
	default:
		break;
	}
}

static const char *reason_of(int code)
{
	switch (code) {
	case WS_CODE_TEXT:
		return "a text is not UTF-8";
	case WS_CODE_TOO_LARGE:
		return "the message is larger than this socket takes; send it in pieces";
	default:
		return "a frame that RFC 6455 does not allow a client, or that needs an extension";
	}
}

static enum step pass_input(struct http_conn *c)
{
	struct http_socket *s = c->socket;

	s->paused = !s->ops->on_message(false, c->in.data + c->in.off, c->in.len, s->userdata);
	if (!s->paused)
		input_consume(&c->in, c->in.len);
	return STEP_AGAIN;
}

/* The client has shut down its side. It may still read, so the owner goes on until it ends the socket. */
static enum step end_input(struct http_conn *c)
{
	struct http_socket *s = c->socket;

	s->ended = true;
	if (!conn_half_closed(c))
		return STEP_CLOSE;
	(void)s->ops->on_message(false, NULL, 0, s->userdata);
	return STEP_AGAIN;
}

static enum step receive_raw(struct http_conn *c)
{
	const int n = input_recv(c, RECV_BYTES);

	if (n == -EAGAIN)
		return STEP_WAIT;
	if (n < 0)
		return STEP_CLOSE;
	c->run_bytes += (size_t)n;
	return n > 0 ? pass_input(c) : end_input(c);
}

/* Uses what has been received, a few frames: thousands of a byte fit into one packet, and others come first. */
static enum step use_input(struct http_conn *c)
{
	struct http_socket *s = c->socket;
	unsigned n = 0;

	while (c->in.len > 0 && c->state == HTTP_CONN_SOCKET && !s->paused) {
		struct ws_heard heard;
		size_t used;

		if (n++ == HTTP_SOCKET_FRAMES)
			return STEP_YIELD;
		const int code = ws_read(&s->reader, (const uint8_t *)c->in.data + c->in.off,
					 c->in.len, &used, &heard);

		input_consume(&c->in, used);
		if (code < 0)
			socket_fail(c, WS_CODE_BUSY, "no memory");
		else if (code > 0)
			socket_fail(c, (unsigned)code, reason_of(code));
		else
			hear(c, &heard);
	}
	return STEP_AGAIN;
}

static enum step take_input(struct http_conn *c)
{
	struct http_socket *s = c->socket;

	if (!s->paused && s->held.opcode != WS_CONTINUATION) {
		const struct ws_heard again = s->held;
		hear(c, &again);
	}
	if (s->paused || s->ended || c->state != HTTP_CONN_SOCKET)
		return STEP_WAIT;
	if (c->in.len == 0) {
		if (c->run_bytes >= HTTP_RUN_BYTES)
			return STEP_YIELD;
		if (s->raw)
			return receive_raw(c);
		const enum step step = conn_receive(c, RECV_BYTES);
		if (step != STEP_AGAIN)
			return step;
		c->run_bytes += c->in.len;
	}
	return s->raw ? pass_input(c) : use_input(c);
}

/* ---- steps ---- */

static bool has_window(const struct http_conn *c)
{
	return out_queued(&c->out) < HTTP_STREAM_WINDOW || !wall_stands(WALL_WINDOW);
}

static void answer_ping(struct http_conn *c)
{
	struct http_socket *s = c->socket;

	if (s->pong && has_window(c)) {
		s->pong = false;
		(void)add_frame(c, WS_PONG, s->pong_data, s->n_pong);
	}
}

static enum step give_output(struct http_conn *c)
{
	struct http_socket *s = c->socket;
	int r;

	answer_ping(c);
	r = out_flush(c);
	if (r < 0 && r != -EAGAIN)
		return STEP_CLOSE;
	if (!s->asks || !has_window(c))
		return s->pong && has_window(c) ? STEP_AGAIN : STEP_WAIT;
	s->asks = false;
	const bool more = s->ops->on_room(s->userdata);
	if (c->state == HTTP_CONN_SOCKET)
		s->asks = s->asks || more;
	return STEP_YIELD; /* others come first */
}

enum step socket_step(struct http_conn *c)
{
	conn_request_done(c);
	if (c->server->draining) {
		socket_fail(c, WS_CODE_LEAVING, "the server ends");
		return STEP_AGAIN;
	}
	const enum step in = take_input(c);
	if (in == STEP_CLOSE)
		return STEP_CLOSE;
	if (c->state != HTTP_CONN_SOCKET)
		return STEP_AGAIN;
	const enum step out = give_output(c);
	if (out == STEP_CLOSE || c->state != HTTP_CONN_SOCKET)
		return out == STEP_CLOSE ? STEP_CLOSE : STEP_AGAIN;
	if (in == STEP_YIELD || out == STEP_YIELD)
		return STEP_YIELD;
	return in == STEP_AGAIN ? STEP_AGAIN : out;
}

uint32_t socket_events(const struct http_conn *c, bool sending)
{
	const uint32_t out = sending ? (uint32_t)EPOLLOUT : 0;

	if (c->socket->ended)
		return out;
	/* While nothing is read, the end of the client is told by its shutdown alone. */
	if (c->socket->paused)
		return out | (c->half ? 0 : (uint32_t)EPOLLRDHUP);
	return out | (uint32_t)EPOLLIN;
}

size_t socket_memory(const struct http_conn *c)
{
	return c->socket->reader.message.cap;
}
