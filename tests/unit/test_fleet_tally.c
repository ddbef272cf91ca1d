/* SPDX-License-Identifier: Apache-2.0 */
/* fleet/tally: what users have at workers. */
#include "fleet/tally.h"

#include "base/text.h"
#include "fleet/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define USER "0f3a9c11-d2e4-4f3a-9c11-0f3a9c110f3a"

static void set(struct fleet_tally *t, const char *owner, uint64_t sandboxes)
{
	assert_true(fleet_tally_set(t, owner, &(struct fleet_use){.sandboxes = sandboxes}));
}

static void owner_of(unsigned i, char ret[FLEET_UUID_SIZE])
{
	(void)snprintf(ret, FLEET_UUID_SIZE, "%08x-0000-4000-8000-000000000000", i);
}

static void windows_are_added_up(void **state UNUSED)
{
	struct fleet_use sum = {0};
	const struct fleet_use a = {1, 10, 5, 100, 50, 7}, b = {2, 20, 6, 30, 50, 1},
			       c = {4, 40, 5, 1000, 49, 9};

	fleet_use_add(&sum, &a);
	fleet_use_add(&sum, &b);
	fleet_use_add(&sum, &c);
	const struct fleet_use all = {7, 70, 6, 30, 50, 8}; /* the later day and minute alone */
	assert_memory_equal(&sum, &all, sizeof(sum));
	fleet_use_subtract(&sum, &c);
	fleet_use_subtract(&sum, &a);
	const struct fleet_use rest = {2, 20, 6, 30, 50, 1};
	assert_memory_equal(&sum, &rest, sizeof(sum));
	fleet_use_subtract(&sum, &all); /* never below zero */
	assert_int_equal(sum.sandboxes, 0);
	assert_int_equal(sum.runs, 0);
}

/* Asks as a router does, page by page; the users that were told, and the version of the last page. */
static size_t changes(const struct fleet_tally *t, char version[FLEET_VERSION_BUFFER],
		      struct fleet_tally *ret)
{
	size_t n = 0;

	for (bool more = true; more;) {
		json_t *root = fleet_tally_answer(t, version[0] ? version : NULL);
		const json_t *list = json_object_get(root, "uses"), *row;
		size_t i;

		assert_non_null(root);
		assert_true(json_array_size(list) <= FLEET_TALLY_PAGE);
		json_array_foreach(list, i, row) {
			const char *owner;
			struct fleet_use use;

			assert_true(fleet_use_read(row, UINT64_MAX, &owner, &use));
			assert_true(fleet_tally_set(ret, owner, &use));
		}
		n += json_array_size(list);
		more = json_is_true(json_object_get(root, "more"));
		(void)!text_copy(version, FLEET_VERSION_BUFFER,
				 json_string_value(json_object_get(root, "version")));
		assert_true(fleet_is_version(version));
		json_decref(root);
	}
	return n;
}

static void changes_are_told_once(void **state UNUSED)
{
	struct fleet_tally *t = fleet_tally_new(FLEET_TALLY_MAX, true);
	struct fleet_tally *seen = fleet_tally_new(FLEET_TALLY_MAX, false);
	char owner[FLEET_UUID_SIZE], version[FLEET_VERSION_BUFFER] = "", now[FLEET_VERSION_BUFFER];

	assert_int_equal(changes(t, version, seen), 0);
	for (unsigned i = 0; i < 10000; i++) {
		owner_of(i, owner);
		set(t, owner, i % 3);
	}
	assert_int_equal(changes(t, version, seen), 6666);
	fleet_tally_version(t, now);
	assert_string_equal(version, now);
	assert_int_equal(changes(t, version, seen), 0);
	owner_of(7, owner);
	set(t, owner, 1); /* as it was */
	assert_int_equal(changes(t, version, seen), 0);
	set(t, owner, 9);
	set(t, "", 1);
	owner_of(8, owner);
	set(t, owner, 0);
	assert_int_equal(changes(t, version, seen), 3);
	for (unsigned i = 0; i < 10000; i++) {
		owner_of(i, owner);
		assert_int_equal(fleet_tally_get(seen, owner).sandboxes,
				 fleet_tally_get(t, owner).sandboxes);
	}
	uint64_t all = 0;
	struct fleet_use use;
	size_t n = 0;
	for (; fleet_tally_pop(seen, owner, &use); n++)
		all += use.sandboxes;
	assert_int_equal(n, 6666); /* who has nothing is not remembered */
	assert_int_equal(all, 9999 - 1 + 9 + 1 - 2);
	seen = fleet_tally_free(seen);
	t = fleet_tally_free(t);
}

static void tallies_have_limits(void **state UNUSED)
{
	struct fleet_tally *t = fleet_tally_new(3, true), *fixed = fleet_tally_new(3, false);

	set(t, "a", 1);
	set(t, "b", 1);
	set(t, "c", 1);
	assert_true(fleet_tally_set(t, "b", &(struct fleet_use){.runs = 1, .minute = 1}));
	set(t, "d", 1);
	assert_int_equal(fleet_tally_get(t, "b").runs, 0); /* it had no sandboxes */
	set(t, "e", 1);
	assert_int_equal(fleet_tally_get(t, "a").sandboxes, 0); /* the oldest */
	assert_int_equal(fleet_tally_get(t, "c").sandboxes + fleet_tally_get(t, "d").sandboxes +
			     fleet_tally_get(t, "e").sandboxes,
			 3);
	set(fixed, "a", 1);
	set(fixed, "b", 1);
	set(fixed, "c", 1);
	assert_false(fleet_tally_set(fixed, "d", &(struct fleet_use){.sandboxes = 1}));
	set(fixed, "a", 0);
	set(fixed, "d", 1);
	char long_owner[FLEET_UUID_SIZE + 1];
	memset(long_owner, 'x', sizeof(long_owner));
	long_owner[FLEET_UUID_SIZE] = '\0';
	set(fixed, "b", 0);
	assert_false(fleet_tally_set(fixed, long_owner, &(struct fleet_use){.sandboxes = 1}));
	fixed = fleet_tally_free(fixed);
	t = fleet_tally_free(t);
}

