/* SPDX-License-Identifier: Apache-2.0 */
/* The loop alone decides which job runs where: all lists are its own, and no lock is shared with a thread, because a
 * thread that the kernel stops while it has a lock would stop the loop as well. Two things are shared. A slot, by which
 * a thread gets one job at a time; and a stack onto which threads push what has ended (a Treiber stack; only the loop
 * takes, and always all, so no node can come back meanwhile).
 *
 * A payer is in the ring of the pool while it has a job that waits and fewer than WORKERS_EACH that run. A thread
 * without a job gets the oldest one of the payer at the head of the ring, which then goes to the end. Payers with no
 * job are freed. */
#include "base/workers.h"

#include "base/fdio.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/slice.h"
#include "base/text.h"
#include "base/walls.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define STACK_BYTES   (256u << 10)
#define FREE_STEP     (1u << 20)
#define DELIVER_NS    NS_PER_MS
#define PAYER_SHELVES 64u

struct payer {
	struct list shelf; /* all with the same hash */
	struct list ring;  /* of the pool, or in no list */
	struct list jobs;  /* that wait */
	unsigned waiting, running;
	char who[WORKERS_WHO_SIZE];
};

struct slot;
struct job {
	struct list node;  /* of the payer, then of the pool's done list */
	struct job *below; /* in the stack */
	struct payer *payer;
	struct slot *slot;
	void (*fn)(void *user);
	void (*done)(void *user); /* NULL: nobody waits for it */
	void *user;
};

/* Of one thread. JOB is what it was given last, until the loop has taken that from the stack; NULL: it waits for one;
 * GONE: there is no thread, or it ends. The loop sets it and then posts WORK; the thread changes only NULL to GONE. */
struct slot {
	_Atomic(struct job *) job;
	sem_t work;
	pthread_t thread;
	bool made; /* and not joined yet */
};
static struct job gone, coming;
#define GONE   (&gone)
#define COMING (&coming) /* neither NULL nor GONE, so the thread stays */

static struct {
	_Atomic(struct job *) ended; /* the stack; the last one on top */
	struct slot slots[WORKERS_MAX];
	int nice; /* of threads */
	struct list shelves[PAYER_SHELVES];
	struct list ring;
	struct list done; /* jobs whose DONE is next */
	unsigned waiting, running;
	uint64_t counted;
	bool open;
	bool ending; /* turns are not told: each line of the log would be another job */
	int wake;
} pool;

/* ---- payers ---- */

static struct list *shelf_of(const char *who)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *who; who++)
		h = (h ^ (unsigned char)*who) * 16777619u;
	return &pool.shelves[h % PAYER_SHELVES];
}

static struct payer *payer_get(const char *name)
{
	char who[WORKERS_WHO_SIZE];

	(void)snprintf(who, sizeof(who), "%s", name ? name : "");
	struct list *shelf = shelf_of(who);
	list_for_each(n, shelf) {
		struct payer *p = list_entry(n, struct payer, shelf);

		if (streq(p->who, who))
			return p;
	}
	struct payer *p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	list_init(&p->ring);
	list_init(&p->jobs);
	memcpy(p->who, who, sizeof(p->who));
	list_append(shelf, &p->shelf);
	return p;
}

/* Puts P where it belongs after its counts have changed; may free it. */
static void payer_settle(struct payer *p)
{
	const bool may_run = p->waiting > 0 && p->running < WORKERS_EACH;

	if (may_run && list_is_empty(&p->ring)) {
		list_append(&pool.ring, &p->ring);
	} else if (!may_run) {
		list_remove(&p->ring);
		if (p->waiting + p->running == 0) {
			list_remove(&p->shelf);
			free(p);
		}
	}
}

/* ---- on a thread ---- */

/* NULL: there was no job for WORKERS_IDLE_S, or the pool ends. */
static struct job *job_wait(struct slot *s)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WORKERS_IDLE_S;
	while (sem_clockwait(&s->work, CLOCK_MONOTONIC, &until) < 0) {
		struct job *idle = NULL;

		if (errno == EINTR)
			continue;
		if (atomic_compare_exchange_strong(&s->job, &idle, GONE))
			return NULL;
		until.tv_sec +=
		    WORKERS_IDLE_S; /* the loop has not looked at the last job yet, or just gave one */
	}
	struct job *j = atomic_load(&s->job);
	return j == GONE ? NULL : j;
}

