/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of events of one worker, for one client. */
#include "fleet/router/feed.h"

#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#define REFUSAL_MAX (16u << 10)
#define AGAIN_NS    (2 * NS_PER_S)
#define TURN_BLOCKS 2 /* that are read in one turn of the loop */
#define IN_MAX      (RELAY_HEAD_MAX + RELAY_BLOCK + REFUSAL_MAX)

struct source *source_new(struct feed *d, const char id[FLEET_WORKER_SIZE])
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	list_init(&s->node);
	s->feed = d;
	memcpy(s->id, id, sizeof(s->id));
	s->io = (struct http_io){.ops = &http_plain_io, .fd = -1};
	return s;
}

void source_close(struct source *s)
{
	if (!s->worker)
		return;
	s->worker->n_fetches--;
	s->worker = NULL;
	s->event = sd_event_source_disable_unref(s->event);
	s->more = sd_event_source_disable_unref(s->more);
	if (s->link)
		link_drop(s->link);
	s->link = NULL;
	if (s->io.fd >= 0)
		s->io.ops->close(&s->io, false);
	s->io = (struct http_io){.ops = &http_plain_io, .fd = -1};
	buf_done(&s->out);
	buf_done(&s->in);
	buf_done(&s->text);
	budget_give(&s->share);
	s->live = false;
	s->again_ns = now_ns() + AGAIN_NS;
}

void source_free(struct source *s)
{
	source_close(s);
	list_remove(&s->node);
	free(s);
}

/* True: the feed is still there. */
static bool fail(struct source *s)
{
	source_close(s);
	s->settled = true;
	feed_source_failed(s, 0, NULL, 0);
	return true;
}

/* ---- events ---- */

/* The value of the line if its field is NAME. */
static char *value_of(char *line, const char *name)
{
	const size_t n = strlen(name);

	return strncmp(line, name, n) == 0 && line[n] == ':' && line[n + 1] == ' ' ? line + n + 2
										   : NULL;
}

bool feed_event_read(char *text, struct feed_event *ret)
{
	static char none[] = "";
	char *rest = text;

	*ret = (struct feed_event){none, none, none};
	if (strchr(text, '\r'))
		return false;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *id = value_of(line, "id"), *name = value_of(line, "event");
		char *data = value_of(line, "data");

		if ((id && *ret->id) || (name && *ret->name) || (data && *ret->data))
			return false;
		ret->id = id ? id : ret->id;
		ret->name = name ? name : ret->name;
		ret->data = data ? data : ret->data;
	}
	return *ret->name && *ret->data &&
	       strspn(ret->name, "abcdefghijklmnopqrstuvwxyz._-") == strlen(ret->name) &&
	       strlen(ret->name) < FEED_ID_SIZE;
}

/* Only what is plain goes into the head of a later request. */
static void note_id(struct source *s, const char *id)
{
	if (strspn(id, "0123456789abcdef-") == strlen(id))
		(void)!text_copy(s->last_id, sizeof(s->last_id), id);
}

/* Hands on the event of LEN bytes at AT of TEXT. False: the feed is gone, or S is closed (GONE: the first of them). */
static bool take_event(struct source *s, size_t at, size_t len, bool *gone)
{
	char *text = s->text.data + at;
	struct feed_event v;

	text[len] = '\0';
	if (memchr(text, '\0', len)) {
		(void)fail(s);
		return false;
	}
	if (!feed_event_read(text, &v))
		return true;
	*gone = !feed_take(s, &v);
	if (*gone || !s->worker)
		return false;
	note_id(s, v.id);
	return true;
}

/* Hands on the whole events of TEXT. False: the feed is gone. */
static bool take_events(struct source *s)
{
	size_t at = 0;
	bool gone = false;

	while (s->text.len > at) {
		const size_t from = MAX(at, s->searched);
		s->paused = feed_is_slow(s->feed, s);
		if (s->paused)
			break;
		const char *end = memmem(s->text.data + from, s->text.len - from, "\n\n", 2);
		if (!end) {
			s->searched = s->text.len - 1;
			break;
		}
		const size_t len = (size_t)(end - s->text.data) - at;
		if (!take_event(s, at, len, &gone))
			return !gone;
		at += len + 2;
	}
	buf_consume(&s->text, at);
	s->searched = s->searched > at ? s->searched - at : 0;
	return true;
}

/* ---- bytes ---- */

/* The head is here: 1 a stream, 0 wait for the rest of a refusal, < 0 neither. */
static int look(struct source *s)
{
	if (s->head_len == 0) {
		const size_t len = relay_reply_end(s->in.data, s->in.len, &s->scanned);

		if (len == 0)
			return s->in.len >= RELAY_HEAD_MAX ? -EBADMSG : 0;
		if (relay_reply_parse(s->in.data, len, false, &s->reply) < 0)
			return -EBADMSG;
		s->head_len = len;
	}
	if (s->reply.status == 200)
		return s->reply.framing == RELAY_CHUNKED ? 1 : -EBADMSG;
	if (s->reply.framing != RELAY_LENGTH || s->reply.length > REFUSAL_MAX)
		return -EBADMSG;
	return s->in.len - s->head_len < s->reply.length ? 0 : -ECONNREFUSED;
}

