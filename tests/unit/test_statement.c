/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/statement.h"

#include "base/attr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *text;
	bool whole;
} rows[] = {
    {"x = 1\n", true},
    {"\n", true},
    {"(1 +\n", false},
    {"(1 +\n2)\n", true},
    {"x = [\n'a]',\n", false},
    {"x = [\n'a]',\n]\n", true},
    {"if x:\n", false},
    {"if x:\n    y = 1\n", false},
    {"if x:\n    y = 1\n\n", true},
    {"if x:\n    y = 1\nelse:\n", false},
    {"if x: y = 1\n", true},
    {"if x:  # why\n", false},
    {"x = {'a': 1}\n", true},
    {"x = {'a':\n", false},
    {"x[1:]\n", true},
    {"x = 'a:'\n", true},
    {"'''\n", false},
    {"'''\nif x:\n'''\n", true},
    {"'''\\'''\n", false},
    {"\"\"\" ''' \"\"\"\n", true},
    {"'open\n", true},
    {"'a\\\n", false},
    {"x = 1 + \\\n", false},
    {"x = 1 + \\\n2\n", true},
    {"# x = (\n", true},
    {"@decorator\n", false},
    {"@decorator\ndef f():\n    pass\n\n", true},
    {"x @ y\n", true},
    {")\n", true},
    {"def f(\n", false},
    {"def f(\n):\n    return (\n\n1)\n", false},
    {"def f(\n):\n    return (\n\n1)\n  \n", true},
    {"\t\n", true},
};

static void test_whole(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (statement_is_whole(rows[i].text, strlen(rows[i].text)) != rows[i].whole)
			fail_msg("%s should be %s", rows[i].text, rows[i].whole ? "whole" : "open");
}

/* The end of the text is the end: nothing behind it is looked at. */
static void test_bounds(void **state UNUSED)
{
	assert_true(statement_is_whole("x = 1\n(", 6));
	assert_true(statement_is_whole("", 0));
	assert_false(statement_is_whole("'''", 3));
	assert_true(statement_is_empty("  # a\n\n x", 7));
}

static void test_empty(void **state UNUSED)
{
	assert_true(statement_is_empty("\n", 1));
	assert_true(statement_is_empty(" # x\n", 5));
	assert_false(statement_is_empty("x\n", 2));
	assert_false(statement_is_empty("# x\ny\n", 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_whole),
	    cmocka_unit_test(test_bounds),
	    cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
