/* SPDX-License-Identifier: Apache-2.0 */
/* Files that wait for threads: what waits is bound for each user, whoever was told to wait goes on, and a measure of
 * memory does not forget it. Threads are held by a pipe, so nothing depends on time. */
#include "base/fdio.h"
#include "base/rand.h"
#include "base/workers.h"
#include "manager_world.h"
#include "sandbox/file_writer.h"
#include "sandbox/manager.h"
#include "sandbox/upload.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define LONG_MS 20000
#define PIECE   (128u << 10)
#define WRITERS 200
#define BOUND   (8u << 20) /* of one user: budgets.tbl.h */

struct world {
	struct manager_world m; /* first */
	struct budgets *budgets;
	int pool;
	int gate[2];
};

struct owner {
	struct file_writer *writer;
	unsigned rooms;
	bool ready, ended;
};

static int set_up(void **state)
{
	const struct budgets_config config = {0};
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->budgets = budgets_new(&config);
	assert_non_null(w->budgets);
	assert_int_equal(pipe2(w->gate, O_CLOEXEC), 0);
	manager_world_open(&w->m, (struct manager_config){.max_sandboxes = 3,
							  .budgets = w->budgets,
							  .now = manager_world_now});
	w->pool = workers_begin();
	assert_true(w->pool >= 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	workers_end();
	manager_world_close(&w->m);
	(void)budgets_free(w->budgets);
	(void)close(w->gate[0]);
	(void)close(w->gate[1]);
	free(w);
	return 0;
}

static void wait_at_gate(void *user)
{
	const struct world *w = user;
	char c;

	(void)!read(w->gate[0], &c, 1);
}

static void hold_threads(struct world *w, const char *who)
{
	for (size_t i = 0; i < WORKERS_EACH; i++)
		assert_int_equal(workers_run(who, wait_at_gate, NULL, w), 0);
}

static void release_threads(struct world *w)
{
	for (size_t i = 0; i < WORKERS_EACH; i++)
		assert_int_equal(write(w->gate[1], "x", 1), 1);
}

static void deliver(struct world *w)
{
	struct pollfd p = {.fd = w->pool, .events = POLLIN};

	assert_int_equal(poll(&p, 1, LONG_MS), 1);
	workers_deliver();
	manager_world_turn(&w->m);
}

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	assert_null(e);
	*(struct sandbox **)user = s;
}

static struct sandbox *open_sandbox(struct world *w, const char *who)
{
	struct sandbox *s = NULL;

	manager_open(w->m.manager, who, "one", on_open, &s);
	manager_world_turn(&w->m);
	assert_non_null(s);
	return s;
}

static void on_ready(void *user)
{
	((struct owner *)user)->ready = true;
}

static void on_room(void *user)
{
	((struct owner *)user)->rooms++;
}

static void on_end(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct owner *o = user;

	assert_null(e);
	o->ended = true;
	o->writer = NULL;
}

static const struct file_writer_ops ops = {
    .on_ready = on_ready, .on_room = on_room, .on_end = on_end};

static void open_writers(struct world *w, struct sandbox *s, struct owner *o, size_t n)
{
	char path[16];
	struct err e = ERR_INIT;

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "file%zu", i);
		assert_int_equal(file_writer_new(s, path, true, &ops, &o[i], &o[i].writer, &e), 0);
		manager_world_turn(&w->m);
		assert_true(o[i].ready);
	}
}

static uint64_t waiting(struct world *w, const char *who)
{
	return budget_used_by(w->budgets, who, BUDGET_UPLOAD_MEMORY);
}

/* Whoever is not full gets a piece, as long as somebody is not. Returns how many bytes. */
static size_t fill(struct owner *o, size_t n)
{
	static char piece[PIECE];
	struct err e = ERR_INIT;
	size_t all = 0;
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			if (file_writer_is_full(o[i].writer))
				continue;
			more = true;
			assert_int_equal(file_writer_add(o[i].writer, piece, PIECE, &e), 0);
			all += PIECE;
		}
	}
	return all;
}

/* The disk of one user hangs: his many uploads together wait with what the budget says, others go on, and all his go
 * on when the disk does. */
