/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: its states and steps. connection.h describes how they work together. */
#include "http/connection.h"

#include "base/kill_points.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "http/tls_io.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define RETRY_LINE   "Retry-After: 10\r\n"
#define UPGRADE_LINE "Upgrade: TLS/1.2, HTTP/1.1\r\n" /* RFC 9110 §15.5.22 */

/* ---- life ---- */

static void set_payer(struct http_conn *c, const char *who)
{
	(void)snprintf(c->who, sizeof(c->who), "%s", who);
	c->turn_slot = turns_slot(who);
}

int conn_new(struct http_server *s, const struct http_listener *l, int fd, const char *who)
{
	struct http_conn *c = calloc(1, sizeof(*c));
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
	struct err e = ERR_INIT;

	if (!c)
		return -ENOMEM;
	set_payer(c, who);
	if (budget_take(s->cfg.budgets, who, BUDGET_CONNECTIONS, 1, &c->place, &e) < 0) {
		free(c);
		return e.code == ERR_BUDGET_EXCEEDED ? -EDQUOT : -ENOMEM;
	}
	c->what = HTTP_IS_CONN;
	c->server = s;
	c->io = (struct http_io){.ops = &http_plain_io, .fd = fd};
	int r = l->scopes & HTTP_SCOPE_TLS ? http_tls_begin(&c->io, s->cfg.tls) : 0;
	c->events = EPOLLIN;
	c->scopes = l->scopes;
	c->fresh = true;
	list_init(&c->timer_link);
	list_init(&c->ready_link);
	list_init(&c->unread_link);
	list_init(&c->out.parts);
	if (r == 0 && epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		r = -errno;
	if (r < 0) {
		http_tls_drop(&c->io);
		budget_give(&c->place);
		free(c);
		return r;
	}
	conn_set_socket(c);
	s->n_conns++;
	conn_update(c);
	return 0;
}

int conn_belongs_to(struct http_conn *c, const char *principal, struct err *e)
{
	struct budgets *b = c->server->cfg.budgets;
	int r = streq(c->who, principal)
		    ? 0
		    : budget_take(b, principal, BUDGET_CONNECTIONS, 1, &c->place, e);

	if (r < 0 || streq(c->who, principal))
		return r;
	if (text_starts_with(c->who, BUDGET_STRANGER))
		conn_free_socket(c);
	set_payer(c, principal);
	if (c->in_memory.n > 0)
		budget_note(b, principal, BUDGET_MESSAGE_MEMORY, c->in_memory.n, &c->in_memory);
	if (c->out_memory.n > 0)
		budget_note(b, principal, BUDGET_ANSWER_MEMORY, c->out_memory.n, &c->out_memory);
	return 0;
}

static enum step drop_request(struct http_conn *c)
{
	if (c->state == HTTP_CONN_SOCKET)
		socket_fail(c, WS_CODE_BUSY, "unfinished messages hold too much memory");
	else if (c->state == HTTP_CONN_HEAD || c->state == HTTP_CONN_REQUEST)
		conn_refuse(c, 429);
	else
		return STEP_CLOSE;
	input_drop(&c->in);
	budget_give(&c->in_memory);
	return STEP_AGAIN;
}

static void tell_owner(struct http_conn *c, enum http_state was)
{
	const struct http_stream_ops *ops = c->stream.ops;

	if (was == HTTP_CONN_REQUEST)
		request_gone(c);
	else if (was == HTTP_CONN_STREAM && ops && ops->on_close)
		ops->on_close(c->stream.userdata);
	else if (was == HTTP_CONN_SOCKET)
		c->socket->ops->on_close(c->socket->userdata);
}

static void drop_caller(struct http_conn *c)
{
	if (c->caller_unref)
		c->caller_unref(c->caller);
	c->caller = NULL;
	c->caller_unref = NULL;
}

/* DROP: what the client has not acknowledged is thrown away. */
static void close_with(struct http_conn *c, bool drop)
{
	struct http_server *s = c->server;
	const enum http_state was = c->state;

	if (was == HTTP_CONN_DEAD)
		return;
	c->state = HTTP_CONN_DEAD;
	if (c->out.file && c->out.file->busy) {
		(void)epoll_ctl(s->epfd, EPOLL_CTL_DEL, c->io.fd, NULL);
		sending_leave(TAKE_PTR(c->out.file), &c->io, &c->place);
	} else {
		c->io.ops->close(&c->io, drop);
	}
	list_remove(&c->timer_link);
	list_remove(&c->ready_link);
	list_remove(&c->unread_link);
	list_append(&s->dead, &c->ready_link);
	server_schedule(s);
	s->n_conns--;
	tell_owner(c, was);
	request_free(TAKE_PTR(c->req));
	drop_caller(c);
	c->socket = socket_free(c->socket);
	input_drop(&c->in);
	out_drop(&c->out);
	budget_give(&c->in_memory);
	budget_give(&c->out_memory);
	budget_give(&c->place);
	server_resume_accept(s);
}

void conn_close(struct http_conn *c)
{
	close_with(c, false);
}

void conn_schedule(struct http_conn *c)
{
	if (c->in_run || c->state == HTTP_CONN_DEAD || !list_is_empty(&c->ready_link))
		return;
	turns_add(&c->server->turns, c);
	server_schedule(c->server);
}

void conn_break(struct http_conn *c)
{
	c->broken = true;
	conn_schedule(c);
}

/* ---- what to wait for ---- */

static uint32_t wanted_events(const struct http_conn *c)
{
	const bool sending = out_wants_room(&c->out);
	const uint32_t shut = c->half ? 0 : EPOLLRDHUP; /* it would be told again and again */

	switch (c->state) {
	case HTTP_CONN_HEAD:
		return EPOLLIN | (c->io.wants_room ? (uint32_t)EPOLLOUT : 0);
	case HTTP_CONN_LINGER:
		return EPOLLIN;
	case HTTP_CONN_REQUEST:
		if (c->req->body.wanted && !c->req->body.paused && !c->req->body.done)
			return EPOLLIN | (sending ? (uint32_t)EPOLLOUT : 0);
		/* A client may shut down its side right after the last byte of its body. Only when
		 * the whole body has been read may the shutdown mean that the client has left. */
		return (c->req->body.done ? shut : 0) | (sending ? (uint32_t)EPOLLOUT : 0);
	case HTTP_CONN_REPLY:
		return sending ? EPOLLOUT : 0; /* a client that shut down its side can still read */
	case HTTP_CONN_STREAM:
		return shut | (sending ? (uint32_t)EPOLLOUT : 0);
	case HTTP_CONN_SOCKET:
		return socket_events(c, sending);
	case HTTP_CONN_DEAD:
		break;
	}
	return 0;
}

static enum http_timer wanted_timer(const struct http_conn *c)
{
	switch (c->state) {
	case HTTP_CONN_HEAD:
		return c->fresh || c->in.len > 0 ? HTTP_TIMER_HEAD : HTTP_TIMER_IDLE;
	case HTTP_CONN_REQUEST:
		if (wanted_events(c) & EPOLLIN)
			return HTTP_TIMER_STALL;
		return c->half ? HTTP_TIMER_PROBE : HTTP_TIMER_NONE;
	case HTTP_CONN_REPLY: /* the client is not to blame for a disk that is slow */
		return c->out.file && c->out.file->busy ? HTTP_TIMER_NONE : HTTP_TIMER_STALL;
	case HTTP_CONN_STREAM:
		if (out_queued(&c->out) > 0)
			return HTTP_TIMER_STALL;
		return c->half ? HTTP_TIMER_PROBE : HTTP_TIMER_NONE;
	case HTTP_CONN_SOCKET:
		return out_queued(&c->out) > 0 ? HTTP_TIMER_STALL : HTTP_TIMER_NONE;
	case HTTP_CONN_LINGER:
		return HTTP_TIMER_LINGER;
	case HTTP_CONN_DEAD:
		break;
	}
	return HTTP_TIMER_NONE;
}

static void set_timer(struct http_conn *c, enum http_timer timer)
{
	struct http_server *s = c->server;

	if (c->timer == timer && !c->moved && !list_is_empty(&c->timer_link))
		return;
	c->moved = false;
	c->trickled = 0;
	list_remove(&c->timer_link);
	list_append(&s->timers[timer], &c->timer_link);
	c->timer = timer;
	if (timer == HTTP_TIMER_NONE)
		return;
	c->deadline_ns = now_ns() + s->timer_ns[timer];
	server_arm_timer(s, c->deadline_ns);
}

void conn_update(struct http_conn *c)
{
	struct epoll_event ev = {.data.ptr = c};

	if (c->state == HTTP_CONN_DEAD)
		return;
	conn_count_answer(c);
	ev.events = wanted_events(c);
	if (ev.events != c->events && epoll_ctl(c->server->epfd, EPOLL_CTL_MOD, c->io.fd, &ev) == 0)
		c->events = ev.events;
	set_timer(c, wanted_timer(c));
	if ((ev.events & EPOLLIN) && c->io.ops->pending(&c->io))
		conn_schedule(c);
}

/* ---- steps ---- */

void conn_refuse(struct http_conn *c, int status)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(1024), head = BUF_INIT(1024);
	int r = problem_add(&body, status);

	server_note_answer(c->server, c->req, status, body.len,
			   c->req ? now_ns() - c->req->start_ns : 0);
	if (c->state == HTTP_CONN_REQUEST)
		request_gone(c);
	c->keep_alive = false;
	c->state = HTTP_CONN_REPLY;
	if (r == 0)
		r = buf_printf(&head,
			       "HTTP/1.1 %d %s\r\n%sContent-Type: " HTTP_PROBLEM_TYPE "\r\n"
			       "%sContent-Length: %zu\r\nConnection: close\r\n\r\n",
			       status, http_status_text(status), server_date_line(c->server),
			       status == 429   ? RETRY_LINE
			       : status == 426 ? UPGRADE_LINE
					       : "",
			       body.len);
	r = r < 0 ? r : out_add_head(c, buf_str(&head), head.len);
	r = r < 0 ? r : out_add(&c->out, buf_str(&body), body.len);
	if (r < 0)
		c->broken = true;
}

