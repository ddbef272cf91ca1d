/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that have shut down their side while they wait for an answer. The kernel tells us the same of those that still
 * read and of those that have closed their socket (EPOLLRDHUP). A closed socket answers the next byte with a reset, so
 * such a connection sends one at once, and more later: docs/decisions/0030-half-closed-clients.md. */
#include "http/connection.h"

#include "base/rand.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define IDLE_S     30
#define STEP_S     10
#define LAST_PROBE 128u /* seconds; so no more than 8 zeros stand before the size of a chunk */

static void set_option(int fd, int level, int name, int value)
{
	(void)setsockopt(fd, level, name, &value,
			 sizeof(value)); /* sockets that are not of TCP have none */
}

static void watch(const struct http_conn *c)
{
	const uint64_t stall_ms = c->server->timer_ns[HTTP_TIMER_STALL] / NS_PER_MS;

	/* When the last byte has been sent, the kernel goes on. A closed socket of Linux answers its probes for a minute
	 * and then with a reset. */
	set_option(c->io.fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(c->io.fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
	set_option(c->io.fd, IPPROTO_TCP, TCP_KEEPINTVL, STEP_S);
	/* A host that has vanished acknowledges nothing. */
	set_option(c->io.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)MIN(stall_ms, (uint64_t)INT_MAX));
}

/* The byte that can go out now without a meaning of its own, or NULL. What is queued is a probe itself. */
static const char *next_byte(const struct http_conn *c)
{
	static const char head[] = "HTTP/1.1 "; /* of every answer */

	if (out_queued(&c->out) > 0)
		return NULL;
	if (c->state == HTTP_CONN_REQUEST && c->begun < sizeof(head) - 1)
		return head + c->begun;
	if (c->state == HTTP_CONN_STREAM && c->stream.chunked && !c->req)
		return "0"; /* of the size of the next chunk */
	return NULL;
}

static void probe(struct http_conn *c)
{
	const char *byte = next_byte(c);
	/* iov_base is not const, although sending only reads it. */
	struct iovec iov = {.iov_base = (void *)(uintptr_t)byte, .iov_len = 1};

	/* If the client is gone, an event says so. */
	if (byte && c->io.ops->send(&c->io, &iov, 1, false) == 1)
		c->begun += c->state == HTTP_CONN_REQUEST;
}

bool conn_half_closed(struct http_conn *c)
{
	if (c->io.tls) /* its end is an alert, not a half of a socket: tls_io.c */
		return false;
	/* A client of WebSocket says goodbye in a frame. Another protocol may go on in one direction. */
	if (c->state == HTTP_CONN_SOCKET && !c->socket->raw)
		return false;
	if (c->half)
		return true;
	if (c->state ==
	    HTTP_CONN_SOCKET) { /* no byte can be added to what passes: the kernel asks */
		c->half = true;
		watch(c);
		conn_update(c);
		return true;
	}
	/* Only data would show that the client is gone, and an event stream may have none for long. */
	if (c->state == HTTP_CONN_STREAM && c->http10 && c->stream.events)
		return false;
	c->half = true;
	c->half_s = 0;
	watch(c);
	probe(c);
	conn_update(c);
	return true;
}

void conn_on_probe_timer(struct http_conn *c)
{
	c->half_s++;
	if (c->half_s <= LAST_PROBE && (c->half_s & (c->half_s - 1)) == 0)
		probe(c);
	conn_update(c);
}
