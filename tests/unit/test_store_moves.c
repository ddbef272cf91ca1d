/* SPDX-License-Identifier: Apache-2.0 */
/* store_moves.h, with SQLite; `tests/run postgres` runs it with PostgreSQL, too. */
#include "store/store_moves.h"

#include "base/tree.h"
#include "store_database.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static char dir[64], path[96];
static struct store *s;
static struct err e;

static int begin(void **state UNUSED)
{
	struct store_config config = {.path = path, .address = test_address(), .busy_ms = 20000};

	(void)snprintf(dir, sizeof(dir), "/tmp/caisson-moves-XXXXXX");
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/store.db", dir);
	empty_database();
	e = (struct err)ERR_INIT;
	assert_int_equal(store_open(&config, &s, &e), 0);
	return 0;
}

static int end(void **state UNUSED)
{
	s = store_close(s);
	return tree_remove(AT_FDCWD, dir);
}

/* ---- at a worker ---- */

static struct store_sandbox add(const char *owner)
{
	struct store_sandbox b = {.disk_bytes = 1000};
	const struct store_room room = {0};

	(void)snprintf(b.owner, sizeof(b.owner), "%s", owner);
	(void)snprintf(b.persist, sizeof(b.persist), "key");
	assert_int_equal(store_sandbox_add(s, &b, "", &room, &e), 0);
	return b;
}

struct list_of {
	unsigned n;
	struct store_moving rows[16];
};

static bool on_row(const struct store_moving *m, void *user)
{
	struct list_of *l = user;

	l->rows[l->n++] = *m;
	return l->n < 16;
}

static struct list_of list(bool unsaved)
{
	struct list_of l = {0};
	uint64_t after = 0;

	assert_true(store_moving_each(s, unsaved, &after, 16, on_row, &l, &e) >= 0);
	return l;
}

static void test_rows_of_sandboxes(void **state UNUSED)
{
	const struct store_sandbox b = add("ada");
	struct list_of l = list(true);

	assert_int_equal(l.n, 1);
	const struct store_moving m = l.rows[0];
	assert_string_equal(m.id, b.id);
	assert_string_equal(m.owner, "ada");
	assert_int_equal(strlen(m.incarnation), 32);
	assert_true(m.epoch == 0 && m.change == 1 && m.saved == 0 && !m.removed);
	assert_int_equal(m.disk_bytes, 1000);

	/* saved; opened again: what is saved is old */
	assert_int_equal(store_moving_saved(s, m.incarnation, 1, 1, &e), 0);
	assert_int_equal(list(true).n, 1);
	assert_int_equal(store_moving_saved(s, m.incarnation, 0, 1, &e), 1);
	assert_int_equal(list(true).n, 0);
	assert_int_equal(store_moving_opened(s, b.id, &e), 0);
	l = list(true);
	assert_true(l.n == 1 && l.rows[0].change == 2 && l.rows[0].saved == 1);
	/* an answer that comes late changes nothing */
	assert_int_equal(store_moving_saved(s, m.incarnation, 0, 2, &e), 1);
	assert_int_equal(store_moving_saved(s, m.incarnation, 0, 1, &e), 0);
	assert_int_equal(list(true).n, 0);

	/* nobody can have saved what is still to come */
	assert_int_equal(store_moving_saved(s, m.incarnation, 0, 3, &e), 0);
	assert_int_equal(store_moving_opened(s, b.id, &e), 0);
	assert_int_equal(list(true).n, 1);

	/* what routers have heard of leaves a tombstone, and its id may come again */
	assert_int_equal(store_sandbox_remove(s, b.id, &e), 1);
	l = list(true);
	assert_true(l.n == 1 && l.rows[0].removed);
	struct store_sandbox again = b;
	const struct store_room room = {0};
	assert_int_equal(store_sandbox_add(s, &again, "", &room, &e), 0);
	l = list(false);
	assert_int_equal(l.n, 2);
	assert_string_not_equal(l.rows[0].incarnation, l.rows[1].incarnation);
	assert_int_equal(store_moving_forget(s, l.rows[1].incarnation, &e), 0); /* it is none */
	assert_int_equal(store_moving_forget(s, m.incarnation, &e), 1);
	/* what nobody has heard of leaves none */
	assert_int_equal(store_sandbox_remove(s, b.id, &e), 1);
	assert_int_equal(list(false).n, 0);
}

