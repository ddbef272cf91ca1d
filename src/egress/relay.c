/* SPDX-License-Identifier: Apache-2.0 */
/* Passes bytes in both directions after all checks. Each direction has a buffer of bounded size, so a side
 * that does not read stops the other one. When one side ends its direction, the proxy passes the end on. */
#include "egress/gate.h"

#include "base/fdio.h"
#include "base/rand.h"

#include <sys/socket.h>

/* How many bytes may still pass by the limits of the connection and of the gate. */
static uint64_t bytes_left(const struct egress_conn *c)
{
	const struct egress_limits *l = &c->gate->limits;
	uint64_t own = c->sent + c->received;
	uint64_t left = UINT64_MAX;

	if (l->connection_bytes > 0)
		left = l->connection_bytes - MIN(own, l->connection_bytes);
	if (l->bytes > 0)
		left = MIN(left, l->bytes - MIN(c->gate->usage.bytes, l->bytes));
	return left;
}

static void count(struct egress_conn *c, size_t n, uint64_t *ret)
{
	*ret += n;
	c->gate->usage.bytes += n;
	c->active_ns = now_ns();
}

/* 1 = something was read, 0 = nothing now, -errno. */
static int fill(int fd, struct buf *b, bool *ret_eof)
{
	if (b->len >= CONN_BUFFER)
		return 0;
	if (buf_reserve(b, CONN_BUFFER - b->len) < 0)
		return -ENOMEM;
	ssize_t n = recv(fd, b->data + b->len, CONN_BUFFER - b->len, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		*ret_eof = true;
	b->len += (size_t)n;
	return n > 0;
}

/* Returns the bytes written; 0 = nothing now; -errno. */
static ssize_t drain(int fd, struct buf *b, size_t max)
{
	ssize_t n = send(fd, b->data, MIN(b->len, max), MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_consume(b, (size_t)n);
	return n;
}

/* Bytes that a client sends behind the body of a plain request would be a second request: dropped. */
static void keep_to_body(struct egress_conn *c, size_t had)
{
	size_t new = c->to_server.len - had;

	if (c->connect)
		return;
	if (new > c->body_left) {
		c->to_server.len -= new - (size_t)c->body_left;
		new = (size_t)c->body_left;
	}
	c->body_left -= new;
}

static int read_both(struct egress_conn *c)
{
	size_t had = c->to_server.len;
	int r = 0;

	if (!c->client_eof && (c->connect || c->body_left > 0)) {
		r = fill(c->client, &c->to_server, &c->client_eof);
		if (r > 0)
			keep_to_body(c, had);
	}
	if (r >= 0 && !c->server_eof)
		r = fill(c->server, &c->to_client, &c->server_eof);
	return r < 0 ? r : 0;
}

static int write_both(struct egress_conn *c)
{
	ssize_t n;

	if (c->to_server.len > 0) {
		n = drain(c->server, &c->to_server, bytes_left(c));
		if (n < 0)
			return (int)n;
		count(c, (size_t)n, &c->sent);
		c->gate->usage.sent += (uint64_t)n;
	}
	if (c->to_client.len > 0) {
		n = drain(c->client, &c->to_client, bytes_left(c));
		if (n < 0)
			return (int)n;
		count(c, (size_t)n, &c->received);
		c->gate->usage.received += (uint64_t)n;
	}
	return 0;
}

/* Passes the end of one direction on, after all of its bytes. */
static void pass_ends(struct egress_conn *c)
{
	if (c->client_eof && c->to_server.len == 0 && !c->server_shut) {
		(void)shutdown(c->server, SHUT_WR);
		c->server_shut = true;
	}
	if (c->server_eof && c->to_client.len == 0 && !c->client_shut) {
		(void)shutdown(c->client, SHUT_WR);
		c->client_shut = true;
	}
}

static void end(struct egress_conn *c, enum egress_reason why)
{
	egress_conn_event(c, EGRESS_ENDED, why);
	egress_conn_free(c);
}

int egress_relay_io(struct egress_conn *c)
{
	int r = read_both(c);

	r = r < 0 ? r : write_both(c);
	if (r < 0) {
		end(c, EGRESS_REASON_BROKEN);
		return 0;
	}
	if ((c->to_server.len > 0 || c->to_client.len > 0) && bytes_left(c) == 0) {
		end(c, EGRESS_REASON_BYTES);
		return 0;
	}
	if (egress_policy_uploads(c->gate->policy, c->gate->usage.sent, c->gate->usage.received)) {
		end(c, EGRESS_REASON_UPLOAD);
		return 0;
	}
	pass_ends(c);
	/* A plain request ends with its answer, a tunnel when both directions have ended. */
	if (c->client_shut && (c->server_shut || !c->connect)) {
		end(c, EGRESS_REASON_OK);
		return 0;
	}
	egress_conn_watch(c);
	return 0;
}

void egress_relay_begin(struct egress_conn *c)
{
	c->allowed = true;
	egress_conn_state(c, CONN_RELAY);
	egress_conn_event(c, EGRESS_ALLOWED, EGRESS_REASON_OK);
	(void)egress_relay_io(c);
}
