/* SPDX-License-Identifier: Apache-2.0 */
/* Levels of isolation by name: the settings, and what a client chooses. */
#include "engine/levels.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define LONGEST "a2345678901234567890123456789012" /* ENGINE_LEVEL_MAX bytes */

static void test_one_level_without_settings(void **state UNUSED)
{
	struct engine_levels l;
	struct err e = ERR_INIT;
	unsigned i = 9;

	assert_int_equal(engine_levels_read("", "", "crun", &l, &e), 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.possible, 1);
	assert_string_equal(l.at[0].name, ENGINE_LEVEL_NAME);
	assert_string_equal(l.at[0].runtime, "crun");
	assert_int_equal(engine_levels_find(&l, "", &i, &e), 0);
	assert_int_equal(i, 0);
	assert_int_equal(engine_levels_find(&l, ENGINE_LEVEL_NAME, &i, &e), 0);
}

static void test_levels_by_name(void **state UNUSED)
{
	struct engine_levels l;
	struct err e = ERR_INIT;
	unsigned i = 9;

	assert_int_equal(engine_levels_read("standard,strict=runsc," LONGEST "=io.kata_2.v-1",
					    "strict", "crun", &l, &e),
			 0);
	assert_int_equal(l.n, 3);
	assert_int_equal(l.usual, 1);
	assert_int_equal(l.possible, 7);
	assert_string_equal(l.at[0].runtime, "crun");
	assert_string_equal(l.at[1].runtime, "runsc");
	assert_string_equal(l.at[2].name, LONGEST);
	assert_string_equal(l.at[2].runtime, "io.kata_2.v-1");
	assert_int_equal(engine_levels_find(&l, "", &i, &e), 0);
	assert_int_equal(i, 1);
	assert_int_equal(engine_levels_find(&l, "standard", &i, &e), 0);
	assert_int_equal(i, 0);
}

static void test_a_choice_that_is_refused(void **state UNUSED)
{
	struct engine_levels l;
	struct err e = ERR_INIT;
	unsigned i = 9;

	assert_int_equal(engine_levels_read("standard,other=crun,strict=runsc", "", "", &l, &e), 0);
	l.possible = 3; /* the daemon lacks runsc */
	assert_true(engine_levels_find(&l, "hard", &i, &e) < 0);
	assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
	assert_string_equal(e.member, "level");
	assert_non_null(strstr(e.text, "no level 'hard'; it has: standard, other"));
	assert_null(strstr(e.text, "strict"));
	e = (struct err)ERR_INIT;
	assert_true(engine_levels_find(&l, "strict", &i, &e) < 0);
	assert_int_equal(e.code, ERR_LEVEL_UNAVAILABLE);
	assert_string_equal(e.member, "level");
	assert_non_null(strstr(e.text, "runsc"));
	assert_non_null(strstr(e.text, "has the levels: standard, other"));
	assert_int_equal(i, 9);
}

static const struct {
	const char *levels, *usual, *runtime;
	const char *says;
} wrong[] = {
    {"Strict", "", "", "'Strict' is no level"},
    {"1st", "", "", "'1st' is no level"},
    {"-", "", "", "'-' is no level"},
    {"a b", "", "", "'a b' is no level"},
    {" a", "", "", "' a' is no level"},
    {"a,", "", "", "'' is no level"},
    {",a", "", "", "'' is no level"},
    {"a,,b", "", "", "'' is no level"},
    {"a=", "", "", "'a=' is no level"},
    {"=runc", "", "", "'=runc' is no level"},
    {"a=ru/nc", "", "", "'a=ru/nc' is no level"},
    {"a=b=c", "", "", "'a=b=c' is no level"},
    {LONGEST "3", "", "", "is no level"},
    {"a=" LONGEST LONGEST, "", "", "is no level"},
    {LONGEST "=" LONGEST LONGEST LONGEST, "", "", "is no level"},
    {"a=runc,b,a=crun", "", "", "the level a twice"},
    {"a,b,c,d,e,f,g,h,i", "", "", "more than 8 levels"},
    {"a,b", "c", "", "SANDBOX_LEVEL: there is no level 'c'; there is: a, b"},
    {"", "strict", "", "there is: standard"},
    {"", "", "ru nc", "SANDBOX_RUNTIME"},
    {"", "", LONGEST LONGEST, "SANDBOX_RUNTIME"},
};

static void test_settings_that_are_refused(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct engine_levels l = {.n = 77};
		struct err e = ERR_INIT;

		if (engine_levels_read(wrong[i].levels, wrong[i].usual, wrong[i].runtime, &l, &e) >=
		    0)
			fail_msg("'%s' is accepted", wrong[i].levels);
		assert_int_equal(e.code, ERR_SETTING_INVALID);
		if (!strstr(e.text, wrong[i].says))
			fail_msg("'%s': %s", wrong[i].levels, e.text);
		assert_int_equal(l.n, 77);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one_level_without_settings),
	    cmocka_unit_test(test_levels_by_name),
	    cmocka_unit_test(test_a_choice_that_is_refused),
	    cmocka_unit_test(test_settings_that_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
