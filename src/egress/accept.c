/* SPDX-License-Identifier: Apache-2.0 */
/* A call is in the list of the loop until it was answered or cancelled. A thread that hangs is freed by shutdown(2): on a
 * listening socket it ends every accept(2) with EINVAL. */
#include "egress/accept.h"

#include "base/fdio.h"
#include "base/list.h"
#include "egress/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define THREADS_MAX 4u
#define STACK_BYTES (128u << 10)
#define LOOK_US     (500 * 1000)
#define LOOKS_MOST  4u

struct egress_accept {
	struct egress_job job; /* first */
	struct list call;      /* of struct egress_acceptor */
	struct egress_acceptor *all;
	unsigned looks; /* so many in a row found it with a thread that had nothing to accept */
	int fd;         /* a copy of the gate's */
	unsigned max;
	size_t n;
	int error;
	int clients[EGRESS_ACCEPT_MAX];
	egress_accepted_fn cb;
	void *user;
};

struct egress_acceptor {
	struct egress_threads *threads;
	struct list calls; /* that were not answered */
	sd_event_source *timer;
};

static void call_free(struct egress_job *job)
{
	struct egress_accept *q = (struct egress_accept *)job;

	fd_close_many(q->clients, q->n);
	(void)fd_close(q->fd);
	free(q);
}

/* In a thread. */
static void accept_some(struct egress_job *job)
{
	struct egress_accept *q = (struct egress_accept *)job;

	while (q->n < q->max && q->error == 0) {
		/* cppcheck-suppress nullPointer ; accept(2) allows NULL */
		int client = accept4(q->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client >= 0)
			q->clients[q->n++] = client;
		else if (errno != EINTR && errno != ECONNABORTED)
			q->error = errno;
	}
}

static void on_accepted(struct egress_job *job, void *user UNUSED)
{
	struct egress_accept *q = (struct egress_accept *)job;

	list_remove(&q->call);
	q->cb(q->clients, q->n, q->error, q->user);
	q->n = 0; /* they are the callback's */
	call_free(job);
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Ends the calls that hang. Looks are counted, not seconds: a machine that stood still, or a thread that got no
 * processor while a connection waits, is no socket that hangs, and the sandbox would be without its way out. */
static int on_look(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct egress_acceptor *a = user;

	list_for_each(l, &a->calls) {
		struct egress_accept *q = list_entry(l, struct egress_accept, call);
		const bool hangs = egress_threads_has(a->threads, &q->job) && !is_readable(q->fd);

		q->looks = hangs ? q->looks + 1 : 0;
		if (q->looks >= LOOKS_MOST)
			(void)shutdown(q->fd, SHUT_RDWR);
	}
	if (list_is_empty(&a->calls))
		return 0;
	(void)sd_event_source_set_time_relative(source, LOOK_US);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

struct egress_accept *egress_accept_begin(struct egress_acceptor *a, int fd, unsigned max,
					  egress_accepted_fn cb, void *user)
{
	struct egress_accept *q = calloc(1, sizeof(*q));
	int enabled = SD_EVENT_OFF;

	if (!q)
		return NULL;
	q->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (q->fd < 0) {
		free(q);
		return NULL;
	}
	q->all = a;
	q->max = MIN(max, EGRESS_ACCEPT_MAX);
	q->cb = cb;
	q->user = user;
	list_append(&a->calls, &q->call);
	egress_threads_run(a->threads, &q->job);
	if (sd_event_source_get_enabled(a->timer, &enabled) >= 0 && enabled == SD_EVENT_OFF) {
		(void)sd_event_source_set_time_relative(a->timer, LOOK_US);
		(void)sd_event_source_set_enabled(a->timer, SD_EVENT_ONESHOT);
	}
	return q;
}

void egress_accept_cancel(struct egress_accept *q)
{
	list_remove(&q->call);
	(void)shutdown(q->fd, SHUT_RDWR);
	egress_threads_drop(q->all->threads, &q->job);
}

void egress_acceptor_free(struct egress_acceptor *a)
{
	if (!a)
		return;
	ASSERT(list_is_empty(&a->calls));
	(void)sd_event_source_disable_unref(a->timer);
	egress_threads_free(a->threads);
	free(a);
}

struct egress_acceptor *egress_acceptor_new(sd_event *loop)
{
	struct egress_acceptor *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	list_init(&a->calls);
	a->threads =
	    egress_threads_new(loop, &(struct egress_threads_use){.max = THREADS_MAX,
								  .stack_bytes = STACK_BYTES,
								  .work = accept_some,
								  .done = on_accepted,
								  .free = call_free});
	if (a->threads && sd_event_add_time_relative(loop, &a->timer, CLOCK_MONOTONIC, LOOK_US,
						     LOOK_US / 4, on_look, a) >= 0)
		return a;
	egress_acceptor_free(a);
	return NULL;
}
