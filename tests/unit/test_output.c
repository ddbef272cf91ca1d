/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a run's output and how it is shown: compared with a simple model, for every
 * length of stream and of piece around the limits. */
#include "base/text.h"
#include "sandbox/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define MAX_KEPT 16
#define MAX_SENT 64

static void check_kept(size_t max, size_t sent, size_t piece, bool head_only)
{
	char all[MAX_SENT + 1];
	struct kept_output k;

	for (size_t i = 0; i < sent; i++)
		all[i] = (char)('0' + i);
	kept_output_init(&k, max, head_only);
	for (size_t at = 0; at < sent; at += piece)
		kept_output_add(&k, all + at, MIN(piece, sent - at));
	struct run_output o = kept_output_end(&k);
	const size_t head = sent <= max || head_only ? MIN(sent, max) : max / 2;
	const size_t tail = MIN(sent, max) - head;

	assert_int_equal(o.total, sent);
	assert_int_equal(o.truncated, sent > max);
	assert_int_equal(o.len, head + tail);
	assert_int_equal(o.head, head);
	assert_memory_equal(o.data, all, head);
	assert_memory_equal(o.data + head, all + sent - tail, tail);
	kept_output_done(&k);
}

static void test_kept(void **state UNUSED)
{
	for (size_t max = 1; max <= MAX_KEPT; max++)
		for (size_t sent = 0; sent <= MAX_SENT; sent++)
			for (size_t piece = 1; piece <= MAX_SENT; piece++) {
				check_kept(max, sent, piece, false);
				check_kept(max, sent, piece, true);
			}
}

/* Behind the head only the last state of a line is kept; what it has written over is missing, and counted. */
static void test_settles(void **state UNUSED)
{
	static const char sent[] = "head\r0\r1\r2\nA\r\nlong";
	static const char want[] = "head\r0\r2\nA\nlong";

	for (size_t piece = 1; piece <= sizeof(sent) - 1; piece++) {
		struct kept_output k;

		kept_output_init(&k, 40, false);
		k.head = k.at = 6;
		k.settles = true;
		for (size_t at = 0; at < sizeof(sent) - 1; at += piece)
			kept_output_add(&k, sent + at, MIN(piece, sizeof(sent) - 1 - at));
		const struct run_output o = kept_output_end(&k);
		assert_int_equal(o.len, sizeof(want) - 1);
		assert_memory_equal(o.data, want, o.len);
		assert_int_equal(o.head, 6);
		assert_true(o.truncated);
		assert_int_equal(o.total, sizeof(sent) - 1);
		assert_int_equal(o.over, o.total - o.len);
		assert_int_equal(o.n_states, 1);
		assert_int_equal(o.states[0].at, strlen("head\r0\r"));
		assert_int_equal(o.states[0].n, 1);
		assert_int_equal(o.states[0].bytes, 1);
		assert_int_equal(o.shown, strlen("2\nA\nlong"));
		assert_false(o.cleared);
		kept_output_done(&k);
	}
}

/* A cleared screen is noticed wherever the output is divided. */
static void test_clears(void **state UNUSED)
{
	static const struct {
		const char *sent;
		bool clears;
	} rows[] = {{"a\033[H\033[2Jb", true}, {"\033\033[3J", true}, {"\033[2K\033[J[2J", false}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t at = 0; at <= strlen(rows[i].sent); at++) {
			struct kept_output k;

			kept_output_init(&k, 40, false);
			k.settles = true;
			kept_output_add(&k, rows[i].sent, at);
			kept_output_add(&k, rows[i].sent + at, strlen(rows[i].sent) - at);
			assert_int_equal(kept_output_end(&k).cleared, rows[i].clears);
			assert_int_equal(kept_output_is_long(&k, 40), rows[i].clears);
			kept_output_done(&k);
		}
}

#define T "Traceback (most recent call last):"