/* The caller has lost the right to what this connection has open. The owner of a stream is told
 * that the client has left; the client sees a proper end. A request without an answer gets 401. An
 * answer that is being sent is cut only if it is a file: other answers are in the queue already. */
static void end_open(struct http_conn *c)
{
	const struct http_stream_ops *ops = c->stream.ops;

	c->caller_ended = false;
	if (c->state == HTTP_CONN_REQUEST) {
		conn_refuse(c, 401);
	} else if (c->state == HTTP_CONN_STREAM) {
		c->state = HTTP_CONN_REPLY;
		c->broken = ops && ops->on_room;
		/* The connection stays: its head promised so, and a client may have the next
		 * request under way. */
		if (c->stream.chunked && out_add(&c->out, "0\r\n\r\n", 5) < 0)
			c->broken = true;
		if (ops && ops->on_close)
			ops->on_close(c->stream.userdata);
	} else if (c->state == HTTP_CONN_SOCKET) {
		socket_fail(c, WS_CODE_POLICY, "the credential has ended");
	} else if (c->state == HTTP_CONN_REPLY && c->out.file) {
		c->broken = true;
	}
}

void conn_end_caller(struct http_conn *c, bool (*ended)(const void *caller))
{
	const void *caller = c->req ? c->req->caller : c->caller;

	if (!caller || !ended(caller))
		return;
	c->caller_ended = true;
	conn_schedule(c);
}

