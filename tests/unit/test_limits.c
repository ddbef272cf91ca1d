/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that grow with the machine. */
#include "app/limits.h"

#include "base/text.h"
#include "engine/engine.h"

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

/* What a setting of the whole server needs is asked of whoever makes the sandboxes. */
static void test_server(void **state)
{
	static const struct {
		const char *set, *says; /* NULL: nothing is needed */
		uint32_t needs;
	} rows[] = {
	    {"SANDBOX_TOTAL_MEMORY=1g", "SANDBOX_TOTAL_MEMORY=1024m needs the native engine",
	     ENGINE_CAP_TOTAL},
	    {"SANDBOX_TOTAL_MEMORY=0", NULL, 0},
	    {"SANDBOX_WORKSPACE=disk", "SANDBOX_WORKSPACE=disk needs ", ENGINE_CAP_ON_DISK},
	    {"SANDBOX_WORKSPACE=memory", NULL, 0},
	    {"SANDBOX_ROOT=on", "SANDBOX_ROOT=on needs ", ENGINE_CAP_ROOT},
	    {"SANDBOX_ROOT=off", NULL, 0},
	    {"SANDBOX_RUNTIME=runsc", "SANDBOX_RUNTIME=runsc needs a container daemon",
	     ENGINE_CAP_RUNTIME},
	    {"SANDBOX_LEVELS=a=runsc", "SANDBOX_LEVELS=a=runsc needs a container daemon",
	     ENGINE_CAP_RUNTIME},
	    {"SANDBOX_MEMORY_LIMIT=1g", NULL, 0}, /* of each sandbox: limits_insisted() */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[64];
		char *const environment[] = {text, NULL};
		struct settings s;
		struct err e = ERR_INIT;

		(void)snprintf(text, sizeof(text), "%s", rows[i].set);
		assert_int_equal(settings_init(&s), 0);
		assert_int_equal(settings_read_env(&s, environment, &e), 0);
		const int r = limits_server(&s, ~rows[i].needs, &e);

		assert_int_equal(r < 0, rows[i].says != NULL);
		if (rows[i].says) {
			assert_int_equal(e.code, ERR_LIMIT_NOT_ENFORCEABLE);
			assert_memory_equal(e.text, rows[i].says, strlen(rows[i].says));
		}
		assert_int_equal(limits_server(&s, rows[i].needs, &e), 0);
		settings_done(&s);
	}
	assert_false(engine_caps_most("docker") & (ENGINE_CAP_TOTAL | ENGINE_CAP_ROOT));
	assert_true(engine_caps_most("docker") & ENGINE_CAP_RUNTIME);
	assert_false(engine_caps_most("native") & ENGINE_CAP_RUNTIME);
}

/* Limits of single sandboxes, as the table has them. */
static void test_insisted(void **state)
{
	char *const environment[] = {
	    (char[]){"SANDBOX_STORED_WORKSPACE_FILES=500"}, (char[]){"SANDBOX_CPU_LIMIT=2"},
	    (char[]){"SANDBOX_MEMORY_LIMIT=0"}, (char[]){"SANDBOX_ROOT=on"}, NULL};
	struct limits_insisted found;
	struct settings s;
	struct err e = ERR_INIT;

	(void)state;
	grow(&s, environment, 0);
	assert_int_equal(limits_insisted(&s, &found, &e), 0);
	assert_int_equal(found.session, ENGINE_CAP_CPU);
	assert_int_equal(found.stored, ENGINE_CAP_CPU | ENGINE_CAP_DISK);
	settings_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_machines),
	    cmocka_unit_test(test_set),
	    cmocka_unit_test(test_server),
	    cmocka_unit_test(test_insisted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
