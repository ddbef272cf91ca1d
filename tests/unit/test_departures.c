/* SPDX-License-Identifier: Apache-2.0 */
/* Stored sandboxes that are read for another server, or that another server has (sandbox/moving.h). */
#include "base/fdio.h"
#include "base/rand.h"
#include "moving_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define OTHER_ID "11111111-1111-4111-8111-111111111111"

struct holder {
	struct departure *departure;
	int disk;
	unsigned n, n_wanted;
	enum err_code code;
	bool ends; /* as soon as it is wanted */
};

static void on_disk(int disk, const struct err *e, void *user)
{
	struct holder *h = user;

	h->n++;
	h->disk = disk;
	h->code = e ? e->code : ERR_NONE;
	assert_true((disk < 0) == (e != NULL));
}

static void let_go(struct holder *h)
{
	h->disk = fd_close(h->disk);
	h->departure = departure_end(h->departure);
}

static void on_wanted(void *user)
{
	struct holder *h = user;

	h->n_wanted++;
	if (h->ends)
		let_go(h);
}

static void ask_for(struct world *w, const char *id, struct holder *h)
{
	struct err e = ERR_INIT;

	h->disk = -1;
	assert_int_equal(
	    manager_depart(w->m.manager, "ann", id, on_disk, on_wanted, h, &h->departure, &e), 0);
	assert_int_equal(h->n, 0); /* never before the call has returned */
}

static void hold(struct world *w, const char *id, struct holder *h)
{
	ask_for(w, id, h);
	manager_world_turn(&w->m);
	assert_int_equal(h->n, 1);
	assert_int_equal(h->code, ERR_NONE);
	assert_false(manager_at_rest(w->m.manager, "ann", id));
}

static void refused(struct world *w, const char *owner, const char *id, enum err_code code)
{
	struct departure *d = NULL;
	struct holder h = {0};
	struct err e = ERR_INIT;

	assert_true(manager_depart(w->m.manager, owner, id, on_disk, on_wanted, &h, &d, &e) < 0);
	assert_int_equal(e.code, code);
	assert_null(d);
}

static void test_only_what_rests_departs(void **state)
{
	struct world *w = *state;
	struct opened a = moving_create(w, "ann", NULL);
	struct holder h = {0};
	struct done gone = {0};
	struct err e = ERR_INIT;

	refused(w, "ann", a.id, ERR_SANDBOX_IN_USE);
	refused(w, "bob", a.id, ERR_SESSION_NOT_FOUND);
	refused(w, "ann", OTHER_ID, ERR_SESSION_NOT_FOUND);
	moving_rest_all(w);
	hold(w, a.id, &h);
	assert_string_equal(w->m.fake->last_disk, a.id);
	refused(w, "ann", a.id, ERR_SANDBOX_IN_USE);
	let_go(&h);
	assert_true(manager_at_rest(w->m.manager, "ann", a.id));
	assert_int_equal(
	    manager_delete(w->m.manager, "ann", a.id, false, moving_on_done, &gone, &e), 0);
	refused(w, "ann", a.id, ERR_SESSION_NOT_FOUND);
	manager_world_turn(&w->m);
	assert_int_equal(gone.n, 1);
	assert_int_equal(h.n_wanted, 0);
}

static void test_who_opens_waits_for_the_reader(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), o[2] = {0};
	struct holder h = {0};
	const unsigned n = w->m.fake->n_created;

	hold(w, a.id, &h);
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o[0]);
	manager_activate(w->m.manager, "ann", a.id, moving_on_open, &o[1]);
	assert_int_equal(h.n_wanted, 0); /* from the loop */
	manager_world_turn(&w->m);
	assert_int_equal(h.n_wanted, 1);
	assert_int_equal(w->m.fake->n_created, n);
	assert_int_equal(o[0].n + o[1].n, 0);
	assert_int_equal(w->n_opened, 1); /* what is being saved is not all of it */
	let_go(&h);
	manager_world_turn(&w->m);
	assert_int_equal(w->m.fake->n_created, n + 1);
	assert_non_null(o[0].sandbox);
	assert_ptr_equal(o[1].sandbox, o[0].sandbox);
}

