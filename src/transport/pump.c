/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pump.h"

#include "transport/stdio_fd.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define FLOW_BYTES     (64u << 10)
#define MOVES_PER_TURN 16 /* before it is the other direction's turn */

/* One direction. */
struct flow {
	struct stdio_watch from, to;
	char *buf;
	size_t start, end; /* of the bytes that are read and not yet written */
	int error;         /* why reading ended, 0 = end of file */
	bool eof;
	bool stopped; /* the receiving side is closed */
};

struct transport_pump {
	struct transport_pump_config cfg;
	struct flow up;   /* client -> socket */
	struct flow down; /* socket -> client */
	bool shut;        /* the socket is shut down for writing */
	bool ended;
	int reason;
	sd_event_source *later;
};

/* on_end is called from the loop, never from inside a function of the pump. */
static void end(struct transport_pump *p, int reason)
{
	if (p->ended)
		return;
	p->ended = true;
	p->reason = reason;
	stdio_watch_stop(&p->up.from);
	stdio_watch_stop(&p->up.to);
	stdio_watch_stop(&p->down.from);
	stdio_watch_stop(&p->down.to);
	(void)sd_event_source_set_enabled(p->later, SD_EVENT_ONESHOT);
}

static int on_later(sd_event_source *source UNUSED, void *userdata)
{
	struct transport_pump *p = userdata;

	p->cfg.on_end(p->reason, p->cfg.userdata);
	return 0;
}

static bool is_empty(const struct flow *f)
{
	return f->start == f->end;
}

/* Returns false if there is nothing to write now. */
static bool flow_read(struct flow *f)
{
	if (!is_empty(f))
		return true;
	if (f->eof)
		return false;
	const ssize_t n = stdio_watch_read(&f->from, f->buf, FLOW_BYTES);
	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		f->eof = true;
		f->error = (int)n;
		return false;
	}
	f->start = 0;
	f->end = (size_t)n;
	return true;
}

/* Returns false if the receiver takes nothing more now. */
static bool flow_write(struct flow *f)
{
	const struct iovec iov = {.iov_base = f->buf + f->start, .iov_len = f->end - f->start};
	const ssize_t n = stdio_watch_writev(&f->to, &iov, 1);

	if (n == -EAGAIN)
		return false;
	if (n < 0) {
		f->stopped = true;
		return false;
	}
	f->start += (size_t)n;
	return is_empty(f);
}

static void flow_move(struct flow *f)
{
	for (int i = 0; i < MOVES_PER_TURN && !f->stopped; i++) {
		if (!flow_read(f))
			break;
		const bool more = f->end == FLOW_BYTES;
		if (!flow_write(f) || !more)
			break;
	}
	if (f->stopped) {
		stdio_watch_stop(&f->from);
		stdio_watch_stop(&f->to);
		return;
	}
	stdio_watch_enable(&f->from, is_empty(f) && !f->eof);
	stdio_watch_enable(&f->to, !is_empty(f));
}

static void move_up(struct transport_pump *p)
{
	flow_move(&p->up);
	/* The socket may still bring answers, so only the other direction ends the pump. */
	if (p->up.stopped || !p->up.eof || !is_empty(&p->up) || p->shut)
		return;
	p->shut = true;
	(void)shutdown(p->cfg.sock, SHUT_WR);
}

static void move_down(struct transport_pump *p)
{
	flow_move(&p->down);
	if (p->down.stopped)
		end(p, -EPIPE);
	else if (p->down.eof && is_empty(&p->down))
		end(p, p->shut && p->down.error == 0 ? 0 : -ECONNRESET);
}

static void on_client_in(uint32_t events UNUSED, void *userdata)
{
	move_up(userdata);
}

static void on_sock_in(uint32_t events UNUSED, void *userdata)
{
	move_down(userdata);
}

static void on_sock_out(uint32_t events, void *userdata)
{
	struct transport_pump *p = userdata;

	if (events & (EPOLLERR | EPOLLHUP)) {
		p->up.stopped = true;
		stdio_watch_stop(&p->up.from);
		stdio_watch_stop(&p->up.to);
	} else {
		move_up(p);
	}
}

static void on_client_out(uint32_t events, void *userdata)
{
	struct transport_pump *p = userdata;

	if (events & (EPOLLERR | EPOLLHUP))
		end(p, -EPIPE);
	else
		move_down(p);
}

static int start(struct transport_pump *p)
{
	const struct transport_pump_config *c = &p->cfg;
	int r = stdio_watch_init(&p->up.from, c->loop, c->in_fd, EPOLLIN, on_client_in, p);

	if (r == 0)
		r = stdio_watch_init(&p->up.to, c->loop, c->sock, EPOLLOUT, on_sock_out, p);
	if (r == 0)
		r = stdio_watch_init(&p->down.from, c->loop, c->sock, EPOLLIN, on_sock_in, p);
	if (r == 0)
		r = stdio_watch_init(&p->down.to, c->loop, c->out_fd, EPOLLOUT, on_client_out, p);
	if (r == 0)
		r = sd_event_add_defer(c->loop, &p->later, on_later, p);
	if (r >= 0)
		r = sd_event_source_set_enabled(p->later, SD_EVENT_OFF);
	if (r < 0)
		return r;
	p->up.buf = malloc(FLOW_BYTES);
	p->down.buf = malloc(FLOW_BYTES);
	return p->up.buf && p->down.buf ? 0 : -ENOMEM;
}

int transport_pump_new(const struct transport_pump_config *config, struct transport_pump **ret)
{
	struct transport_pump *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->cfg = *config;
	p->up.from.f.fd = p->up.to.f.fd = p->down.from.f.fd = p->down.to.f.fd = -1;
	(void)signal(SIGPIPE, SIG_IGN); /* writev(2) on a pipe has no MSG_NOSIGNAL */
	int r = start(p);
	if (r < 0) {
		transport_pump_free(p);
		return r;
	}
	stdio_watch_enable(&p->up.from, true);
	stdio_watch_enable(&p->down.from, true);
	*ret = p;
	return 0;
}

void transport_pump_finish(struct transport_pump *p)
{
	if (p->ended || p->up.stopped)
		return;
	p->up.eof = true;
	move_up(p);
}

struct transport_pump *transport_pump_free(struct transport_pump *p)
{
	if (!p)
		return NULL;
	stdio_watch_done(&p->up.from);
	stdio_watch_done(&p->up.to);
	stdio_watch_done(&p->down.from);
	stdio_watch_done(&p->down.to);
	(void)sd_event_source_disable_unref(p->later);
	free(p->up.buf);
	free(p->down.buf);
	free(p);
	return NULL;
}
