/* SPDX-License-Identifier: Apache-2.0 */
/* The manager on the fake engine: creation, cap, expiry, runs, artifacts, uploads, paths, types. */
#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "manager_world.h"
#include "sandbox/file_writer.h"
#include "sandbox/manager.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/sandbox_path.h"
#include "sandbox/upload.h"
#include "sandbox/workspace_inventory.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
/* cmocka wants those before it */
#include <cmocka.h>

static int setup(void **state)
{
	struct manager_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	manager_world_open(w, (struct manager_config){
				  .output_max = 10, .max_sandboxes = 3, .now = manager_world_now});
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	manager_world_close(*state);
	free(*state);
	return 0;
}

/* ---- creation ---- */

struct opened {
	unsigned n;
	struct sandbox *sandbox;
	struct err err;
};

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct opened *o = user;

	o->n++;
	o->sandbox = s;
	o->err = e ? *e : ERR_INIT;
}

static struct sandbox *open_sandbox(struct manager_world *w, const char *id)
{
	struct opened o = {0};

	manager_open(w->manager, "", id, on_open, &o);
	assert_int_equal(o.n, 0); /* never before the call has returned */
	manager_world_turn(w);
	assert_int_equal(o.n, 1);
	return o.sandbox;
}

static void test_first_calls_share_a_creation(void **state)
{
	struct manager_world *w = *state;
	struct opened a = {0}, b = {0};

	w->fake->hold_create = true;
	manager_open(w->manager, "", "one", on_open, &a);
	manager_open(w->manager, "", "one", on_open, &b);
	manager_world_turn(w);
	assert_int_equal(a.n + b.n, 0);
	assert_null(manager_find(w->manager, "", "one"));
	fake_engine_release(w->fake);
	manager_world_turn(w);
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 1);
	assert_non_null(a.sandbox);
	assert_ptr_equal(a.sandbox, b.sandbox);
	assert_int_equal(w->fake->n_created, 1);
	assert_ptr_equal(manager_find(w->manager, "", "one"), a.sandbox);
}

static void test_a_removed_owner_gets_no_sandbox(void **state)
{
	struct manager_world *w = *state;
	struct opened half = {0}, late = {0}, again = {0};
	struct err e = ERR_INIT;

	w->fake->hold_create = true;
	manager_open(w->manager, "ann", "half", on_open, &half);
	manager_world_turn(w);
	assert_int_equal(manager_close_owner(w->manager, "ann", &e), 0);
	manager_open(w->manager, "ann", "late", on_open, &late);
	fake_engine_release(w->fake);
	manager_world_turn(w);
	assert_int_equal(half.err.code, ERR_UNAUTHORIZED);
	assert_int_equal(late.err.code, ERR_UNAUTHORIZED);
	assert_int_equal(manager_count(w->manager), 0);
	assert_int_equal(w->fake->n_alive, 0);
	manager_reopen_owner(w->manager, "ann"); /* the removal has failed */
	manager_open(w->manager, "ann", "again", on_open, &again);
	manager_world_turn(w);
	assert_non_null(again.sandbox);
}

static void test_owners_do_not_see_each_other(void **state)
{
	struct manager_world *w = *state;
	struct opened o = {0};

	assert_non_null(open_sandbox(w, "one"));
	assert_null(manager_find(w->manager, "ann", "one"));
	manager_open(w->manager, "ann", "one", on_open, &o);
	manager_world_turn(w);
	assert_ptr_not_equal(o.sandbox, manager_find(w->manager, "", "one"));
	assert_int_equal(w->fake->n_created, 2);
	/* so many that some stand in the same place of the table */
	for (unsigned i = 0; i < 20 * MANAGER_BUCKETS; i++) {
		char owner[16];

		(void)snprintf(owner, sizeof(owner), "u%u", i);
		assert_null(manager_find(w->manager, owner, "one"));
	}
}

static void test_new_ids(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *a = open_sandbox(w, NULL), *b = open_sandbox(w, NULL);

	assert_int_equal(strlen(sandbox_id(a)), 17);
	assert_true(text_starts_with(sandbox_id(a), "sess_"));
	assert_string_not_equal(sandbox_id(a), sandbox_id(b));
}

static void test_cap(void **state)
{
	struct manager_world *w = *state;
	struct opened o = {0};

	for (unsigned i = 0; i < 3; i++)
		assert_non_null(open_sandbox(w, NULL));
	manager_open(w->manager, "", NULL, on_open, &o);
	manager_world_turn(w);
	assert_null(o.sandbox);
	assert_int_equal(o.err.code, ERR_MAX_SESSIONS);
	assert_string_equal(o.err.text, "Maximum 3 concurrent sessions reached. Close an existing "
					"session first.");
	assert_int_equal(manager_count(w->manager), 3);
}

static void test_cap_lets_known_ids_pass(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "mine");

	assert_non_null(open_sandbox(w, NULL));
	assert_non_null(open_sandbox(w, NULL));
	assert_ptr_equal(open_sandbox(w, "mine"), s);
}

static void test_failed_creation_frees_the_id(void **state)
{
	struct manager_world *w = *state;
	struct opened o = {0};

	w->fake->fail_create = true;
	manager_open(w->manager, "", "one", on_open, &o);
	manager_world_turn(w);
	assert_int_equal(o.err.code, ERR_ENGINE_UNAVAILABLE);
	assert_int_equal(manager_count(w->manager), 0);
	assert_non_null(open_sandbox(w, "one"));
}

static void test_limits_that_cannot_hold_are_refused(void **state)
{
	struct manager_world *w = *state;
	struct err e = ERR_INIT;
	struct manager_world other;

	manager_world_open_beside(
	    &other, w->loop,
	    (struct manager_config){
		.limits = {.explicit_mask = ENGINE_CAP_MEMORY | ENGINE_CAP_DISK},
		.max_sandboxes = 1});
	other.fake->engine.enforced = ENGINE_CAP_MEMORY;
	assert_true(manager_start(other.manager, &e) < 0);
	assert_int_equal(e.code, ERR_LIMIT_NOT_ENFORCEABLE);
	assert_non_null(strstr(e.text, "SANDBOX_WORKSPACE_LIMIT"));
	other.fake = NULL; /* closed when it was refused */
	manager_world_close(&other);
}

