/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/front/inside/channel.h"

#include "base/fdio.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/tenant_fd.h"
#include "base/workers.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static const char *const names[] = {
#define M(name, source, target, type, n_most, served, what) [PROTO_##name] = #name,
#include "engine/protocol/messages.tbl.h"
#undef M
};

struct queued {
	struct list node; /* of the channel */
	size_t n;
	int fds[PROTO_FDS_MAX];
	size_t size;
	char data[];
};

struct channel {
	int fd;
	char who[WORKERS_WHO_SIZE]; /* for threads: each channel pays for itself */
	enum proto_party peer;
	sd_event_source *source;
	channel_message_fn on_message;
	channel_end_fn on_end;
	void *user;
	struct list queue; /* of struct queued: messages that wait, oldest first */
	size_t n_queued;
	bool ended;
	bool *freed; /* set while a callback runs: it may free the channel */
};

/* What was received and not taken, or was not sent: it may be the last descriptor of a file that the other side has
 * removed. */
static void close_received(const char *who, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		workers_close(who, fds[i]);
}

/* What was sent has another holder. */
static void queued_free(struct queued *q)
{
	fd_close_many(q->fds, q->n);
	free(q);
}

static void drop_queue(struct channel *c)
{
	list_for_each(l, &c->queue) {
		struct queued *q = list_entry(l, struct queued, node);

		close_received(c->who, q->fds, q->n);
		free(q);
	}
	list_init(&c->queue);
	c->n_queued = 0;
}

static void end(struct channel *c, int error)
{
	if (c->ended)
		return;
	c->ended = true;
	drop_queue(c);
	(void)sd_event_source_set_enabled(c->source, SD_EVENT_OFF);
	c->on_end(error, c->user);
}

static int flush(struct channel *c)
{
	list_for_each(l, &c->queue) {
		struct queued *q = list_entry(l, struct queued, node);
		ssize_t n = fd_send(c->fd, q->data, q->size, q->fds, q->n, MSG_DONTWAIT);
		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
		list_remove(l);
		c->n_queued--;
		queued_free(q);
	}
	return sd_event_source_set_io_events(c->source, EPOLLIN);
}

static int receive(struct channel *c)
{
	static union proto_frame f; /* one loop, one thread */
	char who[WORKERS_WHO_SIZE]; /* the callback may free C */
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;

	memcpy(who, c->who, sizeof(who));
	ssize_t n = fd_recv_all(c->fd, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);

	if (n == -EAGAIN)
		return 0;
	for (size_t i = 0; i < n_fds && c->peer == PROTO_PARTY_I; i++)
		tenant_fd_note(fds[i]);
	if (n <= 0)
		close_received(who, fds, n_fds);
	if (n <= 0)
		return n == 0 ? -EPIPE : (int)n;
	if (proto_check(&f, (size_t)n, n_fds, c->peer, PROTO_PARTY_F) < 0) {
		close_received(who, fds, n_fds);
		return -EPROTO;
	}
	loop_work("message", names[f.head.type]);
	int r = c->on_message(&f, fds, n_fds, c->user);
	close_received(who, fds, n_fds); /* what the callback has not taken */
	return r;
}

static int on_event(sd_event_source *s UNUSED, int fd UNUSED, uint32_t revents, void *user)
{
	struct channel *c = user;
	bool freed = false;
	int r = 0;

	if (revents & EPOLLOUT)
		r = flush(c);
	if (r == 0 && (revents & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
		c->freed = &freed;
		r = receive(c);
		if (freed)
			return 0;
		c->freed = NULL;
	}
	if (r < 0)
		end(c, r);
	return 0;
}

int channel_new(sd_event *loop, int fd, enum proto_party peer, channel_message_fn on_message,
		channel_end_fn on_end, void *user, struct channel **ret)
{
	_cleanup_fd_ int owned = fd;
	_cleanup_free_ struct channel *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct channel){
	    .peer = peer, .on_message = on_message, .on_end = on_end, .user = user};
	list_init(&c->queue);
	static uint64_t count;
	(void)snprintf(c->who, sizeof(c->who), "channel %ju", (uintmax_t)++count);
	int r = sd_event_add_io(loop, &c->source, owned, EPOLLIN, on_event, c);
	if (r < 0)
		return r;
	c->fd = TAKE_FD(owned);
	*ret = TAKE_PTR(c);
	return 0;
}

static int enqueue(struct channel *c, const struct proto_head *frame, int *fds, size_t n)
{
	if (c->n_queued == CHANNEL_QUEUE_MAX)
		return -ENOBUFS;
	struct queued *q = malloc(sizeof(*q) + frame->size);
	if (!q)
		return -ENOMEM;
	*q = (struct queued){.n = n, .size = frame->size};
	for (size_t i = 0; i < n; i++)
		q->fds[i] = TAKE_FD(fds[i]);
	memcpy(q->data, frame, frame->size);
	list_append(&c->queue, &q->node);
	c->n_queued++;
	return sd_event_source_set_io_events(c->source, EPOLLIN | EPOLLOUT);
}

int channel_send(struct channel *c, const struct proto_head *frame, int *fds, size_t n)
{
	int r = c->ended ? -EPIPE : 0;

	ASSERT(n <= PROTO_FDS_MAX);
	if (r == 0 && list_is_empty(&c->queue)) {
		ssize_t sent = fd_send(c->fd, frame, frame->size, fds, n, MSG_DONTWAIT);
		r = sent < 0 ? (int)sent : 0;
		if (r == 0)
			fd_close_many(fds, n);
	} else if (r == 0) {
		r = -EAGAIN;
	}
	if (r == -EAGAIN)
		r = enqueue(c, frame, fds, n); /* takes them */
	if (r < 0)
		close_received(c->who, fds, n);
	return r;
}

const char *channel_payer(const struct channel *c)
{
	return c->who;
}

int channel_fd(const struct channel *c)
{
	return c->fd;
}

struct channel *channel_free(struct channel *c)
{
	if (!c)
		return NULL;
	if (c->freed)
		*c->freed = true;
	drop_queue(c);
	(void)sd_event_source_disable_unref(c->source);
	workers_close(c->who, c->fd); /* it may hold descriptors that were not received */
	free(c);
	return NULL;
}
