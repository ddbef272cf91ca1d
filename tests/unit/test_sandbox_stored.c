/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes and the queue of runs: the manager on the fake engine, with records in memory.
 */
#include "base/rand.h"
#include "base/text.h"
#include "manager_world.h"
#include "sandbox/manager.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define RECORDS_MAX 8

struct world {
	struct manager_world m;
	struct sandbox_record rows[RECORDS_MAX];
	unsigned n;
	unsigned serial;
	struct sandbox_records records;
	/* of the disk, which is slow: a change that is not on it yet */
	sandbox_done_fn settled;
	void *settled_for;
};

/* ---- records ---- */

static int add(void *user, struct sandbox_record *r, const char *env UNUSED, uint64_t owner_max,
	       struct err *e)
{
	struct world *w = user;
	unsigned n = 0;

	for (unsigned i = 0; i < w->n; i++)
		n += streq(w->rows[i].owner, r->owner);
	if (n >= owner_max)
		return err_set(e, ERR_QUOTA_EXCEEDED, 0, "too many");
	(void)snprintf(r->id, sizeof(r->id), "00000000-0000-4000-8000-%012u", ++w->serial);
	memcpy(r->key, r->id, sizeof(r->key));
	if (!r->name[0])
		(void)snprintf(r->name, sizeof(r->name), "Sandbox %u", n + 1);
	w->rows[w->n++] = *r;
	return 0;
}

static int get(void *user, const char *owner, const char *id, struct sandbox_record *ret,
	       struct err *e UNUSED)
{
	struct world *w = user;

	for (unsigned i = 0; i < w->n; i++)
		if (streq(w->rows[i].id, id) && (!owner || streq(w->rows[i].owner, owner))) {
			*ret = w->rows[i];
			return 1;
		}
	return 0;
}

static int remove_row(void *user, const char *id, struct err *e UNUSED)
{
	struct world *w = user;

	for (unsigned i = 0; i < w->n; i++)
		if (streq(w->rows[i].id, id))
			w->rows[i] = w->rows[--w->n];
	return 0;
}

static int each(void *user, const char *owner, sandbox_record_fn fn, void *arg,
		struct err *e UNUSED)
{
	struct world *w = user;

	for (unsigned i = 0; i < w->n; i++)
		if (!owner || streq(w->rows[i].owner, owner))
			fn(&w->rows[i], arg);
	return 0;
}

/* From now on changes of records wait for settle_one(). */
static int settle_later(void *user, sandbox_done_fn cb, void *arg, struct err *e UNUSED)
{
	struct world *w = user;

	assert_null(w->settled);
	w->settled = cb;
	w->settled_for = arg;
	return 0;
}

static void settle_one(struct world *w, const struct err *e)
{
	const sandbox_done_fn cb = w->settled;

	assert_non_null(cb);
	w->settled = NULL;
	cb(e, w->settled_for);
	manager_world_turn(&w->m);
}

/* ---- world ---- */

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->records = (struct sandbox_records){
	    .add = add, .get = get, .remove = remove_row, .each = each, .user = w};
	manager_world_open(&w->m,
			   (struct manager_config){.output_max = 10,
						   .max_sandboxes = 2,
						   .now = manager_world_now,
						   .stored = {.records = &w->records,
							      .image = "science",
							      .run_timeout_ns = 300 * NS_PER_S,
							      .output_max = 20,
							      .idle_ns = 60 * NS_PER_S,
							      .max_active = 2,
							      .owner_max = 3}});
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	manager_world_close(&w->m);
	free(w);
	return 0;
}

struct opened {
	unsigned n;
	char id[SANDBOX_ID_MAX + 1];
	struct sandbox *sandbox;
	struct err err;
};

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct opened *o = user;

	o->n++;
	o->sandbox = s;
	if (s)
		(void)snprintf(o->id, sizeof(o->id), "%s", sandbox_id(s));
	o->err = e ? *e : ERR_INIT;
}

static struct opened create(struct world *w, const char *name)
{
	struct opened o = {0};