/* ---- public ports ---- */

static void test_public(void **state)
{
	struct manager_world *w = *state;
	struct sandbox_options open = {.given = 1u << SANDBOX_OPTION_PUBLIC};
	struct opened own = {0}, chosen = {0};
	struct manager_world other;
	struct err e = ERR_INIT;

	open.number[SANDBOX_OPTION_PUBLIC] = 1;
	assert_int_equal(manager_check_options(w->manager, &open, &e), -EPERM);
	manager_world_open_beside(&other, w->loop,
				  (struct manager_config){.max_sandboxes = 3,
							  .public_ports = true,
							  .now = manager_world_now});
	manager_open_new(other.manager, "ann", NULL, NULL, &open, on_open, &own);
	manager_open_new(other.manager, "ann", "sess_0123456789ab", NULL, &open, on_open, &chosen);
	manager_world_turn(&other);
	assert_int_equal(chosen.err.code, ERR_FORBIDDEN);
	assert_true(sandbox_is_public(own.sandbox));
	assert_ptr_equal(manager_find_public(other.manager, sandbox_id(own.sandbox)), own.sandbox);

	/* The same id of somebody who chose it is another sandbox, and not public. */
	chosen = (struct opened){0};
	manager_open(other.manager, "eve", sandbox_id(own.sandbox), on_open, &chosen);
	manager_world_turn(&other);
	e = (struct err)ERR_INIT;
	assert_true(sandbox_change(chosen.sandbox, &open, NULL, NULL, &e) < 0);
	assert_string_equal(e.member, "public");
	assert_ptr_equal(manager_find_public(other.manager, sandbox_id(own.sandbox)), own.sandbox);

	/* So many in each second, and no more. */
	clock_ns += NS_PER_S;
	for (unsigned second = 0; second < 2; second++, clock_ns += NS_PER_S) {
		for (unsigned i = 0; i < SANDBOX_STRANGERS_PER_S; i++)
			assert_int_equal(sandbox_admit_stranger(own.sandbox, "", &e), 0);
		e = (struct err)ERR_INIT;
		assert_true(sandbox_admit_stranger(own.sandbox, "", &e) < 0);
		assert_int_equal(e.code, ERR_RATE_LIMITED);
	}
	/* One network leaves something for the others, also if it comes first and is refused often. In one second of many two networks may
	 * share a counter. */
	unsigned fair = 0;
	for (unsigned second = 0; second < 100; second++, clock_ns += NS_PER_S) {
		unsigned greedy = 0, others = 0;

		for (unsigned i = 0; i < 2 * SANDBOX_STRANGERS_PER_S; i++)
			greedy += sandbox_admit_stranger(own.sandbox, "9.9.9.9", &e) == 0;
		for (unsigned i = 0; i < SANDBOX_STRANGERS_PER_S; i++)
			others += sandbox_admit_stranger(own.sandbox, "2001:db8::/64", &e) == 0;
		assert_int_equal(greedy, SANDBOX_STRANGER_PER_S);
		assert_true(others == 0 ||
			    others == SANDBOX_STRANGERS_PER_S - SANDBOX_STRANGER_PER_S);
		fair += others > 0;
	}
	assert_true(fair >= 80);
	open.number[SANDBOX_OPTION_PUBLIC] = 0;
	assert_int_equal(sandbox_change(own.sandbox, &open, NULL, NULL, &e), 0);
	assert_null(manager_find_public(other.manager, sandbox_id(own.sandbox)));
	manager_world_close(&other);
}

/* ---- runs ---- */

struct ran {
	unsigned n;
	struct err err;
	struct run_result result;
	char out[64], errors[64];
	char artifacts[200];
};

static void on_ran(struct run *r UNUSED, const struct run_result *result, const struct err *e,
		   void *user)
{
	struct ran *x = user;

	x->n++;
	x->err = e ? *e : ERR_INIT;
	if (!result)
		return;
	x->result = *result;
	(void)snprintf(x->out, sizeof(x->out), "%.*s", (int)result->out.len, result->out.data);
	(void)snprintf(x->errors, sizeof(x->errors), "%.*s", (int)result->err.len,
		       result->err.data);
	for (size_t i = 0; i < result->n_artifacts; i++) {
		size_t used = strlen(x->artifacts);
		(void)snprintf(x->artifacts + used, sizeof(x->artifacts) - used, "%s ",
			       result->artifacts[i].name);
	}
}

/* The language of the test's runs: one letter each, all in order.
 *   oTEXT; eTEXT; output    wNAME; write a file    x fail with 3    t time out    m out of memory
 */
static void script(struct fake_run *r, const char *workspace, const char *code, size_t len,
		   struct engine_run_result *res)
{
	for (const char *p = code; p < code + len; p++) {
		const char *end = memchr(p, ';', (size_t)(code + len - p));
		size_t n = end ? (size_t)(end - p) - 1 : 0;
		char path[300];
		switch (*p) {
		case 'o':
		case 'e':
			fake_output(r, *p == 'o' ? ENGINE_STDOUT : ENGINE_STDERR, p + 1, n);
			break;
		case 'w':
			(void)snprintf(path, sizeof(path), "%s/%.*s", workspace, (int)n, p + 1);
			FILE *f = fopen(path, "a");
			assert_non_null(f);
			assert_true(fputs("x", f) >= 0);
			assert_int_equal(fclose(f), 0);
			break;
		case 'x':
			res->exit_code = 3;
			break;
		case 't':
			res->end = ENGINE_END_TIMEOUT;
			res->exit_code = 143;
			break;
		case 'm':
			res->end = ENGINE_END_OOM;
			res->exit_code = 9;
			break;
		default:
			break;
		}
		if (end)
			p = end;
	}
}

static struct ran run_code(struct manager_world *w, struct sandbox *s, const char *code)
{
	struct ran x = {0};
	struct run *r;
	struct run_request q = {.kind = ENGINE_RUN_PYTHON,
				.code = code,
				.code_len = strlen(code),
				.on_done = on_ran,
				.user = &x};