/* The loop may free J as soon as it is on the stack. */
static void job_push(struct job *j)
{
	struct job *top = atomic_load(&pool.ended);

	do
		j->below = top;
	while (!atomic_compare_exchange_weak(&pool.ended, &top, j));
	if (!top)
		(void)eventfd_write(pool.wake, 1);
}

static void *thread_main(void *arg)
{
	struct slot *s = arg;

	(void)prctl(PR_SET_NAME, "worker");
	/* Where processors are few, the loop comes first, and what a request waits for comes before what computes. */
	(void)!slice_short(pool.nice);
	for (struct job *j = job_wait(s); j; j = job_wait(s)) {
		j->fn(j->user);
		job_push(j);
	}
	return NULL;
}

/* ---- giving jobs to threads ---- */

static int thread_start(struct slot *s)
{
	pthread_attr_t attr;
	sigset_t all, old;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	(void)sem_init(&s->work, 0, 0);
	atomic_store(&s->job, COMING);
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old); /* only the loop takes signals */
	s->made = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 &&
		  pthread_create(&s->thread, &attr, thread_main, s) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	if (s->made)
		return 0;
	atomic_store(&s->job, GONE);
	return -ENOMEM;
}

/* The oldest job of the payer whose turn it is; the ring is not empty. */
static struct job *job_take(void)
{
	struct payer *p = list_pop_first(&pool.ring, struct payer, ring);
	struct job *j = list_pop_first(&p->jobs, struct job, node);

	p->waiting--;
	p->running++;
	pool.waiting--;
	pool.running++;
	payer_settle(p);
	return j;
}

/* Gives the next job to S, whose thread has none; NULL if there is none. */
static void slot_give(struct slot *s)
{
	struct job *j = list_is_empty(&pool.ring) ? NULL : job_take();

	if (j)
		j->slot = s;
	atomic_store(&s->job, j);
	if (j)
		(void)sem_post(&s->work);
}

/* A thread that waits for a job, and now stays until it is given one. NULL: none. */
static struct slot *slot_idle(void)
{
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		struct job *idle = NULL;

		if (atomic_compare_exchange_strong(&pool.slots[i].job, &idle, COMING))
			return &pool.slots[i];
	}
	return NULL;
}

/* A new thread. NULL: there are WORKERS_MAX, or the kernel has no more. */
static struct slot *slot_new(void)
{
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		struct slot *s = &pool.slots[i];

		if (atomic_load(&s->job) != GONE)
			continue;
		if (s->made && pthread_tryjoin_np(s->thread, NULL) != 0)
			continue; /* it is about to end */
		s->made = false;
		return thread_start(s) == 0 ? s : NULL;
	}
	return NULL;
}

static void dispatch(void)
{
	while (!list_is_empty(&pool.ring)) {
		struct slot *s = slot_idle();

		if (!s)
			s = slot_new();
		if (!s)
			break;
		slot_give(s);
	}
}

/* Takes what has ended; its threads get the next jobs at once. */
static void collect(void)
{
	struct job *top = atomic_exchange(&pool.ended, NULL), *next;
	struct list ended = LIST_INIT(ended);

	for (; top; top = next) { /* the first one is at the bottom */
		next = top->below;
		list_prepend(&ended, &top->node);
	}
	for (struct job *j = list_pop_first(&ended, struct job, node); j;
	     j = list_pop_first(&ended, struct job, node)) {
		j->payer->running--;
		pool.running--;
		pool.counted++;
		payer_settle(j->payer);
		slot_give(j->slot);
		if (j->done)
			list_append(&pool.done, &j->node);
		else
			free(j);
	}
	dispatch();
}

/* ---- jobs ---- */

enum job_kind {
	JOB_BOUND,   /* refused if too many wait */
	JOB_COUNTED, /* something else bounds how many there are */
	JOB_CLOSE, /* the same, and it goes first: descriptors must not pile up behind slow jobs */
};

