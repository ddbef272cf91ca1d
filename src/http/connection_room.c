/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection holds in memory, here and in the kernel, and who pays for it. */
#include "http/connection.h"

#include "base/text.h"
#include "base/walls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

/* A connection with less than this to read or to send counts as nothing: most have a little. */
#define FREE_BYTES 4096u

static void set_option(int fd, int level, int name, int value)
{
	/* Not every kind of socket has every option; without it the kernel's own bounds hold. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* The kernel takes the bytes of an answer whether or not the client reads. From those who are known it takes as much as
 * is under way to them, and a little ahead; from others no more than a fixed size. */
void conn_set_socket(const struct http_conn *c)
{
	/* Answers are written in one piece, so Nagle's algorithm would only delay them. */
	set_option(c->io.fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(c->io.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, HTTP_UNSENT_BYTES);
	if (text_starts_with(c->who, BUDGET_STRANGER))
		set_option(c->io.fd, SOL_SOCKET, SO_SNDBUF, HTTP_STRANGER_SEND);
}

void conn_free_socket(const struct http_conn *c)
{
	set_option(c->io.fd, SOL_SOCKET, SO_BUF_LOCK, 0); /* the size grows by itself again */
}

void conn_count_answer(struct http_conn *c)
{
	const size_t queued = out_queued(&c->out);
	size_t n = queued + (size_t)c->held;

	if (n >= FREE_BYTES || c->reserved > 0 || c->out_memory.n > 0) {
		c->held = c->io.ops->held(&c->io);
		/* The kernel has all of the answer, and the client has taken it but for the last bytes: of these it tells late
		 * (delayed acknowledgements, RFC 9293 §3.8.6.3), and not before its next request. */
		if (c->held < (int)FREE_BYTES &&
		    (c->state == HTTP_CONN_HEAD || c->state == HTTP_CONN_LINGER))
			c->reserved = 0;
		n = MAX(queued + (size_t)c->held, c->reserved);
	}
	if (n < FREE_BYTES)
		budget_give(&c->out_memory);
	else
		budget_note(c->server->cfg.budgets, c->who, BUDGET_ANSWER_MEMORY, n,
			    &c->out_memory);
	list_remove(&c->unread_link);
	if (n >= FREE_BYTES) {
		list_append(&c->server->unread, &c->unread_link);
		server_arm_unread(c->server);
	}
}

int conn_reserve(struct http_conn *c, size_t bytes, struct err *e)
{
	struct budgets *b = c->server->cfg.budgets;
	const size_t n = bytes + out_queued(&c->out) + (size_t)c->held;

	if (!wall_stands(WALL_ANSWERS))
		return 0;
	/* What was counted a moment ago may have been read since. */
	if (budget_take(b, c->who, BUDGET_ANSWER_MEMORY, n, &c->out_memory, e) < 0) {
		server_count_unread(c->server);
		*e = ERR_INIT;
		int r = budget_take(b, c->who, BUDGET_ANSWER_MEMORY, n, &c->out_memory, e);
		if (r < 0)
			return e->code == ERR_BUDGET_EXCEEDED
				   ? err_set(e, ERR_BUDGET_EXCEEDED, EDQUOT,
					     "Your unread answers hold as much memory as they may "
					     "have. Read them first.")
				   : r;
	}
	c->reserved = bytes;
	return 0;
}

bool conn_count_request(struct http_conn *c)
{
	size_t n = c->in.borrowed ? 0 : c->in.cap;
	struct err e = ERR_INIT;

	if (c->req)
		n += c->req->body.whole.cap;
	if (c->socket)
		n += socket_memory(c);
	if (n >= FREE_BYTES)
		return budget_take(c->server->cfg.budgets, c->who, BUDGET_MESSAGE_MEMORY, n,
				   &c->in_memory, &e) == 0;
	budget_give(&c->in_memory);
	return true;
}