/* Then the engine says what comes of it. */
static void test_nobody_waits_for_ever(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), o = {0};
	struct holder h = {0};
	const unsigned n = w->m.fake->n_created;

	w->m.manager->departure_wait_us = 1000;
	hold(w, a.id, &h);
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	while (o.n == 0)
		assert_true(sd_event_run(w->m.loop, UINT64_MAX) >= 0);
	assert_int_equal(h.n_wanted, 1);
	assert_non_null(o.sandbox); /* this engine has no locks */
	let_go(&h);
	manager_world_turn(&w->m);
	assert_int_equal(o.n, 1);
	assert_int_equal(w->m.fake->n_created, n + 1);
}

/* The holder ends it from inside WANTED, and then the engine refuses: even so nobody is called before the call has returned. */
static void test_a_quick_holder_and_a_lame_engine(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), o = {0};
	struct holder h = {.ends = true};

	hold(w, a.id, &h);
	w->m.fake->fail_create = true;
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	assert_int_equal(o.n, 0);
	manager_world_turn(&w->m);
	assert_int_equal(h.n_wanted, 1);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.code, ERR_ENGINE_UNAVAILABLE);
	assert_true(manager_at_rest(w->m.manager, "ann", a.id));
}

static void test_wanted_before_there_is_a_disk(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), o = {0};
	struct holder h = {0};

	w->m.fake->hold_disks = true;
	ask_for(w, a.id, &h);
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	manager_world_turn(&w->m);
	assert_int_equal(h.n_wanted, 1);
	fake_engine_release(w->m.fake);
	manager_world_turn(&w->m);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.code, ERR_SANDBOX_IN_USE);
	assert_int_equal(o.n, 0);
	let_go(&h);
	manager_world_turn(&w->m);
	assert_non_null(o.sandbox);
}

/* It was given up before the engine has answered, while somebody waits. */
static void test_ended_before_there_is_a_disk(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), o = {0};
	struct holder h = {.ends = true};

	w->m.fake->hold_disks = true;
	ask_for(w, a.id, &h);
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	manager_world_turn(&w->m);
	assert_null(h.departure);
	assert_int_equal(o.n, 0); /* the disk may be open yet */
	fake_engine_release(w->m.fake);
	manager_world_turn(&w->m);
	assert_int_equal(h.n, 0);
	assert_non_null(o.sandbox);
}

static void test_deleted_while_it_is_read(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w);
	struct holder h = {.ends = true};
	struct done gone = {0};
	struct err e = ERR_INIT;

	hold(w, a.id, &h);
	assert_int_equal(
	    manager_delete(w->m.manager, "ann", a.id, false, moving_on_done, &gone, &e), 0);
	assert_int_equal(h.n_wanted, 0);
	manager_world_turn(&w->m);
	assert_int_equal(h.n_wanted, 1);
	assert_int_equal(gone.n, 1);
	assert_int_equal(gone.code, ERR_NONE);
	assert_int_equal(w->n, 0);
}

/* A removal of a user, while somebody waits for the reader to open it. */
static void test_deleted_while_it_is_read_and_wanted(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), o = {0};
	struct holder h = {0};
	struct done gone = {0};
	struct err e = ERR_INIT;

	hold(w, a.id, &h);
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	assert_int_equal(manager_delete(w->m.manager, "ann", a.id, true, moving_on_done, &gone, &e),
			 0);
	manager_world_turn(&w->m);
	let_go(&h);
	manager_world_turn(&w->m);
	assert_int_equal(o.n, 1);
	assert_int_equal(gone.n, 1);
	assert_int_equal(gone.code, ERR_NONE);
	assert_int_equal(w->n, 0);
	assert_int_equal(w->m.fake->n_alive, 0);
}

/* The engine may still be taking the disk away. */
static void test_a_disk_that_is_in_use_yet(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w);
	struct holder h = {0};

	w->m.fake->fail_disk[ENGINE_DISK_READ].n = 2;
	w->m.fake->fail_disk[ENGINE_DISK_READ].code = ERR_SANDBOX_IN_USE;
	ask_for(w, a.id, &h);
	while (h.n == 0)
		assert_true(sd_event_run(w->m.loop, UINT64_MAX) >= 0);
	assert_int_equal(h.code, ERR_NONE);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_READ], 3);
	let_go(&h);
	/* whoever wants it meanwhile does not wait for more tries */
	struct opened o = {0};
	struct holder other = {0};
	w->m.fake->fail_disk[ENGINE_DISK_READ].n = 1;
	w->m.fake->hold_disks = true;
	ask_for(w, a.id, &other);
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	fake_engine_release(w->m.fake);
	manager_world_turn(&w->m);
	assert_int_equal(w->m.fake->n_disks[ENGINE_DISK_READ], 4);
	assert_int_equal(other.n, 1);
	assert_int_equal(other.code, ERR_SANDBOX_IN_USE);
	let_go(&other);
	manager_world_turn(&w->m);
	assert_non_null(o.sandbox);
}

