/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of folders that nobody reads to their end. */
#include "api/files/archiver.h"
#include "base/attr.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define ROUNDS    64
#define GROWN_MAX (2u << 20) /* bytes after all rounds; a forgotten compression has 262 KiB */

static const char data[1000];

/* Begins an archive with a whole folder and a part of a large file, and leaves it. */
static void leave(enum archive_form form, size_t out_max)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(out_max);
	struct archiver *a = archiver_new(form, &out);

	assert_non_null(a);
	int r = archiver_add_folder(a, "folder", 1);
	r = r < 0 ? r : archiver_add_file(a, "folder/file", UINT64_C(60) << 30, S_IFREG, 1);
	for (int i = 0; i < 200 && r == 0; i++)
		r = archiver_add_data(a, data, sizeof(data));
	const size_t len = out.len;
	(void)archiver_free(a);
	assert_int_equal(out.len, len); /* nothing that looks like an end */
}

static void check(enum archive_form form, size_t out_max)
{
	leave(form, out_max);
	const size_t before = mallinfo2().uordblks;
	for (int i = 0; i < ROUNDS; i++)
		leave(form, out_max);
	assert_true(mallinfo2().uordblks < before + GROWN_MAX);
}

static void test_left(void **state UNUSED)
{
	check(ARCHIVE_FORM_TAR, 1 << 20);
	check(ARCHIVE_FORM_ZIP, 1 << 20);
}

/* The output finds no memory. */
static void test_no_room(void **state UNUSED)
{
	check(ARCHIVE_FORM_TAR, 5000);
	check(ARCHIVE_FORM_ZIP, 80);
}

static void test_error_is_told(void **state UNUSED)
{
	for (int form = ARCHIVE_FORM_TAR; form <= ARCHIVE_FORM_ZIP; form++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(16);
		struct archiver *a = archiver_new((enum archive_form)form, &out);

		assert_non_null(a);
		assert_true(archiver_add_file(a, "file", sizeof(data), S_IFREG, 1) < 0);
		assert_true(archiver_end(a) < 0);
		(void)archiver_free(a);
	}
}

/* A hundred thousand names of 4 KB would be 500 MB, twice. */
static void test_many_names(void **state UNUSED)
{
	for (int form = ARCHIVE_FORM_TAR; form <= ARCHIVE_FORM_ZIP; form++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(ARCHIVER_END_MAX);
		struct archiver *a = archiver_new((enum archive_form)form, &out);
		char name[4000];
		int r = 0;
		unsigned n = 0;

		assert_non_null(a);
		memset(name, 'x', sizeof(name));
		for (; r == 0 && n < 12000; n++) {
			(void)snprintf(name + 3980, 20, "%u", n);
			r = archiver_add_folder(a, name, 1);
			buf_reset(&out);
		}
		if (form == ARCHIVE_FORM_TAR) {
			assert_int_equal(r, 0);
		} else {
			assert_int_equal(r, -E2BIG);
			assert_in_range(n, ARCHIVER_NAMES_MAX / 4200, ARCHIVER_NAMES_MAX / 4000);
		}
		assert_int_equal(archiver_end(a), 0); /* it fits, with what there is */
		assert_true(out.len <= ARCHIVER_END_MAX);
		(void)archiver_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_left),
	    cmocka_unit_test(test_no_room),
	    cmocka_unit_test(test_error_is_told),
	    cmocka_unit_test(test_many_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
