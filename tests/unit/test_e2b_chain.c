/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of a build's steps: what changes a key, and what does not. */
#include "faces/e2b/templates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
	json_t *steps = json_loads(text, 0, NULL);

	assert_non_null(steps);
	return steps;
}

/* The number of keys that both have at their beginning. */
static size_t common(const char *base, const char *a, const char *other_base, const char *b)
{
	json_t *x = parse(a), *y = parse(b);
	char(*k)[E2B_KEY_SIZE] = e2b_chain(base, x);
	char(*l)[E2B_KEY_SIZE] = e2b_chain(other_base, y);
	const size_t most = MIN(json_array_size(x), json_array_size(y)) + 1;
	size_t n = 0;

	assert_non_null(k);
	assert_non_null(l);
	while (n < most && strcmp(k[n], l[n]) == 0)
		n++;
	/* Never the same again, once they were not. */
	for (size_t i = n; i < most; i++)
		assert_string_not_equal(k[i], l[i]);
	free(k);
	free(l);
	json_decref(x);
	json_decref(y);
	return n;
}

#define STEPS(last)                                                                                \
	"[{\"type\":\"ENV\",\"args\":[\"A\",\"1\"]},{\"type\":\"RUN\",\"args\":[\"x\",\"root\"]}"  \
	"," last ",{\"type\":\"RUN\",\"args\":[\"y\"]}]"
#define COPY(src, hash)                                                                            \
	"{\"type\":\"COPY\",\"args\":[\"" src "\",\"/b\",\"\",\"\"],\"filesHash\":\"" hash "\"}"

static void what_changes_it(void **state UNUSED)
{
	static const char steps[] = STEPS(COPY("a", "h1"));

	assert_int_equal(common("i", steps, "i", steps), 5);
	assert_int_equal(common("i", steps, "j", steps), 0);
	assert_int_equal(common("i", steps, "i", STEPS(COPY("a", "h2"))), 3);
	assert_int_equal(common("i", steps, "i", STEPS(COPY("c", "h1"))), 3);
	assert_int_equal(common("i", "[{\"type\":\"RUN\",\"args\":[\"a\",\"b\"]}]", "i",
				"[{\"type\":\"RUN\",\"args\":[\"a b\"]}]"),
			 1);
	assert_int_equal(common("i", "[{\"type\":\"RUN\",\"args\":[\"a\"]}]", "i",
				"[{\"type\":\"ENV\",\"args\":[\"a\"]}]"),
			 1);
	assert_int_equal(
	    common("i", "[{\"type\":\"RUN\"}]", "i", "[{\"type\":\"RUN\",\"args\":7}]"), 2);
}

static void what_does_not(void **state UNUSED)
{
	assert_int_equal(common("i", "[{\"type\":\"RUN\",\"args\":[\"a\"],\"force\":true}]", "i",
				"[{\"args\":[\"a\"],\"forceUpload\":null,\"type\":\"RUN\"}]"),
			 2);
}

static void forced(void **state UNUSED)
{
	static const struct {
		const char *steps;
		size_t n;
	} rows[] = {{"[]", 0},
		    {"[{\"force\":false},{\"force\":null},{}]", 3},
		    {"[{},{\"force\":true},{\"force\":false}]", 1},
		    {"[{\"force\":true}]", 0}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *steps = parse(rows[i].steps);

		assert_int_equal(e2b_unforced(steps), rows[i].n);
		json_decref(steps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_changes_it),
	    cmocka_unit_test(what_does_not),
	    cmocka_unit_test(forced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
