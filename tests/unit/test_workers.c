/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of threads: everybody has a turn, bounds hold, each job is delivered once. Jobs block on a pipe that the
 * test writes to, so nothing depends on time. */
#include "base/fdio.h"
#include "base/workers.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#define LONG_MS     20000
#define MANY_ROUNDS 100

struct world {
	int fd;      /* of the pool */
	int gate[2]; /* a blocked job reads one byte */
	atomic_uint at_gate, most_at_gate;
	unsigned delivered;
};

struct task {
	struct world *w;
	unsigned ran, done;
	bool blocks;
	bool took_signal;
	char who[16];
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_int_equal(pipe2(w->gate, O_CLOEXEC), 0);
	w->fd = workers_begin();
	assert_true(w->fd >= 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	(void)close(w->gate[1]); /* a case that failed may have left jobs at the gate */
	workers_end();
	(void)close(w->gate[0]);
	free(w);
	return 0;
}

static void run_task(void *user)
{
	struct task *t = user;
	sigset_t blocked;
	char c;

	(void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	t->took_signal = sigismember(&blocked, SIGTERM) == 0;
	if (t->blocks) {
		const unsigned n = atomic_fetch_add(&t->w->at_gate, 1) + 1;
		unsigned most = atomic_load(&t->w->most_at_gate);

		while (n > most && !atomic_compare_exchange_weak(&t->w->most_at_gate, &most, n))
			;
		(void)!read(t->w->gate[0], &c, 1);
		(void)atomic_fetch_sub(&t->w->at_gate, 1);
	}
	t->ran++;
}

static void task_done(void *user)
{
	struct task *t = user;

	t->done++;
	t->w->delivered++;
}

/* Without it a case could go on before a thread has taken its job, which then runs on a stack that is gone. */
static void wait_at_gate(struct world *w, unsigned n)
{
	for (unsigned i = 0; i < LONG_MS && atomic_load(&w->at_gate) < n; i++)
		(void)poll(NULL, 0, 1);
	assert_int_equal(atomic_load(&w->at_gate), n);
}

static void open_gate(struct world *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(write(w->gate[1], "x", 1), 1);
}

static void deliver_until(struct world *w, unsigned n)
{
	while (w->delivered < n) {
		struct pollfd p = {.fd = w->fd, .events = POLLIN};

		assert_int_equal(poll(&p, 1, LONG_MS), 1);
		workers_deliver();
	}
}

static void add(struct task *t, const char *who)
{
	assert_int_equal(workers_run(who, run_task, task_done, t), 0);
}

/* Ten blocked jobs of one user hold two threads, and the job of another runs. */
static void test_fair(void **state)
{
	struct world *w = *state;
	struct task slow[10], quick[20];

	for (size_t i = 0; i < 10; i++) {
		slow[i] = (struct task){.w = w, .blocks = true};
		add(&slow[i], "slow");
	}
	for (size_t i = 0; i < 20; i++) {
		quick[i] = (struct task){.w = w};
		add(&quick[i], "quick");
	}
	deliver_until(w, 20);
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(quick[i].ran, 1);
		assert_int_equal(quick[i].done, 1);
		assert_false(quick[i].took_signal);
	}
	struct workers_counts n;
	workers_count(&n);
	assert_int_equal(n.running + n.waiting, 10);
	assert_true(n.running <= WORKERS_EACH);
	wait_at_gate(w, WORKERS_EACH);
	open_gate(w, 10);
	deliver_until(w, 30);
	assert_int_equal(atomic_load(&w->most_at_gate), WORKERS_EACH);
}

/* Every thread is held, by as many users as it takes; those who wait get theirs when one is free. */
static void test_all_threads_held(void **state)
{
	struct world *w = *state;
	struct task t[3 * WORKERS_MAX];
	struct workers_counts n;
	char who[16];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		t[i] = (struct task){.w = w, .blocks = true};
		(void)snprintf(who, sizeof(who), "user%zu", i);
		add(&t[i], who);
	}
	workers_count(&n);
	assert_true(n.threads <= WORKERS_MAX);
	open_gate(w, ARRAY_SIZE(t));
	deliver_until(w, ARRAY_SIZE(t));
	assert_true(atomic_load(&w->most_at_gate) <= WORKERS_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(t[i].done, 1);
}

static void test_bound(void **state)
{
	struct world *w = *state;
	struct task *t = calloc(WORKERS_QUEUE_EACH + 1, sizeof(*t)), other = {.w = w},
		    counted = {.w = w};

	assert_non_null(t);
	for (size_t i = 0; i < WORKERS_QUEUE_EACH; i++) {
		t[i] = (struct task){.w = w, .blocks = true};
		add(&t[i], "greedy");
	}
	assert_int_equal(workers_run("greedy", run_task, task_done, &t[WORKERS_QUEUE_EACH]),
			 -EBUSY);
	/* What something else bounds is taken all the same, and waits its turn. */
	assert_int_equal(workers_run_counted("greedy", run_task, task_done, &counted), 0);
	add(&other, "other");
	deliver_until(w, 1);
	assert_int_equal(other.done, 1);
	open_gate(w, WORKERS_QUEUE_EACH);
	deliver_until(w, WORKERS_QUEUE_EACH + 2);
	assert_int_equal(counted.done, 1);
	assert_int_equal(t[WORKERS_QUEUE_EACH].ran, 0);
	free(t);
}

static void add_another(void *user)
{
	struct task *t = user;

	t->done++;
	if (t->done < 3)
		assert_int_equal(workers_run("last", run_task, add_another, t), 0);
}

/* The end waits for what runs and waits, and for what is added meanwhile. */
static void test_end(void **state)
{
	struct world *w = *state;
	struct task t[8], chain = {.w = w}, later = {.w = w};
	struct workers_counts n;

	for (size_t i = 0; i < 8; i++) {
		t[i] = (struct task){.w = w, .blocks = true};
		add(&t[i], "last");
	}
	assert_int_equal(workers_run("last", run_task, add_another, &chain), 0);
	open_gate(w, 8);
	workers_end();
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(t[i].done, 1);
	assert_int_equal(chain.done, 3);
	workers_count(&n);
	assert_int_equal(n.threads, 0);
	/* Without a pool both happen at once. */
	add(&later, "last");
	assert_int_equal(later.ran, 1);
	assert_int_equal(later.done, 1);
}

/* The last close of a pipe's writing end wakes its reader: it has happened, and on another thread. */
static void test_close(void **state)
{
	struct task slow[2];
	struct world *w = *state;
	int fds[2];
	char c;

	for (size_t i = 0; i < 2; i++) {
		slow[i] = (struct task){.w = w, .blocks = true};
		add(&slow[i], "slow");
	}
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	wait_at_gate(w, 2); /* a close goes before jobs that wait */
	workers_close("slow", fds[1]);
	assert_int_equal(read(fds[0], &c, 1), -1); /* it waits for the two */
	assert_int_equal(errno, EAGAIN);
	open_gate(w, 2);
	deliver_until(w, 2);
	struct pollfd p = {.fd = fds[0], .events = POLLIN};
	assert_int_equal(poll(&p, 1, LONG_MS), 1);
	assert_int_equal(read(fds[0], &c, 1), 0);
	(void)close(fds[0]);
	workers_close("slow", -1);
	workers_free_memory("slow", calloc(1, WORKERS_FREE_MIN), WORKERS_FREE_MIN);
	workers_free_memory("slow", calloc(1, 10), 10);
}

/* More jobs than the pool has threads, each of a payer of its own, which add the next ones when they are delivered: no
 * job is lost or done twice while threads take, give back and wait. */
static void add_more(void *user)
{
	struct task *t = user;

	t->done++;
	t->w->delivered++;
	if (t->done < MANY_ROUNDS)
		assert_int_equal(workers_run(t->who, run_task, add_more, t), 0);
}

static void test_many(void **state)
{
	struct world *w = *state;
	struct task t[4 * WORKERS_MAX];
	struct workers_counts n;

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		t[i] = (struct task){.w = w};
		(void)snprintf(t[i].who, sizeof(t[i].who), "user%zu", i);
		assert_int_equal(workers_run(t[i].who, run_task, add_more, &t[i]), 0);
	}
	deliver_until(w, MANY_ROUNDS * ARRAY_SIZE(t));
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_int_equal(t[i].ran, MANY_ROUNDS);
		assert_int_equal(t[i].done, MANY_ROUNDS);
	}
	workers_count(&n);
	assert_int_equal(n.running + n.waiting, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_fair, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_all_threads_held, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_bound, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_close, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
