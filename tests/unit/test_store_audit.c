/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log under floods: what fails is counted, and each class of rows and each actor displace only their own. Rows
 * that the database refuses for good, and what removed users leave. */
#include "base/text.h"
#include "store/store.h"
#include "store_database.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define KEEP 1000

struct world {
	char dir[64];
	char path[96];
	struct store *s;
	sd_event *loop;
	sqlite3 *other;
	uint64_t n_aside;
	char aside[STORE_OBJECT_SIZE];
};

static void on_aside(const char *what, const struct err *e, uint64_t n, void *user)
{
	struct world *w = user;

	assert_true(e->text[0] != '\0');
	w->n_aside += n;
	(void)snprintf(w->aside, sizeof(w->aside), "%s", what);
}

static void open_store(struct world *w, uint64_t pages_max)
{
	const struct store_config config = {.path = w->path,
					    .address = test_address(),
					    .audit_keep = KEEP,
					    .busy_ms = 20000,
					    .pages_max = pages_max};
	struct err e = ERR_INIT;

	w->s = store_close(w->s);
	assert_int_equal(store_open(&config, &w->s, &e), 0);
	assert_int_equal(store_attach(w->s, w->loop), 0);
	store_on_aside(w->s, on_aside, w);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-audit-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	empty_database();
	(void)snprintf(w->path, sizeof(w->path), "%s/caisson.db", w->dir);
	assert_int_equal(sd_event_new(&w->loop), 0);
	open_store(w, 0);
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

static int64_t number(struct world *w, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t answer = 0;

	if (test_address()) {
		assert_int_equal(psql(sql, &answer), 0);
		return answer;
	}
	assert_int_equal(sqlite3_prepare_v2(w->other, sql, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	const int64_t n = sqlite3_column_int64(st, 0);
	assert_int_equal(sqlite3_finalize(st), SQLITE_OK);
	return n;
}

/* ---- what is read ---- */

struct seen {
	int rows;
	uint64_t count;
	struct store_audit last; /* the newest one */
};

struct question {
	const char *actor;
	enum store_audit_class class;
	struct seen seen;
};

static bool add_row(const struct store_audit *a, void *user)
{
	struct question *q = user;

	if (a->class != q->class)
		return true;
	if (q->seen.rows++ == 0)
		q->seen.last = *a;
	q->seen.count += a->count;
	return true;
}

static struct seen look(struct world *w, const char *actor, enum store_audit_class class)
{
	struct question q = {.actor = actor, .class = class};
	struct err e = ERR_INIT;

	flush_all(w->s);
	assert_int_equal(store_audit_each(w->s, actor, 0, 100000, add_row, &q, &e), 0);
	return q.seen;
}

static void fail_by(struct world *w, const char *actor, const char *action, const char *object)
{
	store_audit_as(w->s, STORE_AUDIT_FAILED, NULL, actor, action, object, "not_found", NULL,
		       "10.0.0.1:1");
}

static void refuse_from(struct world *w, const char *network, const char *object)
{
	store_audit_as(w->s, STORE_AUDIT_REFUSED, network, NULL, "user.login", object,
		       "unauthorized", NULL, network);
}

/* ---- floods ---- */

static void test_refused_are_counted(void **state)
{
	struct world *w = *state;
	struct seen seen;

	refuse_from(w, "203.0.113.9", "ada");
	seen = look(w, NULL, STORE_AUDIT_REFUSED);
	assert_int_equal(seen.rows, 1);
	assert_string_equal(seen.last.object, "ada");
	assert_string_equal(seen.last.peer, "203.0.113.9");
	assert_string_equal(seen.last.detail, "");
	for (int i = 0; i < 50000; i++)
		refuse_from(w, "203.0.113.9", i % 2 ? "ada" : "bob");
	refuse_from(w, "203.0.113.10", "ada");
	seen = look(w, NULL, STORE_AUDIT_REFUSED);
	assert_int_equal(seen.rows, 2);
	assert_int_equal(seen.count, 50002);
	assert_int_equal(number(w, "SELECT count FROM audit WHERE peer = '203.0.113.9'"), 50001);
	assert_int_equal(number(w, "SELECT detail = 'and others' FROM audit ORDER BY id"), 1);
	/* What was counted last is written when the store is closed. */
	refuse_from(w, "203.0.113.9", "ada");
	open_store(w, 0);
	assert_int_equal(number(w, "SELECT sum(count) FROM audit"), 50003);
}

/* A source, and all of them together, have few rows; nothing is uncounted. */
static void test_kinds_are_bounded(void **state)
{
	struct world *w = *state;
	char text[32];
	struct seen seen;

	for (int i = 0; i < 3000; i++) {
		(void)snprintf(text, sizeof(text), "action.%d", i % 100);
		fail_by(w, "eve", text, "x");
	}
	seen = look(w, "eve", STORE_AUDIT_FAILED);
	assert_int_equal(seen.rows, STORE_AUDIT_KINDS + 1);
	assert_int_equal(seen.count, 3000);
	assert_string_equal(seen.last.action, "failed.more");
	for (int i = 0; i < 100000; i++) {
		(void)snprintf(text, sizeof(text), "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
		refuse_from(w, text, "x");
	}
	seen = look(w, NULL, STORE_AUDIT_REFUSED);
	assert_int_equal(seen.rows, STORE_AUDIT_KINDS_ALL + 1);
	assert_int_equal(seen.count, 100000);
	assert_string_equal(seen.last.action, "refused.more");
	assert_string_equal(seen.last.peer, "");
	/* And the flood of strangers takes no row from known callers. */
	fail_by(w, "bob", "key.revoke", "x");
	assert_int_equal(look(w, "bob", STORE_AUDIT_FAILED).rows, 1);
}

/* Somebody whose calls fail, and somebody whose calls succeed, displace no row of others and of another class. */
static void test_a_flood_displaces_its_own(void **state)
{
	struct world *w = *state;
	char text[32];

	for (int i = 0; i < 50; i++) {
		store_audit(w->s, "ada", "user.add", "x", "ok", NULL, NULL);
		store_audit(w->s, "eve", "key.new", "first", "ok", NULL, NULL);
		store_note_audit(w->s, &(struct store_audit){.class = STORE_AUDIT_NETWORK,
							     .actor = "ada",
							     .action = "egress.allow"});
		if (i < 10) {
			(void)snprintf(text, sizeof(text), "action.%d", i);
			fail_by(w, "ada", text, "x");
		}
	}
	for (int i = 0; i < 20000; i++) {
		fail_by(w, "eve", "key.revoke", "x");
		refuse_from(w, "10.0.0.1", "x");
	}
	assert_int_equal(look(w, "eve", STORE_AUDIT_DONE).rows, 50);
	for (int i = 0; i < 6000; i++) {
		store_audit(w->s, "eve", "file.put", "x", "ok", NULL, NULL);
		if (i % 1000 == 999)
			flush_all(w->s);
	}
	assert_int_equal(look(w, "ada", STORE_AUDIT_DONE).rows, 50);
	assert_int_equal(look(w, "ada", STORE_AUDIT_NETWORK).rows, 50);
	assert_int_equal(look(w, "ada", STORE_AUDIT_FAILED).rows, 10);
	assert_in_range(look(w, "eve", STORE_AUDIT_DONE).rows, KEEP - 50, 2 * KEEP);
}

/* The database itself refuses what is not adding, counting or pruning. */
static void test_only_counts_grow(void **state)
{
	static const char *const refused[] = {
	    "UPDATE audit SET count = count + 1 WHERE class = 0",
	    "UPDATE audit SET count = 1 WHERE class = 3",
	    "UPDATE audit SET count = count + 1, peer = '' WHERE class = 3",
	    "UPDATE audit SET actor = 'eve' WHERE class = 2",
	    "DELETE FROM audit WHERE class = 3",
	    "DELETE FROM audit WHERE class = 0",
	};
	struct world *w = *state;

	store_audit(w->s, "ada", "user.add", "x", "ok", NULL, NULL);
	fail_by(w, "ada", "key.revoke", "x");
	refuse_from(w, "10.0.0.1", "x");
	refuse_from(w, "10.0.0.1", "x");
	flush_all(w->s);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(test_address()
				     ? psql(refused[i], NULL) == 1 ? SQLITE_CONSTRAINT : -1
				     : sqlite3_exec(w->other, refused[i], NULL, NULL, NULL),
				 SQLITE_CONSTRAINT);
	assert_int_equal(number(w, "SELECT sum(count) FROM audit"), 4);
}

static void test_counts_wait_for_the_disk(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct store_counts counts;
	struct err e = ERR_INIT;

	other_does(w, "PRAGMA journal_mode"); /* the schema is read before the file is full */
	open_store(w, 1);
	for (int i = 0; i < 20000; i++)
		refuse_from(w, "10.0.0.1", "x");
	for (int i = 0; i < 500; i++)
		store_audit(w->s, "ada", "user.add", "x", "ok", NULL, NULL);
	flush_all(w->s);
	store_count(w->s, &counts);
	assert_true(counts.queued >= 500 && counts.queued < 600);
	assert_int_equal(counts.refused, 20000);
	assert_true(store_in_trouble(w->s, &e));
	assert_int_equal(e.code, ERR_STORE_FULL);
}

/* ---- rows that cannot be written ---- */

static void until_aside(struct world *w, uint64_t n)
{
	for (int i = 0; i < 100 && w->n_aside < n; i++)
		assert_true(sd_event_run(w->loop, 100000) >= 0);
	assert_int_equal(w->n_aside, n);
}

static void test_poison(void **state)
{
	struct world *w = *state;
	struct store_cell *cell = calloc(1, sizeof(*cell));
	struct store_counts counts;
	const size_t size = 2 << 20;

	assert_non_null(cell);
	(void)snprintf(cell->run, sizeof(cell->run), "run-1");
	(void)snprintf(cell->owner, sizeof(cell->owner), "eve");
	cell->out = calloc(1, size); /* more than a value may have */
	assert_non_null(cell->out);
	memset(cell->out, 'x', size - 1);
	store_audit(w->s, "ada", "user.add", "before", "ok", NULL, NULL);
	store_note_cell(w->s, cell);
	refuse_from(w, "10.0.0.1", "x");
	store_note_run(w->s, &(struct store_run){.id = "run-2", .owner = "ada"}, 0);
	store_audit(w->s, "ada", "user.add", "after", "ok", NULL, NULL);
	flush_all(w->s);
	assert_int_equal(look(w, "ada", STORE_AUDIT_DONE).rows, 2);
	assert_int_equal(look(w, NULL, STORE_AUDIT_REFUSED).rows, 1);
	assert_int_equal(number(w, "SELECT count(*) FROM runs"), 1);
	assert_int_equal(number(w, "SELECT count(*) FROM cells"), 0);
	until_aside(w, 1);
	assert_string_equal(w->aside, "history of run run-1 of 'eve'");
	store_count(w->s, &counts);
	assert_int_equal(counts.aside, 1);
	assert_int_equal(counts.queued, 0);
	assert_false(store_in_trouble(w->s, NULL));
}

/* A table that is gone stops its own rows only. */
static void test_poison_table(void **state)
{
	struct world *w = *state;

	other_does(w, "DROP TABLE usage");
	for (int i = 0; i < 300; i++) {
		store_note_run(w->s, &(struct store_run){.id = "run", .owner = "ada"}, 0);
		store_audit(w->s, "ada", "user.add", "x", "ok", NULL, NULL);
	}
	until_aside(w, 300);
	assert_int_equal(look(w, "ada", STORE_AUDIT_DONE).rows, 300);
	assert_int_equal(number(w, "SELECT count(*) FROM runs"), 0);
}

/* ---- removed users ---- */

static struct store_user add_user(struct world *w, const char *name)
{
	struct store_user u = {.active = true, .quota = STORE_QUOTA_DEFAULTS};
	struct err e = ERR_INIT;

	(void)snprintf(u.name, sizeof(u.name), "%s", name);
	assert_int_equal(store_user_add(w->s, &u, &e), 0);
	return u;
}

static void add_history(struct world *w, const char *owner, int n)
{
	for (int i = 0; i < n; i++) {
		struct store_run r = {.id = "run", .cpu_us = 1};
		struct store_cell *cell = calloc(1, sizeof(*cell));

		assert_non_null(cell);
		(void)snprintf(r.owner, sizeof(r.owner), "%s", owner);
		(void)snprintf(cell->owner, sizeof(cell->owner), "%s", owner);
		store_note_run(w->s, &r, 0);
		store_note_cell(w->s, cell);
	}
	store_audit(w->s, owner, "run.start", "x", "ok", NULL, NULL);
	flush_all(w->s);
}

static int64_t left_of(struct world *w, const char *owner)
{
	char sql[512];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT (SELECT count(*) FROM runs WHERE owner = '%1$s')"
		       " + (SELECT count(*) FROM cells WHERE owner = '%1$s')"
		       " + (SELECT count(*) FROM usage WHERE owner = '%1$s')"
		       " + (SELECT count(*) FROM cell_sums WHERE owner = '%1$s')",
		       owner);
	return number(w, sql);
}

static void until_gone(struct world *w, const char *owner)
{
	for (int i = 0; i < 2000 && left_of(w, owner) > 0; i++)
		(void)usleep(10000);
	assert_int_equal(left_of(w, owner), 0);
}

static void test_removed_users(void **state)
{
	struct world *w = *state;
	struct store_user ada = add_user(w, "ada"), bob = add_user(w, "bob");
	struct err e = ERR_INIT;

	add_history(w, ada.id, 60);
	add_history(w, bob.id, 5);
	add_history(w, "", 5);
	assert_int_equal(left_of(w, ada.id), 122);
	assert_int_equal(store_user_remove(w->s, ada.id, &e), 1);
	until_gone(w, ada.id);
	/* What a run that was under way leaves, goes too; and what another process has not finished. */
	add_history(w, ada.id, 3);
	until_gone(w, ada.id);
	assert_int_equal(left_of(w, bob.id), 12);
	assert_int_equal(left_of(w, ""), 12);
	assert_int_equal(look(w, ada.id, STORE_AUDIT_DONE).rows, 2); /* the audit log stays */
	open_store(w, 0);
	other_does(w, "DELETE FROM users WHERE name = 'bob'");
	store_audit(w->s, "", "user.add", "x", "ok", NULL, NULL);
	until_gone(w, bob.id);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_refused_are_counted),
	    T(test_kinds_are_bounded),
	    T(test_a_flood_displaces_its_own),
	    T(test_only_counts_grow),
	    T(test_counts_wait_for_the_disk),
	    T(test_poison),
	    T(test_poison_table),
	    T(test_removed_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