enum step conn_receive(struct http_conn *c, size_t max)
{
	const int n = input_recv(c, max);

	if (n == -EAGAIN)
		return STEP_WAIT;
	return n > 0 ? STEP_AGAIN : STEP_CLOSE;
}

static enum step step_head(struct http_conn *c)
{
	struct http_in *in = &c->in;
	int n;

	if (c->io.unsafe) {
		conn_refuse(c, 426);
		return STEP_AGAIN;
	}
	if (in->len == c->scan.off) {
		if (in->len == 0 && c->server->draining)
			return STEP_CLOSE;
		if (in->len >= c->server->cfg.head_max) {
			conn_refuse(c, 431);
			return STEP_AGAIN;
		}
		return conn_receive(c, HTTP_HEAD_RECV);
	}
	n = http_head_scan(&c->scan, in->data + in->off, in->len);
	if (n < 0) {
		conn_refuse(c, 400);
	} else if (n == 2) { /* RFC 9112 §2.2: one empty line is forgiven */
		if (c->skipped)
			conn_refuse(c, 400);
		c->skipped = true;
		c->scan = (struct http_scan){0};
		input_consume(in, 2);
	} else if ((size_t)n > c->server->cfg.head_max) {
		conn_refuse(c, 431);
	} else if (n > 0) {
		c->fresh = false;
		c->skipped = false;
		c->scan = (struct http_scan){0};
		request_begin(c, (size_t)n);
	}
	return STEP_AGAIN;
}

