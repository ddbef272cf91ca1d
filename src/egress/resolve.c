/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver of the machine, in a few threads.
 *
 * getaddrinfo(3) follows nsswitch.conf, /etc/hosts and resolv.conf like every other program of the
 * machine, but it blocks. The front may not start processes, so threads call it. They use only `struct
 * shared`, under its lock. A query that was cancelled is freed by whichever side finds it next. A thread is
 * never interrupted: the timeouts of resolv.conf end its call. */
#include "egress/resolve.h"

#include "base/fdio.h"
#include "base/list.h"
#include "egress/egress.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#define QUERIES_MAX 256u
#define STACK_BYTES (512u << 10)
#define IDLE_S      60

enum query_state { QUERY_WAITS, QUERY_ASKED, QUERY_ANSWERED };

struct egress_query {
	struct workers *all;
	struct list node;       /* of struct shared: waiting or answered */
	enum query_state state; /* under the lock */
	bool dropped;           /* under the lock: cancelled */
	char name[EGRESS_HOST_MAX + 1];
	egress_answer_fn cb;
	void *user;
	size_t n;
	struct egress_address addresses[EGRESS_ANSWER_MAX];
};

/* What the threads and the loop share. The last of them frees it. */
struct shared {
	pthread_mutex_t lock;
	pthread_cond_t work; /* a query waits, or the resolver is being freed */
	struct list waiting, answered;
	unsigned threads, idle, n_waiting;
	bool ended;
	int wake; /* eventfd: there is an answer */
};

struct workers {
	struct egress_resolver resolver; /* first */
	sd_event *loop;
	struct shared *shared;
	sd_event_source *io;
	unsigned n; /* queries that were not cancelled */
};

/* ---- in a thread ---- */

static void ask_machine(struct egress_query *q)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;

	if (getaddrinfo(q->name, NULL, &hints, &all) != 0)
		return;
	for (const struct addrinfo *a = all; a; a = a->ai_next) {
		if (q->n == EGRESS_ANSWER_MAX) {
			q->n = 0; /* too many: we could not check all addresses */
			break;
		}
		if (egress_address_from(a->ai_addr, &q->addresses[q->n]))
			q->n++;
	}
	freeaddrinfo(all);
}

/* Under the lock. Returns the next query; NULL: there was none for a minute, or the resolver is being freed. */
static struct egress_query *take(struct shared *s)
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
	struct egress_query *q = list_pop_first(&s->waiting, struct egress_query, node);
	s->n_waiting--;
	q->state = QUERY_ASKED;
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
	for (struct egress_query *q = take(s); q; q = take(s)) {
		(void)pthread_mutex_unlock(&s->lock);
		ask_machine(q);
		(void)pthread_mutex_lock(&s->lock);
		if (q->dropped) {
			free(q);
			continue;
		}
		q->state = QUERY_ANSWERED;
		list_append(&s->answered, &q->node);
		if (eventfd_write(s->wake, 1) < 0)
			break; /* cannot happen: an eventfd counts to 2^64 */
	}
	s->threads--;
	leave(s);
	return NULL;
}

/* Under the lock. If no thread can be made, the existing ones will serve the query. */
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

static struct egress_query *take_answered(struct shared *s)
{
	(void)pthread_mutex_lock(&s->lock);
	struct egress_query *q = list_pop_first(&s->answered, struct egress_query, node);
	(void)pthread_mutex_unlock(&s->lock);
	return q;
}

static int on_wake(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	struct workers *all = user;
	struct shared *s = all->shared;
	eventfd_t count;

	if (eventfd_read(fd, &count) < 0)
		return 0;
	/* One by one, because a callback may cancel the next query. */
	for (struct egress_query *q = take_answered(s); q; q = take_answered(s)) {
		all->n--;
		q->cb(q->addresses, q->n, q->user);
		free(q);
	}
	return 0;
}

static struct egress_query *ask(struct egress_resolver *resolver, const char *name,
				egress_answer_fn cb, void *user)
{
	struct workers *all = (struct workers *)resolver;
	struct shared *s = all->shared;
	struct egress_query *q = all->n < QUERIES_MAX ? calloc(1, sizeof(*q)) : NULL;

	if (!q)
		return NULL;
	list_init(&q->node);
	q->all = all;
	q->cb = cb;
	q->user = user;
	memcpy(q->name, name, strnlen(name, EGRESS_HOST_MAX));
	all->n++;
	(void)pthread_mutex_lock(&s->lock);
	list_append(&s->waiting, &q->node);
	/* A thread that was woken counts as idle until it runs, and may hang with what it takes then. */
	if (++s->n_waiting > s->idle && s->threads < EGRESS_WORKERS)
		start_thread(s);
	(void)pthread_cond_signal(&s->work);
	(void)pthread_mutex_unlock(&s->lock);
	return q;
}

static void cancel(struct egress_query *q)
{
	struct workers *all = q->all;
	struct shared *s = all->shared;

	all->n--;
	(void)pthread_mutex_lock(&s->lock);
	bool asked = q->state == QUERY_ASKED;
	s->n_waiting -= q->state == QUERY_WAITS;
	q->dropped = true;     /* if a thread works on it, the thread frees it */
	list_remove(&q->node); /* it is in no list while a thread works on it */
	(void)pthread_mutex_unlock(&s->lock);
	if (!asked)
		free(q);
}

static void free_all(struct egress_resolver *resolver)
{
	struct workers *all = (struct workers *)resolver;
	struct shared *s = all->shared;

	ASSERT(all->n == 0);
	(void)sd_event_source_disable_unref(all->io);
	free(all);
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
	list_init(&s->answered);
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

struct egress_resolver *egress_resolver_new(sd_event *loop)
{
	struct workers *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->resolver = (struct egress_resolver){.ask = ask, .cancel = cancel, .free = free_all};
	all->loop = loop;
	all->shared = new_shared();
	if (!all->shared ||
	    sd_event_add_io(loop, &all->io, all->shared->wake, EPOLLIN, on_wake, all) < 0) {
		if (all->shared) {
			all->shared->ended = true;
			(void)pthread_mutex_lock(&all->shared->lock);
			leave(all->shared);
		}
		free(all);
		return NULL;
	}
	return &all->resolver;
}
