/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that end, on the fake engine: which one is given up for a new one, what is remembered of those
 * that have ended, and how options change limits, times and the environment of runs. */
#include "base/rand.h"
#include "base/text.h"
#include "manager_world.h"
#include "sandbox/manager.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

/* A run's code says what it leaves: "file", or nothing. */
static void script(struct fake_run *r UNUSED, const char *workspace, const char *code,
		   size_t len UNUSED, struct engine_run_result *res UNUSED)
{
	char path[512];

	if (!streq(code, "file"))
		return;
	(void)snprintf(path, sizeof(path), "%s/left", workspace);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	(void)fclose(f);
}

static int setup(void **state)
{
	struct manager_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	clock_ns = NS_PER_S;
	manager_world_open(
	    w, (struct manager_config){
		   .output_max = 10,
		   .max_sandboxes = 3,
		   .give_up_empty = true,
		   .image = "science",
		   .ttl_ns = 1800 * NS_PER_S,
		   .run_timeout_ns = 60 * NS_PER_S,
		   .run_timeout_max_ns = 600 * NS_PER_S,
		   .limits = {.memory_bytes = 512u << 20, .cpu_milli = 1000, .pids = 256},
		   .maxima = {.memory_bytes = UINT64_C(2) << 30,
			      .ttl_ns = 7200 * NS_PER_S,
			      .images = "other, third"},
		   .now = manager_world_now});
	w->fake->script = script;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	manager_world_close(*state);
	free(*state);
	return 0;
}

struct opened {
	struct sandbox *sandbox;
	struct err err;
};

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct opened *o = user;

	o->sandbox = s;
	o->err = e ? *e : ERR_INIT;
}

static struct opened open_for(struct manager_world *w, const char *owner, const char *id)
{
	struct opened o = {0};

	clock_ns += NS_PER_S;
	manager_open(w->manager, owner, id, on_open, &o);
	manager_world_turn(w);
	return o;
}

static void on_done(struct run *r UNUSED, const struct run_result *result UNUSED,
		    const struct err *e, void *user UNUSED)
{
	assert_null(e);
}

static void run(struct manager_world *w, struct sandbox *s, enum engine_run_kind kind,
		const char *code)
{
	const struct run_request q = {
	    .kind = kind, .code = code, .code_len = strlen(code), .on_done = on_done};
	struct err e = ERR_INIT;
	struct run *r;

	clock_ns += NS_PER_S;
	assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
	manager_world_turn(w);
}

/* ---- giving up ---- */

static void test_gives_up_what_holds_nothing(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *files = open_for(w, "", "files").sandbox;
	struct sandbox *state_of = open_for(w, "", "state").sandbox;
	struct sandbox *empty = open_for(w, "", "empty").sandbox;

	run(w, files, ENGINE_RUN_PYTHON, "file");
	run(w, state_of, ENGINE_RUN_STATEFUL, "x");
	/* Nothing ran in `empty` yet: it is about to be used. */
	assert_int_equal(open_for(w, "", "new").err.code, ERR_MAX_SESSIONS);
	run(w, empty, ENGINE_RUN_PYTHON, "x");
	assert_non_null(open_for(w, "", "new").sandbox);
	assert_null(manager_find(w->manager, "", "empty"));
	assert_non_null(manager_find(w->manager, "", "files"));
	assert_non_null(manager_find(w->manager, "", "state"));
	assert_int_equal(manager_count(w->manager), 3);
}

