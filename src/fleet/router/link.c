/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to workers: made when a request needs one, and kept for the next. */
#include "fleet/router/parts.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "http/tls_io.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define CONNECT_US (UINT64_C(2) * 1000 * 1000) /* with the handshake */

struct link {
	struct list node; /* of worker.links */
	struct worker *worker;
	struct http_io io;
	sd_event_source *source, *patience;
	link_fn fn; /* NULL: idle */
	void *user;
	bool connected;    /* the handshake has begun */
	uint64_t since_ns; /* idle */
};

static void count_idle(struct worker *w, int n)
{
	w->n_idle += (unsigned)n;
	w->router->n_idle += (unsigned)n;
}

static void close_link(struct link *l)
{
	l->source = sd_event_source_disable_unref(l->source);
	l->patience = sd_event_source_disable_unref(l->patience);
	list_remove(&l->node);
	if (!l->fn)
		count_idle(l->worker, -1);
	if (l->io.fd >= 0)
		l->io.ops->close(&l->io, false);
	free(l);
}

void link_drop(struct link *l)
{
	close_link(l);
}

static void fail(struct link *l, const char *why)
{
	const link_fn fn = l->fn;
	void *user = l->user;

	close_link(l);
	fn(NULL, why, false, user);
}

/* ---- connecting ---- */

static void give(struct link *l, bool reused)
{
	struct http_io io = l->io;
	const link_fn fn = l->fn;
	void *user = l->user;

	l->io.fd = -1;
	l->io.tls = NULL;
	close_link(l);
	fn(&io, NULL, reused, user);
}

static void shake(struct link *l)
{
	const int r = http_tls_client_shake(&l->io);

	if (r == -EAGAIN)
		(void)sd_event_source_set_io_events(l->source,
						    l->io.wants_room ? EPOLLOUT : EPOLLIN);
	else if (r == -EKEYREJECTED)
		fail(l, "its certificate is not one of a worker of this fleet");
	else if (r < 0)
		fail(l, "it ended the TLS handshake");
	else
		give(l, false);
}

static int on_connecting(sd_event_source *source UNUSED, int fd, uint32_t revents UNUSED,
			 void *user)
{
	struct link *l = user;
	int error = 0;
	socklen_t len = sizeof(error);

	loop_work("fleet", "connect");
	if (!l->connected) {
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
			error = errno;
		if (error != 0) {
			worker_doubt(l->worker);
			fail(l, strerror(error));
			return 0;
		}
		l->connected = true;
		if (http_tls_client_begin(&l->io, l->worker->router->config.tls, NULL) < 0) {
			fail(l, "no memory");
			return 0;
		}
	}
	shake(l);
	return 0;
}

static int on_late(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct link *l = user;

	worker_doubt(l->worker);
	fail(l, "it did not take the connection in time");
	return 0;
}

static int open_socket(struct link *l)
{
	const struct fleet_address *at = &l->worker->at;
	const int on = 1;

	l->io.fd = socket(at->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->io.fd < 0)
		return -errno;
	(void)setsockopt(l->io.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(l->io.fd, &at->address.any, at->len) < 0 && errno != EINPROGRESS)
		return -errno;
	sd_event *loop = l->worker->router->config.loop;
	const int r = sd_event_add_io(loop, &l->source, l->io.fd, EPOLLOUT, on_connecting, l);
	return r < 0 ? r
		     : sd_event_add_time_relative(loop, &l->patience, CLOCK_MONOTONIC, CONNECT_US,
						  0, on_late, l);
}

static struct link *link_new(struct worker *w, link_fn fn, void *user)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->worker = w;
	l->io = (struct http_io){.ops = &http_plain_io, .fd = -1};
	l->fn = fn;
	l->user = user;
	list_prepend(&w->links, &l->node);
	return l;
}

/* ---- idle ---- */

/* The worker says something unasked: a ticket of TLS, which the library takes, or its end. */
static bool has_ended(struct link *l)
{
	char byte;

	return l->io.ops->recv(&l->io, &byte, sizeof(byte)) != -EAGAIN;
}

static int on_idle(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		   void *user)
{
	struct link *l = user;

	loop_work("fleet", "idle");
	if (has_ended(l))
		close_link(l);
	return 0;
}

static struct link *take_idle(struct worker *w)
{
	list_for_each(node, &w->links) {
		struct link *l = list_entry(node, struct link, node);

		if (l->fn)
			continue;
		if (!has_ended(l))
			return l;
		close_link(l);
	}
	return NULL;
}

/* What this machine has no more of says nothing about the worker. */
static bool is_our_lack(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -ENOBUFS || r == -EADDRNOTAVAIL;
}

void link_get(struct worker *w, bool fresh, link_fn fn, void *user, struct link **ret)
{
	struct link *l = fresh ? NULL : take_idle(w);

	*ret = NULL;
	if (l) {
		l->fn = fn;
		l->user = user;
		count_idle(w, -1);
		give(l, true);
		return;
	}
	l = link_new(w, fn, user);
	const int r = l ? open_socket(l) : -ENOMEM;
	if (r == 0) {
		*ret = l;
		return;
	}
	if (l)
		close_link(l);
	if (!is_our_lack(r))
		worker_doubt(w);
	fn(NULL, strerror(-r), false, user);
}

void link_put(struct worker *w, struct http_io *io)
{
	const bool room = w->n_idle < FLEET_IDLE_MAX && w->router->n_idle < FLEET_IDLE_TOTAL;
	/* The peer of one that began before a SIGHUP may have a certificate of an authority that counts no more. */
	const bool ours = http_tls_is_of(io, w->router->config.tls);
	struct link *l = w->listed && room && ours ? link_new(w, NULL, NULL) : NULL;

	if (!l) {
		io->ops->close(io, false);
		return;
	}
	l->io = *io;
	l->since_ns = now_ns();
	count_idle(w, 1);
	if (sd_event_add_io(w->router->config.loop, &l->source, l->io.fd, EPOLLIN, on_idle, l) < 0)
		close_link(l);
}

void links_tidy(struct worker *w, bool all)
{
	const uint64_t now = now_ns();

	list_for_each(node, &w->links) {
		struct link *l = list_entry(node, struct link, node);

		if (!l->fn && (all || now - l->since_ns >= FLEET_IDLE_S * NS_PER_S))
			close_link(l);
	}
}