static void test_bound(void **state)
{
	static struct owner slow[WRITERS], quick[1];
	struct world *w = *state;
	struct sandbox *s = open_sandbox(w, "slow"), *other = open_sandbox(w, "quick");

	memset(slow, 0, sizeof(slow));
	memset(quick, 0, sizeof(quick));
	open_writers(w, s, slow, WRITERS);
	open_writers(w, other, quick, 1);
	hold_threads(w, "slow");
	const size_t all = fill(slow, WRITERS);
	assert_true(all <= BOUND);
	assert_true(all > BOUND / 2);
	assert_int_equal(waiting(w, "slow"), all);
	assert_int_equal(file_writers_waiting(s), all);
	(void)fill(quick, 1);
	while (quick[0].rooms == 0)
		deliver(w);
	assert_int_equal(waiting(w, "quick"), 0);
	for (size_t i = 0; i < WRITERS; i++)
		assert_int_equal(slow[i].rooms, 0);
	release_threads(w);
	for (size_t i = 0; i < WRITERS; i++) {
		while (slow[i].rooms == 0)
			deliver(w);
		assert_int_equal(slow[i].rooms, 1);
	}
	for (size_t i = 0; i < WRITERS; i++)
		file_writer_commit(slow[i].writer);
	file_writer_commit(quick[0].writer);
	for (size_t i = 0; i < WRITERS; i++)
		while (!slow[i].ended)
			deliver(w);
	while (!quick[0].ended)
		deliver(w);
	assert_int_equal(waiting(w, "slow"), 0);
}

/* Writers that wait for room, and others with bytes on the way, are dropped: nothing stays counted. */
static void test_drop(void **state)
{
	static struct owner o[WRITERS];
	struct world *w = *state;
	struct sandbox *s = open_sandbox(w, "slow");

	memset(o, 0, sizeof(o));
	open_writers(w, s, o, WRITERS);
	hold_threads(w, "slow");
	const size_t all = fill(o, WRITERS);
	for (size_t i = WRITERS; i-- > 0;)
		o[i].writer = file_writer_drop(o[i].writer);
	/* Threads have some bytes; the rest is freed. */
	assert_true(waiting(w, "slow") <= all);
	release_threads(w);
	while (waiting(w, "slow") > 0)
		deliver(w);
	for (size_t i = 0; i < WRITERS; i++)
		assert_int_equal(o[i].rooms + o[i].ended, 0);
}

/* init measures a workspace that lacks what threads have not written: those bytes stay counted. */
static void test_measure(void **state)
{
	static struct owner o[1];
	struct world *w = *state;
	struct sandbox *s = open_sandbox(w, "slow");

	memset(o, 0, sizeof(o));
	open_writers(w, s, o, 1);
	hold_threads(w, "slow");
	const size_t all = fill(o, 1);
	assert_int_equal(s->uploaded_bytes, all);
	sandbox_measure_uploads(s);
	assert_true(s->measuring);
	while (s->measuring)
		manager_world_turn(&w->m);
	assert_int_equal(s->uploaded_bytes, all);
	release_threads(w);
	while (o[0].rooms == 0)
		deliver(w);
	file_writer_commit(o[0].writer);
	while (!o[0].ended)
		deliver(w);
}

/* ---- uploads that fail ---- */

static void on_uploaded(uint64_t written UNUSED, const struct err *e, void *user)
{
	assert_non_null(e);
	++*(size_t *)user;
}

/* All uploads behind one that ends fail at once. They must not use up the stack. */
static void test_many_fail(void **state)
{
	struct world *w = *state;
	struct sandbox *s = open_sandbox(w, "many");
	const size_t n = 200000;
	size_t ended = 0;
	struct err e = ERR_INIT;
	const struct upload_request q = {.path = "a",
					 .source = {.data = "x", .fd = -1, .len = 1},
					 .on_done = on_uploaded,
					 .user = &ended};

	for (size_t i = 0; i < n; i++)
		assert_int_equal(sandbox_upload(s, &q, &e), 0);
	assert_int_equal(sandbox_drop(s, NULL, NULL, &e), 0);
	while (ended < n)
		manager_world_turn(&w->m);
	assert_int_equal(ended, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_bound, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_drop, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_measure, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_many_fail, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
