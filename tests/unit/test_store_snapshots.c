/* SPDX-License-Identifier: Apache-2.0 */
/* The routers' rows of store_moves.h when calls come late, twice, from several routers, or after the database was restored.
 * With SQLite; `tests/run postgres` runs it with PostgreSQL, too. */
#include "store/store_moves.h"

#include "base/tree.h"
#include "store_database.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LATER (UINT64_C(1) << 60) /* ms: everything waits since before */

static char dir[64], path[96];
static struct store *s;
static struct err e;

static struct store *open_store(void)
{
	const struct store_config config = {
	    .path = path, .address = test_address(), .busy_ms = 20000};
	struct store *ret = NULL;
	struct err why = ERR_INIT;

	assert_int_equal(store_open(&config, &ret, &why), 0);
	return ret;
}

static int begin(void **state UNUSED)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/caisson-snapshots-XXXXXX");
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/store.db", dir);
	empty_database();
	e = (struct err)ERR_INIT;
	s = open_store();
	return 0;
}

static int end(void **state UNUSED)
{
	s = store_close(s);
	return tree_remove(AT_FDCWD, dir);
}

/* SQL from outside the program. */
static void change(const char *sql)
{
	sqlite3 *db = NULL;

	if (test_address()) {
		assert_int_equal(psql(sql, NULL), 0);
		return;
	}
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	(void)sqlite3_busy_timeout(db, 20000);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static struct store_snapshot one(const char *incarnation, const char *id)
{
	struct store_snapshot x = {.worker = "abc", .disk_bytes = 5000};

	(void)snprintf(x.incarnation, sizeof(x.incarnation), "%s", incarnation);
	(void)snprintf(x.id, sizeof(x.id), "%s", id);
	(void)snprintf(x.owner, sizeof(x.owner), "ada");
	return x;
}

static const struct store_snapshot first = {
    .incarnation = "a1", .id = "id-1", .owner = "ada", .worker = "abc", .disk_bytes = 5000};

/* The objects BITS, of the first eight, of a generation. */
static struct store_objects objects(const struct store_snapshot *row, uint8_t bits)
{
	struct store_objects o = {.epoch = row->epoch, .generation = row->generation};

	o.bits[0] = bits;
	return o;
}

static struct store_snapshot begin_save(const struct store_snapshot *x)
{
	struct store_snapshot row;

	assert_int_equal(store_snapshot_begin(s, x, &row, &e), 0);
	(void)snprintf(row.hash, sizeof(row.hash), "%064u", row.generation);
	row.bytes = 100;
	return row;
}

static void put(const struct store_snapshot *row, uint8_t bits)
{
	const struct store_objects o = objects(row, bits);

	assert_int_equal(store_snapshot_stored(s, row->incarnation, &o, &e), 0);
}

static int saved(const struct store_snapshot *row, uint8_t bits)
{
	const struct store_objects o = objects(row, bits);

	return store_snapshot_saved(s, row, &o, 1, &e);
}

static unsigned n_dead;
static struct store_objects dead[8];

static bool on_dead(const char *incarnation UNUSED, const struct store_objects *o,
		    void *user UNUSED)
{
	dead[n_dead++] = *o;
	return n_dead < 8;
}

/* How many generations have objects that nobody has needed since before BEFORE_MS. */
static unsigned look_for_dead(uint64_t before_ms)
{
	n_dead = 0;
	assert_true(store_snapshot_dead(s, before_ms, 8, on_dead, NULL, &e) >= 0);
	return n_dead;
}

/* ---- orders that end late, or never ---- */

/* Two routers: the order of the slow one is over for the worker, and the other one has begun the next. */
static void test_end_of_an_older_order(void **state UNUSED)
{
	const struct store_snapshot older = begin_save(&first), newer = begin_save(&first);

	put(&older, 0x03);
	put(&newer, 0x0f);
	assert_int_equal(saved(&older, 0x03), 1);
	assert_int_equal(saved(&newer, 0x0f), 1);
	/* the older one is not needed any more; all of the newer one is */
	assert_int_equal(look_for_dead(LATER), 1);
	assert_true(dead[0].generation == older.generation && dead[0].bits[0] == 0x03);
	/* and in the other order */
	assert_int_equal(saved(&older, 0x03), 0);
	assert_int_equal(look_for_dead(LATER), 1);
	assert_int_equal(dead[0].generation, older.generation);
}

static void test_order_that_never_ends(void **state UNUSED)
{
	const struct store_snapshot row = begin_save(&first);
	const uint64_t before = store_now_ms();

	put(&row, 0x07);
	assert_int_equal(look_for_dead(before), 0);
	assert_int_equal(look_for_dead(LATER), 1);
	assert_int_equal(dead[0].bits[0], 0x07);
	/* An upload that goes on keeps what it has stored: all of it waits anew. */
	change("UPDATE snapshot_objects SET dead_ms = 1");
	assert_int_equal(look_for_dead(before), 1);
	put(&row, 0x08);
	assert_int_equal(look_for_dead(before), 0);
	assert_int_equal(look_for_dead(LATER), 1);
	assert_int_equal(dead[0].bits[0], 0x0f);
	/* What its manifest names is needed. */
	assert_int_equal(saved(&row, 0x0d), 1);
	assert_int_equal(look_for_dead(LATER), 1);
	assert_int_equal(dead[0].bits[0], 0x02);
}

/* Nobody would delete an object that is noted after the last look at its sandbox. */
static void test_stored_too_late(void **state UNUSED)
{
	const struct store_snapshot row = begin_save(&first);
	struct store_snapshot now;
	struct store_objects o = objects(&row, 1);

	o.generation++; /* it was never given away */
	assert_true(store_snapshot_stored(s, "a1", &o, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_BUSY);
	o = objects(&row, 1);
	assert_true(store_snapshot_stored(s, "b2", &o, &e) < 0);
	put(&row, 1);
	assert_int_equal(saved(&row, 1), 1);
	assert_int_equal(store_snapshot_take(s, "a1", 0, "def", &now, &e), 1);
	assert_true(store_snapshot_stored(s, "a1", &o, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_BUSY);
	assert_int_equal(store_snapshot_here(s, "a1", 1, &e), 1);
	assert_int_equal(store_snapshot_removed(s, "a1", 1, "def", true, &e), 1);
	o.epoch = 1;
	assert_true(store_snapshot_stored(s, "a1", &o, &e) < 0);
	assert_int_equal(look_for_dead(LATER), 1);
}

/* The next worker could not read it. */
static void test_manifest_of_what_is_not_stored(void **state UNUSED)
{
	struct store_snapshot row = begin_save(&first), now;
	struct store_objects keeps[2] = {objects(&row, 0x03), objects(&row, 0)};

	put(&row, 0x01);
	assert_true(store_snapshot_saved(s, &row, keeps, 1, &e) < 0);
	assert_int_equal(e.code, ERR_SNAPSHOT_INVALID);
	/* nor of a generation of which nothing is stored, nor one generation twice */
	keeps[0] = keeps[1] = objects(&row, 0x01);
	keeps[1].generation = 7;
	assert_true(store_snapshot_saved(s, &row, keeps, 2, &e) < 0);
	keeps[1] = keeps[0];
	assert_true(store_snapshot_saved(s, &row, keeps, 2, &e) < 0);
	/* nothing of it has stayed */
	assert_int_equal(store_snapshot_get(s, "a1", &now, &e), 1);
	assert_true(now.snap_generation == 0 && now.bytes == 0);
	assert_int_equal(store_snapshot_saved(s, &row, keeps, 1, &e), 1);
}

/* ---- deleting ---- */

static void test_deleting_in_parts(void **state UNUSED)
{
	struct store_snapshot row = begin_save(&first);
	const uint64_t before = store_now_ms();

	put(&row, 0x0f);
	assert_int_equal(saved(&row, 0x0f), 1);
	row = begin_save(&first);
	put(&row, 0x01);
	assert_int_equal(saved(&row, 0x01), 1);
	change("UPDATE snapshot_objects SET dead_ms = 1 WHERE dead_ms > 0");
	assert_int_equal(look_for_dead(before), 1);
	/* The others are due, too: they do not wait as long again. */
	struct store_objects gone = dead[0];
	gone.bits[0] = 0x03;
	assert_int_equal(store_snapshot_deleted(s, "a1", &gone, &e), 0);
	assert_int_equal(look_for_dead(before), 1);
	assert_int_equal(dead[0].bits[0], 0x0c);
	/* One that cannot be deleted does not stay before the others. */
	gone.bits[0] = 0;
	assert_int_equal(store_snapshot_deleted(s, "a1", &gone, &e), 0);
	assert_int_equal(look_for_dead(before), 0);
	assert_int_equal(look_for_dead(LATER), 1);
	assert_int_equal(dead[0].bits[0], 0x0c);
	assert_int_equal(store_snapshot_deleted(s, "a1", &dead[0], &e), 0);
	assert_int_equal(look_for_dead(LATER), 0);
}

static void delete_all(void)
{
	while (look_for_dead(LATER) > 0)
		for (unsigned i = 0; i < n_dead; i++)
			assert_int_equal(store_snapshot_deleted(s, "a1", &dead[i], &e), 0);
}

/* A worker that was away may still have a copy, which must not count as a new sandbox. */
static void test_rows_of_removed_ones(void **state UNUSED)
{
	struct store_snapshot row = begin_save(&first), now;

	put(&row, 1);
	assert_int_equal(saved(&row, 1), 1);
	assert_int_equal(store_snapshot_take(s, "a1", 0, "def", &now, &e), 1);
	assert_int_equal(store_snapshot_here(s, "a1", 1, &e), 1);
	assert_int_equal(store_snapshot_removed(s, "a1", 1, "def", false, &e), 1);
	delete_all();
	assert_int_equal(store_snapshot_get(s, "a1", &now, &e), 1);
	assert_true(now.removed_ms > 0 && now.bytes == 0);
	assert_true(store_snapshot_begin(s, &first, &now, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_BUSY);
	assert_int_equal(store_snapshot_find(s, "id-1", &now, &e), 0);
	/* not for ever */
	assert_int_equal(store_snapshot_forget(s, 1, 10, &e), 0);
	assert_int_equal(store_snapshot_forget(s, LATER, 10, &e), 1);
	assert_int_equal(store_snapshot_get(s, "a1", &now, &e), 0);

	/* The owner is removed while the only worker that has it is away. */
	row = begin_save(&first);
	put(&row, 1);
	assert_int_equal(store_snapshot_removed_of(s, "ada", 10, &e), 1);
	assert_int_equal(store_snapshot_forget(s, LATER, 10, &e), 0); /* it has objects */
	delete_all();
	assert_int_equal(store_snapshot_get(s, "a1", &now, &e), 1);
	assert_int_equal(store_snapshot_forget(s, LATER, 10, &e), 1);

	/* The only one that ever had it says so: nobody can come with it. */
	row = begin_save(&first);
	put(&row, 1);
	assert_int_equal(store_snapshot_removed(s, "a1", 0, "abc", false, &e), 1);
	delete_all();
	assert_int_equal(store_snapshot_get(s, "a1", &now, &e), 0);
}

/* While no worker has it, one that once had it could guess the epoch. */
static void test_removal_without_proof(void **state UNUSED)
{
	(void)begin_save(&first);
	assert_int_equal(store_snapshot_nowhere(s, "a1", 0, &e), 1);
	assert_int_equal(store_snapshot_removed(s, "a1", 0, "abc", false, &e), 0);
	assert_int_equal(store_snapshot_removed(s, "a1", 0, "abc", true, &e), 1);
}

static void test_removing_all_of_an_owner(void **state UNUSED)
{
	char id[16], incarnation[16];

	for (unsigned i = 0; i < 5; i++) {
		(void)snprintf(id, sizeof(id), "id-%u", i);
		(void)snprintf(incarnation, sizeof(incarnation), "a%u", i);
		const struct store_snapshot x = one(incarnation, id);
		(void)begin_save(&x);
	}
	assert_int_equal(store_snapshot_removed_of(s, "bob", 10, &e), 0);
	assert_int_equal(store_snapshot_removed_of(s, "ada", 3, &e), 3);
	assert_int_equal(store_snapshot_removed_of(s, "ada", 10, &e), 2);
}

/* ---- what routers read ---- */

struct seen {
	unsigned n;
	uint64_t last;
	char text[256];
};

static bool on_changed(const struct store_snapshot *x, void *user)
{
	struct seen *seen = user;
	const size_t used = strlen(seen->text);

	assert_true(x->version > seen->last);
	seen->last = x->version;
	seen->n++;
	if (used + 8 < sizeof(seen->text))
		(void)snprintf(seen->text + used, sizeof(seen->text) - used, "%.6s ",
			       x->incarnation);
	return true;
}

static void test_database_that_was_restored(void **state UNUSED)
{
	const struct store_snapshot x = one("a1", "id-1"), y = one("b2", "id-2");
	struct seen seen = {0};

	(void)begin_save(&x);
	(void)begin_save(&y);
	/* as a router that has seen many changes, which are lost now */
	assert_int_equal(store_snapshot_since(s, 1000, 10, on_changed, &seen, &e), 0);
	assert_string_equal(seen.text, "a1 b2 ");
	/* in pages: from there on as ever */
	seen = (struct seen){0};
	assert_int_equal(store_snapshot_since(s, 1000, 1, on_changed, &seen, &e), 0);
	assert_int_equal(store_snapshot_since(s, seen.last, 1, on_changed, &seen, &e), 0);
	assert_int_equal(store_snapshot_since(s, seen.last, 1, on_changed, &seen, &e), 0);
	assert_string_equal(seen.text, "a1 b2 ");
}

#define WRITERS 4u
#define CHANGES 20u

static void *write_some(void *user)
{
	struct store *own = open_store();
	const unsigned number = *(const unsigned *)user;
	struct store_snapshot x, row;
	struct err why = ERR_INIT;
	char text[16];
	bool ok = true;

	(void)snprintf(text, sizeof(text), "w%u", number);
	x = one(text, text);
	for (unsigned i = 0; i < CHANGES; i++)
		ok =
		    ok && store_snapshot_begin(own, &x, &row, &why) == 0 && row.generation == i + 1;
	(void)store_close(own);
	return ok ? NULL : (void *)(uintptr_t)1;
}

static bool on_version(const struct store_snapshot *x, void *user)
{
	struct store_snapshot *last = user;

	assert_true(x->version > last[WRITERS].version);
	last[WRITERS].version = x->version;
	last[x->incarnation[1] - '0'] = *x;
	return true;
}

/* A reader that remembers the last version only has the last state of each row in the end. */
static void test_several_routers(void **state UNUSED)
{
	struct store_snapshot last[WRITERS + 1] = {0};
	unsigned numbers[WRITERS];
	pthread_t threads[WRITERS];
	bool all = false;
	void *failed = NULL;

	for (unsigned i = 0; i < WRITERS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, write_some, &numbers[i]), 0);
	}
	const uint64_t until_ms = store_now_ms() + 60000;
	while (!all && store_now_ms() < until_ms) {
		assert_int_equal(
		    store_snapshot_since(s, last[WRITERS].version, 3, on_version, last, &e), 0);
		all = true;
		for (unsigned i = 0; i < WRITERS; i++)
			all = all && last[i].generation == CHANGES;
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_true(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_end_of_an_older_order, begin, end),
	    cmocka_unit_test_setup_teardown(test_order_that_never_ends, begin, end),
	    cmocka_unit_test_setup_teardown(test_stored_too_late, begin, end),
	    cmocka_unit_test_setup_teardown(test_manifest_of_what_is_not_stored, begin, end),
	    cmocka_unit_test_setup_teardown(test_deleting_in_parts, begin, end),
	    cmocka_unit_test_setup_teardown(test_rows_of_removed_ones, begin, end),
	    cmocka_unit_test_setup_teardown(test_removal_without_proof, begin, end),
	    cmocka_unit_test_setup_teardown(test_removing_all_of_an_owner, begin, end),
	    cmocka_unit_test_setup_teardown(test_database_that_was_restored, begin, end),
	    cmocka_unit_test_setup_teardown(test_several_routers, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
