/* SPDX-License-Identifier: Apache-2.0 */
/* Accept-Encoding as the page's files read it. */
#include "web/accepts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_accepts)};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
