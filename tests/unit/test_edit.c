/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing in a file by pieces gives what replacing in the whole text gives. */
#include "base/buf.h"
#include "base/fdio.h"
#include "base/rand.h"
#include "tools/edit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define ROOM  (16u << 20)
#define PIECE (256u << 10) /* of edit.c */

static int memory_file(const void *data, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, len), 0);
	return fd;
}

static int apply(struct edit *e, const struct buf *text, struct buf *ret)
{
	_cleanup_fd_ int from = memory_file(text->data, text->len);
	_cleanup_fd_ int to = memory_file("", 0);
	const int r = edit_apply(e, from, to);

	assert_int_equal(lseek(to, 0, SEEK_SET), 0);
	assert_int_equal(fd_read_file(to, ret), 0);
	return r;
}

/* The same, the plain way. */
static void wanted(struct edit *e, const struct buf *text, struct buf *ret)
{
	const char *p = text->data, *end = p + text->len, *at;

	for (; (at = memmem(p, (size_t)(end - p), e->old_text, e->old_len)); p = at + e->old_len) {
		assert_int_equal(buf_add(ret, p, (size_t)(at - p)), 0);
		assert_int_equal(buf_add(ret, e->new_text, e->new_len), 0);
		e->matches++;
	}
	assert_int_equal(buf_add(ret, p, (size_t)(end - p)), 0);
}

static uint32_t below(uint32_t n)
{
	uint32_t x;

	rand_bytes(&x, sizeof(x));
	return x % n;
}

/* Texts of two letters, so that matches begin everywhere and overlap; one in two has a match at the seam of pieces. */
static void test_as_in_the_whole_text(void **state UNUSED)
{
	for (unsigned i = 0; i < 300; i++) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM), got = BUF_INIT(ROOM),
					       want = BUF_INIT(ROOM);
		char old[9], new[9];
		struct edit e = {.old_text = old,
				 .new_text = new,
				 .old_len = 1 + below(8),
				 .new_len = below(9),
				 .all = true,
				 .most = ROOM};
		struct edit plain = e;
		const size_t len = below(2) ? below(64) : PIECE - 8 + below(16) + below(2) * PIECE;

		for (size_t j = 0; j < len; j++)
			assert_int_equal(buf_add_char(&text, below(4) ? 'a' : 'b'), 0);
		for (size_t j = 0; j < sizeof(old); j++) {
			old[j] = below(4) ? 'a' : 'b';
			new[j] = below(4) ? 'b' : 'a';
		}
		if (!text.data)
			continue;
		wanted(&plain, &text, &want);
		assert_int_equal(apply(&e, &text, &got), 0);
		assert_int_equal(e.matches, plain.matches);
		assert_int_equal(e.len, want.len);
		assert_int_equal(got.len, want.len);
		assert_true(got.len == 0 || memcmp(got.data, want.data, got.len) == 0);
		assert_true(edit_bound(&e, text.len) >= e.len);
	}
}

static void test_one_match_alone(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM), got = BUF_INIT(ROOM);
	struct edit e = {
	    .old_text = "x", .new_text = "yy", .old_len = 1, .new_len = 2, .most = ROOM};

	assert_int_equal(buf_add_str(&text, "axbx"), 0);
	assert_int_equal(apply(&e, &text, &got), 0);
	assert_int_equal(e.matches, 2);
	text.len = 3;
	buf_reset(&got);
	assert_int_equal(apply(&e, &text, &got), 0);
	assert_int_equal(e.matches, 1);
	assert_string_equal(buf_str(&got), "ayyb");
}

static void test_bounds(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM), got = BUF_INIT(ROOM);
	char *new = calloc(1, 1 << 20);
	struct edit e = {
	    .old_text = "x", .new_text = new, .old_len = 1, .all = true, .most = 8 << 20};

	assert_non_null(new);
	memset(new, 'y', 1 << 20);
	e.new_len = 1 << 20;
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(buf_add_char(&text, 'x'), 0);
	assert_int_equal(edit_bound(&e, UINT64_MAX), e.most);
	assert_int_equal(apply(&e, &text, &got), -EFBIG);
	assert_true(got.len <= e.most);
	text.len = 8;
	buf_reset(&got);
	assert_int_equal(apply(&e, &text, &got), 0);
	assert_int_equal(e.len, 8 << 20);
	free(new);
	e.new_text = "";
	e.new_len = 0;
	assert_int_equal(edit_bound(&e, 100), 100);
	buf_reset(&got);
	assert_int_equal(apply(&e, &text, &got), 0);
	assert_int_equal(e.len, 0);
	assert_int_equal(buf_add(&text, "\0", 1), 0);
	assert_int_equal(apply(&e, &text, &got), -EILSEQ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_as_in_the_whole_text),
	    cmocka_unit_test(test_one_match_alone),
	    cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
