/* SPDX-License-Identifier: Apache-2.0 */
/* stdio: one message a line, in both directions. transport.h says what it guarantees. */
#include "transport/stdio_fd.h"
#include "transport/transport.h"

#include "base/list.h"
#include "base/log.h"
#include "base/rand.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

#define READ_BYTES (64u << 10)
#define READ_LINES                                                                                 \
	(8u << 10) /* the same while messages are short, since a read may bring hundreds of them */
#define LAST_BYTES       (1u << 20) /* of input, when the server is to end: a pipe holds no more */
#define READ_NS          (1 * NS_PER_MS) /* after which it is the turn of other event sources */
#define WRITE_BYTES      (1u << 20)      /* before it is the turn of other event sources */
#define LARGE_LINE       (256u << 10) /* bytes; for a longer one the output pipe is made larger */
#define WRITE_VECTORS    64
#define LINE_VECTORS     (2 * MCP_HOLES_MAX + 2) /* of a message with a large text, and its newline */
#define QUEUE_MARK       (1u << 20)
#define QUEUE_MAX        (512u << 20)
#define DRAIN_NS         (5 * NS_PER_S)
#define TICK_NS          NS_PER_S
#define TICK_ACCURACY_US (250 * 1000)

struct line {
	struct list node;
	struct mcp_filled json; /* without a large text: no holes */
	size_t len;             /* of the whole message, without the newline */
};

struct transport_stdio {
	struct transport_stdio_config cfg;
	struct stdio_watch in, out;
	struct mcp_reader *reader;
	char *buf; /* READ_BYTES; not on the stack, which the compiler zeroes at each call */
	struct mcp_peer *peer;
	struct mcp_sink sink; /* of all messages: there is only one output */
	struct list queue;    /* struct line */
	size_t queued;        /* bytes, newlines included */
	size_t head_sent;     /* of the first line */
	sd_event_source *tick;
	sd_event_source *later;  /* runs what must not happen inside a call of src/mcp */
	uint64_t drain_until_ns; /* 0: the input has not ended */
	bool moved;              /* output went out since drain_until_ns was set */
	bool in_long_line;       /* the last piece of input had no newline */
	bool ended;
	int reason;
};

static void maybe_end(struct transport_stdio *t);

/* Ends the transport. on_end is called from the loop, never from inside a call of src/mcp. */
static void end(struct transport_stdio *t, int reason)
{
	if (t->ended)
		return;
	t->ended = true;
	t->reason = reason;
	stdio_watch_stop(&t->in);
	stdio_watch_stop(&t->out);
	(void)sd_event_source_set_enabled(t->later, SD_EVENT_ONESHOT);
}

static int on_later(sd_event_source *src, void *userdata)
{
	struct transport_stdio *t = userdata;

	(void)src;
	if (!t->ended) {
		maybe_end(t);
		return 0;
	}
	mcp_peer_close(TAKE_PTR(t->peer));
	t->cfg.on_end(t->reason, t->cfg.userdata);
	return 0;
}

/* ---- output ---- */

static void drop_line(struct transport_stdio *t, struct line *l)
{
	list_remove(&l->node);
	t->queued -= l->len + 1;
	free(l->json.text);
	free(l->json.blob);
	free(l);
}

struct vectors {
	struct iovec *iov;
	unsigned n;
	size_t skip; /* bytes of what follows that were sent already */
};

static void add_part(struct vectors *v, char *part, size_t len)
{
	const size_t skip = MIN(v->skip, len);

	v->skip -= skip;
	if (len > skip)
		v->iov[v->n++] = (struct iovec){.iov_base = part + skip, .iov_len = len - skip};
}

/* Keeps the first MAX bytes. */
static unsigned cut_to(struct iovec *iov, unsigned n, size_t max)
{
	for (unsigned i = 0; i < n; i++) {
		if (iov[i].iov_len >= max) {
			iov[i].iov_len = max;
			return i + 1;
		}
		max -= iov[i].iov_len;
	}
	return n;
}

