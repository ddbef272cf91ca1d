/* SPDX-License-Identifier: Apache-2.0 */
/* image: the file that names the newest release, and the order of versions. */
#include "base/attr.h"
#include "image/release.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_JSON                                                                                  \
	"{\"kind\":\"deb\",\"architecture\":\"amd64\",\"name\":\"a_1.deb\",\"sha256\":\"" HEX      \
	"\",\"size\":7}"
#define GOOD "{\"caisson_release\":1,\"version\":\"1.2.3\",\"files\":[" FILE_JSON "]}"

static bool parses(const char *text)
{
	static struct release r;
	struct err e = ERR_INIT;

	if (release_parse(text, strlen(text), &r, &e) >= 0)
		return true;
	assert_int_equal(e.code, ERR_IMAGE_INVALID);
	return false;
}

static void test_parse(void **state UNUSED)
{
	static struct release r;
	struct err e = ERR_INIT;
	char url[RELEASE_URL_MAX + RELEASE_NAME_MAX];

	assert_int_equal(release_parse(GOOD, strlen(GOOD), &r, &e), 0);
	assert_string_equal(r.version, "1.2.3");
	assert_int_equal(r.n, 1);
	assert_string_equal(r.files[0].kind, "deb");
	assert_int_equal(r.files[0].size, 7);
	release_file_url("https://h/x/r.json", &r.files[0], url);
	assert_string_equal(url, "https://h/x/a_1.deb");
}

static void test_refused(void **state UNUSED)
{
	static const struct {
		const char *was, *is;
	} changes[] = {
	    {"release\":1", "release\":2"},
	    {"caisson_release", "x"},
	    {"\"1.2.3\"", "\"\""},
	    {"\"1.2.3\"", "\"v1\""},
	    {"\"1.2.3\"", "\"1\\u001b[2J\""},
	    {"\"1.2.3\"", "3"},
	    {"\"1.2.3\"", "\"1.2.3.4.5.6.7.8.9.10.11.12.13.14.15\""},
	    {"a_1.deb", "../a"},
	    {"a_1.deb", ".a"},
	    {"a_1.deb", "a\\u0000b"},
	    {"\"amd64\"", "null"},
	    {"cdef\"", "cde\""},
	    {"cdef\"", "cdeg\""},
	    {"7}", "-7}"},
	    {"7}", "\"7\"}"},
	    {"\"files\"", "\"version\":\"1\",\"files\""},
	    {"]}", "]"},
	    {"[{", "[[[[[[[[[{"},
	};
	char text[sizeof(GOOD) + 128];

	assert_true(parses(GOOD));
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const char *at = strstr(GOOD, changes[i].was);

		assert_non_null(at);
		(void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - GOOD), GOOD,
			       changes[i].is, at + strlen(changes[i].was));
		if (parses(text))
			fail_msg("taken: %s", text);
	}
	for (size_t n = 0; n < strlen(GOOD); n++) {
		(void)snprintf(text, sizeof(text), "%.*s", (int)n, GOOD);
		assert_false(parses(text));
	}
}

static void test_many_files(void **state UNUSED)
{
	static char text[(RELEASE_FILES_MAX + 1) * (sizeof(FILE_JSON) + 1) + 128];

	for (size_t n = RELEASE_FILES_MAX; n <= RELEASE_FILES_MAX + 1; n++) {
		size_t at = (size_t)snprintf(
		    text, sizeof(text), "{\"caisson_release\":1,\"version\":\"1\",\"files\":[");

		for (size_t i = 0; i < n; i++)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "," : "",
					       FILE_JSON);
		(void)snprintf(text + at, sizeof(text) - at, "]}");
		assert_int_equal(parses(text), n == RELEASE_FILES_MAX);
	}
}

static void test_order(void **state UNUSED)
{
	static const char *const order[] = {"0.1.0",      "0.1.1",
					    "0.2.0-rc1",  "0.2.0-rc9",
					    "0.2.0-rc10", "0.2.0",
					    "0.10.0",     "1.0",
					    "1.0.0",      "1.0.1-alpha",
					    "1.0.1-beta", "1.0.1",
					    "10.0.0",     "99999999999999999999.0.0"};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (size_t j = 0; j < ARRAY_SIZE(order); j++) {
			const int r = release_compare(order[i], order[j]);

			assert_int_equal((r > 0) - (r < 0), (i > j) - (i < j));
		}
	assert_int_equal(release_compare("1.02.0", "1.2.0"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parse),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_many_files),
	    cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
