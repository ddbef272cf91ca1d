/* SPDX-License-Identifier: Apache-2.0 */
/* Accept-Encoding, and the files of the page in their two forms. */
#include "web/accepts.h"
#include "web/assets.h"
#include "web/page.h"
#include "web/results_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_accepts(void **state)
{
	static const struct {
		const char *header;
		bool gzip;
		bool br;
	} rows[] = {
	    {NULL, false, false},
	    {"", false, false},
	    {"gzip", true, false},
	    {"gzip, deflate, br", true, true},
	    {"GZIP", true, false},
	    {"gzip;q=0", false, false},
	    {"gzip ; q=0.000, br;q=0.1", false, true},
	    {"gzip;q=0.001", true, false},
	    {"*", true, true},
	    {"*;q=0", false, false},
	    {"*, gzip;q=0", false, true},
	    {"*;q=0, gzip", true, false},
	    {"identity", false, false},
	    {"gzipped, xgzip", false, false},
	    {", ,gzip", true, false},
	    {"gzip;q", true, false},
	    {"gzip;q=", true, false},
	    {";", false, false},
	    {"gzip;;", true, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(accepts_coding(rows[i].header, "gzip"), rows[i].gzip);
		assert_int_equal(accepts_coding(rows[i].header, "br"), rows[i].br);
	}
}

/* "hello hello hello hello" by gzip. */
static const unsigned char packed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd, 0xc9,
    0xc9, 0x57, 0xc8, 0x40, 0x27, 0x01, 0xe3, 0x51, 0x3d, 0x8d, 0x17, 0x00, 0x00, 0x00,
};

static void test_unpack(void **state)
{
	struct web_file f = {packed, sizeof(packed), 23};
	char *plain = web_unpack(&f);

	(void)state;
	assert_string_equal(plain, "hello hello hello hello");
	free(plain);
	/* What is shorter, longer or cut off than the table says is no file of ours. */
	f.plain_len = 22;
	assert_null(web_unpack(&f));
	f.plain_len = 24;
	assert_null(web_unpack(&f));
	f.plain_len = 23;
	f.len = sizeof(packed) - 9;
	assert_null(web_unpack(&f));
	f = (struct web_file){(const unsigned char *)"as it is", 8, 8};
	plain = web_unpack(&f);
	assert_string_equal(plain, "as it is");
	free(plain);
}

/* All that this build has can be unpacked. */
static void test_files(void **state)
{
	(void)state;
	for (const struct web_asset *a = web_assets; a->path; a++) {
		char *plain = web_unpack(&a->file);

		assert_non_null(plain);
		assert_true(a->file.len <= a->file.plain_len);
		free(plain);
	}
	if (web_has_results_view()) {
		size_t len = 0;
		const char *view = web_results_view(&len);

		assert_non_null(view);
		assert_memory_equal(view, "<!doctype html>", strlen("<!doctype html>"));
		assert_int_equal(strlen(view), len);
		assert_ptr_equal(view, web_results_view(&len));
	}
}

/* The page of a build without the page: a key is named where one is needed, and no text of others becomes HTML. */
static void test_left_out(void **state)
{
	(void)state;
	char *open = page_make("http://127.0.0.1:8181", "full", false, "<script>npm & co</script>");
	char *closed = page_make("https://a.example", "code", true, "no npm");

	assert_non_null(open);
	assert_non_null(closed);
	assert_null(strstr(open, "<script>"));
	assert_non_null(strstr(open, "&lt;script&gt;npm &amp; co"));
	assert_non_null(strstr(open, "caisson http://127.0.0.1:8181/mcp</code>"));
	assert_null(strstr(open, "Bearer"));
	assert_non_null(strstr(
	    closed, "https://a.example/mcp --header &quot;Authorization: Bearer $KEY&quot;"));
	assert_non_null(strstr(closed, "--oauth2Bearer KEY"));
	assert_non_null(strstr(closed, "Profile: <code>code</code>"));
	free(open);
	free(closed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_accepts), cmocka_unit_test(test_unpack),
	    cmocka_unit_test(test_files), cmocka_unit_test(test_left_out)};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