/* Whoever follows a full tally has what it has, and its newest users, too. */
static void who_is_forgotten_is_told(void **state UNUSED)
{
	struct fleet_tally *t = fleet_tally_new(8, true), *seen = fleet_tally_new(8, false);
	char owner[FLEET_UUID_SIZE], version[FLEET_VERSION_BUFFER] = "";

	set(t, "", 5);
	for (unsigned i = 0; i < 100; i++) {
		owner_of(i, owner);
		assert_true(
		    fleet_tally_set(t, owner, &(struct fleet_use){.minute = 9, .runs = i + 1}));
		if (i % 3 == 0)
			(void)changes(t, version, seen);
	}
	assert_int_equal(fleet_tally_get(seen, "").sandboxes, 5);
	assert_int_equal(fleet_tally_get(seen, owner).runs, 100);
	for (unsigned i = 0; i < 8; i++) {
		owner_of(i, owner);
		set(t, owner, 1);
	}
	(void)changes(t, version, seen); /* the first user was the oldest of those with sandboxes */
	assert_int_equal(fleet_tally_get(t, "").sandboxes, 0);
	assert_int_equal(fleet_tally_get(seen, "").sandboxes, 0);
	for (unsigned i = 0; i < 100; i++) {
		owner_of(i, owner);
		assert_int_equal(fleet_tally_get(seen, owner).sandboxes, i < 8);
		assert_int_equal(fleet_tally_get(seen, owner).runs, 0);
	}
	seen = fleet_tally_free(seen);
	t = fleet_tally_free(t);
}

/* Users who have nothing are remembered in bounds, and the answer says from where on they are. */
static void what_is_dropped_has_a_version(void **state UNUSED)
{
	struct fleet_tally *t = fleet_tally_new(4, true);
	char owner[FLEET_UUID_SIZE], after[FLEET_VERSION_BUFFER];
	const char *forgotten;

	set(t, "", 1);
	fleet_tally_version(t, after);
	for (unsigned i = 0; i < 20; i++) {
		owner_of(i, owner);
		set(t, owner, 1);
		set(t, owner, 0);
		json_t *root = fleet_tally_answer(t, after);
		assert_int_equal(json_unpack(root, "{s:s}", "forgotten", &forgotten), 0);
		assert_true(fleet_is_version(forgotten));
		assert_int_equal(strcmp(forgotten, after) > 0, i >= 4);
		assert_int_equal(json_array_size(json_object_get(root, "uses")), MIN(i + 1, 4u));
		json_decref(root);
	}
	assert_int_equal(fleet_tally_get(t, "").sandboxes, 1);
	t = fleet_tally_free(t);
}

static void what_a_worker_says_has_limits(void **state UNUSED)
{
	static const char *const wrong[] = {
	    "[\"" USER "\",1,2,3,4,5]",       "[\"" USER "\",1,2,3,4,5,6,7]",
	    "[\"ada\",1,2,3,4,5,6]",          "[1,1,2,3,4,5,6]",
	    "[\"" USER "\",-1,2,3,4,5,6]",    "[\"" USER "\",1000001,2,3,4,5,6]",
	    "[\"" USER "\",1,2,3,4,5,6.0]",   "[\"" USER "\",1,9007199254740993,3,4,5,6]",
	    "[\"" USER "\",1,2,3,4,5,\"6\"]", "{}",
	};
	const uint64_t now_ms = 20000 * UINT64_C(86400000);
	struct fleet_use use;
	const char *owner;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		json_t *row = json_loads(wrong[i], 0, NULL);

		assert_non_null(row);
		assert_false(fleet_use_read(row, now_ms, &owner, &use));
		json_decref(row);
	}
	json_t *row = json_loads("[\"\",1,2,20001,4,28800001,6]", 0, NULL);
	assert_true(fleet_use_read(row, now_ms, &owner, &use));
	const struct fleet_use no_future = {.sandboxes = 1, .disk_bytes = 2};
	assert_memory_equal(&use, &no_future, sizeof(use));
	assert_true(fleet_use_read(row, now_ms + 86400000, &owner, &use));
	assert_int_equal(use.cpu_us, 4);
	assert_int_equal(use.runs, 6);
	json_decref(row);
	assert_false(fleet_is_version(""));
	assert_false(fleet_is_version("000000000000000"));
	assert_false(fleet_is_version("000000000000000G"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(windows_are_added_up),
	    cmocka_unit_test(changes_are_told_once),
	    cmocka_unit_test(tallies_have_limits),
	    cmocka_unit_test(who_is_forgotten_is_told),
	    cmocka_unit_test(what_is_dropped_has_a_version),
	    cmocka_unit_test(what_a_worker_says_has_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
