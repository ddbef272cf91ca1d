/* SPDX-License-Identifier: Apache-2.0 */
/* A call is in the list of the loop until it was answered, and meanwhile waits for a thread, is with one, or is
 * done. The threads use `struct shared` under its lock, and the call that they have taken. A call that was cancelled
 * is freed by whichever side finds it next. A thread that hangs is freed by shutdown(2): on a listening socket it
 * ends every accept(2) with EINVAL. */
#include "egress/accept.h"

#include "base/fdio.h"
#include "base/list.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define THREADS_MAX 4u
#define STACK_BYTES (128u << 10)
#define IDLE_S      60
#define LOOK_US     (500 * 1000)
#define LOOKS_MOST  4u

enum call_state { CALL_WAITS, CALL_TAKEN, CALL_DONE };

struct egress_accept {
	struct list node;      /* of struct shared: waiting or done */
	struct list call;      /* of struct egress_acceptor */
	enum call_state state; /* under the lock */
	bool dropped;          /* under the lock: cancelled */
	struct egress_acceptor *all;
	unsigned
	    looks; /* of the loop: so many in a row found it with a thread that had nothing to accept */
	int fd; /* a copy of the gate's */
	unsigned max;
	size_t n;
	int error;
	int clients[EGRESS_ACCEPT_MAX];
	egress_accepted_fn cb;
	void *user;
};

/* What the threads and the loop share. The last of them frees it. */
struct shared {
	pthread_mutex_t lock;
	pthread_cond_t work; /* a call waits, or the acceptor is being freed */
	struct list waiting, done;
	unsigned threads, idle;
	unsigned waits; /* calls that wait; a thread that was woken for one is idle until it runs */
	bool ended;
	int wake; /* eventfd: a call is done */
};

struct egress_acceptor {
	struct shared *shared;
	struct list calls; /* that were not answered */
	sd_event_source *io, *timer;
};

static void call_free(struct egress_accept *q)
{
	fd_close_many(q->clients, q->n);
	(void)fd_close(q->fd);
	free(q);
}

/* ---- in a thread ---- */

static void accept_some(struct egress_accept *q)
{
	while (q->n < q->max && q->error == 0) {
		/* cppcheck-suppress nullPointer ; accept(2) allows NULL */
		int client = accept4(q->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client >= 0)
			q->clients[q->n++] = client;
		else if (errno != EINTR && errno != ECONNABORTED)
			q->error = errno;
	}
}

/* Under the lock. NULL: there was no call for a minute, or the acceptor is being freed. */
static struct egress_accept *take(struct shared *s)
{
	struct timespec until;
	int r = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += IDLE_S;
	while (list_is_empty(&s->waiting) && !s->ended && r == 0) {
		s->idle++;
		r = pthread_cond_timedwait(&s->work, &s->lock, &until);
		s->idle--;
	}
	if (s->ended || list_is_empty(&s->waiting))
		return NULL;
	struct egress_accept *q = list_pop_first(&s->waiting, struct egress_accept, node);
	s->waits--;
	q->state = CALL_TAKEN;
	return q;
}

/* Called under the lock, which it releases. */
static void leave(struct shared *s)
{
	bool last = s->ended && s->threads == 0;

	(void)pthread_mutex_unlock(&s->lock);
	if (!last)
		return;
	(void)pthread_cond_destroy(&s->work);
	(void)pthread_mutex_destroy(&s->lock);
	(void)fd_close(s->wake);
	free(s);
}

static void *work(void *user)
{
	struct shared *s = user;

	(void)pthread_mutex_lock(&s->lock);
	for (struct egress_accept *q = take(s); q; q = take(s)) {
		(void)pthread_mutex_unlock(&s->lock);
		accept_some(q);
		(void)pthread_mutex_lock(&s->lock);
		if (q->dropped) {
			call_free(q);
			continue;
		}
		q->state = CALL_DONE;
		list_append(&s->done, &q->node);
		if (eventfd_write(s->wake, 1) < 0)
			break; /* cannot happen: an eventfd counts to 2^64 */
	}
	s->threads--;
	leave(s);
	return NULL;
}

/* Under the lock. If no thread can be made, the existing ones will serve the call. */
static void start_thread(struct shared *s)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;

	if (pthread_attr_init(&attr) != 0)
		return;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old); /* only the loop takes signals */
	if (pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 &&
	    pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 &&
	    pthread_create(&thread, &attr, work, s) == 0)
		s->threads++;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
}

/* ---- in the loop ---- */