/* One that ended on its own is kept to tell its next user so. It goes before any that lives, even an empty one. */
static void test_gives_up_what_has_ended(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *empty = open_for(w, "", "empty").sandbox;
	struct sandbox *ended = open_for(w, "", "ended").sandbox;
	struct sandbox *files = open_for(w, "", "files").sandbox;

	run(w, empty, ENGINE_RUN_PYTHON, "x");
	run(w, files, ENGINE_RUN_PYTHON, "file");
	run(w, ended, ENGINE_RUN_PYTHON, "file");
	fake_engine_lose(ended->handle);
	manager_world_turn(w);
	assert_non_null(open_for(w, "", "new").sandbox);
	assert_null(manager_find(w->manager, "", "ended"));
	assert_int_equal(manager_ended(w->manager, "", "ended").why, SANDBOX_END_LOST);
	assert_non_null(manager_find(w->manager, "", "empty"));
	assert_non_null(manager_find(w->manager, "", "files"));
}

static void test_gives_up_only_own_ones(void **state)
{
	struct manager_world *w = *state;
	static const char *const owners[] = {"ann", "bob", "bob"};
	static const char *const ids[] = {"a", "b1", "b2"};

	for (size_t i = 0; i < 3; i++)
		run(w, open_for(w, owners[i], ids[i]).sandbox, ENGINE_RUN_PYTHON, "x");
	assert_non_null(open_for(w, "bob", "b3").sandbox);
	assert_null(manager_find(w->manager, "bob", "b1"));
	assert_non_null(manager_find(w->manager, "ann", "a"));
	/* eve has none, and those of others are not hers to end */
	assert_int_equal(open_for(w, "eve", "e").err.code, ERR_MAX_SESSIONS);
	assert_non_null(manager_find(w->manager, "ann", "a"));
	assert_non_null(manager_find(w->manager, "bob", "b2"));
}

static void test_options_are_held(void **state)
{
	struct manager_world *w = *state;
	struct sandbox_options o = {.given = 1u << SANDBOX_OPTION_TTL};
	struct opened opened = {0};

	o.number[SANDBOX_OPTION_TTL] = 60;
	for (unsigned i = 0; i < 3; i++) {
		manager_open_new(w->manager, "", NULL, NULL, &o, on_open, &opened);
		manager_world_turn(w);
		assert_non_null(opened.sandbox);
		run(w, opened.sandbox, ENGINE_RUN_PYTHON, "x");
	}
	assert_int_equal(open_for(w, "", "new").err.code, ERR_MAX_SESSIONS);
}

/* ---- what is remembered ---- */

static void close_it(struct manager_world *w, struct sandbox *s)
{
	struct err e = ERR_INIT;

	assert_int_equal(sandbox_close(s, false, NULL, NULL, &e), 0);
	manager_world_turn(w);
}

static void test_ends_are_told(void **state)
{
	struct manager_world *w = *state;
	struct err e = ERR_INIT;

	close_it(w, open_for(w, "ann", "one").sandbox);
	clock_ns += 300 * NS_PER_S;
	(void)manager_no_session(w->manager, "ann", "one", &e);
	assert_int_equal(e.code, ERR_SESSION_NOT_FOUND);
	assert_string_equal(e.text,
			    "Sandbox one was deleted, 5 min ago. Its files and variables are "
			    "gone.");
	(void)manager_no_session(w->manager, "bob", "one", &e);
	assert_non_null(strstr(e.text, "none of that id ended lately"));
	assert_int_equal(sandbox_earlier(open_for(w, "bob", "one").sandbox)->why, SANDBOX_END_NONE);
	struct sandbox *again = open_for(w, "ann", "one").sandbox;
	assert_int_equal(sandbox_earlier(again)->why, SANDBOX_END_DELETED);
	clock_ns += 1801 * NS_PER_S;
	manager_sweep(w->manager);
	manager_world_turn(w);
	assert_int_equal(manager_ended(w->manager, "ann", "one").why, SANDBOX_END_UNUSED);
}

