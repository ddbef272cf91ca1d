/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes that come from another server (sandbox/moving.h), and the text that goes with their disks. */
#include "base/fdio.h"
#include "base/text.h"
#include "moving_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define INCARNATION "0123456789abcdef0123456789abcdef"
#define OTHER_ID    "11111111-1111-4111-8111-111111111111"

struct comer {
	struct arrival *arrival;
	int disk;
	unsigned n;
	enum err_code code;
	struct done kept;
};

static void on_empty(int disk, const struct err *e, void *user)
{
	struct comer *c = user;

	c->n++;
	c->disk = disk;
	c->code = e ? e->code : ERR_NONE;
}

static const char plain[] =
    "{\"v\":1,\"own_id\":true,\"name\":\"n\",\"image\":\"science\",\"network\":\"\","
    "\"place\":\"/mnt/data/"
    "x\",\"options\":\"{\\\"memory_mb\\\":64}\",\"env\":\"{\\\"A\\\":\\\"b\\\"}\","
    "\"disk_bytes\":1048576,\"created_ms\":7,\"runs\":3}";

static int try_arrive(struct world *w, const char *id, const char *text, struct comer *c,
		      struct err *e)
{
	c->disk = -1;
	return manager_arrive(w->m.manager, "ann", id, INCARNATION, 5, text, strlen(text), 2u << 20,
			      on_empty, c, &c->arrival, e);
}

static void begin(struct world *w, struct comer *c)
{
	struct err e = ERR_INIT;

	assert_int_equal(try_arrive(w, OTHER_ID, plain, c, &e), 0);
	assert_int_equal(c->n, 0);
}

static void begin_and_write(struct world *w, struct comer *c)
{
	begin(w, c);
	manager_world_turn(&w->m);
	assert_int_equal(c->n, 1);
	assert_int_equal(c->code, ERR_NONE);
	c->disk = fd_close(c->disk);
}

static void keep(struct world *w, struct comer *c)
{
	arrival_keep(c->arrival, moving_on_done, &c->kept);
	assert_int_equal(c->kept.n, 0);
	manager_world_turn(&w->m);
}

static void test_arrives(void **state)
{
	struct world *w = *state;
	struct comer c = {0};
	struct opened o = {0};

	begin_and_write(w, &c);
	assert_string_equal(w->m.fake->last_disk, INCARNATION "-o");
	keep(w, &c);
	assert_int_equal(c.kept.n, 1);
	assert_int_equal(c.kept.code, ERR_NONE);
	const struct row *row = &w->rows[0];
	assert_int_equal(w->n, 1);
	assert_string_equal(row->record.id, OTHER_ID);
	assert_string_equal(row->record.owner, "ann");
	assert_string_equal(row->record.name, "n");
	assert_string_equal(row->record.place, "/mnt/data/x");
	assert_string_equal(row->env, "{\"A\":\"b\"}");
	assert_string_equal(row->incarnation, INCARNATION);
	assert_int_equal(row->epoch, 5);
	assert_int_equal(row->record.created_ms, 7);
	assert_int_equal(row->record.runs, 3);
	assert_int_equal(row->record.disk_bytes, 2u << 20); /* what it takes, whatever it says */
	assert_true(manager_at_rest(w->m.manager, "ann", OTHER_ID));
	manager_open(w->m.manager, "ann", OTHER_ID, moving_on_open, &o);
	manager_world_turn(&w->m);
	assert_non_null(o.sandbox);
	assert_true(o.sandbox->own_id);
	assert_string_equal(w->m.fake->last_persist, INCARNATION "-o");
	assert_int_equal(sandbox_options(o.sandbox)->number[SANDBOX_OPTION_MEMORY], 64);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_DROP], 0);
}

