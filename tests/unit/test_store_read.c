/* SPDX-License-Identifier: Apache-2.0 */
/* Reads on threads: only those with a connection hold a thread, those who wait take turns, bounds hold, and each read ends
 * once, also when the store has ended before. Reads block on a pipe that the test writes to, so nothing depends on time. */
#include "base/text.h"
#include "base/workers.h"
#include "store/store.h"
#include "store_database.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
	char dir[64];
	char path[96];
	struct store *s;
	int fd;      /* of the pool */
	int gate[2]; /* a blocked read reads one byte */
	char order[64];
	unsigned ended;
};

struct read {
	struct world *w;
	char name; /* 0: it blocks */
	uint64_t users;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	assert_non_null(w);
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-read-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	empty_database();
	(void)snprintf(w->path, sizeof(w->path), "%s/caisson.db", w->dir);
	assert_int_equal(
	    store_open(&(struct store_config){.path = w->path, .address = test_address()}, &w->s,
		       &e),
	    0);
	assert_int_equal(pipe2(w->gate, O_CLOEXEC), 0);
	w->fd = workers_begin();
	assert_true(w->fd >= 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"caisson.db", "caisson.db-wal", "caisson.db-shm", ""};
	struct world *w = *state;
	char path[128];

	for (unsigned i = 0; i < 100; i++) /* those that a failed test has left */
		(void)!write(w->gate[1], "x", 1);
	workers_end();
	w->s = store_close(w->s);
	(void)close(w->gate[0]);
	(void)close(w->gate[1]);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", w->dir, files[i]);
		(void)remove(path);
	}
	free(w);
	return 0;
}

static void look(struct store *reading, void *user)
{
	struct read *r = user;
	struct err e = ERR_INIT;
	char c;

	assert_int_equal(store_user_count(reading, &r->users, &e), 0);
	if (!r->name)
		(void)!read(r->w->gate[0], &c, 1);
}

static void on_looked(void *user)
{
	struct read *r = user;
	struct world *w = r->w;

	if (w->ended < sizeof(w->order))
		w->order[w->ended] = r->name;
	w->ended++;
	free(r);
}

/* NAME 0: it blocks. */
static int begin(struct world *w, const char *who, char name)
{
	struct read *r = calloc(1, sizeof(*r));
	struct err e = ERR_INIT;

	assert_non_null(r);
	*r = (struct read){.w = w, .name = name};
	int failed = store_read(w->s, who, look, on_looked, r, &e);
	if (failed < 0) {
		assert_int_equal(e.code, ERR_BUDGET_EXCEEDED);
		free(r);
	}
	return failed;
}

static void wait_for(struct world *w, unsigned ended)
{
	while (w->ended < ended) {
		struct pollfd p = {.fd = w->fd, .events = POLLIN};

		assert_int_equal(poll(&p, 1, 20000), 1);
		workers_deliver();
	}
}

static void let_go(struct world *w, size_t n)
{
	while (n-- > 0)
		assert_int_equal(write(w->gate[1], "x", 1), 1);
}

/* Before, each of these reads held a thread of the pool, and nothing else could run. */
static void test_waiting_reads_hold_no_thread(void **state)
{
	struct world *w = *state;
	struct workers_counts n;
	char who[16];

	for (unsigned i = 0; i < 40; i++) {
		(void)snprintf(who, sizeof(who), "user %u", i);
		assert_int_equal(begin(w, who, 0), 0);
	}
	workers_count(&n);
	assert_in_range(n.running + n.waiting, 1, 2);
	/* A thread that begins may be made for a job that another one takes. */
	assert_in_range(n.threads, 1, 4);
	let_go(w, 40);
	wait_for(w, 40);
}

static void test_everybody_has_a_turn(void **state)
{
	struct world *w = *state;

	assert_int_equal(begin(w, "greedy", 0), 0);
	assert_int_equal(begin(w, "greedy", 0), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(begin(w, "greedy", 'g'), 0);
	assert_int_equal(begin(w, "a", 'a'), 0);
	assert_int_equal(begin(w, "b", 'b'), 0);
	let_go(w, 1); /* one connection, so that the order of the ends is that of the turns */
	wait_for(w, 8);
	assert_memory_equal(w->order, "\0gabgggg", 8);
	let_go(w, 1);
	wait_for(w, 9);
}

static void test_bounds(void **state)
{
	struct world *w = *state;

	for (unsigned i = 0; i < 2 + STORE_READS_EACH; i++)
		assert_int_equal(begin(w, "greedy", 0), 0);
	assert_int_equal(begin(w, "greedy", 0), -EBUSY);
	assert_int_equal(begin(w, "other", 0), 0);
	let_go(w, 3 + STORE_READS_EACH);
	wait_for(w, 3 + STORE_READS_EACH);
}

static void test_the_store_ends_before(void **state)
{
	struct world *w = *state;

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(begin(w, "user", 0), 0);
	w->s = store_close(w->s);
	let_go(w, 4);
	wait_for(w, 4);
}

static void test_without_a_pool(void **state)
{
	struct world *w = *state;

	workers_end();
	assert_int_equal(begin(w, "user", 'u'), 0);
	assert_int_equal(w->ended, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    T(test_waiting_reads_hold_no_thread), T(test_everybody_has_a_turn), T(test_bounds),
	    T(test_the_store_ends_before),        T(test_without_a_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