static int job_add(const char *who, enum job_kind kind, void (*fn)(void *user),
		   void (*done)(void *user), void *user)
{
	struct payer *p = payer_get(who);
	struct job *j = calloc(1, sizeof(*j));
	int r = p && j ? 0 : -ENOMEM;

	if (r == 0 && kind == JOB_BOUND &&
	    (p->waiting + p->running >= WORKERS_QUEUE_EACH ||
	     pool.waiting + pool.running >= WORKERS_QUEUE))
		r = -EBUSY;
	if (r == 0) {
		*j = (struct job){.payer = p, .fn = fn, .done = done, .user = user};
		if (kind == JOB_CLOSE)
			list_prepend(&p->jobs, &j->node);
		else
			list_append(&p->jobs, &j->node);
		p->waiting++;
		pool.waiting++;
		payer_settle(p);
		dispatch();
		/* There is no thread at all. Nobody waits for a close: it is done by the next thread. */
		if (pool.running == 0 && kind != JOB_CLOSE) {
			list_remove(&j->node);
			p->waiting--;
			pool.waiting--;
			r = -ENOMEM;
		}
	}
	if (r < 0) {
		free(j);
		if (p)
			payer_settle(p);
	}
	return r;
}

static int run(const char *who, enum job_kind kind, void (*fn)(void *user),
	       void (*done)(void *user), void *user)
{
	if (pool.open)
		return job_add(who, kind, fn, done, user);
	fn(user);
	if (done)
		done(user);
	return 0;
}

int workers_run(const char *who, void (*fn)(void *user), void (*done)(void *user), void *user)
{
	return run(who, JOB_BOUND, fn, done, user);
}

int workers_run_counted(const char *who, void (*fn)(void *user), void (*done)(void *user),
			void *user)
{
	return run(who, JOB_COUNTED, fn, done, user);
}

static void close_one(void *user)
{
	(void)close((int)(intptr_t)user);
}

void workers_close(const char *who, int fd)
{
	const int saved = errno;

	if (fd < 0)
		return;
	/* Without memory for the job the loop may wait, which is better than a descriptor that nobody closes. */
	if (!pool.open || job_add(who, JOB_CLOSE, close_one, NULL, (void *)(intptr_t)fd) < 0)
		(void)close(fd);
	errno = saved;
}

/* The kernel locks the process's map of memory while it takes back what one free(3) gives, and mmap(2) on the loop
 * waits for that lock. So the pages go in steps before. */
static void free_in_steps(void *user)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = ((uintptr_t)user + page - 1) & ~(page - 1), end;
	size_t len;

	memcpy(&len, user, sizeof(len));
	end = ((uintptr_t)user + len) & ~(page - 1);
	for (; at < end; at += MIN((uintptr_t)FREE_STEP, end - at))
		(void)madvise((void *)at, MIN((uintptr_t)FREE_STEP, end - at), MADV_DONTNEED);
	free(user);
}

void workers_free_memory(const char *who, void *p, size_t len)
{
	const int saved = errno;

	if (pool.open && len >= WORKERS_FREE_MIN) {
		memcpy(p, &len, sizeof(len)); /* nobody reads it any more */
		if (job_add(who, JOB_CLOSE, free_in_steps, NULL, p) < 0)
			free(p);
	} else {
		free(p);
	}
	errno = saved;
}

/* ---- reading ---- */

struct reading {
	int fd;
	bool keep;
	uint64_t off;
	size_t len, n;
	char *data;
	int error;
	workers_read_fn cb;
	void *user;
};

static void read_all(void *user)
{
	struct reading *r = user;

	while (r->n < r->len && r->error == 0) {
		const ssize_t n =
		    pread(r->fd, r->data + r->n, r->len - r->n, (off_t)(r->off + r->n));

		if (n == 0)
			break;
		if (n > 0)
			r->n += (size_t)n;
		else if (errno != EINTR)
			r->error = -errno;
	}
	r->data[r->n] = '\0';
	if (!r->keep)
		(void)close(r->fd);
}