/* What one server writes, the next one reads, and so on. */
static void test_there_and_back(void **state)
{
	struct world *w = *state;
	char line[] = "TOKEN=a\"b\\c";
	char *lines[] = {line, NULL};
	const struct sandbox_options o = {.given = 1u << SANDBOX_OPTION_ENV,
					  .env = {.list = lines, .n = 1}};
	struct opened a = moving_create(w, "ann", &o);
	_cleanup_(buf_done) struct buf first = BUF_INIT(MOVING_TEXT_MAX);
	_cleanup_(buf_done) struct buf second = BUF_INIT(MOVING_TEXT_MAX);
	struct err e = ERR_INIT;

	moving_rest_all(w);
	assert_true(manager_moving_text(w->m.manager, "bob", a.id, &first, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_NOT_FOUND);
	assert_int_equal(manager_moving_text(w->m.manager, "ann", a.id, &first, &e), 0);
	const struct row before = w->rows[0];
	struct done left = {0};
	struct comer c = {0};
	assert_int_equal(manager_leave(w->m.manager, "ann", a.id, moving_on_done, &left, &e), 0);
	manager_world_turn(&w->m);
	assert_int_equal(left.n, 1);
	assert_int_equal(try_arrive(w, a.id, buf_str(&first), &c, &e), 0);
	manager_world_turn(&w->m);
	c.disk = fd_close(c.disk);
	keep(w, &c);
	assert_int_equal(c.kept.code, ERR_NONE);
	assert_int_equal(manager_moving_text(w->m.manager, "ann", a.id, &second, &e), 0);
	assert_string_equal(buf_str(&first), buf_str(&second));
	assert_string_equal(w->rows[0].env, before.env);
	assert_non_null(strstr(before.env, "TOKEN"));
	assert_string_equal(w->rows[0].record.name, before.record.name);
}

/* It is nobody's before it is whole, and nobody takes its id. */
static void test_its_id_is_taken_meanwhile(void **state)
{
	struct world *w = *state;
	struct comer c = {0}, other = {0};
	struct opened o[4] = {0};
	struct err e = ERR_INIT;

	begin_and_write(w, &c);
	assert_true(try_arrive(w, OTHER_ID, plain, &other, &e) < 0);
	assert_int_equal(e.code, ERR_ALREADY_EXISTS);
	manager_activate(w->m.manager, "ann", OTHER_ID, moving_on_open, &o[0]);
	manager_open(w->m.manager, "ann", OTHER_ID, moving_on_open, &o[1]);
	manager_open_new(w->m.manager, "ann", OTHER_ID, NULL, NULL, moving_on_open, &o[2]);
	manager_open(w->m.manager, "bob", OTHER_ID, moving_on_open, &o[3]);
	manager_world_turn(&w->m);
	assert_int_equal(o[0].code, ERR_SESSION_NOT_FOUND);
	assert_int_equal(o[1].code, ERR_SESSION_BUSY);
	assert_int_equal(o[2].code, ERR_SESSION_BUSY);
	assert_non_null(o[3].sandbox); /* a session of somebody else */
	assert_false(manager_at_rest(w->m.manager, "ann", OTHER_ID));
	w->slow = true;
	keep(w, &c);
	assert_int_equal(c.kept.n, 0);
	assert_int_equal(w->n, 1); /* written, but not safe */
	assert_int_equal(manager_get_stored(w->m.manager, "ann", OTHER_ID, NULL, &e), 0);
	moving_settle_one(w, NULL);
	assert_int_equal(c.kept.n, 1);
	assert_int_equal(manager_get_stored(w->m.manager, "ann", OTHER_ID, NULL, &e), 1);
}

static void test_who_is_there_stays(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), s = {0};
	struct comer c = {0};
	struct err e = ERR_INIT;

	assert_true(try_arrive(w, a.id, plain, &c, &e) < 0);
	assert_int_equal(e.code, ERR_ALREADY_EXISTS);
	manager_open(w->m.manager, "ann", OTHER_ID, moving_on_open, &s);
	assert_true(try_arrive(w, OTHER_ID, plain, &c, &e) < 0);
	assert_int_equal(e.code, ERR_ALREADY_EXISTS);
	manager_world_turn(&w->m);
	/* an id that a client has chosen is of the local user alone */
	assert_true(try_arrive(w, "chosen", plain, &c, &e) < 0);
	assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
	assert_true(manager_arrive(w->m.manager, "ann", OTHER_ID, "ABC", 5, plain, strlen(plain), 1,
				   on_empty, &c, &c.arrival, &e) < 0);
	assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
	w->records.moving = NULL;
	assert_true(try_arrive(w, OTHER_ID, plain, &c, &e) < 0);
	assert_int_equal(e.code, ERR_ENGINE_NOT_BUILT_IN);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_NEW], 0);
}

