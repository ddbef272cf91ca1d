/* SPDX-License-Identifier: Apache-2.0 */
/* Where cells stand in a notebook: room between any two, histories of older programs, and which cell goes first. */
#include "base/rand.h"
#include "base/text.h"
#include "store/db.h"
#include "store_database.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CELLS 400

struct world {
	char dir[64];
	char path[96];
	struct store *s;
};

static void open_with(struct world *w, unsigned keep)
{
	const struct store_config config = {.path = w->path,
					    .address = test_address(),
					    .busy_ms = 20000,
					    .cells_keep = keep,
					    .cells_bytes = 1u << 20,
					    .cells_total = 1u << 20};
	struct err e = ERR_INIT;

	w->s = store_close(w->s);
	assert_int_equal(store_open(&config, &w->s, &e), 0);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-places-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	empty_database();
	(void)snprintf(w->path, sizeof(w->path), "%s/caisson.db", w->dir);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"caisson.db",        "caisson.db-wal",
					    "caisson.db-shm",    "caisson.db-runs",
					    "caisson.db.before", ""};
	struct world *w = *state;
	char path[128];

	w->s = store_close(w->s);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", w->dir, files[i]);
		(void)remove(path);
	}
	free(w);
	return 0;
}

/* What another program does to the database. */
static void change(struct world *w, const char *sql)
{
	sqlite3 *db;
	char *why = NULL;

	w->s = store_close(w->s);
	if (test_address()) {
		assert_int_equal(psql(sql, NULL), 0);
		return;
	}
	assert_int_equal(sqlite3_open(w->path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s", why);
	(void)sqlite3_close(db);
}

static void add(struct world *w, const char *run)
{
	struct store_cell *c = calloc(1, sizeof(*c));

	(void)snprintf(c->owner, sizeof(c->owner), "ada");
	(void)snprintf(c->sandbox, sizeof(c->sandbox), "s");
	(void)snprintf(c->run, sizeof(c->run), "%s", run);
	store_note_cell(w->s, c);
	store_flush(w->s);
}

static bool note(const struct store_cell *c, void *user)
{
	struct buf *all = user;

	return buf_printf(all, "%s ", c->run) == 0;
}

static void assert_order(struct world *w, const char *expected)
{
	_cleanup_(buf_done) struct buf all = BUF_INIT(1 << 16), back = BUF_INIT(1 << 16);
	char place[STORE_CELL_PLACE_SIZE];
	struct err e = ERR_INIT;

	assert_int_equal(store_cells_after(w->s, "ada", "s", "", note, &all, &e), 0);
	assert_string_equal(buf_str(&all), expected);
	buf_done(&all);
	all = BUF_INIT(1 << 16);
	assert_int_equal(store_cell_place(w->s, "ada", "s", 2, place, &e), 0);
	assert_int_equal(store_cells_before(w->s, "ada", "s", place, note, &back, &e), 0);
	assert_int_equal(store_cells_from(w->s, "ada", "s", place, note, &all, &e), 0);
	assert_int_equal(back.len + all.len, strlen(expected));
}

/* ---- cases ---- */

static void assert_between(const char *a, const char *b, const char *place)
{
	assert_true(strcmp(a, place) < 0);
	assert_true(strcmp(place, b) < 0);
	assert_int_not_equal(place[strlen(place) - 1], '0');
}

static void test_between(void **state UNUSED)
{
	/* the beginning, the first cell, and one whose number ends in zeros */
	static char places[CELLS + 2][STORE_CELL_PLACE_SIZE] = {"", "0000000000000001",
								"0000000000000100"};
	char place[STORE_CELL_PLACE_SIZE];
	size_t n = 3;

	while (n < ARRAY_SIZE(places)) {
		uint16_t any;

		rand_bytes(&any, sizeof(any));
		const size_t at = 1 + any % (n - 1);
		assert_int_equal(place_between(places[at - 1], places[at], place), 0);
		assert_between(places[at - 1], places[at], place);
		memmove(places[at + 1], places[at], (n - at) * sizeof(*places));
		memcpy(places[at], place, sizeof(place));
		n++;
	}
}

/* Again and again at one place, from each side. */
static void test_no_room(void **state UNUSED)
{
	for (int side = 0; side < 2; side++) {
		char a[STORE_CELL_PLACE_SIZE] = "000000000000001f";
		char b[STORE_CELL_PLACE_SIZE] = "0000000000000020";
		char place[STORE_CELL_PLACE_SIZE];
		int n = 0, r;

		while ((r = place_between(a, b, place)) == 0) {
			assert_between(a, b, place);
			memcpy(side ? a : b, place, sizeof(place));
			n++;
		}
		assert_int_equal(r, -ENOSPC);
		assert_in_range(n, 500, 1000);
	}
}

static void test_older_history(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;

	open_with(w, 100);
	change(
	    w,
	    "DROP TRIGGER moving_added; DROP TRIGGER moving_removed; DROP TABLE moving;"
	    "DROP TABLE snapshots; DROP TABLE snapshot_objects; DROP TABLE snapshot_clock;"
	    "DROP INDEX users_idle; DROP INDEX cells_place; ALTER TABLE cells DROP COLUMN place;"
	    "DELETE FROM migrations WHERE version >= 14;"
	    "INSERT INTO cells(run, owner, sandbox, started_ms, bytes, code, out, err, value, meta)"
	    " VALUES('one', 'ada', 's', 1, 1, '', '', '', '', '{}'),"
	    " ('two', 'ada', 's', 2, 1, '', '', '', '', '{}')");
	open_with(w, 100);
	assert_order(w, "one two ");
	add(w, "three");
	assert_order(w, "one two three ");
}

/* The database at PATH: version of its tables, whether cells have places, number of cells. */
static void look(const char *path, unsigned *ret_version, bool *ret_places, int *ret_cells)
{
	static const char *const questions[] = {
	    "SELECT max(version) FROM migrations",
	    "SELECT count(*) FROM pragma_table_info('cells') WHERE name = 'place'",
	    "SELECT count(*) FROM cells",
	};
	int answers[ARRAY_SIZE(questions)];
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		sqlite3_stmt *st = NULL;

		assert_int_equal(sqlite3_prepare_v2(db, questions[i], -1, &st, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_step(st), SQLITE_ROW);
		answers[i] = sqlite3_column_int(st, 0);
		assert_int_equal(sqlite3_finalize(st), SQLITE_OK);
	}
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	*ret_version = (unsigned)answers[0];
	*ret_places = answers[1] == 1;
	*ret_cells = answers[2];
}

/* Before the tables are changed, the database is copied; without a change nothing is. */
static void test_copy_before(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	char kept[PATH_MAX], unfinished[PATH_MAX];
	unsigned version;
	bool places;
	int cells;
	struct stat st;

	(void)snprintf(kept, sizeof(kept), "%s.before", w->path);
	(void)snprintf(unfinished, sizeof(unfinished), "%s.before.new", w->path);
	open_with(w, 100);
	add(w, "one");
	open_with(w, 100);
	assert_int_equal(access(kept, F_OK), -1);
	change(w,
	       "DROP TRIGGER moving_added; DROP TRIGGER moving_removed; DROP TABLE moving;"
	       "DROP TABLE snapshots; DROP TABLE snapshot_objects; DROP TABLE snapshot_clock;"
	       "DROP INDEX users_idle; DROP INDEX cells_place; ALTER TABLE cells DROP COLUMN place;"
	       "DELETE FROM migrations WHERE version >= 14;");
	FILE *f = fopen(unfinished, "w"); /* a start was killed while it copied */

	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
	open_with(w, 100);
	assert_order(w, "one ");
	look(kept, &version, &places, &cells);
	assert_int_equal(version, 13);
	assert_false(places);
	assert_int_equal(cells, 1);
	assert_int_equal(stat(kept, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(access(unfinished, F_OK), -1);
	look(w->path, &version, &places, &cells);
	assert_int_not_equal(version, 13);
	assert_true(places);
}

/* The oldest cell goes first, not the one that stands first. */
static void test_pruning(void **state)
{
	struct world *w = *state;
	const char *const runs[] = {"one", "two", "three"};

	open_with(w, 3);
	for (size_t i = 0; i < ARRAY_SIZE(runs); i++)
		add(w, runs[i]);
	change(w, "UPDATE cells SET place = '0000000000000000i' WHERE run = 'three'");
	open_with(w, 3);
	assert_order(w, "three one two ");
	add(w, "four");
	assert_order(w, "three two four ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_between),
	    cmocka_unit_test(test_no_room),
	    cmocka_unit_test_setup_teardown(test_older_history, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_copy_before, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_pruning, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