static void test_pages(void **state UNUSED)
{
	struct list_of l = {0};
	uint64_t after = 0, at = 1;

	for (unsigned i = 0; i < 5; i++)
		(void)add("ada");
	while (at != after) {
		const unsigned n = l.n;

		at = after;
		assert_true(store_moving_each(s, false, &after, 2, on_row, &l, &e) >= 0);
		assert_true(l.n - n <= 2);
	}
	assert_int_equal(l.n, 5);
	for (unsigned i = 1; i < l.n; i++)
		assert_string_not_equal(l.rows[i].incarnation, l.rows[i - 1].incarnation);
}

/* It does not wait for the disk, and is there when the server was killed. */
static void test_opened_survives_the_server(void **state UNUSED)
{
	const struct store_config config = {.path = path, .address = test_address()};
	const struct store_sandbox b = add("ada");
	int status = 0;

	assert_int_equal(store_moving_saved(s, list(true).rows[0].incarnation, 0, 1, &e), 1);
	s = store_close(s);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *own = NULL;
		struct err why = ERR_INIT;

		if (store_open(&config, &own, &why) < 0 || store_moving_opened(own, b.id, &why) < 0)
			_exit(1);
		(void)kill(getpid(), SIGKILL);
		_exit(2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(store_open(&config, &s, &e), 0);
	assert_int_equal(list(true).n, 1);
	assert_int_equal(list(true).rows[0].change, 2);
}

/* Sandboxes that were there before they could move. */
static void test_older_tables(void **state UNUSED)
{
	const struct store_config config = {.path = path, .address = test_address()};
	static const char common[] =
	    "DROP TABLE moving; DROP TABLE snapshots; DROP TABLE snapshot_objects;"
	    "DROP TABLE snapshot_clock; DELETE FROM migrations WHERE version >= 16;";
	const struct store_sandbox b = add("ada"), c = add("eva");
	char sql[512];
	sqlite3 *db = NULL;

	s = store_close(s);
	(void)snprintf(sql, sizeof(sql), "%s%s",
		       test_address() ? "DROP FUNCTION moving_added CASCADE;"
					"DROP FUNCTION moving_removed CASCADE;"
				      : "DROP TRIGGER moving_added; DROP TRIGGER moving_removed;",
		       common);
	if (test_address()) {
		assert_int_equal(psql(sql, NULL), 0);
	} else {
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_close(db), SQLITE_OK);
	}
	assert_int_equal(store_open(&config, &s, &e), 0);
	struct list_of l = list(true);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.rows[0].id, b.id);
	assert_string_equal(l.rows[1].id, c.id);
	assert_string_equal(l.rows[1].owner, "eva");
	assert_int_equal(strlen(l.rows[0].incarnation), 32);
	assert_int_equal(strspn(l.rows[0].incarnation, "0123456789abcdef"), 32);
	assert_string_not_equal(l.rows[0].incarnation, l.rows[1].incarnation);
	assert_int_equal(store_sandbox_remove(s, b.id, &e), 1);
	(void)add("eva");
	l = list(false);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.rows[0].owner, "eva");
}

static void test_start_of_the_machine(void **state UNUSED)
{
	(void)add("ada");
	const struct store_moving m = list(false).rows[0];

	assert_int_equal(store_moving_boot(s, "first", &e), 0);
	const struct store_moving now = list(false).rows[0];
	assert_int_equal(store_moving_saved(s, m.incarnation, 0, now.change, &e), 1);
	assert_int_equal(store_moving_boot(s, "first", &e), 0);
	assert_int_equal(list(true).n, 0);
	assert_int_equal(store_moving_boot(s, "second", &e), 0);
	assert_int_equal(list(true).n, 1);
	assert_int_equal(store_moving_saved(s, m.incarnation, 0, list(true).rows[0].change, &e), 1);
	assert_int_equal(store_moving_boot(s, "", &e), 0);
	assert_int_equal(store_moving_boot(s, "", &e), 0);
	assert_int_equal(list(true).n, 1);
}