static unsigned gather(struct transport_stdio *t, struct iovec iov[WRITE_VECTORS])
{
	static char newline[] = "\n";
	struct vectors v = {.iov = iov, .skip = t->head_sent};

	list_for_each(node, &t->queue) {
		const struct mcp_filled *json = &list_entry(node, struct line, node)->json;
		size_t from = 0;

		if (v.n + LINE_VECTORS > WRITE_VECTORS)
			break;
		for (size_t i = 0; i < json->n_holes; i++) {
			add_part(&v, json->text + from, json->holes[i] - from);
			add_part(&v, json->blob, json->blob_len);
			from = json->holes[i];
		}
		add_part(&v, json->text + from, json->text_len - from);
		add_part(&v, newline, 1);
	}
	return v.n;
}

static void written(struct transport_stdio *t, size_t n)
{
	t->head_sent += n;
	t->moved = t->moved || n > 0;
	while (!list_is_empty(&t->queue)) {
		struct line *l = list_entry(t->queue.next, struct line, node);

		if (t->head_sent < l->len + 1)
			break;
		t->head_sent -= l->len + 1;
		drop_line(t, l);
	}
}

static void flush(struct transport_stdio *t)
{
	struct iovec iov[WRITE_VECTORS];
	size_t left = WRITE_BYTES; /* a client that reads fast could keep us here */

	while (!t->ended && t->queued > 0 && left > 0) {
		const unsigned n_iov = cut_to(iov, gather(t, iov), left);
		const ssize_t n = stdio_watch_writev(&t->out, iov, n_iov);

		if (n == -EAGAIN)
			break;
		if (n < 0) {
			end(t, (int)n);
			return;
		}
		written(t, (size_t)n);
		left -= (size_t)n;
	}
	if (t->ended)
		return;
	stdio_watch_enable(&t->out, t->queued > 0);
	/* While the client does not read its answers, none of its input is read. */
	stdio_watch_enable(&t->in, t->queued < t->cfg.queue_mark && !t->drain_until_ns);
	maybe_end(t);
}

static void send_filled(struct transport_stdio *t, const struct mcp_filled *json)
{
	const size_t len = json->text_len + json->n_holes * json->blob_len;
	struct line *l = malloc(sizeof(*l));

	if (!l || t->ended) {
		free(l);
		free(json->text);
		free(json->blob);
		if (!l)
			end(t, -ENOMEM);
		return;
	}
	*l = (struct line){.json = *json, .len = len};
	if (len > LARGE_LINE)
		stdio_watch_enlarge(&t->out);
	list_append(&t->queue, &l->node);
	t->queued += len + 1;
	if (t->queued > t->cfg.queue_max)
		end(t, -ENOBUFS);
	else
		flush(t);
}

static void send_line(struct transport_stdio *t, char *json, size_t len)
{
	send_filled(t, &(struct mcp_filled){.text = json, .text_len = len});
}

static void on_out_ready(uint32_t events, void *userdata)
{
	struct transport_stdio *t = userdata;

	/* The reading end of the output pipe is closed: nobody will ever read an answer. */
	if (events & (EPOLLERR | EPOLLHUP))
		end(t, -EPIPE);
	else
		flush(t);
}

/* ---- the library's side ---- */

static struct transport_stdio *of_sink(struct mcp_sink *sink)
{
	return list_entry(sink, struct transport_stdio, sink);
}

static void sink_send(struct mcp_sink *sink, enum mcp_out kind, char *json, size_t len)
{
	(void)kind;
	send_line(of_sink(sink), json, len);
}

static void answered(struct transport_stdio *t)
{
	/* The call counts as in flight until the sink's function returns, so the check comes later. */
	if (t->drain_until_ns)
		(void)sd_event_source_set_enabled(t->later, SD_EVENT_ONESHOT);
}

static void sink_finish(struct mcp_sink *sink, unsigned http_status, char *json, size_t len)
{
	(void)http_status;
	if (json)
		send_line(of_sink(sink), json, len);
	answered(of_sink(sink));
}

static void sink_finish_filled(struct mcp_sink *sink, const struct mcp_filled *answer)
{
	send_filled(of_sink(sink), answer);
	answered(of_sink(sink));
}