static void test_memory_of_ends_is_bounded(void **state)
{
	struct manager_world *w = *state;
	char id[32];

	close_it(w, open_for(w, "bob", "first").sandbox);
	for (unsigned i = 0; i < 200; i++) {
		(void)snprintf(id, sizeof(id), "s%u", i);
		close_it(w, open_for(w, "ann", id).sandbox);
	}
	assert_int_equal(w->manager->n_ends, 65);
	assert_int_equal(manager_ended(w->manager, "bob", "first").why, SANDBOX_END_DELETED);
	assert_int_equal(manager_ended(w->manager, "ann", "s0").why, SANDBOX_END_NONE);
	assert_int_equal(manager_ended(w->manager, "ann", "s199").why, SANDBOX_END_DELETED);
	for (unsigned i = 0; i < 1100; i++) {
		(void)snprintf(id, sizeof(id), "user%u", i);
		close_it(w, open_for(w, id, "s").sandbox);
	}
	assert_int_equal(w->manager->n_ends, 1024);
	assert_int_equal(manager_ended(w->manager, "bob", "first").why, SANDBOX_END_NONE);
}

/* ---- options ---- */

static void test_maxima(void **state)
{
	struct manager_world *w = *state;
	static const struct {
		enum sandbox_option option;
		int64_t value;
		bool good;
	} rows[] = {
	    {SANDBOX_OPTION_MEMORY, 2048, true},   {SANDBOX_OPTION_MEMORY, 2049, false},
	    {SANDBOX_OPTION_CPUS, 1000, true},     {SANDBOX_OPTION_CPUS, 1001, false},
	    {SANDBOX_OPTION_PROCESSES, 256, true}, {SANDBOX_OPTION_PROCESSES, 257, false},
	    {SANDBOX_OPTION_TTL, 7200, true},      {SANDBOX_OPTION_TTL, 7201, false},
	    {SANDBOX_OPTION_TIMEOUT, 600, true},   {SANDBOX_OPTION_TIMEOUT, 601, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sandbox_options o = {.given = 1u << rows[i].option};
		struct err e = ERR_INIT;

		o.number[rows[i].option] = rows[i].value;
		assert_int_equal(manager_check_options(w->manager, &o, &e) == 0, rows[i].good);
		if (!rows[i].good)
			assert_string_equal(e.member, sandbox_option_rows[rows[i].option].member);
	}
	static const struct {
		const char *image;
		bool good;
	} images[] = {{"science", true},
		      {"other", true},
		      {"third", true},
		      {"othe", false},
		      {"thirdx", false}};
	for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
		struct sandbox_options o = {.given = 1u << SANDBOX_OPTION_IMAGE};
		struct err e = ERR_INIT;

		(void)!text_copy(o.image, sizeof(o.image), images[i].image);
		assert_int_equal(manager_check_options(w->manager, &o, &e) == 0, images[i].good);
	}
}