static void test_arrival_and_leaving(void **state UNUSED)
{
	static const char incarnation[] = "00112233445566778899aabbccddeeff";
	struct store_sandbox b = {.id = "1234", .owner = "ada", .persist = "k", .disk_bytes = 600};
	struct store_room room = {.owner_bytes = 1000};
	struct store_moving m;

	assert_int_equal(store_sandbox_check(s, &b, &room, &e), 0);
	assert_int_equal(store_moving_add(s, &b, "{}", incarnation, 3, &room, &e), 0);
	assert_int_equal(store_moving_find(s, incarnation, &m, &e), 1);
	assert_true(m.epoch == 3 && m.change == m.saved && !m.removed);
	assert_string_equal(m.id, "1234");
	assert_string_equal(m.proof, "");
	assert_int_equal(store_moving_prove(s, incarnation, 2, "ab", &e), 0);
	assert_int_equal(store_moving_prove(s, incarnation, 3, "ab", &e), 1);
	assert_string_equal(list(false).rows[0].proof, "ab");
	assert_int_equal(list(true).n, 0);
	struct store_sandbox other = {
	    .id = "5", .owner = "ada", .persist = "k2", .disk_bytes = 600};
	assert_true(store_sandbox_check(s, &other, &room, &e) < 0);
	assert_int_equal(e.code, ERR_QUOTA_EXCEEDED);
	assert_true(store_moving_add(s, &other, "", "ffff", 1, &room, &e) < 0);
	assert_int_equal(store_moving_find(s, "ffff", &m, &e), 0);
	/* no tombstone: its owner has not removed it */
	assert_int_equal(store_moving_leave(s, "1234", &e), 1);
	assert_int_equal(store_moving_leave(s, "1234", &e), 0);
	assert_int_equal(list(false).n, 0);
	assert_int_equal(store_sandbox_get(s, NULL, "1234", &b, &e), 0);
}

/* ---- at routers ---- */

static struct store_snapshot one(const char *incarnation, const char *id)
{
	struct store_snapshot x = {.worker = "abc", .disk_bytes = 5000};

	(void)snprintf(x.incarnation, sizeof(x.incarnation), "%s", incarnation);
	(void)snprintf(x.id, sizeof(x.id), "%s", id);
	(void)snprintf(x.owner, sizeof(x.owner), "ada");
	return x;
}

static void set(struct store_objects *o, uint32_t index)
{
	o->bits[index / 8] |= (uint8_t)(1u << (index % 8));
}

/* The next generation with the objects FIRST to LAST is saved; KEPT: of the generation before it is needed, too. */
static struct store_snapshot save(const struct store_snapshot *x, uint32_t first, uint32_t last,
				  int kept)
{
	struct store_objects o[2] = {0};
	struct store_snapshot row;

	assert_int_equal(store_snapshot_begin(s, x, &row, &e), 0);
	o[0].epoch = o[1].epoch = row.epoch;
	o[0].generation = row.generation;
	o[1].generation = row.generation - 1;
	for (uint32_t i = first; i <= last; i++)
		set(&o[0], i);
	if (kept >= 0)
		set(&o[1], (uint32_t)kept);
	assert_int_equal(store_snapshot_stored(s, x->incarnation, &o[0], &e), 0);
	(void)snprintf(row.hash, sizeof(row.hash), "%064u", row.generation);
	row.bytes = 100;
	assert_int_equal(store_snapshot_saved(s, &row, o, kept >= 0 ? 2 : 1, &e), 1);
	assert_int_equal(store_snapshot_get(s, x->incarnation, &row, &e), 1);
	return row;
}

static unsigned n_dead;
static struct store_objects dead[8];
static char dead_of[8][STORE_INCARNATION_SIZE];

static bool on_dead(const char *incarnation, const struct store_objects *o, void *user UNUSED)
{
	(void)snprintf(dead_of[n_dead], sizeof(dead_of[0]), "%s", incarnation);
	dead[n_dead++] = *o;
	return n_dead < 8;
}