static void test_given_up(void **state)
{
	struct world *w = *state;
	struct comer c = {0};

	/* before there is a disk */
	w->m.fake->hold_disks = true;
	begin(w, &c);
	c.arrival = arrival_end(c.arrival);
	assert_false(manager_at_rest(w->m.manager, "ann", OTHER_ID));
	fake_engine_release(w->m.fake);
	manager_world_turn(&w->m);
	assert_int_equal(c.n, 0);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_DROP], 1);
	/* while it is written */
	begin_and_write(w, &c);
	c.arrival = arrival_end(c.arrival);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_DROP], 2);
	assert_true(manager_at_rest(w->m.manager, "ann", OTHER_ID));
	manager_world_turn(&w->m);
	/* while it is kept: it is one of this server by then, and goes as such */
	c = (struct comer){0};
	begin_and_write(w, &c);
	arrival_keep(c.arrival, moving_on_done, &c.kept);
	c.arrival = arrival_end(c.arrival);
	manager_world_turn(&w->m);
	assert_int_equal(c.kept.n, 0);
	assert_int_equal(w->m.fake->n_forgotten, 1);
	assert_int_equal(w->n, 0);
	/* while the record is written: it has come */
	c = (struct comer){0};
	begin_and_write(w, &c);
	w->slow = true;
	keep(w, &c);
	c.arrival = arrival_end(c.arrival);
	moving_settle_one(w, NULL);
	assert_int_equal(c.kept.n, 0);
	assert_int_equal(w->n, 1);
	assert_true(manager_at_rest(w->m.manager, "ann", OTHER_ID));
}

static void test_refused_by_the_engine(void **state)
{
	struct world *w = *state;
	struct comer c = {0};
	struct err e = ERR_INIT;

	w->m.fake->fail_disk_at_once = true;
	assert_true(try_arrive(w, OTHER_ID, plain, &c, &e) < 0);
	assert_int_equal(e.code, ERR_ENGINE_UNAVAILABLE);
	w->m.fake->fail_disk[ENGINE_DISK_NEW].n = 1;
	w->m.fake->fail_disk[ENGINE_DISK_NEW].code = ERR_HOST_DISK_FULL;
	begin(w, &c);
	manager_world_turn(&w->m);
	assert_int_equal(c.code, ERR_HOST_DISK_FULL);
	c.arrival = arrival_end(c.arrival);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_DROP], 0);
	/* it cannot be asked to keep the disk: this too is told from the loop */
	c = (struct comer){0};
	begin_and_write(w, &c);
	w->m.fake->fail_disk_at_once = true;
	keep(w, &c);
	assert_int_equal(c.kept.n, 1);
	assert_int_equal(c.kept.code, ERR_ENGINE_UNAVAILABLE);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_DROP], 1);
	c = (struct comer){0};
	begin_and_write(w, &c);
	w->m.fake->fail_disk[ENGINE_DISK_KEEP].n = 1;
	w->m.fake->fail_disk[ENGINE_DISK_KEEP].code = ERR_SYSTEM;
	keep(w, &c);
	assert_int_equal(c.kept.code, ERR_SYSTEM);
	assert_int_equal(w->n, 0);
	assert_true(manager_at_rest(w->m.manager, "ann", OTHER_ID));
}

/* A server was killed between the disk and the record. */
static void test_what_an_earlier_arrival_left(void **state)
{
	struct world *w = *state;
	struct comer c = {0};

	w->m.fake->fail_disk[ENGINE_DISK_NEW].n = 1;
	w->m.fake->fail_disk[ENGINE_DISK_NEW].code = ERR_ALREADY_EXISTS;
	begin_and_write(w, &c);
	assert_int_equal(w->m.fake->n_forgotten, 1);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_NEW], 2);
	c.arrival = arrival_end(c.arrival);
	/* once */
	c = (struct comer){0};
	w->m.fake->fail_disk[ENGINE_DISK_NEW].n = 2;
	begin(w, &c);
	manager_world_turn(&w->m);
	assert_int_equal(c.code, ERR_ALREADY_EXISTS);
	assert_int_equal(w->m.fake->n_forgotten, 2);
	c.arrival = arrival_end(c.arrival);
	/* given up meanwhile */
	w->m.fake->fail_disk[ENGINE_DISK_NEW].n = 1;
	c = (struct comer){0};
	begin(w, &c);
	while (w->m.fake->n_forgotten < 3)
		assert_true(sd_event_run(w->m.loop, 0) > 0);
	c.arrival = arrival_end(c.arrival);
	manager_world_turn(&w->m);
	assert_int_equal(c.n, 0);
	assert_true(manager_at_rest(w->m.manager, "ann", OTHER_ID));
}

