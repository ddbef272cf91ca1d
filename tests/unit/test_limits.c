/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that grow with the machine. */
#include "app/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MB (UINT64_C(1) << 20)
#define GB (UINT64_C(1) << 30)

static void grow(struct settings *s, char *const *environment, uint64_t bytes)
{
	struct err e = ERR_INIT;

	assert_int_equal(settings_init(s), 0);
	assert_int_equal(settings_read_env(s, environment, &e), 0);
	limits_by_machine(s, bytes);
}

static void test_machines(void **state)
{
	static const struct {
		uint64_t bytes, memory, stored;
		int64_t sessions;
	} rows[] = {
	    {0, 512 * MB, GB, 10}, /* nobody knows */
	    {2 * GB, 512 * MB, GB, 10},
	    {16 * GB, 512 * MB, GB, 32},
	    {24 * GB, 512 * MB, GB, 48},
	    {32 * GB, 640 * MB, GB, 51},
	    {64 * GB, 1344 * MB, 1344 * MB, 48},
	    {96 * GB, 2 * GB, 2 * GB, 48},
	    {UINT64_C(4096) * GB, 2 * GB, 2 * GB, 1000},
	};
	char *const full[] = {(char[]){"SANDBOX_PROFILE=full"}, NULL};
	struct settings s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		grow(&s, full, rows[i].bytes);
		assert_int_equal(s.memory_limit, rows[i].memory);
		assert_int_equal(s.stored_memory_limit, rows[i].stored);
		assert_int_equal(s.max_sessions, rows[i].sessions);
		settings_done(&s);
	}
}

static void test_set(void **state)
{
	char *const set[] = {(char[]){"SANDBOX_PROFILE=full"},
			     (char[]){"SANDBOX_STORED_MEMORY_LIMIT=600m"},
			     (char[]){"SANDBOX_MAX_MEMORY_LIMIT=1g"}, NULL};
	char *const exact[] = {(char[]){"SANDBOX_PROFILE=code"}, NULL};
	struct settings s;

	(void)state;
	grow(&s, set, 96 * GB);
	assert_int_equal(s.memory_limit, GB); /* no more than a client may choose */
	assert_int_equal(s.stored_memory_limit, 600 * MB);
	assert_int_equal(s.max_sessions, 96);
	settings_done(&s);
	grow(&s, exact, 96 * GB); /* a contract says how much it is */
	assert_int_equal(s.memory_limit, 512 * MB);
	assert_int_equal(s.stored_memory_limit, GB);
	assert_int_equal(s.max_sessions, 10);
	settings_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_machines),
	    cmocka_unit_test(test_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