	w->fake->script = script;
	assert_int_equal(sandbox_run(s, &q, &r, &x.err), 0);
	assert_int_equal(x.n, 0);
	manager_world_turn(w);
	assert_int_equal(x.n, 1);
	return x;
}

static void test_output_is_bounded(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	static const struct {
		const char *code;
		const char *out;
		bool truncated;
	} rows[] = {
	    {"oshort;", "short", false},
	    {"o0123456789;", "0123456789", false},
	    {"o0123456789A;", "012346789A", true},
	    {"o01234;o56789;oA;", "012346789A", true},
	    {"o01234;o56789;oABCDEFGHIJKLMNOPQR;", "01234NOPQR", true},
	    {"o01234;o56789;oABC;oDEF;", "01234BCDEF", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ran x = run_code(w, s, rows[i].code);
		assert_string_equal(x.out, rows[i].out);
		assert_int_equal(x.result.out.truncated, rows[i].truncated);
		assert_false(x.result.err.truncated);
	}
}

static void test_ends(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	static const struct {
		const char *code;
		enum run_reason reason;
		int exit_code;
	} rows[] = {
	    {"", RUN_EXITED, 0},
	    {"x", RUN_EXITED, 3},
	    {"t", RUN_TIMEOUT, -1},
	    {"m", RUN_OOM, 137},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ran x = run_code(w, s, rows[i].code);
		assert_int_equal(x.result.reason, rows[i].reason);
		assert_int_equal(x.result.exit_code, rows[i].exit_code);
		assert_int_equal(x.result.duration_ms,
				 rows[i].code[0] == '\0' ? 5 : x.result.duration_ms);
	}
	assert_string_equal(run_reason_name(RUN_OUTPUT_LIMIT), "output_limit");
}

static void test_artifacts(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");

	assert_string_equal(run_code(w, s, "wb.txt;wa.txt;").artifacts, "a.txt b.txt ");
	assert_string_equal(run_code(w, s, "").artifacts, "");
	assert_string_equal(run_code(w, s, "wb.txt;").artifacts, "b.txt ");
	/* What a failed run wrote is its artifact, and not that of the next. */
	assert_string_equal(run_code(w, s, "wc.txt;x").artifacts, "c.txt ");
	assert_string_equal(run_code(w, s, "wd.txt;").artifacts, "d.txt ");
}

static void test_known_inventory_saves_a_scan(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");

	(void)run_code(w, s, "wa;");
	assert_int_equal(w->fake->n_lists, 1); /* a new workspace is known to be empty */
	(void)run_code(w, s, "wa;");
	assert_int_equal(w->fake->n_lists, 2);
	(void)run_code(w, s, "x");
	assert_int_equal(w->fake->n_lists, 3);
	sandbox_forget_inventory(s);
	(void)run_code(w, s, "wa;");
	assert_int_equal(w->fake->n_lists, 5);
}

static void test_busy(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct ran x = {0};
	struct err e = ERR_INIT;
	struct run *r;
	struct run_request q = {.code = "", .on_done = on_ran, .user = &x};

	w->fake->hold = true;
	assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
	assert_true(sandbox_is_busy(s));
	assert_true(sandbox_run(s, &q, &r, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	assert_string_equal(
	    e.text, "Session one is already executing code. Wait or use a different session.");
	assert_true(sandbox_close(s, false, NULL, NULL, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	fake_engine_release(w->fake);
	manager_world_turn(w);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.result.exit_code, 0);
	assert_int_equal(sandbox_close(s, false, NULL, NULL, &e), 0);
	assert_null(manager_find(w->manager, "", "one"));
}

static void test_cancel(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct ran x = {0};
	struct err e = ERR_INIT;
	struct run *r;
	struct run_request q = {.code = "", .on_done = on_ran, .user = &x};

	w->fake->hold = true;
	assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
	run_cancel(r);
	manager_world_turn(w);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.result.reason, RUN_CANCELLED);
	assert_false(sandbox_is_busy(s));
}

static void test_cancel_before_it_began(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct ran x = {0};
	struct err e = ERR_INIT;
	struct run *r;
	struct run_request q = {.code = "wa;", .code_len = 3, .on_done = on_ran, .user = &x};

	sandbox_forget_inventory(s); /* a scan comes first */
	assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
	run_cancel(r);
	manager_world_turn(w);
	assert_int_equal(x.result.reason, RUN_CANCELLED);
	assert_string_equal(run_code(w, s, "").artifacts, "");
}

/* ---- expiry, loss ---- */

static void test_expiry(void **state)
{
	struct manager_world *w = *state;
	struct ran x = {0};
	struct err e = ERR_INIT;
	struct run *r;
	struct run_request q = {.code = "", .on_done = on_ran, .user = &x};

	(void)open_sandbox(w, "idle");
	(void)open_sandbox(w, "used");
	struct sandbox *busy = open_sandbox(w, "busy");
	w->fake->hold = true;
	assert_int_equal(sandbox_run(busy, &q, &r, &e), 0);
	clock_ns += 29 * 60 * NS_PER_S;
	sandbox_touch(manager_find(w->manager, "", "used"));
	clock_ns += 2 * 60 * NS_PER_S;
	manager_sweep(w->manager);
	manager_world_turn(w);
	assert_null(manager_find(w->manager, "", "idle"));
	assert_non_null(manager_find(w->manager, "", "used"));
	assert_non_null(manager_find(w->manager, "", "busy"));
	assert_int_equal(w->fake->n_destroyed, 1);
	fake_engine_release(w->fake);
	manager_world_turn(w);
	/* The end of the run is use, too. */
	manager_sweep(w->manager);
	assert_non_null(manager_find(w->manager, "", "busy"));
	clock_ns += 31 * 60 * NS_PER_S;
	manager_sweep(w->manager);
	assert_int_equal(manager_count(w->manager), 0);
}

static struct engine_sandbox *last_handle;

static void note_handle(struct fake_run *r, const char *workspace UNUSED, const char *code UNUSED,
			size_t len UNUSED, struct engine_run_result *res UNUSED)
{
	last_handle = fake_run_sandbox(r);
}

static void test_lost(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct ran x = {0};
	struct err e = ERR_INIT;
	struct run *r;
	struct run_request q = {.code = "", .on_done = on_ran, .user = &x};

	w->fake->script = note_handle;
	assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
	manager_world_turn(w);
	fake_engine_lose(last_handle);
	manager_world_turn(w);
	assert_true(sandbox_run(s, &q, &r, &e) < 0);
	assert_int_equal(e.code, ERR_SANDBOX_LOST);
	manager_world_turn(w);
	/* Said once; the id is free again. */
	assert_null(manager_find(w->manager, "", "one"));
	assert_non_null(open_sandbox(w, "one"));
	assert_int_equal(w->fake->n_destroyed, 1);
}

struct held {
	struct sandbox_hold hold;
	unsigned n_ended;
};

static void on_held_ended(struct sandbox_hold *h)
{
	CONTAINER_OF(h, struct held, hold)->n_ended++;
}

/* Work for a sandbox hears of its end once, however it ends; work that has ended before does not. */
static void test_holds(void **state)
{
	struct manager_world *w = *state;
	struct held held[3] = {0};
	struct ran x = {0};
	struct err e = ERR_INIT;
	struct run *r;
	struct run_request q = {.code = "", .on_done = on_ran, .user = &x};

	for (int lost = 0; lost < 2; lost++) {
		struct sandbox *s = sandbox_ref(open_sandbox(w, "one"));
		for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
			held[i] = (struct held){.hold.ended = on_held_ended};
			sandbox_hold(s, &held[i].hold);
		}
		sandbox_release(s, &held[1].hold);
		w->fake->script = note_handle;
		assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
		manager_world_turn(w);
		if (lost)
			fake_engine_lose(last_handle);
		else
			assert_int_equal(sandbox_close(s, false, NULL, NULL, &e), 0);
		manager_world_turn(w);
		assert_int_equal(held[0].n_ended, 1);
		assert_int_equal(held[1].n_ended, 0);
		assert_int_equal(held[2].n_ended, 1);
		if (lost)
			assert_int_equal(sandbox_close(s, false, NULL, NULL, &e), 0);
		manager_world_turn(w);
		assert_int_equal(held[0].n_ended, 1);
		sandbox_release(s, &held[0].hold);
		sandbox_release(s, &held[2].hold);
		(void)sandbox_unref(s);
	}
}

/* ---- the books ---- */

struct books {
	unsigned n_begun;
	unsigned n_noted;
	uint32_t ticket; /* of the last that was noted */
	bool executed;
	enum run_reason reason;
};

static uint32_t book_begin(void *user, const struct sandbox *s UNUSED,
			   enum engine_run_kind kind UNUSED, const char *run)
{
	struct books *b = user;

	assert_true(text_starts_with(run, "run_"));
	return ++b->n_begun;
}

static void book_note(void *user, const struct sandbox *s UNUSED, enum engine_run_kind kind UNUSED,
		      uint32_t ticket, const struct run_result *result)
{
	struct books *b = user;

	b->n_noted++;
	b->ticket = ticket;
	b->executed = result != NULL;
	b->reason = result ? result->reason : RUN_EXITED;
}

static void end_lost(struct fake_run *r UNUSED, const char *workspace UNUSED,
		     const char *code UNUSED, size_t len UNUSED, struct engine_run_result *res)
{
	*res = (struct engine_run_result){.end = ENGINE_END_LOST, .exit_code = 137};
}

/* Each run that began is told of once, also one whose end nobody saw. */
static void test_books(void **state)
{
	struct manager_world *w = *state;
	struct books b = {0};
	const struct manager_accounting accounting = {
	    .begin = book_begin, .note = book_note, .user = &b};
	struct sandbox *s = open_sandbox(w, "one");
	struct ran x = {0};
	struct err e = ERR_INIT;
	struct run *r;
	struct run_request q = {.code = "", .on_done = on_ran, .user = &x};

	manager_set_accounting(w->manager, &accounting);
	assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
	manager_world_turn(w);
	assert_int_equal(b.n_begun, 1);
	assert_int_equal(b.n_noted, 1);
	assert_int_equal(b.ticket, 1);
	assert_true(b.executed);
	assert_int_equal(b.reason, RUN_EXITED);

	w->fake->script = end_lost;
	assert_int_equal(sandbox_run(s, &q, &r, &e), 0);
	manager_world_turn(w);
	assert_int_equal(x.err.code, ERR_SANDBOX_LOST);
	assert_int_equal(b.n_noted, 2);
	assert_int_equal(b.ticket, 2);
	assert_true(b.executed);
	assert_int_equal(b.reason, RUN_LOST);
	assert_string_equal(run_reason_name(b.reason), "lost");
}

/* ---- uploads ---- */

struct uploaded {
	unsigned n;
	uint64_t written;
	struct err err;
};

static void on_uploaded(uint64_t written, const struct err *e, void *user)
{
	struct uploaded *u = user;

	u->n++;
	u->written = written;
	u->err = e ? *e : ERR_INIT;
}

static struct uploaded upload(struct manager_world *w, struct sandbox *s, const char *name,
			      const char *text, bool overwrite)
{
	struct uploaded u = {0};
	struct upload_request q = {
	    .path = name,
	    .overwrite = overwrite,
	    .source = {.data = text, .fd = -1, .len = strlen(text)},
	    .on_done = on_uploaded,
	    .user = &u,
	};

	assert_int_equal(sandbox_upload(s, &q, &u.err), 0);
	assert_int_equal(u.n, 0);
	assert_false(sandbox_is_idle(s));
	manager_world_turn(w);
	assert_int_equal(u.n, 1);
	assert_true(sandbox_is_idle(s));
	return u;
}

static void test_upload(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct uploaded u = upload(w, s, "a.txt", "hello", false);

	assert_int_equal(u.err.code, ERR_NONE);
	assert_int_equal(u.written, 5);
	assert_int_equal(upload(w, s, "a.txt", "x", false).err.code, ERR_FILE_EXISTS);
	assert_int_equal(upload(w, s, "a.txt", "x", true).written, 1);
	/* An upload is not an artifact of the run after it. */
	assert_string_equal(run_code(w, s, "wc;").artifacts, "c ");
}

static void test_uploads_queue(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct uploaded u[3] = {{0}};
	struct upload_request q = {
	    .path = "a", .source = {.data = "x", .fd = -1, .len = 1}, .on_done = on_uploaded};

	for (size_t i = 0; i < 3; i++) {
		q.user = &u[i];
		assert_int_equal(sandbox_upload(s, &q, &u[i].err), 0);
	}
	manager_world_turn(w);
	assert_int_equal(u[0].err.code, ERR_NONE);
	assert_int_equal(u[1].err.code, ERR_FILE_EXISTS);
	assert_int_equal(u[2].err.code, ERR_FILE_EXISTS);
}

/* The owner of a writer of its own. It is freed with its drop, so a later callback is a use after free. */
struct owner {
	struct file_writer *writer;
	struct owner *other; /* dropped by this one's end */
	bool ready;
};

static void owner_drop(struct owner **o)
{
	(*o)->writer = file_writer_drop((*o)->writer);
	free(*o);
	*o = NULL;
}

static void on_owner_ready(void *user)
{
	struct owner *o = user;

	o->ready = true;
}

static void on_owner_end(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct owner *o = user;

	assert_non_null(e);
	o->writer = NULL;
	if (o->other)
		owner_drop(&o->other);
}

static const struct file_writer_ops owner_ops = {on_owner_ready, on_owner_end};

static struct owner *owner_new(struct sandbox *s, const char *path)
{
	struct owner *o = calloc(1, sizeof(*o));
	struct err e = ERR_INIT;

	assert_non_null(o);
	assert_int_equal(file_writer_new(s, path, true, &owner_ops, o, &o->writer, &e), 0);
	return o;
}

/* What the watcher was told, each path after a blank. */
static char watched[256];

static void on_watched(struct sandbox *s UNUSED, const char *path,
		       const struct run_result *r UNUSED, void *user UNUSED)
{
	if (path)
		(void)snprintf(watched + strlen(watched), sizeof(watched) - strlen(watched), " %s",
			       path);
}

static void on_named(const struct err *e, void *user)
{
	*(enum err_code *)user = e ? e->code : ERR_NONE;
}

static void on_stat(const struct engine_stat *st, const struct err *e, void *user)
{
	*(enum err_code *)user = e ? e->code : st->file.size == 5 ? ERR_NONE : ERR_INTERNAL;
}

/* New folders and names: the sandbox is in use by them, and what was known of the workspace is old; nobody is told of files
 * outside of it. */
static void test_names(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	enum err_code code;
	struct err e = ERR_INIT;

	manager_watch(w->manager, on_watched, NULL);
	watched[0] = '\0';
	(void)run_code(w, s, "wa;");
	const uint64_t epoch = s->inventory_epoch;
	assert_int_equal(sandbox_make_folder(s, "d", 0, on_named, &code, &e), 0);
	manager_world_turn(w);
	assert_int_equal(code, ERR_NONE);
	assert_string_equal(watched, " d");
	assert_true(s->inventory_epoch > epoch);
	clock_ns += NS_PER_S;
	assert_int_equal(sandbox_move(s, "d", "e", false, on_named, &code, &e), 0);
	assert_int_equal(sandbox_idle_ns(s), 0);
	manager_world_turn(w);
	assert_int_equal(code, ERR_NONE);
	assert_string_equal(watched, " d d e");
	assert_int_equal(sandbox_move(s, "none", "e", false, on_named, &code, &e), 0);
	manager_world_turn(w);
	assert_int_equal(code, ERR_NOT_FOUND);
	(void)run_code(w, s, "wsize;wsize;wsize;wsize;wsize;");
	assert_int_equal(sandbox_stat(s, "size", on_stat, &code, &e), 0);
	manager_world_turn(w);
	assert_int_equal(code, ERR_NONE);
	assert_int_equal(sandbox_stat(s, "none", on_stat, &code, &e), 0);
	manager_world_turn(w);
	assert_int_equal(code, ERR_NOT_FOUND);
	watched[0] = '\0';
	assert_int_equal(sandbox_make_folder(s, "/tmp/d", 0, on_named, &code, &e), 0);
	manager_world_turn(w);
	assert_string_equal(watched, "");
	/* while a checkpoint is being made */
	assert_int_equal(sandbox_seize(s, &e), 0);
	assert_true(sandbox_make_folder(s, "f", 0, on_named, &code, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	assert_true(sandbox_move(s, "e", "f", false, on_named, &code, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	assert_int_equal(sandbox_stat(s, "e", on_stat, &code, &e), 0);
	manager_world_turn(w);
	sandbox_yield(s);
	manager_watch(w->manager, NULL, NULL);
}

enum drop_state { DROP_OPENING, DROP_OPEN, DROP_WAITING, DROP_COMMITTING, DROP_STATES };

/* Brings the writer of O into STATE. */
static void owner_reach(struct manager_world *w, struct sandbox *s, struct owner *o,
			enum drop_state state)
{
	struct err e = ERR_INIT;

	if (state == DROP_OPENING)
		return;
	manager_world_turn(w);
	assert_true(o->ready);
	assert_int_equal(file_writer_add(o->writer, "four", 4, &e), 0);
	if (state == DROP_WAITING)
		assert_int_equal(sandbox_seize(s, &e), 0);
	if (state != DROP_OPEN)
		file_writer_commit(o->writer);
}

static void test_writers_are_dropped_in_every_state(void **state)
{
	struct manager_world *w = *state;
	struct err e = ERR_INIT;

	for (enum drop_state at = DROP_OPENING; at < DROP_STATES; at++) {
		struct sandbox *s = open_sandbox(w, "one");
		struct owner *o = owner_new(s, "dropped");

		owner_reach(w, s, o, at);
		owner_drop(&o);
		if (at == DROP_WAITING)
			sandbox_yield(s);
		manager_world_turn(w);
		assert_true(list_is_empty(&s->writers));
		assert_int_equal(s->writing_bytes, 0);
		/* Only a file that was getting its name may have it. */
		char path[200];
		(void)snprintf(path, sizeof(path), "%s/%u/dropped", w->fake->root,
			       w->fake->n_created);
		assert_int_equal(access(path, F_OK), at == DROP_COMMITTING ? 0 : -1);
		assert_int_equal(sandbox_drop(s, NULL, NULL, &e), 0);
		manager_world_turn(w);
	}
}

/* The end of one writer drops another, in every state: a form does so. */
static void test_a_sandbox_ends_and_writers_drop_each_other(void **state)
{
	struct manager_world *w = *state;
	struct err e = ERR_INIT;

	for (enum drop_state at = DROP_OPENING; at < DROP_STATES; at++) {
		struct sandbox *s = sandbox_ref(open_sandbox(w, "one"));
		struct owner *first = owner_new(s, "first");

		owner_reach(w, s, first, DROP_OPEN);
		first->other = owner_new(s, "other");
		owner_reach(w, s, first->other, at);
		assert_int_equal(sandbox_drop(s, NULL, NULL, &e), 0);
		assert_null(first->writer);
		assert_null(first->other);
		manager_world_turn(w);
		assert_true(list_is_empty(&s->writers));
		assert_int_equal(s->writing_bytes, 0);
		free(first);
		(void)sandbox_unref(s);
	}
}

static void test_a_writer_that_is_not_open_takes_nothing(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct owner *o = owner_new(s, "early");
	struct err e = ERR_INIT;

	assert_true(file_writer_add(o->writer, "x", 1, &e) < 0);
	file_writer_commit(o->writer); /* on_end with an error */
	assert_null(o->writer);
	manager_world_turn(w);
	assert_false(o->ready);
	assert_true(list_is_empty(&s->writers));
	free(o);
}

static void test_upload_from_a_file(void **state)
{
	struct manager_world *w = *state;
	struct sandbox *s = open_sandbox(w, "one");
	struct uploaded u = {0};
	size_t size = 5000001;
	uint8_t *raw = malloc(size);
	FILE *f = tmpfile();

	assert_true(raw && f);
	for (size_t i = 0; i < size; i++)
		raw[i] = (uint8_t)(i * 7);
	assert_int_equal(fwrite("abc", 1, 3, f), 3);
	assert_int_equal(fwrite(raw, 1, size, f), size);
	assert_int_equal(fflush(f), 0);
	struct upload_request q = {
	    .path = "big",
	    .source = {.fd = fileno(f), .off = 3, .len = size},
	    .on_done = on_uploaded,
	    .user = &u,
	};
	assert_int_equal(sandbox_upload(s, &q, &u.err), 0);
	manager_world_turn(w);
	assert_int_equal(u.written, size);
	char path[200];
	(void)snprintf(path, sizeof(path), "%s/1/big", w->fake->root);
	FILE *g = fopen(path, "r");
	uint8_t *back = malloc(size);
	assert_true(g && back);
	assert_int_equal(fread(back, 1, size, g), size);
	assert_memory_equal(back, raw, size);
	(void)fclose(g);
	(void)fclose(f);
	free(back);
	free(raw);
}

/* ---- tables and pure functions ---- */

static void test_paths(void **state UNUSED)
{
	static const char absolute[] = "Path must be absolute and within /mnt/data/";
	static const char outside[] = "Path outside /mnt/data/";
	static const char itself[] = "Path must point to a file in /mnt/data/";
	static const char up[] = "Path traversal not allowed";
	static const struct {
		const char *path;
		bool relative_too;
		const char *want; /* the path, or NULL */
		const char *message;
	} rows[] = {
	    {"/mnt/data/a.txt", false, "a.txt", NULL},
	    {"/mnt/data/sub/x.txt", false, "sub/x.txt", NULL},
	    {"/mnt//data/./sub//x.txt/", false, "sub/x.txt", NULL},
	    {"///mnt/data/a", false, "a", NULL},
	    {"//mnt/data/a", false, NULL, outside},
	    {"a.txt", false, NULL, absolute},
	    {"", false, NULL, absolute},
	    {"../etc/passwd", false, NULL, absolute},
	    {"/etc/passwd", false, NULL, outside},
	    {"/mnt/data2/a", false, NULL, outside},
	    {"/mnt", false, NULL, outside},
	    {"/", false, NULL, outside},
	    {"/app/results/a", false, NULL, outside},
	    {"/etc/../mnt/data/a", false, NULL, outside},
	    {"/mnt/data", false, NULL, itself},
	    {"/mnt/data/", false, NULL, itself},
	    {"/mnt/data/.", false, NULL, itself},
	    {"/mnt/data/../etc/passwd", false, NULL, up},
	    {"/mnt/data/a/..", false, NULL, up},
	    {"a.txt", true, "a.txt", NULL},
	    {"sub/a.txt", true, "sub/a.txt", NULL},
	    {"/app/results/a", true, "a", NULL},
	    {"../a", true, NULL, up},
	    {"", true, NULL, absolute},
	    {".", true, NULL, itself},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[ENGINE_PATH_MAX];
		struct err e = ERR_INIT;
		int r = workspace_path(rows[i].path, strlen(rows[i].path), rows[i].relative_too,
				       path, &e);
		if (rows[i].want) {
			assert_int_equal(r, 0);
			assert_string_equal(path, rows[i].want);
		} else {
			assert_true(r < 0);
			assert_int_equal(e.code, ERR_INVALID_PATH);
			assert_string_equal(e.text, rows[i].message);
		}
	}
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;
	char longest[ENGINE_PATH_MAX + 1] = "a/";
	memset(longest + 2, 'b', ENGINE_PATH_MAX - 2);
	assert_true(workspace_path(longest, ENGINE_PATH_MAX, true, path, &e) < 0);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_int_equal(workspace_path(longest, ENGINE_PATH_MAX - 1, true, path, &e), 0);
	assert_int_equal(strlen(path), ENGINE_PATH_MAX - 1);
	assert_true(workspace_path("/mnt/data/a\0b", 13, false, path, &e) < 0);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void test_sandbox_path(void **state UNUSED)
{
	static const struct {
		const char *path, *base;
		const char *want;
	} rows[] = {
	    {"a", "/home/user", "a"},
	    {"", "/home/user", ""},
	    {".", "/mnt/data", ""},
	    {"/", "/home/user", "/"},
	    {"//", "/home/user", "/"},
	    {"/mnt/data", "/", ""},
	    {"/mnt/data/", "/", ""},
	    {"/mnt//data/./a//b/", "/", "a/b"},
	    {"/app/results/a", "/", "a"},
	    {"/home/user/a", "/", "a"},
	    {"/home/users/a", "/", "/home/users/a"},
	    {"/home/user2", "/", "/home/user2"},
	    {"/home", "/", "/home"},
	    {"/mnt/data2/a", "/", "/mnt/data2/a"},
	    {"/tmp/x", "/mnt/data", "/tmp/x"},
	    {"x", "/tmp", "/tmp/x"},
	    {"../x", "/tmp", "/x"},
	    {"../../../x", "/tmp", "/x"},
	    {"../..", "/home/user", "/"},
	    {"..", "/home/user", "/home"},
	    {"../user/a", "/home/user", "a"},
	    {"../../tmp/./../tmp/a", "/home/user", "/tmp/a"},
	    {"/mnt/data/../../etc/passwd", "/", "/etc/passwd"},
	    {"/proc/../app/results", "/", ""},
	    {"...", "/tmp", "/tmp/..."},
	    {"..a/.b", "/tmp", "/tmp/..a/.b"},
	    {"~/a", "/home/user", "~/a"},
	    {"\xff\n", "/tmp/", "/tmp/\xff\n"},
	};
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(
		    sandbox_path(rows[i].path, strlen(rows[i].path), rows[i].base, path, &e), 0);
		assert_string_equal(path, rows[i].want);
	}
	assert_true(sandbox_path("a\0b", 3, "/tmp", path, &e) < 0);
	assert_int_equal(e.code, ERR_INVALID_PATH);
	/* a part of 255 bytes, and one of 256 */
	char longest[ENGINE_PATH_MAX + 2];
	memset(longest, 'b', sizeof(longest));
	assert_int_equal(sandbox_path(longest, 255, "/tmp", path, &e), 0);
	assert_true(sandbox_path(longest, 256, "/tmp", path, &e) < 0);
	assert_int_equal(e.code, ERR_INVALID_PATH);
	/* the longest path, and one byte more */
	for (size_t i = 0; i < sizeof(longest); i += 2)
		longest[i] = '/';
	assert_int_equal(sandbox_path(longest, ENGINE_PATH_MAX - 2, "/", path, &e), 0);
	assert_int_equal(strlen(path), ENGINE_PATH_MAX - 2);
	longest[ENGINE_PATH_MAX - 2] = 'b';
	assert_int_equal(sandbox_path(longest, ENGINE_PATH_MAX - 1, "/", path, &e), 0);
	assert_int_equal(strlen(path), ENGINE_PATH_MAX - 1);
	longest[ENGINE_PATH_MAX - 1] = 'b';
	assert_true(sandbox_path(longest, ENGINE_PATH_MAX, "/", path, &e) < 0);
	/* what goes up again is not long */
	for (size_t i = 0; i + 3 < sizeof(longest); i += 3)
		memcpy(longest + i, i % 2 ? "/.." : "/aa", 3);
	assert_int_equal(sandbox_path(longest, ENGINE_PATH_MAX / 6 * 6, "/tmp", path, &e), 0);
	assert_string_equal(path, "/");
}

static void test_types(void **state UNUSED)
{
	static const char unknown[] = "application/octet-stream";
	static const struct {
		const char *name;
		const char *type;
	} rows[] = {
	    {"a.csv", "text/csv"},
	    {"a.tsv", "text/tab-separated-values"},
	    {"a.json", "application/json"},
	    {"a.png", "image/png"},
	    {"a.gif", "image/gif"},
	    {"a.jpg", "image/jpeg"},
	    {"a.JPG", "image/jpeg"},
	    {"a.svg", "image/svg+xml"},
	    {"a.pdf", "application/pdf"},
	    {"a.html", "text/html"},
	    {"a.txt", "text/plain"},
	    {"a.py", "text/x-python"},
	    {"a.js", "text/javascript"},
	    {"a.xml", "text/xml"},
	    {"a.zip", "application/zip"},
	    {"a.xls", "application/vnd.ms-excel"},
	    {"a.h5", "application/x-hdf5"},
	    {"a.mp4", "video/mp4"},
	    {"a.md", "text/markdown"},
	    {"a.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	    {"a.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	    {"a.webp", "image/webp"},
	    {"x.csv.gz", "text/csv"},
	    {"x.tar.gz", "application/x-tar"},
	    {"x.tgz", "application/x-tar"},
	    {"x.gz", unknown},
	    {"gz", unknown},
	    {".csv", unknown},
	    {"..csv", unknown},
	    {"a.", unknown},
	    {"a.parquet", unknown},
	    {"a.feather", unknown},
	    {"a.npy", unknown},
	    {"a.pkl", unknown},
	    {"a.ipynb", unknown},
	    {"a.yaml", unknown},
	    {"", unknown},
	    {"sub.csv/a", unknown},
	    {"sub/a.csv", "text/csv"},
	    {"a.averyveryverylongextension", unknown},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_string_equal(mime_type(rows[i].name), rows[i].type);
}

/* The rows are searched by halves: they must be in order. */
static void test_types_are_sorted(void **state UNUSED)
{
	static const char *const extensions[] = {
#define M(extension, type) extension,
#include "sandbox/mime.tbl.h"
#undef M
	};

	for (size_t i = 1; i < ARRAY_SIZE(extensions); i++)
		assert_true(strcmp(extensions[i - 1], extensions[i]) < 0);
}

static void collect(const struct engine_file *file, void *user)
{
	char *names = user;

	size_t used = strlen(names);

	(void)snprintf(names + used, 200 - used, "%.20s ", file->name);
}

static void test_inventory_diff(void **state UNUSED)
{
	struct engine_file before[] = {
	    {.name = "same", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 1, .mode = S_IFREG},
	    {.name = "grown", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 2, .mode = S_IFREG},
	    {.name = "touched",
	     .size = 1,
	     .mtime_ns = 1,
	     .ctime_ns = 1,
	     .inode = 3,
	     .mode = S_IFREG},
	    {.name = "reset", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 4, .mode = S_IFREG},
	    {.name = "swapped",
	     .size = 1,
	     .mtime_ns = 1,
	     .ctime_ns = 1,
	     .inode = 5,
	     .mode = S_IFREG},
	    {.name = "chmod", .ctime_ns = 1, .inode = 7, .mode = S_IFREG | 0644, .nlink = 1},
	    {.name = "linked", .ctime_ns = 1, .inode = 8, .mode = S_IFREG, .nlink = 1},
	    {.name = "gone", .mode = S_IFREG},
	};
	struct engine_file after[] = {
	    {.name = "zzz", .mode = S_IFREG},
	    {.name = "touched",
	     .size = 1,
	     .mtime_ns = 2,
	     .ctime_ns = 2,
	     .inode = 3,
	     .mode = S_IFREG},
	    {.name = "same", .size = 1, .mtime_ns = 1, .ctime_ns = 1, .inode = 1, .mode = S_IFREG},
	    {.name = "grown", .size = 2, .mtime_ns = 1, .ctime_ns = 1, .inode = 2, .mode = S_IFREG},
	    /* mtime was set back with utime(2): ctime tells */
	    {.name = "reset", .size = 1, .mtime_ns = 1, .ctime_ns = 3, .inode = 4, .mode = S_IFREG},
	    {.name = "swapped",
	     .size = 1,
	     .mtime_ns = 1,
	     .ctime_ns = 1,
	     .inode = 6,
	     .mode = S_IFREG},
	    {.name = "chmod", .ctime_ns = 2, .inode = 7, .mode = S_IFREG | 0600, .nlink = 1},
	    {.name = "linked", .ctime_ns = 2, .inode = 8, .mode = S_IFREG, .nlink = 2},
	    {.name = "folder", .mode = S_IFDIR},
	    {.name = "link", .mode = S_IFLNK},
	    {.name = "aaa", .mode = S_IFREG},
	};
	struct inventory a = {0}, b = {0};
	char names[200] = "";

	assert_int_equal(inventory_set(&a, before, ARRAY_SIZE(before), false), 0);
	assert_int_equal(inventory_set(&b, after, ARRAY_SIZE(after), true), 0);
	inventory_diff(&a, &b, collect, names);
	assert_string_equal(names, "aaa folder grown reset swapped touched zzz ");
	assert_true(b.more);
	inventory_done(&a);
	inventory_done(&b);
}

/* What an aborted test leaves in /tmp goes with the next engine; a living one's stays. */
static void test_fake_engines_leave_nothing(void **state UNUSED)
{
	struct fake_engine *alive = fake_engine_new(NULL);
	char root[sizeof(alive->root)] = "";
	int status, pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct fake_engine *f = fake_engine_new(NULL);

		(void)!write(pair[1], f->root, sizeof(f->root));
		_exit(0);
	}
	assert_int_equal(read(pair[0], root, sizeof(root)), sizeof(root));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(access(root, F_OK), 0);
	struct fake_engine *next = fake_engine_new(NULL);
	assert_int_equal(access(root, F_OK), -1);
	assert_int_equal(access(alive->root, F_OK), 0);
	engine_close(&next->engine);
	engine_close(&alive->engine);
	fd_close_many(pair, 2);
}

static void test_place(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		const char *want; /* NULL: refused */
	} rows[] = {
#define ROW(text, want) {text, sizeof(text) - 1, want}
	    ROW("/\n", "/"),
	    ROW("/app/results/h\xc3\xa9 'x'\n", "/app/results/h\xc3\xa9 'x'"),
	    ROW("", NULL),
	    ROW("\n", NULL),
	    ROW("/app", NULL),
	    ROW("app\n", NULL),
	    ROW("/a\n/b\n", NULL),
	    ROW("/a\0b\n", NULL),
	    ROW("/a\033[1m\n", NULL),
	    ROW("/a\x7f\n", NULL),
	    ROW("/a\xff\n", NULL),
#undef ROW
	};
	char long_one[SANDBOX_PLACE_MAX + 1], got[SANDBOX_PLACE_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const bool good = sandbox_read_place(rows[i].data, rows[i].len, got);

		assert_int_equal(good, rows[i].want != NULL);
		if (good)
			assert_string_equal(got, rows[i].want);
	}
	memset(long_one, '/', sizeof(long_one));
	for (size_t len = SANDBOX_PLACE_MAX - 1; len <= SANDBOX_PLACE_MAX; len++) {
		long_one[len] = '\n';
		assert_int_equal(sandbox_read_place(long_one, len + 1, got),
				 len < SANDBOX_PLACE_MAX);
		long_one[len] = '/';
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_place),
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    T(test_first_calls_share_a_creation),
	    T(test_a_removed_owner_gets_no_sandbox),
	    T(test_owners_do_not_see_each_other),
	    T(test_new_ids),
	    T(test_cap),
	    T(test_cap_lets_known_ids_pass),
	    T(test_failed_creation_frees_the_id),
	    T(test_limits_that_cannot_hold_are_refused),
	    T(test_output_is_bounded),
	    T(test_ends),
	    T(test_artifacts),
	    T(test_known_inventory_saves_a_scan),
	    T(test_busy),
	    T(test_cancel),
	    T(test_cancel_before_it_began),
	    T(test_expiry),
	    T(test_lost),
	    T(test_holds),
	    T(test_books),
	    T(test_upload),
	    T(test_uploads_queue),
	    T(test_writers_are_dropped_in_every_state),
	    T(test_a_sandbox_ends_and_writers_drop_each_other),
	    T(test_a_writer_that_is_not_open_takes_nothing),
	    T(test_upload_from_a_file),
#undef T
	    cmocka_unit_test(test_paths),
	    cmocka_unit_test(test_sandbox_path),
	    cmocka_unit_test_setup_teardown(test_names, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_public, setup, teardown),
	    cmocka_unit_test(test_types),
	    cmocka_unit_test(test_types_are_sorted),
	    cmocka_unit_test(test_inventory_diff),
	    cmocka_unit_test(test_fake_engines_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