static unsigned look_for_dead(void)
{
	n_dead = 0;
	assert_true(store_snapshot_dead(s, UINT64_C(1) << 60, 8, on_dead, NULL, &e) >= 0);
	return n_dead;
}

static void test_generations(void **state UNUSED)
{
	const struct store_snapshot x = one("a1", "id-1");
	struct store_snapshot row = save(&x, 0, 3, -1);

	assert_true(row.epoch == 0 && row.generation == 1 && row.snap_generation == 1);
	assert_true(row.bytes == 100 && row.saved_ms > 0 && !row.loading);
	assert_int_equal(look_for_dead(), 0);
	row = save(&x, 0, 0, 2);
	assert_int_equal(row.snap_generation, 2);
	/* of the first generation 0, 1 and 3 are not needed any more */
	assert_int_equal(look_for_dead(), 1);
	assert_true(dead[0].generation == 1 && dead[0].bits[0] == 0x0b);
	n_dead = 0;
	assert_true(store_snapshot_dead(s, 1, 8, on_dead, NULL, &e) >= 0);
	assert_int_equal(n_dead, 0); /* not yet */

	/* What dies while others wait comes after them. */
	row = save(&x, 5, 5, -1);
	assert_int_equal(look_for_dead(), 2);
	assert_true(dead[0].bits[0] == 0x0b && dead[1].generation == 2);
	struct store_objects gone = dead[0];
	gone.bits[0] = 0x03; /* only two could be deleted */
	assert_int_equal(store_snapshot_deleted(s, "a1", &gone, &e), 0);
	assert_int_equal(look_for_dead(), 2);
	assert_true(dead[0].generation == 1 && dead[0].bits[0] == 0x08);
	gone.bits[0] = 0x08;
	assert_int_equal(store_snapshot_deleted(s, "a1", &gone, &e), 0);
	assert_int_equal(look_for_dead(), 2);
	for (unsigned i = 0; i < 2; i++)
		if (dead[i].generation == 1)
			assert_int_equal(dead[i].bits[0], 0x04);

	/* An order of an older generation that ends late, or of another epoch, changes nothing. */
	struct store_snapshot late = row;
	late.generation = 2;
	assert_int_equal(store_snapshot_saved(s, &late, NULL, 0, &e), 0);
	late = row;
	late.epoch = 1;
	assert_int_equal(store_snapshot_saved(s, &late, NULL, 0, &e), 0);
	assert_int_equal(store_snapshot_get(s, "a1", &late, &e), 1);
	assert_int_equal(late.snap_generation, 3);
}