static void test_the_engine_refuses_the_disk(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w);
	struct holder h = {0};

	w->m.fake->fail_disk_at_once = true;
	refused(w, "ann", a.id, ERR_ENGINE_UNAVAILABLE);
	assert_true(manager_at_rest(w->m.manager, "ann", a.id));
	w->m.fake->fail_disk[ENGINE_DISK_READ].n = 1;
	w->m.fake->fail_disk[ENGINE_DISK_READ].code = ERR_NOT_FOUND;
	ask_for(w, a.id, &h);
	manager_world_turn(&w->m);
	assert_int_equal(h.code, ERR_NOT_FOUND);
	let_go(&h);
	assert_true(manager_at_rest(w->m.manager, "ann", a.id));
}

static void test_the_end_while_it_is_read(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), b = moving_resting(w), c = moving_resting(w), o = {0};
	struct holder h[3] = {0};

	hold(w, a.id, &h[0]);
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	w->m.fake->hold_disks = true;
	ask_for(w, b.id, &h[1]);
	ask_for(w, c.id, &h[2]);
	h[2].departure = departure_end(h[2].departure);
	moving_end_manager(w);
	assert_int_equal(o.n, 1);
	assert_int_equal(o.code, ERR_CANCELLED);
	assert_int_equal(h[0].n, 1);
	assert_int_equal(h[1].n, 1);
	assert_int_equal(h[1].code, ERR_CANCELLED);
	assert_int_equal(h[2].n, 0);
	let_go(&h[0]);
	let_go(&h[1]);
}

/* The same between two tries. */
static void test_the_end_before_the_next_try(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w);
	struct holder h = {0};

	w->m.fake->fail_disk[ENGINE_DISK_READ].n = 1;
	w->m.fake->fail_disk[ENGINE_DISK_READ].code = ERR_SANDBOX_IN_USE;
	ask_for(w, a.id, &h);
	while (w->m.fake->disks)
		assert_true(sd_event_run(w->m.loop, 0) > 0);
	assert_int_equal(h.n, 0);
	moving_end_manager(w);
	assert_int_equal(h.n, 1);
	assert_int_equal(h.code, ERR_CANCELLED);
	let_go(&h);
}

static void test_changes_are_noted(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w);
	struct sandbox_options o = {.given = 1u << SANDBOX_OPTION_NAME, .name = "other"};
	struct opened failed = {0};
	struct done changed = {0};
	struct err e = ERR_INIT;
	uint64_t version = manager_moving_version(w->m.manager);

	assert_int_equal(
	    manager_change(w->m.manager, "ann", a.id, &o, moving_on_done, &changed, &e), 1);
	assert_int_equal(w->n_opened, 1);
	assert_true(manager_moving_version(w->m.manager) != version);
	/* what is not noted does not happen: it would be lost with this server */
	w->fail_opened = ERR_STORE_FAILED;
	memcpy(o.name, "third", sizeof("third"));
	assert_true(manager_change(w->m.manager, "ann", a.id, &o, moving_on_done, &changed, &e) <
		    0);
	assert_string_equal(w->rows[0].record.name, "other");
	w->fail_opened = ERR_STORE_FAILED;
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &failed);
	manager_world_turn(&w->m);
	assert_int_equal(failed.code, ERR_STORE_FAILED);
	assert_true(manager_at_rest(w->m.manager, "ann", a.id));
}

