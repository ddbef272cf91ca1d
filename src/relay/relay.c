/* SPDX-License-Identifier: Apache-2.0 */
/* The first half of an exchange: the connection, and the request. */
#include "relay/relay.h"

#include "base/fdio.h"
#include "base/loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* A body of chunks may come in thousands of small pieces at once. They wait for each other: to send each would make a long turn
 * of the loop. */
#define GATHER_BYTES (16u << 10)

/* ---- life ---- */

void relay_init(struct relay *x, const struct relay_ops *ops, sd_event *loop,
		struct http_request *req)
{
	*x = (struct relay){.ops = ops, .loop = loop, .req = req};
	x->io.ops = &http_plain_io;
	x->io.fd = -1;
	buf_init(&x->out, RELAY_BUF_MAX);
	buf_init(&x->in, RELAY_BUF_MAX);
}

struct http_io relay_take_io(struct relay *x)
{
	const struct http_io io = x->io;

	x->source = sd_event_source_disable_unref(x->source);
	x->patience = sd_event_source_disable_unref(x->patience);
	x->stuck = sd_event_source_disable_unref(x->stuck);
	x->io = (struct http_io){.ops = &http_plain_io, .fd = -1};
	return io;
}

void relay_done(struct relay *x)
{
	const struct linger off = {0};
	struct http_io io = relay_take_io(x);

	if (io.fd >= 0) {
		/* A sandbox has the socket of its server, too. With SO_LINGER a close would wait: socket(7). */
		(void)setsockopt(io.fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
		io.ops->close(&io, false);
	}
	buf_done(&x->out);
	buf_done(&x->in);
}

bool relay_is_clean(const struct relay *x)
{
	return x->whole && x->body_ended && x->out.len == 0 && !x->deaf && !x->eof && !x->surplus &&
	       x->in.len == 0 && !x->socket && !x->reply.closes &&
	       x->reply.framing != RELAY_UNTIL_CLOSE;
}

bool relay_client_left(struct relay *x)
{
	x->req = NULL;
	return x->source != NULL;
}

void relay_cut(struct relay *x, unsigned socket_code)
{
	if (x->stream)
		http_stream_abort(x->stream);
	else
		http_socket_end(x->socket, socket_code, "");
	x->ops->ended(x);
}

/* ---- events ---- */

static void watch(struct relay *x, uint32_t events)
{
	if (events == x->wanted)
		return;
	x->wanted = events;
	(void)sd_event_source_set_io_events(x->source, events);
	/* The end of a connection is told without being asked for, again and again: nobody listens who wants nothing. */
	(void)sd_event_source_set_enabled(x->source, events ? SD_EVENT_ON : SD_EVENT_OFF);
}

void relay_want(struct relay *x, uint32_t events)
{
	watch(x, x->wanted | events);
}

void relay_stop_wanting(struct relay *x, uint32_t events)
{
	watch(x, x->wanted & ~events);
}

/* It is connected. That time would also count while a server reads nothing, which it may: tcp(7). */
static void note_connected(struct relay *x)
{
	const unsigned no_timeout = 0;

	if (!x->connecting)
		return;
	x->connecting = false;
	(void)setsockopt(x->io.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &no_timeout, sizeof(no_timeout));
}

static int on_stuck(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct relay *x = user;

	x->stuck = sd_event_source_disable_unref(x->stuck);
	if (x->req)
		x->ops->failed(x, ERR_GATEWAY_TIMEOUT,
			       "the server has stopped reading the body of the request");
	else if (x->stream || x->socket)
		relay_cut(x, 1013); /* RFC 6455 registry: try again later */
	return 0;
}

/* The client's body waits for the server, and nothing would end that: the client is paused, too. */
static void begin_wait(struct relay *x)
{
	x->body_waits = true;
	if (x->stuck_us > 0 && !x->stuck)
		(void)sd_event_add_time_relative(x->loop, &x->stuck, CLOCK_MONOTONIC, x->stuck_us,
						 x->stuck_us / 8, on_stuck, x);
}

bool relay_flush(struct relay *x)
{
	while (x->out.len > 0 && !x->deaf) {
		struct iovec iov = {x->out.data, x->out.len};
		const ssize_t n = x->io.ops->send(&x->io, &iov, 1, false);

		if (n == -EAGAIN || n == -ENOTCONN) {
			relay_want(x, EPOLLOUT);
			return false;
		}
		if (n < 0)
			x->deaf = true; /* whether it has answered is seen by reading */
		else
			note_connected(x);
		if (x->stuck)
			(void)sd_event_source_set_time_relative(x->stuck, x->stuck_us);
		buf_consume(&x->out, n < 0 ? 0 : (size_t)n);
	}
	buf_done(&x->out);
	x->stuck = sd_event_source_disable_unref(x->stuck);
	relay_stop_wanting(x, EPOLLOUT);
	if (x->client_ended)
		(void)x->io.ops->shut(&x->io);
	return true;
}

static int on_io(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents, void *user)
{
	struct relay *x = user;

	loop_work(x->ops->work, "bytes");
	if ((revents & EPOLLOUT) && relay_flush(x) && x->body_waits) {
		x->body_waits = false;
		if (x->socket)
			http_socket_resume(x->socket);
		else if (x->req)
			http_request_resume_body(x->req);
	}
	if (revents & ~(uint32_t)EPOLLOUT)
		relay_read(x);
	return 0;
}

static int on_silence(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct relay *x = user;

	x->patience = sd_event_source_disable_unref(x->patience);
	if (x->req)
		x->ops->failed(
		    x, ERR_GATEWAY_TIMEOUT,
		    "the server has taken the connection and sent nothing for two minutes");
	return 0;
}

/* ---- the request's body ---- */

static int add_piece(struct relay *x, const void *data, size_t len)
{
	char line[24];
	int r = 0;

	if (x->chunked) {
		const int n = snprintf(line, sizeof(line), "%zx\r\n", len);

		r = buf_add(&x->out, line, (size_t)n);
	}
	r = r < 0 ? r : buf_add(&x->out, data, len);
	return r < 0 || !x->chunked ? r : buf_add_str(&x->out, "\r\n");
}

static int on_body(struct http_request *req, const void *data, size_t len, void *user)
{
	struct relay *x = user;
	/* The server has until the end of the request, and then some time. */
	if (x->patience)
		(void)sd_event_source_set_time_relative(x->patience, x->answer_us);
	const int r = data         ? add_piece(x, data, len)
		      : x->chunked ? buf_add_str(&x->out, "0\r\n\r\n")
				   : 0;

	if (r < 0) {
		x->ops->failed(x, ERR_OUT_OF_MEMORY, "no memory");
		return r;
	}
	x->body_ended = !data;
	if (x->out.len < GATHER_BYTES) {
		relay_want(x, EPOLLOUT); /* which goes on in the next turn of the loop */
		return 0;
	}
	if (!relay_flush(x) && data && x->out.len >= RELAY_OUT_MAX) {
		begin_wait(x);
		http_request_pause_body(req, 0);
	}
	return 0;
}

void relay_begin(struct relay *x, struct http_io *io)
{
	int r;

	x->io = *io;
	*io = (struct http_io){.ops = &http_plain_io, .fd = -1};
	x->wanted = EPOLLIN;
	r = sd_event_add_io(x->loop, &x->source, x->io.fd, x->wanted, on_io, x);
	if (r >= 0 && x->answer_us > 0)
		r = sd_event_add_time_relative(x->loop, &x->patience, CLOCK_MONOTONIC, x->answer_us,
					       x->answer_us / 8, on_silence, x);
	if (r < 0) {
		x->ops->failed(x, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	(void)relay_flush(x);
	if (x->body_ended)
		return;
	if (http_request_body_length(x->req) > 0)
		http_request_read_body(x->req, on_body, x);
	else
		x->body_ended = true;
}

/* ---- what a request says ---- */

bool relay_is_listed(const struct http_request *req, const char *name)
{
	static const char seps[] = ", \t";
	const char *p = http_request_header(req, "connection");

	for (p = p ? p + strspn(p, seps) : ""; *p; p += strspn(p, seps)) {
		const size_t n = strcspn(p, seps);

		if (n == strlen(name) && strncasecmp(p, name, n) == 0)
			return true;
		p += n;
	}
	return false;
}

int relay_add_forwarded_as(const struct http_request *req, const char *host, size_t len, bool https,
			   struct buf *ret)
{
	const char *peer = http_request_peer(req);
	const char *port = strrchr(peer, ':');
	/* "127.0.0.1:41234" and "[::1]:41234" have a port, "::1" of a client behind a proxy has none */
	const bool bare = !port || (peer[0] != '[' && strchr(peer, ':') != port);
	int r = buf_printf(ret, "X-Forwarded-For: %.*s\r\n", bare ? -1 : (int)(port - peer), peer);

	if (r == 0 && len > 0)
		r = buf_printf(ret, "X-Forwarded-Host: %.*s\r\n", (int)len, host);
	return r < 0 ? r : buf_printf(ret, "X-Forwarded-Proto: %s\r\n", https ? "https" : "http");
}

int relay_add_forwarded(const struct http_request *req, struct buf *ret)
{
	const char *host = http_request_header(req, "host");

	return relay_add_forwarded_as(req, host ? host : "", host ? strlen(host) : 0,
				      http_request_came_by_https(req), ret);
}

int relay_add_framing(struct relay *x, bool keep)
{
	const uint64_t length = http_request_body_length(x->req);
	const char *end = keep ? "\r\n" : "Connection: close\r\n\r\n";

	x->chunked = length == UINT64_MAX;
	if (x->chunked)
		return buf_printf(&x->out, "Transfer-Encoding: chunked\r\n%s", end);
	x->upgrades = http_request_may_upgrade(x->req);
	if (x->upgrades)
		return buf_add_str(&x->out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	if (length > 0 || http_request_header(x->req, "content-length"))
		return buf_printf(&x->out, "Content-Length: %ju\r\n%s", (uintmax_t)length, end);
	return buf_add_str(&x->out, end);
}