static struct egress_accept *take_done(struct shared *s)
{
	(void)pthread_mutex_lock(&s->lock);
	struct egress_accept *q = list_pop_first(&s->done, struct egress_accept, node);
	(void)pthread_mutex_unlock(&s->lock);
	return q;
}

static int on_wake(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	struct egress_acceptor *a = user;
	eventfd_t count;

	if (eventfd_read(fd, &count) < 0)
		return 0;
	/* One by one, because a callback may cancel the next call. */
	for (struct egress_accept *q = take_done(a->shared); q; q = take_done(a->shared)) {
		list_remove(&q->call);
		q->cb(q->clients, q->n, q->error, q->user);
		q->n = 0; /* they are the callback's */
		call_free(q);
	}
	return 0;
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

	(void)pthread_mutex_lock(&a->shared->lock);
	list_for_each(l, &a->calls) {
		struct egress_accept *q = list_entry(l, struct egress_accept, call);

		q->looks = q->state == CALL_TAKEN && !is_readable(q->fd) ? q->looks + 1 : 0;
		if (q->looks >= LOOKS_MOST)
			(void)shutdown(q->fd, SHUT_RDWR);
	}
	(void)pthread_mutex_unlock(&a->shared->lock);
	if (list_is_empty(&a->calls))
		return 0;
	(void)sd_event_source_set_time_relative(source, LOOK_US);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

struct egress_accept *egress_accept_begin(struct egress_acceptor *a, int fd, unsigned max,
					  egress_accepted_fn cb, void *user)
{
	struct shared *s = a->shared;
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
	list_init(&q->node);
	list_append(&a->calls, &q->call);
	(void)pthread_mutex_lock(&s->lock);
	list_append(&s->waiting, &q->node);
	if (++s->waits > s->idle && s->threads < THREADS_MAX)
		start_thread(s);
	(void)pthread_cond_signal(&s->work);
	(void)pthread_mutex_unlock(&s->lock);
	if (sd_event_source_get_enabled(a->timer, &enabled) >= 0 && enabled == SD_EVENT_OFF) {
		(void)sd_event_source_set_time_relative(a->timer, LOOK_US);
		(void)sd_event_source_set_enabled(a->timer, SD_EVENT_ONESHOT);
	}
	return q;
}

void egress_accept_cancel(struct egress_accept *q)
{
	struct shared *s = q->all->shared;

	list_remove(&q->call);
	(void)shutdown(q->fd, SHUT_RDWR);
	(void)pthread_mutex_lock(&s->lock);
	bool taken = q->state == CALL_TAKEN;
	s->waits -= q->state == CALL_WAITS;
	q->dropped = true;     /* if a thread has it, the thread frees it */
	list_remove(&q->node); /* it is in no list while a thread has it */
	(void)pthread_mutex_unlock(&s->lock);
	if (!taken)
		call_free(q);
}

void egress_acceptor_free(struct egress_acceptor *a)
{
	struct shared *s = a ? a->shared : NULL;

	if (!a)
		return;
	ASSERT(list_is_empty(&a->calls));
	(void)sd_event_source_disable_unref(a->io);
	(void)sd_event_source_disable_unref(a->timer);
	free(a);
	if (!s)
		return;
	(void)pthread_mutex_lock(&s->lock);
	s->ended = true;
	(void)pthread_cond_broadcast(&s->work);
	leave(s);
}

static struct shared *new_shared(void)
{
	struct shared *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;

	if (!s)
		return NULL;
	list_init(&s->waiting);
	list_init(&s->done);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake >= 0 && pthread_condattr_init(&attr) == 0) {
		int r = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		r = r == 0 ? pthread_cond_init(&s->work, &attr) : r;
		(void)pthread_condattr_destroy(&attr);
		if (r == 0 && pthread_mutex_init(&s->lock, NULL) == 0)
			return s;
	}
	(void)fd_close(s->wake);
	free(s);
	return NULL;
}

struct egress_acceptor *egress_acceptor_new(sd_event *loop)
{
	struct egress_acceptor *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	list_init(&a->calls);
	a->shared = new_shared();
	int r = a->shared ? sd_event_add_io(loop, &a->io, a->shared->wake, EPOLLIN, on_wake, a)
			  : -ENOMEM;
	r = r < 0 ? r
		  : sd_event_add_time_relative(loop, &a->timer, CLOCK_MONOTONIC, LOOK_US,
					       LOOK_US / 4, on_look, a);
	if (r >= 0)
		return a;
	egress_acceptor_free(a);
	return NULL;
}