/* Sessions do not move, so routers are not asked to look because of them. */
static void test_versions(void **state)
{
	struct world *w = *state;
	struct opened s = {0};
	const uint64_t version = manager_moving_version(w->m.manager);

	manager_open(w->m.manager, "ann", NULL, moving_on_open, &s);
	manager_world_turn(&w->m);
	assert_int_equal(sandbox_close(s.sandbox, true, NULL, NULL, &(struct err){0}), 0);
	manager_world_turn(&w->m);
	assert_true(manager_moving_version(w->m.manager) == version);
	(void)moving_create(w, "ann", NULL);
	uint64_t before = manager_moving_version(w->m.manager);
	clock_ns += 61 * NS_PER_S;
	manager_sweep(w->m.manager);
	assert_true(manager_moving_version(w->m.manager) != before);
	before = manager_moving_version(w->m.manager); /* its disk is in use yet */
	manager_world_turn(&w->m);
	assert_true(manager_moving_version(w->m.manager) != before);
}

/* ---- to elsewhere ---- */

static void leave_now(struct world *w, const char *id)
{
	struct done left = {0};
	struct err e = ERR_INIT;

	assert_int_equal(manager_leave(w->m.manager, "ann", id, moving_on_done, &left, &e), 0);
	assert_int_equal(manager_get_stored(w->m.manager, "ann", id, NULL, &e), 0);
	assert_int_equal(left.n, 0);
	manager_world_turn(&w->m);
	assert_int_equal(left.n, 1);
	assert_int_equal(left.code, ERR_NONE);
	assert_int_equal(w->n, 0);
	assert_int_equal(w->n_removed, 0); /* no tombstone */
	assert_int_equal(w->m.fake->n_alive, 0);
}

static void test_leaves(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w);
	struct err e = ERR_INIT;

	assert_true(manager_leave(w->m.manager, "bob", a.id, NULL, NULL, &e) < 0);
	assert_int_equal(e.code, ERR_SESSION_NOT_FOUND);
	leave_now(w, a.id);
	assert_string_equal(w->news, "");
	assert_int_equal(w->m.fake->n_forgotten, 1);
	assert_int_equal(w->n_left, 1);
	a = moving_create(w, "ann", NULL);
	leave_now(w, a.id);
	assert_string_equal(w->news, "me"); /* it has ended, and was not removed */
}

static void test_leaves_while_it_is_made(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w), o = {0};
	struct done left = {0};
	struct err e = ERR_INIT;

	w->m.fake->hold_create = true;
	manager_open(w->m.manager, "ann", a.id, moving_on_open, &o);
	assert_int_equal(manager_leave(w->m.manager, "ann", a.id, moving_on_done, &left, &e), 0);
	manager_world_turn(&w->m);
	assert_int_equal(left.n, 0);
	fake_engine_release(w->m.fake);
	manager_world_turn(&w->m);
	assert_int_equal(o.n, 1);
	assert_int_equal(left.n, 1);
	assert_int_equal(left.code, ERR_NONE);
	assert_int_equal(w->n, 0);
	assert_int_equal(w->n_removed, 0);
	assert_int_equal(w->m.fake->n_alive, 0);
}

static void test_leaves_while_it_is_read(void **state)
{
	struct world *w = *state;
	struct opened a = moving_resting(w);
	struct holder h = {.ends = true};

	hold(w, a.id, &h);
	leave_now(w, a.id);
	assert_int_equal(h.n_wanted, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    MOVING_CASE(test_only_what_rests_departs),
	    MOVING_CASE(test_who_opens_waits_for_the_reader),
	    MOVING_CASE(test_nobody_waits_for_ever),
	    MOVING_CASE(test_a_quick_holder_and_a_lame_engine),
	    MOVING_CASE(test_wanted_before_there_is_a_disk),
	    MOVING_CASE(test_ended_before_there_is_a_disk),
	    MOVING_CASE(test_deleted_while_it_is_read),
	    MOVING_CASE(test_deleted_while_it_is_read_and_wanted),
	    MOVING_CASE(test_a_disk_that_is_in_use_yet),
	    MOVING_CASE(test_the_engine_refuses_the_disk),
	    MOVING_CASE(test_the_end_while_it_is_read),
	    MOVING_CASE(test_the_end_before_the_next_try),
	    MOVING_CASE(test_changes_are_noted),
	    MOVING_CASE(test_versions),
	    MOVING_CASE(test_leaves),
	    MOVING_CASE(test_leaves_while_it_is_made),
	    MOVING_CASE(test_leaves_while_it_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