static void test_a_change_holds_at_once(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_for(w, "", "s").sandbox;
	struct sandbox_options change = {.given = 1u << SANDBOX_OPTION_TTL |
						  1u << SANDBOX_OPTION_TIMEOUT |
						  1u << SANDBOX_OPTION_NAME,
					 .name = "new name"};
	struct err e = ERR_INIT;

	assert_true(sandbox_run_timeout_ns(s) == 60 * NS_PER_S);
	assert_null(sandbox_workdir(s));
	change.number[SANDBOX_OPTION_TTL] = 90;
	change.number[SANDBOX_OPTION_TIMEOUT] = 5;
	assert_int_equal(manager_change(w->manager, "", "s", &change, NULL, NULL, &e), 0);
	assert_true(sandbox_run_timeout_ns(s) == 5 * NS_PER_S);
	assert_string_equal(sandbox_name(s), "new name");
	assert_true(manager_change(w->manager, "", "none", &change, NULL, NULL, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_NOT_FOUND);
	assert_true(manager_change(w->manager, "eve", "s", &change, NULL, NULL, &e) < 0);
	clock_ns += 91 * NS_PER_S;
	manager_sweep(w->manager);
	manager_world_turn(w);
	assert_null(manager_find(w->manager, "", "s"));
}

struct changed {
	unsigned times;
	struct err err;
};

static void on_limits(const struct err *e, void *user)
{
	struct changed *c = user;

	c->times++;
	c->err = e ? *e : (struct err)ERR_INIT;
}

static void test_limits_are_changed_by_the_engine(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_for(w, "", "s").sandbox;
	struct sandbox_options change = {
	    .given = 1u << SANDBOX_OPTION_MEMORY | 1u << SANDBOX_OPTION_NAME, .name = "larger"};
	const struct engine_limits *l = &sandbox_policy(s)->limits;
	struct changed c = {0};
	struct err e = ERR_INIT;

	change.number[SANDBOX_OPTION_MEMORY] = 1024;
	assert_int_equal(sandbox_change(s, &change, on_limits, &c, &e), 1);
	assert_int_equal(c.times, 0);
	assert_int_equal(l->memory_bytes >> 20, 512);
	/* one change at a time, and a plain one meanwhile */
	assert_true(sandbox_change(s, &change, on_limits, &c, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	manager_world_turn(w);
	assert_int_equal(c.times, 1);
	assert_int_equal(c.err.code, ERR_NONE);
	assert_int_equal(l->memory_bytes >> 20, 1024);
	assert_int_equal(w->fake->n_limits, 1);
	assert_string_equal(sandbox_name(s), "larger");
	/* What it has already is no question to the engine. */
	assert_int_equal(sandbox_change(s, &change, on_limits, &c, &e), 0);

	w->fake->fail_change = EBUSY;
	w->fake->used_bytes = UINT64_C(300) << 20;
	change.number[SANDBOX_OPTION_MEMORY] = 100;
	memcpy(change.name, "smaller", sizeof("smaller"));
	assert_int_equal(sandbox_change(s, &change, on_limits, &c, &e), 1);
	manager_world_turn(w);
	assert_int_equal(c.err.code, ERR_LIMIT_BELOW_USE);
	assert_string_equal(c.err.member, "memory_mb");
	assert_non_null(strstr(c.err.text, "uses 300 MiB"));
	assert_int_equal(l->memory_bytes >> 20, 1024);
	assert_string_equal(sandbox_name(s), "larger"); /* nothing of it has happened */

	w->fake->fail_change = ENOTSUP;
	change = (struct sandbox_options){.given = 1u << SANDBOX_OPTION_CPUS};
	change.number[SANDBOX_OPTION_CPUS] = 500;
	assert_int_equal(sandbox_change(s, &change, on_limits, &c, &e), 1);
	manager_world_turn(w);
	assert_int_equal(c.err.code, ERR_LIMIT_NOT_CHANGEABLE);
	assert_non_null(strstr(c.err.text, "CPU time"));
	assert_int_equal(l->cpu_milli, 1000);
	assert_int_equal(w->fake->n_limits, 1);
}

static void test_limits_of_a_sandbox_that_ends(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_for(w, "", "s").sandbox;
	struct sandbox_options change = {.given = 1u << SANDBOX_OPTION_PROCESSES};
	struct changed c = {0};
	struct err e = ERR_INIT;

	change.number[SANDBOX_OPTION_PROCESSES] = 100;
	assert_int_equal(sandbox_change(s, &change, on_limits, &c, &e), 1);
	assert_int_equal(sandbox_close(s, true, NULL, NULL, &e), 0);
	manager_world_turn(w);
	assert_int_equal(c.times, 1);
	assert_int_not_equal(c.err.code, ERR_NONE);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(test_limits_are_changed_by_the_engine),
	    CASE(test_limits_of_a_sandbox_that_ends),
	    CASE(test_gives_up_what_holds_nothing),
	    CASE(test_gives_up_what_has_ended),
	    CASE(test_gives_up_only_own_ones),
	    CASE(test_options_are_held),
	    CASE(test_ends_are_told),
	    CASE(test_memory_of_ends_is_bounded),
	    CASE(test_maxima),
	    CASE(test_a_change_holds_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