static enum step step_hold(struct http_request *req)
{
	if (req->hold == HTTP_HOLD_RUN) {
		req->hold = HTTP_HOLD_TURN;
		return STEP_YIELD;
	}
	req->hold = HTTP_HOLD_NONE;
	request_go_on(req);
	return STEP_AGAIN;
}

static enum step step_request(struct http_conn *c)
{
	struct http_body *body = &c->req->body;
	int status;

	if (c->req->hold != HTTP_HOLD_NONE)
		return step_hold(c->req);
	if (out_queued(&c->out) > 0) { /* 100 Continue */
		const int r = out_flush(c);

		if (r < 0 && r != -EAGAIN)
			return STEP_CLOSE;
	}
	if (!body->wanted || body->paused || body->done)
		return STEP_WAIT;
	if (c->in.len == 0 && body_recv_size(body) > 0) {
		if (c->run_bytes >= HTTP_RUN_BYTES)
			return STEP_YIELD;
		if (body->has_room && !body->has_room(body->userdata)) {
			body->paused = true;
			return STEP_WAIT;
		}
		const enum step step = conn_receive(c, body_recv_size(body));

		if (step != STEP_AGAIN)
			return step;
		c->run_bytes += c->in.len;
		c->trickled += c->in.len;
		c->moved = c->moved || c->trickled >= c->server->stall_bytes;
	}
	status = body_feed(c);
	if (status)
		conn_refuse(c, status);
	return STEP_AGAIN;
}

/* Its memory is freed, so that an idle stream costs no more than its connection. */
void conn_request_done(struct http_conn *c)
{
	struct http_request *req = c->req;

	if (req && (c->state == HTTP_CONN_STREAM || c->state == HTTP_CONN_SOCKET)) {
		c->caller = TAKE_PTR(req->caller);
		c->caller_unref = TAKE_PTR(req->caller_unref);
	}
	if (req)
		server_note_answer(c->server, req, req->status, req->sent_bytes,
				   now_ns() - req->start_ns);
	request_free(TAKE_PTR(c->req));
}

/* The answer has been sent. */
static enum step reply_done(struct http_conn *c)
{
	const bool unread = c->req && !c->req->body.done;

	KILL_POINT(ANSWER_WRITTEN);
	conn_request_done(c);
	drop_caller(c);
	if (c->keep_alive && !unread && !c->server->draining) {
		c->state = HTTP_CONN_HEAD;
		c->moved = true;
		return STEP_AGAIN;
	}
	/* If we close with unread input, the kernel sends a reset, which may overtake the answer.
	 * So we shut down our side and let the client close. */
	input_drop(&c->in);
	if (c->io.ops->shut(&c->io) < 0)
		return STEP_CLOSE;
	c->state = HTTP_CONN_LINGER;
	return STEP_AGAIN;
}

static enum step step_reply(struct http_conn *c)
{
	const int r = out_flush(c);

	if (r == -EAGAIN)
		return STEP_WAIT;
	return r < 0 ? STEP_CLOSE : reply_done(c);
}

static enum step step_stream(struct http_conn *c)
{
	int r;

	conn_request_done(c);
	if (c->in.len > 0) { /* a pipelined request; our answer has no end yet */
		c->keep_alive = false;
		input_drop(&c->in);
	}
	r = out_flush(c);
	if (r == -EAGAIN)
		c->drain_owed = true;
	if ((r == 0 || r == -EAGAIN) && c->stream.asks &&
	    out_queued(&c->out) < HTTP_STREAM_WINDOW) {
		c->stream.asks = false;
		const bool more = c->stream.ops->on_room(c->stream.userdata);

		if (c->state == HTTP_CONN_STREAM)
			c->stream.asks = c->stream.asks || more;
		return STEP_YIELD; /* others come first */
	}
	if (r < 0)
		return r == -EAGAIN ? STEP_WAIT : STEP_CLOSE;
	if (!c->drain_owed)
		return STEP_WAIT;
	c->drain_owed = false;
	if (c->stream.ops && c->stream.ops->on_drain)
		c->stream.ops->on_drain(c->stream.userdata);
	return STEP_AGAIN;
}