static bool sink_congested(struct mcp_sink *sink)
{
	return of_sink(sink)->queued >= of_sink(sink)->cfg.queue_mark;
}

static const struct mcp_sink_ops sink_ops = {
    .send = sink_send,
    .finish = sink_finish,
    .finish_filled = sink_finish_filled,
    .congested = sink_congested,
};

static void peer_send(struct mcp_peer *peer, enum mcp_out kind, char *json, size_t len)
{
	(void)kind;
	send_line(mcp_peer_user(peer), json, len);
}

static const struct mcp_peer_ops peer_ops = {.send = peer_send};

/* ---- input ---- */

static void end_of_line(struct transport_stdio *t)
{
	if (mcp_reader_is_blank(t->reader))
		mcp_reader_reset(t->reader);
	else
		mcp_peer_receive(t->peer, t->reader, NULL, &t->sink);
}

static void feed(struct transport_stdio *t, const char *data, size_t len)
{
	while (len > 0 && !t->ended) {
		const char *newline = memchr(data, '\n', len);
		const size_t part = newline ? (size_t)(newline - data) : len;

		/* The rest of a bad line is skipped cheaply; the error is answered at its end. */
		if (part > 0)
			(void)mcp_reader_feed(t->reader, data, part);
		if (newline)
			end_of_line(t);
		data += part + (newline ? 1 : 0);
		len -= part + (newline ? 1 : 0);
	}
}

static void input_ended(struct transport_stdio *t)
{
	if (t->drain_until_ns || t->ended)
		return;
	stdio_watch_enable(&t->in, false);
	t->drain_until_ns = now_ns() + t->cfg.drain_ns;
	t->moved = false;
	end_of_line(t); /* the last line may have no newline */
	mcp_peer_end_listens(t->peer);
	flush(t);
	if (!t->ended && t->tick)
		(void)sd_event_source_set_time(t->tick, t->drain_until_ns / NS_PER_US);
}

/* After the end of input: is everything answered and written? */
static void maybe_end(struct transport_stdio *t)
{
	if (t->drain_until_ns && t->queued == 0 && (!t->peer || mcp_peer_n_calls(t->peer) == 0))
		end(t, 0);
}

/* Calls without an answer are cancelled. Answers in the queue still go out whole, as long as the
 * client keeps reading. */
static void drain_timed_out(struct transport_stdio *t, uint64_t now)
{
	const size_t calls = t->peer ? mcp_peer_n_calls(t->peer) : 0;

	if (calls > 0)
		LOG_WARNING(
		    "calls_not_answered",
		    LOG_S("why", "the input ended, and they took longer than the grace time"),
		    LOG_U("calls", calls), LOG_U("grace_ms", t->cfg.drain_ns / NS_PER_MS));
	if (t->queued == 0 || !t->moved) {
		if (t->queued > 0)
			LOG_WARNING("answers_not_read", LOG_U("bytes", t->queued));
		end(t, 0);
		return;
	}
	mcp_peer_close(TAKE_PTR(t->peer));
	t->moved = false;
	t->drain_until_ns = now + t->cfg.drain_ns;
}

/* Takes at most MAX bytes of input. How many there were; 0 when the input has ended, or -EAGAIN. */
static ssize_t take_input(struct transport_stdio *t, size_t max)
{
	const ssize_t n = stdio_watch_read(&t->in, t->buf, max);

	if (n == -EAGAIN)
		return n;
	if (n <= 0) {
		input_ended(t);
		return 0;
	}
	t->in_long_line = !memchr(t->buf, '\n', (size_t)n);
	feed(t, t->buf, (size_t)n);
	return n;
}

static void on_in_ready(uint32_t events, void *userdata)
{
	struct transport_stdio *t = userdata;

	const uint64_t until = now_ns() + READ_NS;

	(void)events; /* after EPOLLHUP, too, the pipe is read to its end */
	while (!t->ended && !t->drain_until_ns && now_ns() < until) {
		const size_t max = t->in_long_line ? READ_BYTES : READ_LINES;

		if (take_input(t, max) < (ssize_t)max || t->queued >= t->cfg.queue_mark)
			return;
	}
}

/* ---- time and life ---- */