static int join_chunks(struct source *s)
{
	size_t at = 0;

	while (at < s->in.len && !http_chunk_done(&s->chunk)) {
		const char *data = NULL;
		size_t n = 0;
		const int64_t used =
		    http_chunk_next(&s->chunk, s->in.data + at, s->in.len - at, &data, &n);

		if (used < 0 || (data && buf_add(&s->text, data, n) < 0))
			return -EBADMSG;
		at += (size_t)used;
	}
	buf_consume(&s->in, at);
	return http_chunk_done(&s->chunk) ? -EBADMSG : 0;
}

/* What has come. False: the feed is gone. */
static bool take_bytes(struct source *s)
{
	const bool begun = s->head_len > 0 && s->reply.status == 200;
	const int r = begun ? 1 : look(s);

	if (r == 0)
		return true;
	if (r == -ECONNREFUSED) {
		_cleanup_(buf_done) struct buf answer = BUF_INIT(REFUSAL_MAX + 1);
		const int status = s->reply.status;

		if (buf_add(&answer, s->in.data + s->head_len, (size_t)s->reply.length) < 0)
			return fail(s);
		source_close(s);
		s->settled = true;
		feed_source_failed(s, status, buf_str(&answer), answer.len);
		return true;
	}
	if (r < 0)
		return fail(s);
	if (!begun)
		buf_consume(&s->in, s->head_len);
	return join_chunks(s) < 0 ? fail(s) : take_events(s);
}

static bool receive(struct source *s)
{
	for (unsigned i = 0; s->worker && !s->paused; i++) {
		if (i == TURN_BLOCKS) { /* others wait, too */
			if (s->io.ops->pending(&s->io))
				(void)sd_event_source_set_enabled(s->more, SD_EVENT_ONESHOT);
			return true;
		}
		if (buf_reserve(&s->in, RELAY_BLOCK) < 0)
			return fail(s);
		const ssize_t n = s->io.ops->recv(&s->io, s->in.data + s->in.len, RELAY_BLOCK);
		if (n == -EAGAIN)
			return true;
		if (n <= 0)
			return fail(s);
		s->in.len += (size_t)n;
		if (!take_bytes(s))
			return false;
	}
	return true;
}

bool source_pump(struct source *s)
{
	if (!s->worker || !s->event || s->out.len > 0)
		return true;
	s->paused = false;
	if (!take_events(s))
		return false;
	if (!s->worker)
		return true;
	(void)sd_event_source_set_io_events(s->event, EPOLLIN);
	if (!receive(s))
		return false;
	/* Off, since epoll tells the end of a connection also to who wants nothing of it. */
	if (s->worker)
		(void)sd_event_source_set_enabled(s->event, s->paused ? SD_EVENT_OFF : SD_EVENT_ON);
	return true;
}

static int on_io(sd_event_source *source, int fd UNUSED, uint32_t revents UNUSED, void *user)
{
	struct source *s = user;

	loop_work("fleet", "feed");
	while (s->out.len > 0) {
		struct iovec iov = {s->out.data, s->out.len};
		const ssize_t n = s->io.ops->send(&s->io, &iov, 1, false);

		if (n == -EAGAIN) {
			(void)sd_event_source_set_io_events(source, EPOLLOUT);
			return 0;
		}
		if (n < 0) {
			(void)fail(s);
			return 0;
		}
		buf_consume(&s->out, (size_t)n);
	}
	(void)!source_pump(s);
	return 0;
}

static int on_more(sd_event_source *source UNUSED, void *user)
{
	loop_work("fleet", "feed");
	(void)!source_pump(user);
	return 0;
}

static void on_link(struct http_io *io, const char *why UNUSED, bool reused UNUSED, void *user)
{
	struct source *s = user;
	sd_event *loop = feed_router(s->feed)->config.loop;

	s->link = NULL;
	if (io)
		s->io = *io;
	if (!io || sd_event_add_io(loop, &s->event, s->io.fd, EPOLLIN | EPOLLOUT, on_io, s) < 0 ||
	    sd_event_add_defer(loop, &s->more, on_more, s) < 0 ||
	    sd_event_source_set_enabled(s->more, SD_EVENT_OFF) < 0)
		(void)fail(s);
}

void source_open(struct source *s, struct worker *w)
{
	struct fleet_router *f = feed_router(s->feed);
	struct err e = ERR_INIT;
	struct link *link;

	s->worker = w;
	w->n_fetches++;
	s->scanned = s->head_len = s->searched = 0;
	s->chunk = (struct http_chunk){0};
	s->paused = false;
	buf_init(&s->out, RELAY_BUF_MAX);
	buf_init(&s->in, IN_MAX);
	buf_init(&s->text, FEED_EVENT_MAX + RELAY_BLOCK);
	if (budget_take(f->config.budgets, feed_caller(s->feed)->owner, BUDGET_PORT_REQUESTS, 1,
			&s->share, &e) < 0 ||
	    feed_write_head(s->feed, s, &s->out) < 0) {
		source_close(s);
		s->settled = true;
		return;
	}
	/* A new connection: on a kept one that has just been closed this would only fail. */
	link_get(w, true, on_link, s, &link);
	if (link)
		s->link = link;
}