/* Throws away what still comes. */
static enum step step_linger(struct http_conn *c)
{
	const ssize_t n = c->io.ops->discard(&c->io, c->server->scratch, HTTP_SCRATCH_BYTES);

	if (n < 0)
		return n == -EAGAIN ? STEP_WAIT : STEP_CLOSE;
	return n > 0 ? STEP_AGAIN : STEP_CLOSE;
}

void conn_run(struct http_conn *c)
{
	static enum step (*const steps[])(struct http_conn *) = {
	    [HTTP_CONN_HEAD] = step_head,     [HTTP_CONN_REQUEST] = step_request,
	    [HTTP_CONN_REPLY] = step_reply,   [HTTP_CONN_STREAM] = step_stream,
	    [HTTP_CONN_LINGER] = step_linger, [HTTP_CONN_SOCKET] = socket_step,
	};
	static const char *const work_names[] = {
	    [HTTP_CONN_HEAD] = "http head",     [HTTP_CONN_REQUEST] = "http request",
	    [HTTP_CONN_REPLY] = "http answer",  [HTTP_CONN_STREAM] = "http stream",
	    [HTTP_CONN_LINGER] = "http linger", [HTTP_CONN_SOCKET] = "http socket",
	};
	enum step step = STEP_AGAIN;

	if (c->state == HTTP_CONN_DEAD)
		return;
	c->in_run = true;
	c->run_bytes = 0;
	loop_work(work_names[c->state],
		  c->req && c->req->match.row ? c->req->match.row->pattern : "");
	if (c->caller_ended)
		end_open(c);
	for (unsigned i = 0; i < HTTP_STEPS_MAX && step == STEP_AGAIN && !c->broken; i++)
		step = steps[c->state](c);
	if (input_keep(&c->in) < 0)
		c->broken = true;
	if (!conn_count_request(c))
		step = drop_request(c);
	c->in_run = false;
	if (step == STEP_CLOSE || c->broken) {
		conn_close(c);
		return;
	}
	if (step == STEP_AGAIN || step == STEP_YIELD)
		conn_schedule(c);
	conn_update(c);
}

/* An event of C was told before, and C still waits for its turn: its run asks for events again. Otherwise
 * those who wait would be told in each turn, and new ones behind them. */
static void silence(struct http_conn *c)
{
	struct epoll_event ev = {.data.ptr = c};

	if (c->events != 0 && epoll_ctl(c->server->epfd, EPOLL_CTL_MOD, c->io.fd, &ev) == 0)
		c->events = 0;
}

void conn_on_event(struct http_conn *c, uint32_t events)
{
	const bool shut = (events & EPOLLRDHUP) && (c->events & EPOLLRDHUP);

	if (c->state == HTTP_CONN_DEAD)
		return;
	/* Runs of a client that has left are cancelled now, not at the next write. */
	if ((events & (EPOLLERR | EPOLLHUP)) || (shut && !conn_half_closed(c))) {
		conn_close(c);
		return;
	}
	if (list_is_empty(&c->ready_link))
		turns_add(&c->server->turns, c);
	else
		silence(c);
}

/* A client that is slow to take the end of its answer keeps its connection while it takes some of it. */
static bool still_reads(struct http_conn *c)
{
	const struct http_server *s = c->server;
	const int before = c->held;

	if (c->state != HTTP_CONN_LINGER)
		return false;
	c->held = c->io.ops->held(&c->io);
	c->waited = c->held < before ? 0 : c->waited + 1;
	return c->held > 0 && c->waited < s->timer_ns[HTTP_TIMER_STALL] / HTTP_LINGER_NS;
}

void conn_on_timeout(struct http_conn *c)
{
	const bool waits_for_client =
	    c->state == HTTP_CONN_REQUEST || (c->state == HTTP_CONN_HEAD && c->in.len > 0);

	if (c->timer == HTTP_TIMER_PROBE) {
		conn_on_probe_timer(c);
		return;
	}
	if (still_reads(c)) {
		conn_update(c);
		return;
	}
	if (!waits_for_client) {
		close_with(c, c->io.ops->held(&c->io) > 0);
		return;
	}
	conn_refuse(c, 408);
	conn_run(c);
}