static void test_refused_by_the_records(void **state)
{
	struct world *w = *state;
	struct comer c = {0};
	struct err e = ERR_INIT, full = ERR_INIT;

	w->fail_check = ERR_QUOTA_EXCEEDED;
	assert_true(try_arrive(w, OTHER_ID, plain, &c, &e) < 0);
	assert_int_equal(e.code, ERR_QUOTA_EXCEEDED);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_NEW], 0);
	begin_and_write(w, &c);
	w->fail_arrive = ERR_QUOTA_EXCEEDED;
	keep(w, &c);
	assert_int_equal(c.kept.code, ERR_QUOTA_EXCEEDED);
	assert_int_equal(w->m.fake->n_forgotten, 1);
	c = (struct comer){0};
	begin_and_write(w, &c);
	w->slow = true;
	keep(w, &c);
	(void)err_set(&full, ERR_HOST_DISK_FULL, ENOSPC, "full");
	moving_settle_one(w, &full);
	assert_int_equal(c.kept.n, 1);
	assert_int_equal(c.kept.code, ERR_HOST_DISK_FULL);
	assert_int_equal(w->n_left, 1);
	assert_int_equal(w->m.fake->n_forgotten, 2);
	assert_int_equal(w->n, 0);
	manager_world_turn(&w->m);
}

/* Nobody could remove it later. */
static void test_its_owner_is_removed_meanwhile(void **state)
{
	struct world *w = *state;
	struct comer c = {0};
	struct err e = ERR_INIT;

	begin_and_write(w, &c);
	w->slow = true;
	keep(w, &c);
	assert_int_equal(manager_close_owner(w->m.manager, "ann", &e), 0);
	moving_settle_one(w, NULL);
	assert_int_equal(c.kept.code, ERR_UNAUTHORIZED);
	assert_int_equal(w->n, 0);
	assert_int_equal(w->m.fake->n_forgotten, 1);
	assert_true(try_arrive(w, OTHER_ID, plain, &c, &e) < 0);
	assert_int_equal(e.code, ERR_UNAUTHORIZED);
	manager_world_turn(&w->m);
}

static void test_the_end_while_it_arrives(void **state)
{
	static const char *const ids[] = {
	    "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222",
	    "33333333-3333-4333-8333-333333333333", "44444444-4444-4444-8444-444444444444"};
	struct world *w = *state;
	struct comer c[4] = {0};
	struct err e = ERR_INIT;

	for (int i = 1; i < 4; i++) {
		assert_int_equal(try_arrive(w, ids[i], plain, &c[i], &e), 0);
		manager_world_turn(&w->m);
		c[i].disk = fd_close(c[i].disk);
	}
	w->slow = true;
	keep(w, &c[3]); /* waits for its record */
	const sandbox_done_fn late = TAKE_PTR(w->settled);
	w->m.fake->hold_disks = true;
	assert_int_equal(try_arrive(w, ids[0], plain, &c[0], &e), 0); /* for its disk */
	arrival_keep(c[2].arrival, moving_on_done, &c[2].kept);       /* for its name */
	moving_end_manager(w);
	assert_int_equal(c[0].n, 1);
	assert_int_equal(c[0].code, ERR_CANCELLED);
	assert_int_equal(c[2].kept.n, 1);
	assert_int_equal(c[2].kept.code, ERR_CANCELLED);
	assert_int_equal(c[3].kept.n, 1);
	assert_int_equal(c[3].kept.code, ERR_CANCELLED);
	assert_int_equal(w->n_left, 0); /* it may be whole, and the router asks again */
	c[0].arrival = arrival_end(c[0].arrival);
	c[1].arrival = arrival_end(c[1].arrival); /* being written */
	late(NULL, w->settled_for);
	assert_int_equal(c[3].kept.n, 1);
}

/* The same while a failure is about to be told. */
static void test_the_end_before_a_failure_is_told(void **state)
{
	struct world *w = *state;
	struct comer c = {0};

	begin_and_write(w, &c);
	w->m.fake->fail_disk_at_once = true;
	arrival_keep(c.arrival, moving_on_done, &c.kept);
	moving_end_manager(w);
	assert_int_equal(c.kept.n, 1);
	assert_int_equal(c.kept.code, ERR_CANCELLED);
}

/* ---- texts ---- */