static void test_epochs(void **state UNUSED)
{
	struct store_snapshot x = one("a1", "id-1"), row;

	(void)save(&x, 0, 0, -1);
	assert_int_equal(store_snapshot_take(s, "a1", 1, "def", &row, &e), 0);
	assert_int_equal(store_snapshot_take(s, "a1", 0, "def", &row, &e), 1);
	assert_true(row.epoch == 1 && row.loading && row.generation == 0);
	assert_string_equal(row.worker, "def");
	/* two routers at once: one of them */
	assert_int_equal(store_snapshot_take(s, "a1", 0, "ghi", &row, &e), 0);
	assert_string_equal(row.worker, "def");
	/* the first worker saves nothing more, and the second one not before it has it */
	assert_true(store_snapshot_begin(s, &x, &row, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_BUSY);
	x.epoch = 1;
	(void)snprintf(x.worker, sizeof(x.worker), "def");
	assert_true(store_snapshot_begin(s, &x, &row, &e) < 0);
	assert_int_equal(store_snapshot_here(s, "a1", 0, &e), 0);
	assert_int_equal(store_snapshot_here(s, "a1", 1, &e), 1);
	row = save(&x, 0, 0, -1);
	assert_true(row.snap_epoch == 1 && row.snap_generation == 1);

	assert_int_equal(store_snapshot_nowhere(s, "a1", 0, &e), 0);
	assert_int_equal(store_snapshot_nowhere(s, "a1", 1, &e), 1);
	assert_int_equal(store_snapshot_find(s, "id-1", &row, &e), 1);
	assert_string_equal(row.worker, "");
	assert_int_equal(store_snapshot_back(s, "a1", 1, "def", &e), 1);
	/* the database was restored: a worker has a newer one */
	assert_int_equal(store_snapshot_raise(s, "a1", 1, "ghi", &e), 0);
	assert_int_equal(store_snapshot_raise(s, "a1", 4, "ghi", &e), 1);
	assert_int_equal(store_snapshot_get(s, "a1", &row, &e), 1);
	assert_true(row.epoch == 4 && row.generation > 0);
	/* another incarnation of a known id is none of ours */
	x = one("b2", "id-1");
	assert_true(store_snapshot_begin(s, &x, &row, &e) < 0);
}

static bool on_changed(const struct store_snapshot *x, void *user)
{
	char *text = user;

	(void)snprintf(text + strlen(text), 48, "%s%s ", x->incarnation,
		       x->removed_ms > 0 ? "-" : "");
	return true;
}

static void test_changes_and_removal(void **state UNUSED)
{
	const struct store_snapshot x = one("a1", "id-1"), y = one("b2", "id-2");
	struct store_snapshot row;
	char text[128] = "";

	(void)save(&x, 0, 0, -1);
	const uint64_t before = save(&y, 0, 0, -1).version;
	assert_true(store_snapshot_since(s, 0, 10, on_changed, text, &e) >= 0);
	assert_string_equal(text, "a1 b2 ");
	text[0] = '\0';
	assert_true(store_snapshot_since(s, before, 10, on_changed, text, &e) >= 0);
	assert_string_equal(text, "");
	assert_int_equal(store_snapshot_fits(s, &x, 100, 200, 0, &e), 0);
	assert_true(store_snapshot_fits(s, &x, 101, 200, 0, &e) < 0);
	assert_int_equal(e.code, ERR_QUOTA_EXCEEDED);
	assert_true(store_snapshot_fits(s, &x, 101, 0, 200, &e) < 0);

	/* who does not have it cannot say so */
	assert_int_equal(store_snapshot_removed(s, "a1", 0, "def", false, &e), 0);
	assert_int_equal(store_snapshot_removed(s, "a1", 1, "abc", false, &e), 0);
	assert_int_equal(store_snapshot_removed(s, "a1", 0, "abc", false, &e), 1);
	assert_int_equal(store_snapshot_removed(s, "a1", 0, "abc", false, &e), 0);
	assert_true(store_snapshot_since(s, before, 10, on_changed, text, &e) >= 0);
	assert_string_equal(text, "a1- ");
	assert_int_equal(store_snapshot_find(s, "id-1", &row, &e), 0);
	assert_int_equal(store_snapshot_take(s, "a1", 0, "def", &row, &e), 0);
	/* its row goes with its last object */
	assert_int_equal(look_for_dead(), 1);
	assert_int_equal(store_snapshot_deleted(s, dead_of[0], &dead[0], &e), 0);
	assert_int_equal(store_snapshot_get(s, "a1", &row, &e), 0);

	text[0] = '\0';
	assert_true(store_snapshot_of_worker(s, "abc", "", 10, on_changed, text, &e) >= 0);
	assert_string_equal(text, "b2 ");
	assert_int_equal(store_snapshot_removed_of(s, "ada", 10, &e), 1);
	assert_int_equal(store_snapshot_removed_of(s, "ada", 10, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_rows_of_sandboxes, begin, end),
	    cmocka_unit_test_setup_teardown(test_pages, begin, end),
	    cmocka_unit_test_setup_teardown(test_opened_survives_the_server, begin, end),
	    cmocka_unit_test_setup_teardown(test_older_tables, begin, end),
	    cmocka_unit_test_setup_teardown(test_start_of_the_machine, begin, end),
	    cmocka_unit_test_setup_teardown(test_arrival_and_leaving, begin, end),
	    cmocka_unit_test_setup_teardown(test_generations, begin, end),
	    cmocka_unit_test_setup_teardown(test_epochs, begin, end),
	    cmocka_unit_test_setup_teardown(test_changes_and_removal, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
