/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/threads.h"

#include "base/fdio.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#define IDLE_S 60

/* What the threads and the loop share, under its lock. The last of them frees it. A job is in one of the lists, or a thread has
 * it. */
struct shared {
	pthread_mutex_t lock;
	pthread_cond_t work; /* a job waits, or the loop's end is being freed */
	struct egress_threads_use use;
	struct list waiting, done;
	unsigned threads, idle;
	unsigned waits; /* jobs that wait; a thread that was woken for one is idle until it runs */
	bool ended;
	int wake; /* eventfd: a job is done */
};

struct egress_threads {
	struct shared *shared;
	sd_event_source *io;
};

/* ---- in a thread ---- */

/* Under the lock. NULL: there was no job for a minute, or all ends. */
static struct egress_job *take(struct shared *s)
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
	struct egress_job *job = list_pop_first(&s->waiting, struct egress_job, node);
	s->waits--;
	job->state = EGRESS_JOB_TAKEN;
	return job;
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
	for (struct egress_job *job = take(s); job; job = take(s)) {
		(void)pthread_mutex_unlock(&s->lock);
		s->use.work(job);
		(void)pthread_mutex_lock(&s->lock);
		if (job->dropped) {
			s->use.free(job);
			continue;
		}
		job->state = EGRESS_JOB_DONE;
		list_append(&s->done, &job->node);
		if (eventfd_write(s->wake, 1) < 0)
			break; /* cannot happen: an eventfd counts to 2^64 */
	}
	s->threads--;
	leave(s);
	return NULL;
}

/* Under the lock. */
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
	    pthread_attr_setstacksize(&attr, s->use.stack_bytes) == 0 &&
	    pthread_create(&thread, &attr, work, s) == 0)
		s->threads++;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
}

/* ---- in the loop ---- */

static struct egress_job *take_done(struct shared *s)
{
	(void)pthread_mutex_lock(&s->lock);
	struct egress_job *job = list_pop_first(&s->done, struct egress_job, node);
	(void)pthread_mutex_unlock(&s->lock);
	return job;
}

static int on_wake(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	struct shared *s = ((struct egress_threads *)user)->shared;
	eventfd_t count;

	if (eventfd_read(fd, &count) < 0)
		return 0;
	/* One by one, because a callback may drop the next job. */
	for (struct egress_job *job = take_done(s); job; job = take_done(s))
		s->use.done(job, s->use.user);
	return 0;
}

void egress_threads_run(struct egress_threads *t, struct egress_job *job)
{
	struct shared *s = t->shared;

	list_init(&job->node);
	(void)pthread_mutex_lock(&s->lock);
	list_append(&s->waiting, &job->node);
	/* A thread that was woken counts as idle until it runs, and may hang with what it takes then. */
	if (++s->waits > s->idle && s->threads < s->use.max)
		start_thread(s);
	(void)pthread_cond_signal(&s->work);
	(void)pthread_mutex_unlock(&s->lock);
}

bool egress_threads_has(struct egress_threads *t, const struct egress_job *job)
{
	(void)pthread_mutex_lock(&t->shared->lock);
	const bool has = job->state == EGRESS_JOB_TAKEN;
	(void)pthread_mutex_unlock(&t->shared->lock);
	return has;
}

void egress_threads_drop(struct egress_threads *t, struct egress_job *job)
{
	struct shared *s = t->shared;

	(void)pthread_mutex_lock(&s->lock);
	const bool taken = job->state == EGRESS_JOB_TAKEN;
	s->waits -= job->state == EGRESS_JOB_WAITS;
	job->dropped = true;     /* if a thread has it, the thread frees it */
	list_remove(&job->node); /* it is in no list while a thread has it */
	(void)pthread_mutex_unlock(&s->lock);
	if (!taken)
		s->use.free(job);
}

void egress_threads_free(struct egress_threads *t)
{
	if (!t)
		return;
	(void)sd_event_source_disable_unref(t->io);
	if (t->shared) {
		(void)pthread_mutex_lock(&t->shared->lock);
		t->shared->ended = true;
		(void)pthread_cond_broadcast(&t->shared->work);
		leave(t->shared);
	}
	free(t);
}

static struct shared *new_shared(const struct egress_threads_use *use)
{
	struct shared *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;

	if (!s)
		return NULL;
	s->use = *use;
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

struct egress_threads *egress_threads_new(sd_event *loop, const struct egress_threads_use *use)
{
	struct egress_threads *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->shared = new_shared(use);
	if (t->shared && sd_event_add_io(loop, &t->io, t->shared->wake, EPOLLIN, on_wake, t) >= 0)
		return t;
	egress_threads_free(t);
	return NULL;
}