static void was_read(void *user)
{
	struct reading *r = user;

	loop_work("bytes", "were read");
	if (r->error != 0) {
		free(r->data);
		r->cb(NULL, r->error, r->user);
	} else {
		r->cb(r->data, (ssize_t)r->n, r->user);
	}
	free(r);
}

static void begin_read(const char *who, const struct reading *what)
{
	struct reading *r = malloc(sizeof(*r));
	char *data = malloc(what->len + 1);
	int error = -ENOMEM;

	if (r && data) {
		*r = *what;
		r->data = data;
		error = workers_run(who, read_all, was_read, r);
	}
	if (error == 0)
		return;
	free(r);
	free(data);
	if (!what->keep)
		workers_close(who, what->fd);
	what->cb(NULL, error, what->user);
}

void workers_read(const char *who, int fd, uint64_t off, size_t len, workers_read_fn cb, void *user)
{
	begin_read(who,
		   &(struct reading){.fd = fd, .off = off, .len = len, .cb = cb, .user = user});
}

void workers_read_some(const char *who, int fd, uint64_t off, size_t len, workers_read_fn cb,
		       void *user)
{
	begin_read(who,
		   &(struct reading){
		       .fd = fd, .keep = true, .off = off, .len = len, .cb = cb, .user = user});
}

int workers_refused(int r, struct err *e)
{
	return r == -EBUSY ? err_set(e, ERR_SERVER_BUSY, -r, "No thread is free for this request")
			   : err_set(e, ERR_OUT_OF_MEMORY, -r, "no memory for this request");
}

/* ---- delivery, begin and end ---- */

void workers_deliver(void)
{
	const uint64_t until = now_ns() + DELIVER_NS;
	eventfd_t count;

	(void)eventfd_read(pool.wake, &count);
	collect();
	while (!list_is_empty(&pool.done)) {
		struct job *j = list_pop_first(&pool.done, struct job, node);

		loop_work("worker", "has ended");
		j->done(j->user);
		free(j);
		if (!pool.ending && loop_next_turn() >= until && !list_is_empty(&pool.done)) {
			(void)eventfd_write(pool.wake, 1);
			break;
		}
	}
}

int workers_begin(void)
{
	ASSERT(!pool.open);
	pool.nice = loop_threads_nice();
	pool.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pool.wake < 0)
		return -errno;
	for (size_t i = 0; i < PAYER_SHELVES; i++)
		list_init(&pool.shelves[i]);
	for (size_t i = 0; i < WORKERS_MAX; i++)
		atomic_store(&pool.slots[i].job, GONE);
	list_init(&pool.ring);
	list_init(&pool.done);
	pool.open = wall_stands(WALL_THREADS); /* else the loop does it all */
	return pool.wake;
}

/* Descriptors that wait for a thread which cannot be made. */
static void run_rest(void)
{
	while (!list_is_empty(&pool.ring)) {
		struct job *j = job_take();

		j->fn(j->user);
		j->payer->running--;
		pool.running--;
		payer_settle(j->payer);
		free(j);
	}
}

void workers_end(void)
{
	if (!pool.open)
		return;
	pool.ending = true;
	while (pool.running > 0 || !list_is_empty(&pool.done)) {
		(void)poll(&(struct pollfd){.fd = pool.wake, .events = POLLIN}, 1, -1);
		workers_deliver();
	}
	run_rest();
	for (size_t i = 0; i < WORKERS_MAX; i++) {
		struct slot *s = &pool.slots[i];
		struct job *idle = NULL;

		if (atomic_compare_exchange_strong(&s->job, &idle, GONE))
			(void)sem_post(&s->work);
		if (s->made)
			(void)pthread_join(s->thread, NULL);
		s->made = false;
	}
	pool.open = pool.ending = false;
	pool.wake = fd_close(pool.wake);
}

void workers_count(struct workers_counts *ret)
{
	*ret = (struct workers_counts){0};
	if (!pool.open)
		return;
	*ret = (struct workers_counts){
	    .running = pool.running, .waiting = pool.waiting, .done = pool.counted};
	for (size_t i = 0; i < WORKERS_MAX; i++)
		ret->threads += atomic_load(&pool.slots[i].job) != GONE;
}