	manager_create(w->m.manager, "", name, NULL, NULL, on_open, &o);
	assert_int_equal(o.n, 0); /* never before the call has returned */
	manager_world_turn(&w->m);
	assert_int_equal(o.n, 1);
	return o;
}

static struct opened activate(struct world *w, const char *owner, const char *id)
{
	struct opened o = {0};

	manager_activate(w->m.manager, owner, id, on_open, &o);
	manager_world_turn(&w->m);
	assert_int_equal(o.n, 1);
	return o;
}

/* ---- life ---- */

static void test_made_and_found(void **state)
{
	struct world *w = *state;
	struct opened a = create(w, NULL);
	struct sandbox_record r;
	struct err e = ERR_INIT;

	assert_non_null(a.sandbox);
	assert_true(sandbox_is_stored(a.sandbox));
	assert_string_equal(sandbox_name(a.sandbox), "Sandbox 1");
	assert_string_equal(w->m.fake->last_persist, a.id);
	assert_int_equal(sandbox_run_timeout_ns(a.sandbox), 300 * NS_PER_S);
	assert_int_equal(sandbox_output_max(a.sandbox), 20);
	assert_ptr_equal(activate(w, "", a.id).sandbox, a.sandbox);
	assert_int_equal(manager_get_stored(w->m.manager, "", a.id, &r, &e), 1);
	assert_int_equal(manager_get_stored(w->m.manager, "ann", a.id, &r, &e), 0);
	assert_int_equal(activate(w, "ann", a.id).err.code, ERR_SESSION_NOT_FOUND);
	assert_int_equal(activate(w, "", "nobodys").err.code, ERR_SESSION_NOT_FOUND);
	assert_string_equal(sandbox_name(create(w, "mine").sandbox), "mine");
}

static void test_quota_and_failed_creation(void **state)
{
	struct world *w = *state;

	w->m.fake->fail_create = true;
	assert_int_equal(create(w, NULL).err.code, ERR_ENGINE_UNAVAILABLE);
	assert_int_equal(w->n, 0); /* a record alone is of no use */
	for (int i = 0; i < 3; i++)
		assert_non_null(create(w, NULL).sandbox);
	assert_int_equal(create(w, NULL).err.code, ERR_QUOTA_EXCEEDED);
	assert_int_equal(w->n, 3);
}

struct counted_hold {
	struct sandbox_hold hold;
	unsigned n_ended;
};

static void on_hold_ended(struct sandbox_hold *h)
{
	CONTAINER_OF(h, struct counted_hold, hold)->n_ended++;
}

/* Sessions and stored ones do not take each other's places. */
static void test_places(void **state)
{
	static struct counted_hold holds[2];
	struct world *w = *state;
	struct opened s[3] = {0};
	struct opened a = create(w, NULL);
	struct opened b = create(w, NULL);

	for (int i = 0; i < 3; i++) {
		manager_open(w->m.manager, "", NULL, on_open, &s[i]);
		manager_world_turn(&w->m);
	}
	assert_non_null(s[0].sandbox);
	assert_non_null(s[1].sandbox);
	assert_int_equal(s[2].err.code, ERR_MAX_SESSIONS);
	/* a third active one: the one that was used first makes room, and comes back */
	clock_ns += NS_PER_S;
	sandbox_touch(activate(w, "", a.id).sandbox);
	struct opened c = create(w, NULL);
	assert_non_null(c.sandbox);
	assert_null(manager_find(w->m.manager, "", b.id));
	assert_non_null(manager_find(w->m.manager, "", a.id));
	assert_non_null(activate(w, "", b.id).sandbox);
	assert_string_equal(w->m.fake->last_persist, b.id);
	assert_int_equal(w->m.fake->n_forgotten, 0);
	/* all at work: nobody makes room */
	holds[0].hold.ended = holds[1].hold.ended = on_hold_ended;
	sandbox_hold(manager_find(w->m.manager, "", b.id), &holds[0].hold);
	struct sandbox *other = manager_find(w->m.manager, "", a.id);
	sandbox_hold(other ? other : manager_find(w->m.manager, "", c.id), &holds[1].hold);
	assert_int_equal(activate(w, "", other ? c.id : a.id).err.code, ERR_MAX_SESSIONS);
}