static int on_tick(sd_event_source *src, uint64_t usec, void *userdata)
{
	struct transport_stdio *t = userdata;
	const uint64_t now = now_ns();
	uint64_t next = now + TICK_NS;

	(void)usec;
	if (t->ended)
		return 0;
	mcp_server_tick(t->cfg.mcp);
	if (t->drain_until_ns && now >= t->drain_until_ns)
		drain_timed_out(t, now);
	else
		maybe_end(t);
	if (t->drain_until_ns)
		next = MIN(next, t->drain_until_ns);
	if (t->ended)
		return 0;
	(void)sd_event_source_set_time(src, next / NS_PER_US);
	(void)sd_event_source_set_enabled(src, SD_EVENT_ONESHOT);
	return 0;
}

static int start(struct transport_stdio *t)
{
	const struct transport_stdio_config *c = &t->cfg;
	const struct mcp_peer_config peer = {.transport = MCP_TRANSPORT_STDIO,
					     .ops = &peer_ops,
					     .user = t,
					     .principal = c->principal,
					     .principal_data = c->principal_data,
					     .principal_unref = c->principal_unref};
	int r = stdio_watch_init(&t->in, c->loop, c->in_fd, EPOLLIN, on_in_ready, t);

	if (r == 0)
		r = stdio_watch_init(&t->out, c->loop, c->out_fd, EPOLLOUT, on_out_ready, t);
	if (r == 0)
		r = sd_event_add_time(c->loop, &t->tick, CLOCK_MONOTONIC,
				      (now_ns() + TICK_NS) / NS_PER_US, TICK_ACCURACY_US, on_tick,
				      t);
	if (r >= 0)
		r = sd_event_add_defer(c->loop, &t->later, on_later, t);
	if (r >= 0)
		r = sd_event_source_set_enabled(t->later, SD_EVENT_OFF);
	if (r < 0)
		return r;
	t->buf = malloc(READ_BYTES);
	t->reader = mcp_reader_new(&c->reader);
	if (!t->reader || !t->buf)
		return -ENOMEM;
	t->peer = mcp_peer_new(c->mcp, &peer);
	return t->peer ? 0 : -ENOMEM;
}

int transport_stdio_new(const struct transport_stdio_config *config, struct transport_stdio **ret)
{
	struct transport_stdio *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->cfg = *config;
	t->cfg.queue_mark = t->cfg.queue_mark ? t->cfg.queue_mark : QUEUE_MARK;
	t->cfg.queue_max = t->cfg.queue_max ? t->cfg.queue_max : QUEUE_MAX;
	t->cfg.drain_ns = t->cfg.drain_ns ? t->cfg.drain_ns : DRAIN_NS;
	t->sink.ops = &sink_ops;
	list_init(&t->queue);
	t->in.f.fd = t->out.f.fd = -1;
	(void)signal(SIGPIPE, SIG_IGN); /* writev(2) on a pipe has no MSG_NOSIGNAL */
	r = start(t);
	if (r < 0) {
		transport_stdio_free(t);
		return r;
	}
	stdio_watch_enable(&t->in, true);
	*ret = t;
	return 0;
}

void transport_stdio_finish(struct transport_stdio *t)
{
	/* What the client has sent by now has an answer, too. A client that goes on sending is not waited for. */
	for (size_t left = LAST_BYTES; left > 0 && !t->ended && !t->drain_until_ns;) {
		const ssize_t n = take_input(t, MIN(left, READ_BYTES));

		if (n <= 0)
			break;
		left -= (size_t)n;
	}
	input_ended(t);
}

struct transport_stdio *transport_stdio_free(struct transport_stdio *t)
{
	if (!t)
		return NULL;
	t->ended = true;
	mcp_peer_close(TAKE_PTR(t->peer));
	while (!list_is_empty(&t->queue))
		drop_line(t, list_entry(t->queue.next, struct line, node));
	mcp_reader_free(t->reader);
	free(t->buf);
	stdio_watch_done(&t->in);
	stdio_watch_done(&t->out);
	sd_event_source_disable_unref(t->tick);
	sd_event_source_disable_unref(t->later);
	free(t);
	return NULL;
}
