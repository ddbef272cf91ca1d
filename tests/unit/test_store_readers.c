/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the history: the loop goes on while the helper cannot write, and each reader sees the rows of its
 * owner. Another connection holds the writer's lock, so the helper waits exactly as long as a case wants. And
 * sign-ins, whose dates come from a clock that may be set. */
#include "base/rand.h"
#include "base/text.h"
#include "store/store.h"
#include "store_database.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define LONG_US (20 * 1000 * 1000)

struct world {
	char dir[64];
	char path[96];
	struct store *s;
	sd_event *loop;
	sqlite3 *other; /* a connection of another process, as far as the store can tell */
};

static void open_store(struct world *w, unsigned busy_ms)
{
	const struct store_config config = {.path = w->path,
					    .address = test_address(),
					    .runs_keep = 1500,
					    .audit_keep = 1500,
					    .busy_ms = busy_ms};
	struct err e = ERR_INIT;

	w->s = store_close(w->s);
	assert_int_equal(store_open(&config, &w->s, &e), 0);
	assert_int_equal(store_attach(w->s, w->loop), 0);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-readers-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	empty_database();
	(void)snprintf(w->path, sizeof(w->path), "%s/caisson.db", w->dir);
	assert_int_equal(sd_event_new(&w->loop), 0);
	open_store(w, 20000);
	assert_int_equal(sqlite3_open(w->path, &w->other), SQLITE_OK);
	(void)sqlite3_busy_timeout(w->other, 5000);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"caisson.db", "caisson.db-wal", "caisson.db-shm", ""};
	struct world *w = *state;
	char path[128];

	(void)sqlite3_close(w->other);
	w->s = store_close(w->s);
	w->loop = sd_event_unref(w->loop);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", w->dir, files[i]);
		(void)remove(path);
	}
	free(w);
	return 0;
}