static const struct {
	const char *sent;
	size_t kept, shown;
	const char *text;
} shown_rows[] = {
    {"short", 100, 100, "short"},
    {"", 100, 100, ""},
    {"0123456789", 10, 10, "0123456789"},
    {"0123456789A", 10, 10, "01234\n[... 1 byte left out; W ...]\n6789A"},
    /* the answer's own limit; the count is of all that is missing */
    {"0123456789", 10, 4, "01\n[... 6 bytes left out; W ...]\n89"},
    {"0123456789ABCDEF", 10, 4, "01\n[... 12 bytes left out; W ...]\nEF"},
    /* no half characters: \xC3\xBC is one of two bytes */
    {"a\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC", 100, 4, "a\n[... 6 bytes left out; W ...]\n\xC3\xBC"},
    {"\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC", 6, 100,
     "\xC3\xBC\n[... 4 bytes left out; W ...]\n\xC3\xBC"},
    /* bytes that are no UTF-8 */
    {"\xFF\xFE", 100, 100, "\xEF\xBF\xBD\xEF\xBF\xBD"},
    /* a traceback comes whole where it fits */
    {"0123456789" T "end", 100, 40, "012\n[... 7 bytes left out; W ...]\n" T "end"},
};

static void test_shown(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(shown_rows); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(1000);
		struct kept_output k;
		bool cut;

		kept_output_init(&k, shown_rows[i].kept, false);
		kept_output_add(&k, shown_rows[i].sent, strlen(shown_rows[i].sent));
		struct run_output o = kept_output_end(&k);
		assert_int_equal(run_output_add(&b, &o, shown_rows[i].shown, "W", &cut), 0);
		assert_string_equal(buf_str(&b), shown_rows[i].text);
		assert_int_equal(cut, strstr(shown_rows[i].text, "left out") != NULL);
		kept_output_done(&k);
	}
}

static void test_file_is_named(void **state UNUSED)
{
	static const struct {
		const char *file, *lacks, *mark;
	} rows[] = {
	    {NULL, NULL, "[... 6 bytes left out; W ...]"},
	    {"F", NULL, "[... 6 bytes left out; all 10 bytes are in /mnt/data/F; W ...]"},
	    {"F", "L", "[... 6 bytes left out; the first 10 bytes are in /mnt/data/F (L); W ...]"},
	    {NULL, "L", "[... 6 bytes left out; they could not be stored: L; W ...]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(1000);
		struct run_output o = {.data = "abcd",
				       .len = 4,
				       .head = 2,
				       .truncated = true,
				       .total = 10,
				       .file = rows[i].file,
				       .file_bytes = 10,
				       .file_lacks = rows[i].lacks};
		bool cut;

		assert_int_equal(run_output_add(&b, &o, 100, "W", &cut), 0);
		assert_true(cut);
		assert_non_null(strstr(buf_str(&b), rows[i].mark));
	}
}

/* stdout, stderr, the budget, what each gets, and the length of the value. */
static const struct {
	size_t out, err, budget, get_out, get_err, value;
} share_rows[] = {
    {10, 0, 30, 30, 0},      {10, 20, 30, 10, 20},     {10, 25, 30, 10, 20},
    {100, 25, 30, 20, 10},   {100, 5, 30, 25, 5},      {0, 100, 30, 0, 30},
    {0, 0, 0, 0, 0},         {9, 9, 0, 0, 0},          {1, 2, SIZE_MAX, SIZE_MAX - 2, 2},
    {100, 25, 30, 18, 9, 3}, {100, 0, 30, 20, 0, 100},
};

static void test_shares(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(share_rows); i++) {
		struct run_result r = {.out = {.len = share_rows[i].out},
				       .err = {.len = share_rows[i].err},
				       .value = {.len = share_rows[i].value}};
		size_t shares[ENGINE_RESULT + 1];

		run_result_share(&r, share_rows[i].budget, shares);
		assert_int_equal(shares[ENGINE_STDOUT], share_rows[i].get_out);
		assert_int_equal(shares[ENGINE_STDERR], share_rows[i].get_err);
		assert_int_equal(shares[ENGINE_RESULT], share_rows[i].budget / 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kept),          cmocka_unit_test(test_settles),
	    cmocka_unit_test(test_clears),        cmocka_unit_test(test_shown),
	    cmocka_unit_test(test_file_is_named), cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
