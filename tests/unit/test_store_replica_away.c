/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's copy of a PostgreSQL database that is away, silent or slow. All need the server of tests/suites/postgres. */
#include "store_sides.h"

#include <signal.h>

static void test_killed_server(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user ada = add_settled(&w->a, "ada"), u;
	char key[STORE_KEY_SIZE];
	struct store_link link;
	struct err e = ERR_INIT;

	(void)add_key(&w->a, ada.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	wait_until_opens(&w->b, key, true);
	const pid_t pid = slow_writer("SELECT 1");
	assert_int_equal(add(&w->a, "bob", &u, &e), 0);
	struct outcome *lost = settle(&w->a);
	assert_true(store_look_at_link(w->a.s, &link));
	assert_true(link.up && link.changes == 1 && link.age_ms < 60000);
	server("CAISSON_TEST_DATABASE_KILL");
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(wait_for(&w->a, lost), ERR_STORE_UNREACHABLE);
	assert_false(knows(&w->a, "bob"));

	const uint64_t since = now_ns();
	assert_true(opens(&w->a, key));
	assert_true(add(&w->a, "bob", &u, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	assert_null(strstr(e.text, "caisson")); /* neither its user nor its folder */
	assert_true(store_in_trouble(w->a.s, &e));
	assert_true(store_look_at_link(w->a.s, &link));
	assert_false(link.up || link.changes > 0);
	assert_true(now_ns() - since < AT_ONCE_NS);

	server("CAISSON_TEST_DATABASE_START");
	/* While it was away from us, so nobody told us. */
	assert_int_equal(psql("DELETE FROM keys", NULL), 0);
	wait_until_opens(&w->a, key, false);
	wait_until_opens(&w->b, key, false);
	(void)add_settled(&w->a, "bob");
	const uint64_t until = now_ns() + PATIENCE_NS;
	while (store_in_trouble(w->a.s, NULL) && now_ns() < until)
		turn(&w->a); /* rows that wait are tried again each second */
	assert_false(store_in_trouble(w->a.s, NULL));
	assert_true(store_look_at_link(w->a.s, &link) && link.up);
	assert_int_equal(number("SELECT count(*) FROM users"), 2);
}

/* Keys are good for a bounded time only. */
static void test_old_copy(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u = add_settled(&w->a, "ada");
	char key[STORE_KEY_SIZE];
	struct store_key k;
	struct err e = ERR_INIT;
	int r = 1;

	(void)add_key(&w->a, u.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	close_side(&w->a);
	w->a = open_side(w, 2500);
	turn(&w->a);
	assert_true(opens(&w->a, key));
	for (const uint64_t began = now_ns(); now_ns() < began + 26 * NS_PER_S / 10;)
		turn(&w->a); /* the link looks each second */
	assert_true(opens(&w->a, key));
	server("CAISSON_TEST_DATABASE_KILL");
	assert_true(opens(&w->a, key));
	const uint64_t until = now_ns() + PATIENCE_NS;
	while (r > 0 && now_ns() < until) {
		turn(&w->a);
		r = store_key_check(w->a.s, key, &k, &u, &e);
	}
	assert_true(r < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	struct store_link link;
	assert_true(store_look_at_link(w->a.s, &link));
	assert_true(!link.up && link.age_ms >= 2500);
	server("CAISSON_TEST_DATABASE_START");
	while (r < 0 && now_ns() < until) {
		turn(&w->a);
		r = store_key_check(w->a.s, key, &k, &u, &e);
	}
	assert_int_equal(r, 1);
}

/* A server that is silent is not different: nobody reads what may have been revoked elsewhere, changes are refused, and the store
 * closes. */
static void test_silent_server(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u = add_settled(&w->a, "ada");
	char key[STORE_KEY_SIZE];
	struct store_key k;
	struct err e = ERR_INIT;
	int r = 1;

	(void)add_key(&w->a, u.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	close_side(&w->a);
	w->a = open_side(w, 2500);
	turn(&w->a);
	server("CAISSON_TEST_DATABASE_STOP");
	const uint64_t since = now_ns();
	while (r > 0 && now_ns() < since + PATIENCE_NS) {
		(void)usleep(50 * 1000);
		r = store_key_check(w->a.s, key, &k, &u, &e);
	}
	const uint64_t good = now_ns() - since;
	const enum err_code code = e.code;
	e = ERR_INIT;
	const int added = add(&w->a, "bob", &u, &e);
	const uint64_t closes = now_ns();
	w->a.s = store_close(w->a.s);
	const uint64_t closed = now_ns() - closes;
	server("CAISSON_TEST_DATABASE_CONTINUE");
	w->a.loop = sd_event_unref(w->a.loop);
	w->a = open_side(w, 0);
	assert_true(r < 0);
	assert_int_equal(code, ERR_STORE_UNREACHABLE);
	assert_in_range(good / NS_PER_MS, 0, 4500);
	assert_true(added < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	assert_true(closed < 15 * NS_PER_S);
}

/* While a writer elsewhere holds the lock, many changes wait for it in turn. What others have revoked is heard meanwhile. */
static void test_slow_changes(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u = add_settled(&w->a, "ada");
	char key[STORE_KEY_SIZE], name[16];
	struct err e = ERR_INIT;

	(void)add_key(&w->a, u.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(psql("BEGIN; SELECT pg_advisory_xact_lock(8386112020297315432);"
			   "SELECT pg_sleep(12); COMMIT",
			   NULL));
	while (number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0)
		(void)usleep(10 * 1000);
	for (int i = 0; i < 3; i++) {
		(void)snprintf(name, sizeof(name), "user%d", i);
		assert_int_equal(add(&w->a, name, &u, &e), 0);
	}
	assert_int_equal(psql("DELETE FROM keys", NULL), 0);
	const uint64_t since = now_ns();
	wait_until_opens(&w->a, key, false);
	assert_true(now_ns() - since < 8 * NS_PER_S);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Connections end while changes are made: each is either made and said so, or it is neither here nor there. */
static void test_lost_connections(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	int made = 0;

	for (int i = 0; i < 60; i++) {
		struct store_user u;
		struct err e = ERR_INIT;
		char name[32];

		(void)snprintf(name, sizeof(name), "user%d", i);
		if (i % 3 == 0)
			(void)number("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
				     " WHERE pid <> pg_backend_pid()"
				     " AND application_name = 'caisson'");
		if (add(&w->a, name, &u, &e) < 0) {
			assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
			turn(&w->a);
			continue;
		}
		const bool ok = wait_for(&w->a, settle(&w->a)) == ERR_NONE;
		assert_int_equal(knows(&w->a, name), ok);
		made += ok;
	}
	assert_true(made > 10);
	assert_int_equal(number("SELECT count(*) FROM users"), made);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    T(test_killed_server), T(test_old_copy),         T(test_silent_server),
	    T(test_slow_changes),  T(test_lost_connections),
	};
#undef T

	return cmocka_run_group_tests(tests, NULL, NULL);
}