/* What takes the place of FROM in a text that is fine. */
static const struct {
	const char *from, *to;
} bad[] = {
    {"\"v\":1", "\"v\":2"},
    {"\"v\":1,", ""},
    {"\"runs\":3", "\"runs\":3,\"more\":1"},
    {"\"runs\":3", "\"runs\":3,\"runs\":3"},
    {"\"runs\":3", "\"runs\":-1"},
    {"\"runs\":3", "\"runs\":9007199254740993"},
    {"\"runs\":3", "\"runs\":1e3"},
    {"\"runs\":3", "\"runs\":\"3\""},
    {"\"created_ms\":7", "\"created_ms\":-7"},
    {"\"disk_bytes\":1048576", "\"disk_bytes\":-1"},
    {"\"own_id\":true", "\"own_id\":1"},
    {"\"name\":\"n\"", "\"name\":null"},
    {"\"name\":\"n\"", "\"name\":\"a\\u0000b\""},
    {"\"place\":\"/", "\"place\":\""},
    {"\"place\":\"/mnt", "\"place\":\"/mnt\\n"},
    {"\"env\":\"{", "\"env\":\"[{"},
    {"\"env\":\"{\\\"A\\\":\\\"b\\\"", "\"env\":\"{\\\"A\\\":[\\\"b\\\"]"},
    {"\"options\":\"{", "\"options\":\"{\\\"x\\\":[[[[]]]],"},
    {"\"options\":\"{", "\"options\":\"x{"},
    {"\"options\":\"{", "\"options\":\"{\\\"root\\\":true,"},
    {"}", ""},
    {"{\"v\"", "[{\"v\""},
};

/* RET has PLAIN with TO for the last FROM. */
static void replace(const char *from, const char *to, char *ret, size_t size)
{
	const char *at = NULL;

	for (const char *next = plain; (next = strstr(next, from)); next++)
		at = next;
	assert_non_null(at);
	(void)snprintf(ret, size, "%.*s%s%s", (int)(at - plain), plain, to, at + strlen(from));
}

static void refuse_text(struct world *w, const char *text)
{
	struct comer c = {0};
	struct err e = ERR_INIT;

	assert_true(try_arrive(w, OTHER_ID, text, &c, &e) < 0);
	assert_int_equal(e.code, ERR_SNAPSHOT_INVALID);
}

static void test_texts_of_a_worker_that_was_taken_over(void **state)
{
	struct world *w = *state;
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		replace(bad[i].from, bad[i].to, text, sizeof(text));
		refuse_text(w, text);
	}
	refuse_text(w, "");
	refuse_text(w, "{}");
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_NEW], 0);
}

/* Members that are as long as they may be, and one byte longer. */
static void test_the_longest_texts(void **state)
{
	static const struct {
		const char *from, *before, *after;
		size_t most;
	} rows[] = {
	    {"\"name\":\"n\"", "\"name\":\"", "\"", SANDBOX_NAME_MAX},
	    {"\"image\":\"science\"", "\"image\":\"", "\"", ENGINE_NAME_MAX - 1},
	    {"\"network\":\"\"", "\"network\":\"", "\"", SANDBOX_CHOICE_SIZE - 1},
	    {"\"place\":\"/mnt/data/x\"", "\"place\":\"/", "\"", SANDBOX_PLACE_MAX - 2},
	};
	struct world *w = *state;
	_cleanup_free_ char *part = calloc(1, SANDBOX_CHOICE_SIZE + 64);
	_cleanup_free_ char *text = calloc(1, SANDBOX_CHOICE_SIZE + sizeof(plain) + 64);

	assert_true(part && text);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t over = 0; over < 2; over++) {
			const size_t len = rows[i].most + over, at = strlen(rows[i].before);
			struct comer c = {0};
			struct err e = ERR_INIT;

			memcpy(part, rows[i].before, at);
			memset(part + at, 'a', len);
			memcpy(part + at + len, rows[i].after, strlen(rows[i].after) + 1);
			replace(rows[i].from, part, text, SANDBOX_CHOICE_SIZE + sizeof(plain) + 64);
			if (over) {
				refuse_text(w, text);
				continue;
			}
			assert_int_equal(try_arrive(w, OTHER_ID, text, &c, &e), 0);
			manager_world_turn(&w->m);
			c.disk = fd_close(c.disk);
			c.arrival = arrival_end(c.arrival);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    MOVING_CASE(test_arrives),
	    MOVING_CASE(test_there_and_back),
	    MOVING_CASE(test_its_id_is_taken_meanwhile),
	    MOVING_CASE(test_who_is_there_stays),
	    MOVING_CASE(test_given_up),
	    MOVING_CASE(test_refused_by_the_engine),
	    MOVING_CASE(test_what_an_earlier_arrival_left),
	    MOVING_CASE(test_refused_by_the_records),
	    MOVING_CASE(test_its_owner_is_removed_meanwhile),
	    MOVING_CASE(test_the_end_while_it_arrives),
	    MOVING_CASE(test_the_end_before_a_failure_is_told),
	    MOVING_CASE(test_texts_of_a_worker_that_was_taken_over),
	    MOVING_CASE(test_the_longest_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