static void test_idle(void **state)
{
	struct world *w = *state;
	struct opened a = create(w, NULL);

	struct counted_hold c = {.hold.ended = on_hold_ended};

	clock_ns += 61 * NS_PER_S;
	sandbox_hold(a.sandbox, &c.hold);
	manager_sweep(w->m.manager);
	manager_world_turn(&w->m);
	assert_non_null(manager_find(w->m.manager, "", a.id));
	sandbox_release(a.sandbox, &c.hold);
	manager_sweep(w->m.manager); /* the release was a use */
	assert_non_null(manager_find(w->m.manager, "", a.id));
	clock_ns += 61 * NS_PER_S;
	manager_sweep(w->m.manager);
	manager_world_turn(&w->m);
	assert_null(manager_find(w->m.manager, "", a.id));
	assert_int_equal(w->m.fake->n_alive, 0);
	assert_int_equal(c.n_ended, 0); /* the work ended before */
	assert_int_equal(w->n, 1);
	assert_int_equal(w->m.fake->n_forgotten, 0);
	assert_non_null(activate(w, "", a.id).sandbox);
}

static void test_lost_comes_back(void **state)
{
	struct world *w = *state;
	struct opened a = create(w, NULL);

	fake_engine_lose(a.sandbox->handle);
	manager_world_turn(&w->m);
	assert_non_null(activate(w, "", a.id).sandbox);
	assert_int_equal(w->m.fake->n_created, 2);
	assert_int_equal(w->n, 1);
}

/* ---- deletion ---- */

static void on_deleted(const struct err *e, void *user)
{
	struct opened *o = user;

	o->n++;
	o->err = e ? *e : ERR_INIT;
}