static void other_does(struct world *w, const char *sql)
{
	if (test_address())
		assert_int_equal(psql(sql, NULL), 0);
	else
		assert_int_equal(sqlite3_exec(w->other, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void add_run(struct world *w, const char *owner)
{
	struct store_run r = {.sandbox = "s1", .cpu_us = 1000, .started_ms = 1};

	(void)snprintf(r.owner, sizeof(r.owner), "%s", owner);
	store_note_run(w->s, &r, 0);
}

static void count_run(const struct store_run *r, void *user)
{
	unsigned *n = user;

	*n += r->started_ms == 1;
}

static unsigned n_runs(struct world *w, const char *owner)
{
	struct err e = ERR_INIT;
	unsigned n = 0;

	assert_true(store_run_each(w->s, owner, NULL, 0, 1000, count_run, &n, &e) >= 0);
	return n;
}

struct reader {
	struct world *w;
	const char *owner;
	unsigned n;    /* calls */
	unsigned runs; /* that it saw */
	enum err_code code;
};

static void on_written(const struct err *e, void *user)
{
	struct reader *r = user;

	r->n++;
	r->code = e ? e->code : ERR_NONE;
	if (!e)
		r->runs = n_runs(r->w, r->owner);
}

static void until(struct world *w, const struct reader *r)
{
	const uint64_t end = now_ns() + 20 * NS_PER_S;

	while (r->n == 0 && now_ns() < end)
		assert_true(sd_event_run(w->loop, LONG_US) >= 0);
	assert_int_equal(r->n, 1);
}

static int on_turn(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	unsigned *turns = user;

	(*turns)++;
	return 0;
}

/* The loop does something else once. */
static void turn(struct world *w)
{
	unsigned turns = 0;
	sd_event_source *timer = NULL;

	assert_true(sd_event_add_time_relative(w->loop, &timer, CLOCK_MONOTONIC, 1000, 1, on_turn,
					       &turns) >= 0);
	while (turns == 0)
		assert_true(sd_event_run(w->loop, LONG_US) >= 0);
	(void)sd_event_source_disable_unref(timer);
}

static void test_nothing_to_wait_for(void **state)
{
	struct world *w = *state;
	struct reader r = {.w = w, .owner = "ada"};

	assert_int_equal(store_when_written(w->s, "ada", on_written, &r), 1);
	add_run(w, "ada");
	assert_int_equal(store_when_written(w->s, "ada", on_written, &r), 0);
	assert_int_equal(r.n, 0);
	until(w, &r);
	assert_int_equal(r.runs, 1);
	assert_int_equal(store_when_written(w->s, "ada", on_written, &r), 1);
}

static void test_the_loop_goes_on(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct reader ada = {.w = w, .owner = "ada"}, bob = {.w = w, .owner = "bob"};

	other_does(w, "BEGIN IMMEDIATE");
	add_run(w, "ada");
	add_run(w, "bob");
	assert_int_equal(store_when_written(w->s, "ada", on_written, &ada), 0);
	assert_int_equal(store_when_written(w->s, "bob", on_written, &bob), 0);
	turn(w);
	/* A run that ends while its owner waits is seen, too. */
	add_run(w, "ada");
	turn(w);
	assert_int_equal(ada.n + bob.n, 0);
	other_does(w, "ROLLBACK");
	until(w, &ada);
	until(w, &bob);
	assert_int_equal(ada.code, ERR_NONE);
	assert_int_equal(ada.runs, 2);
	assert_int_equal(bob.runs, 1);
}

/* An owner whose runs never stop ending does not wait for ever. */
static void test_rows_without_end(void **state)
{
	struct world *w = *state;
	struct reader r = {.w = w, .owner = "ada"};
	const uint64_t end = now_ns() + 20 * NS_PER_S;
	unsigned added = 1;

	add_run(w, "ada");
	assert_int_equal(store_when_written(w->s, "ada", on_written, &r), 0);
	for (; r.n == 0 && now_ns() < end; added++) {
		add_run(w, "ada");
		assert_true(sd_event_run(w->loop, 1000) >= 0);
	}
	assert_int_equal(r.n, 1);
	assert_true(r.runs >= 1 && r.runs <= added);
}

static void test_a_slow_disk(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct reader late = {.w = w, .owner = "ada"}, failed = {.w = w, .owner = "ada"};
	struct store_counts counts;

	other_does(w, "BEGIN IMMEDIATE");
	add_run(w, "ada");
	assert_int_equal(store_when_written(w->s, "ada", on_written, &late), 0);
	until(w, &late); /* after a second, with what there is */
	assert_int_equal(late.code, ERR_NONE);
	assert_int_equal(late.runs, 0);
	other_does(w, "ROLLBACK");
	store_flush(w->s);

	open_store(w, 20); /* now the batch fails before the second is over */
	other_does(w, "BEGIN IMMEDIATE");
	add_run(w, "ada");
	assert_int_equal(store_when_written(w->s, "ada", on_written, &failed), 0);
	until(w, &failed);
	assert_int_equal(failed.code, ERR_NONE);
	assert_int_equal(failed.runs, 1);
	store_count(w->s, &counts);
	assert_true(counts.failed > 0);
	other_does(w, "ROLLBACK");
}

static void test_the_end_of_the_store(void **state)
{
	struct world *w = *state;
	struct reader r = {.w = w, .owner = "ada"};

	add_run(w, "ada");
	assert_int_equal(store_when_written(w->s, "ada", on_written, &r), 0);
	w->s = store_close(w->s);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.code, ERR_CANCELLED);
}

/* ---- sign-ins, and a clock that is set ---- */

static int found(struct world *w, const char *cookie)
{
	struct store_signin i;
	struct err e = ERR_INIT;

	return store_signin_find(w->s, cookie, &i, &e);
}

static void test_signins_and_the_clock(void **state)
{
	struct world *w = *state;
	struct store_user u = {.active = true, .name = "ada", .quota = STORE_QUOTA_DEFAULTS};
	char first[STORE_KEY_SIZE], newest[STORE_KEY_SIZE], text[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	assert_int_equal(store_user_add(w->s, &u, &e), 0);
	for (int i = 0; i < STORE_SIGNINS_MAX; i++) {
		struct store_signin in = {.expires_ms = store_now_ms() + 86400000};

		memcpy(in.user, u.id, sizeof(in.user));
		assert_int_equal(store_signin_add(w->s, &in, i == 0 ? first : text, &e), 0);
	}
	/* The clock is set back by two hours: whoever signs in now comes last all the same. */
	other_does(w, "UPDATE signins SET created_ms = created_ms + 7200000");
	struct store_signin in = {.expires_ms = store_now_ms() + 86400000};
	memcpy(in.user, u.id, sizeof(in.user));
	assert_int_equal(found(w, first), 1);
	assert_int_equal(store_signin_add(w->s, &in, newest, &e), 0);
	assert_int_equal(found(w, newest), 1);
	assert_int_equal(found(w, first), 0);
	assert_int_equal(found(w, text), 1);
	/* One that was made years from now would last for years. */
	other_does(w, "UPDATE signins SET created_ms = created_ms + 172800000,"
		      " expires_ms = expires_ms + 172800000");
	assert_int_equal(found(w, text), 0);
	assert_int_equal(store_signin_get(w->s, in.id, &in, &e), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_nothing_to_wait_for),  T(test_the_loop_goes_on),
	    T(test_rows_without_end),     T(test_a_slow_disk),
	    T(test_the_end_of_the_store), T(test_signins_and_the_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