static void test_delete(void **state)
{
	struct world *w = *state;
	struct opened a = create(w, NULL);
	struct opened b = create(w, NULL);
	struct opened d = {0};
	struct err e = ERR_INIT;

	assert_true(manager_delete(w->m.manager, "ann", a.id, false, on_deleted, &d, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_NOT_FOUND);
	assert_int_equal(manager_delete(w->m.manager, "", a.id, false, on_deleted, &d, &e), 0);
	/* from the call on it is nobody's, also while it is going */
	assert_int_equal(manager_get_stored(w->m.manager, "", a.id, NULL, &e), 0);
	assert_int_equal(activate(w, "", a.id).err.code, ERR_SESSION_NOT_FOUND);
	manager_world_turn(&w->m);
	assert_int_equal(d.n, 1);
	assert_int_equal(d.err.code, ERR_NONE);
	assert_int_equal(w->n, 1);
	assert_int_equal(w->m.fake->n_forgotten, 1);
	/* closing is deleting; one that is not active goes, too */
	assert_int_equal(
	    sandbox_close(manager_find(w->m.manager, "", b.id), false, on_deleted, &d, &e), 0);
	manager_world_turn(&w->m);
	assert_int_equal(d.n, 2);
	assert_int_equal(w->n, 0);
	struct opened c = create(w, NULL);
	clock_ns += 61 * NS_PER_S;
	manager_sweep(w->m.manager);
	manager_world_turn(&w->m);
	assert_int_equal(manager_delete(w->m.manager, "", c.id, false, on_deleted, &d, &e), 0);
	manager_world_turn(&w->m);
	assert_int_equal(d.n, 3);
	assert_int_equal(w->n, 0);
	assert_int_equal(w->m.fake->n_forgotten, 3);
}

/* A removal of a user does not wait for the end of what is still being made: it comes when it is made. */
static void delete_while_made(struct world *w, bool owner_closed)
{
	struct opened a = {0}, d = {0};
	struct err e = ERR_INIT;

	w->m.fake->hold_create = true;
	manager_create(w->m.manager, "ann", NULL, NULL, NULL, on_open, &a);
	assert_int_equal(w->n, 1);
	char id[SANDBOX_ID_MAX + 1];
	(void)snprintf(id, sizeof(id), "%s", w->rows[0].id);
	assert_true(manager_delete(w->m.manager, "ann", id, false, on_deleted, &d, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	assert_int_equal(manager_delete(w->m.manager, "ann", id, true, on_deleted, &d, &e), 0);
	if (owner_closed)
		assert_int_equal(manager_close_owner(w->m.manager, "ann", &e), 0);
	assert_int_equal(d.n, 0);
	fake_engine_release(w->m.fake);
	w->m.fake->hold_create = false;
	manager_world_turn(&w->m);
	assert_int_equal(a.n, 1);
	assert_int_equal(a.err.code != ERR_NONE, owner_closed);
	assert_int_equal(d.n, 1);
	/* Whoever made it for a removed user has taken the record away already. */
	assert_int_equal(d.err.code, owner_closed ? ERR_SESSION_NOT_FOUND : ERR_NONE);
	assert_int_equal(w->n, 0);
	assert_int_equal(w->m.fake->n_alive, 0);
}

static void test_delete_while_made(void **state)
{
	delete_while_made(*state, false);
}

static void test_delete_while_made_of_removed(void **state)
{
	delete_while_made(*state, true);
}

/* ---- queue ---- */

struct ran {
	unsigned n, order;
	enum run_reason reason;
	struct err err;
};

static unsigned order;

static void on_ran(struct run *r UNUSED, const struct run_result *result, const struct err *e,
		   void *user)
{
	struct ran *x = user;

	x->n++;
	x->order = ++order;
	if (result)
		x->reason = result->reason;
	if (e)
		x->err = *e;
}

static void script(struct fake_run *r, const char *workspace UNUSED, const char *code UNUSED,
		   size_t len UNUSED, struct engine_run_result *res)
{
	fake_output(r, ENGINE_STDOUT, "x", 1);
	res->end = ENGINE_END_EXITED;
}

static int start(struct world *w, struct sandbox *s, bool queued, struct run **r, struct ran *x)
{
	struct run_request q = {.kind = ENGINE_RUN_PYTHON,
				.code = "pass",
				.code_len = 4,
				.queued = queued,
				.on_done = on_ran,
				.user = x};

	w->m.fake->script = script;
	x->err = ERR_INIT;
	return sandbox_run(s, &q, r, &x->err);
}

static void test_queue(void **state)
{
	struct world *w = *state;
	struct opened a = create(w, NULL);
	struct ran x[6] = {0};
	struct run *r[6];

	order = 0;
	w->m.fake->hold = true;
	for (int i = 0; i < 5; i++)
		assert_int_equal(start(w, a.sandbox, true, &r[i], &x[i]), 0);
	assert_true(start(w, a.sandbox, false, &r[5], &x[5]) < 0);
	assert_int_equal(x[5].err.code, ERR_SESSION_BUSY);
	manager_world_turn(&w->m);
	run_cancel(r[2]); /* never had its turn */
	assert_int_equal(x[2].n, 1);
	assert_int_equal(x[2].reason, RUN_CANCELLED);
	assert_int_equal(x[0].n + x[1].n + x[3].n + x[4].n, 0);
	fake_engine_release(w->m.fake);
	manager_world_turn(&w->m);
	for (int i = 0; i < 5; i++)
		assert_int_equal(x[i].n, 1);
	assert_true(x[0].order < x[1].order && x[1].order < x[3].order && x[3].order < x[4].order);
	assert_false(sandbox_is_busy(a.sandbox));
	assert_true(sandbox_is_idle(a.sandbox));
}

static void test_queue_is_bounded(void **state)
{
	struct world *w = *state;
	struct opened a = create(w, NULL);
	static struct ran x[SANDBOX_QUEUE_MAX + 2];
	struct run *r;

	memset(x, 0, sizeof(x));
	w->m.fake->hold = true;
	for (int i = 0; i <= SANDBOX_QUEUE_MAX; i++)
		assert_int_equal(start(w, a.sandbox, true, &r, &x[i]), 0);
	assert_true(start(w, a.sandbox, true, &r, &x[SANDBOX_QUEUE_MAX + 1]) < 0);
	assert_int_equal(x[SANDBOX_QUEUE_MAX + 1].err.code, ERR_SESSION_BUSY);
	/* who waits for one that is deleted is told so */
	struct opened d = {0};
	struct err e = ERR_INIT;
	assert_true(manager_delete(w->m.manager, "", a.id, false, on_deleted, &d, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_BUSY);
	assert_int_equal(manager_delete(w->m.manager, "", a.id, true, on_deleted, &d, &e), 0);
	fake_engine_release(w->m.fake);
	manager_world_turn(&w->m);
	for (int i = 0; i <= SANDBOX_QUEUE_MAX; i++)
		assert_int_equal(x[i].n, 1);
	assert_int_equal(x[1].err.code, ERR_SANDBOX_LOST);
	assert_int_equal(d.n, 1);
}

/* ---- a slow disk ---- */

static struct opened *create_slowly(struct world *w)
{
	static struct opened o;

	w->records.settle = settle_later;
	o = (struct opened){0};
	manager_create(w->m.manager, "", NULL, NULL, NULL, on_open, &o);
	manager_world_turn(&w->m);
	assert_int_equal(o.n, 0); /* nothing is made before its record is safe */
	assert_int_equal(w->n, 1);
	return &o;
}

static void test_a_record_comes_first(void **state)
{
	struct world *w = *state;
	struct opened *o = create_slowly(w);
	struct opened d = {0};
	struct err e = ERR_INIT;

	settle_one(w, NULL);
	assert_int_equal(o->n, 1);
	assert_non_null(o->sandbox);
	assert_int_equal(manager_delete(w->m.manager, "", o->id, false, on_deleted, &d, &e), 0);
	manager_world_turn(&w->m);
	assert_int_equal(w->n, 0);
	assert_int_equal(d.n, 0); /* the removal is not told before it is safe either */
	settle_one(w, NULL);
	assert_int_equal(d.n, 1);
	assert_int_equal(d.err.code, ERR_NONE);
}

static void test_a_record_that_is_not_safe(void **state)
{
	struct world *w = *state;
	struct opened *o = create_slowly(w);
	struct err full = ERR_INIT;

	(void)err_set(&full, ERR_HOST_DISK_FULL, ENOSPC, "full");
	settle_one(w, &full);
	assert_int_equal(o->n, 1);
	assert_int_equal(o->err.code, ERR_HOST_DISK_FULL);
	assert_int_equal(w->n, 0);
}

static void test_deleted_while_recorded(void **state)
{
	struct world *w = *state;
	struct opened *o = create_slowly(w);
	struct opened d = {0};
	struct err e = ERR_INIT;
	char id[SANDBOX_ID_MAX + 1];
	const sandbox_done_fn cb = TAKE_PTR(w->settled);
	void *creation = w->settled_for;

	(void)snprintf(id, sizeof(id), "%s", w->rows[0].id);
	assert_int_equal(manager_delete(w->m.manager, "", id, false, on_deleted, &d, &e), 0);
	manager_world_turn(&w->m);
	cb(NULL, creation);
	manager_world_turn(&w->m);
	assert_int_equal(o->n, 1);
	assert_int_equal(o->err.code, ERR_SESSION_NOT_FOUND);
	settle_one(w, NULL);
	assert_int_equal(d.n, 1);
	assert_int_equal(w->n, 0);
}

/* The store outlives the manager, and tells late. */
static void test_the_end_while_recorded(void **state)
{
	struct world *w = *state;
	struct opened *o = create_slowly(w);
	const sandbox_done_fn cb = TAKE_PTR(w->settled);

	w->m.manager = manager_free(w->m.manager);
	engine_close(&w->m.fake->engine); /* nothing has opened it */
	w->m.fake = NULL;
	assert_int_equal(o->n, 1);
	assert_int_equal(o->err.code, ERR_CANCELLED);
	cb(NULL, w->settled_for);
	assert_int_equal(o->n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_made_and_found, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_quota_and_failed_creation, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_places, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_lost_comes_back, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_delete, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_delete_while_made, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_delete_while_made_of_removed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_record_comes_first, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_record_that_is_not_safe, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_deleted_while_recorded, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_the_end_while_recorded, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_queue, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_queue_is_bounded, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
