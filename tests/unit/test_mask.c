/* SPDX-License-Identifier: Apache-2.0 */
/* Masking of secrets in streams: the same text in whatever pieces it comes, compared with a plain search. */
#include "base/text.h"
#include "sandbox/mask.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OUT_MAX (1u << 20)

static void check_pieces(const char *const *secrets, size_t n, const char *text, size_t piece,
			 const char *wanted)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);
	struct mask_set *set;
	const size_t len = strlen(text);

	assert_int_equal(mask_set_new(secrets, n, NULL, NULL, &set), 0);
	if (!set) {
		assert_string_equal(text, wanted);
		return;
	}
	struct mask *m = mask_new(set);
	assert_non_null(m);
	for (size_t i = 0; i < len; i += piece)
		assert_int_equal(mask_add(m, text + i, MIN(piece, len - i), &out), 0);
	assert_int_equal(mask_end(m, &out), 0);
	assert_string_equal(buf_str(&out), wanted);
	(void)mask_free(m);
	(void)mask_set_free(set);
}

static void check(const char *const *secrets, size_t n, const char *text, const char *wanted)
{
	for (size_t piece = 1; piece <= strlen(text) + 1; piece++)
		check_pieces(secrets, n, text, piece, wanted);
}

#define M MASK_TEXT

static void test_masks(void **state UNUSED)
{
	const char *one[] = {"s3cret"};
	const char *two[] = {"abcd", "cdefg"};
	const char *nested[] = {"abcdefgh", "cdef"};
	const char *same[] = {"aaaa"};
	const char *lines[] = {"-----\nkey\n-----"};
	const char *shorts[] = {"abc", ""};

	check(one, 1, "", "");
	check(one, 1, "s3cret", M);
	check(one, 1, "a s3cret, s3crets3cret s3cre", "a " M ", " M " s3cre");
	check(one, 1, "s3cs3cret", "s3c" M);
	check(two, 2, "xabcdefgy abcdcd abcdef", "x" M "y " M "cd " M "ef");
	check(nested, 2, "abcdefgh abcdefg xcdefx", M " ab" M "g x" M "x");
	check(same, 1, "aaa aaaa aaaaaaaaa", "aaa " M " " M);
	check(lines, 1, "a-----\nkey\n-----b", "a" M "b");
	check(shorts, 2, "abc abc", "abc abc");
}

/* What is no beginning of a secret passes at once: a person watches the output. */
static void test_passes_at_once(void **state UNUSED)
{
	const char *one[] = {"s3cret"};
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);
	struct mask_set *set;

	assert_int_equal(mask_set_new(one, 1, NULL, NULL, &set), 0);
	struct mask *m = mask_new(set);
	assert_int_equal(mask_add(m, "working\n", 8, &out), 0);
	assert_string_equal(buf_str(&out), "working\n");
	assert_int_equal(mask_add(m, "a s3c", 5, &out), 0);
	assert_string_equal(buf_str(&out), "working\na ");
	assert_int_equal(mask_add(m, "x", 1, &out), 0);
	assert_string_equal(buf_str(&out), "working\na s3cx");
	(void)mask_free(m);
	(void)mask_set_free(set);
}

/* Marks every byte of every occurrence, without any cleverness. Text has no NUL. What is before HIDDEN is not written. */
static void plain_search(const char *const *secrets, size_t n, const char *text, size_t hidden,
			 struct buf *out)
{
	const size_t len = strlen(text);
	char *in = calloc(len + 1, 1);

	assert_non_null(in);
	for (size_t s = 0; s < n; s++)
		for (const char *p = text; (p = strstr(p, secrets[s])); p++)
			memset(in + (p - text), 1, strlen(secrets[s]));
	for (size_t i = hidden; i < len; i++) {
		if (!in[i])
			assert_int_equal(buf_add_char(out, text[i]), 0);
		else if (i == hidden || !in[i - 1])
			assert_int_equal(buf_add_str(out, M), 0);
	}
	free(in);
}

static uint32_t next_random(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525 + 1013904223;
	return (*seed >> 16) % below;
}

/* Secrets of few letters, so that they overlap, begin alike and are parts of each other. Some texts lack their first part. */
static void test_random(void **state UNUSED)
{
	uint32_t seed = 7;

	for (int round = 0; round < 6000; round++) {
		char words[20][12], text[160];
		const char *secrets[ARRAY_SIZE(words)];
		const size_t n = 1 + next_random(&seed, ARRAY_SIZE(words));
		const uint32_t letters = 1 + next_random(&seed, 4);
		const size_t len = next_random(&seed, sizeof(text));
		_cleanup_(buf_done) struct buf wanted = BUF_INIT(OUT_MAX), out = BUF_INIT(OUT_MAX);
		struct mask_set *set;

		for (size_t w = 0; w < n; w++) {
			size_t word = MASK_SECRET_MIN + next_random(&seed, 7);

			for (size_t i = 0; i < word; i++)
				words[w][i] = (char)('a' + next_random(&seed, letters));
			words[w][word] = '\0';
			secrets[w] = words[w];
		}
		for (size_t i = 0; i < len; i++)
			text[i] = (char)('a' + next_random(&seed, letters + 1));
		text[len] = '\0';
		plain_search(secrets, n, text, 0, &wanted);
		check_pieces(secrets, n, text, 1 + next_random(&seed, 20), buf_str(&wanted));

		/* The same end of a stream of which the beginning is not known. */
		buf_reset(&wanted);
		assert_int_equal(mask_set_new(secrets, n, NULL, NULL, &set), 0);
		const size_t hidden = MIN(len, mask_set_longest(set));
		struct mask *m = mask_new(set);
		assert_int_equal(mask_add(m, "aaab", 4, &out), 0);
		buf_reset(&out);
		mask_skip(m, hidden);
		plain_search(secrets, n, text, hidden, &wanted);
		assert_int_equal(mask_add(m, text, len / 2, &out), 0);
		assert_int_equal(mask_add(m, text + len / 2, len - len / 2, &out), 0);
		assert_int_equal(mask_end(m, &out), 0);
		assert_string_equal(buf_str(&out), buf_str(&wanted));
		(void)mask_free(m);
		(void)mask_set_free(set);
	}
}

/* What Python's urllib, json and base64 make of one secret, base64 also with other bytes around it. */
static void test_forms(void **state UNUSED)
{
	static const char secret[] = "p\303\244ss/word \"1\"+?";
	static const char *const whole[] = {
	    "p\303\244ss/word &quot;1&quot;+?", "p%C3%A4ss/word%20%221%22%2B%3F",
	    "p%C3%A4ss%2Fword%20%221%22%2B%3F", "p%C3%A4ss%2Fword+%221%22%2B%3F",
	    "p\\u00e4ss/word \\\"1\\\"+?",      "p\303\244ss/word \\\"1\\\"+?",
	};
	static const char *const within[] = {
	    "YWJww6Rzcy93b3JkICIxIis/",
	    "YWJww6Rzcy93b3JkICIxIis/IQ==",
	    "YWJww6Rzcy93b3JkICIxIis/QGhvc3Q=",
	    "YWJww6Rzcy93b3JkICIxIis_",
	    "YWJww6Rzcy93b3JkICIxIis_IQ==",
	    "YWJww6Rzcy93b3JkICIxIis_QGhvc3Q=",
	    "YXDDpHNzL3dvcmQgIjEiKz8=",
	    "YXDDpHNzL3dvcmQgIjEiKz8h",
	    "YXDDpHNzL3dvcmQgIjEiKz9AaG9zdA==",
	    "cMOkc3Mvd29yZCAiMSIrP0Bob3N0",
	    "cMOkc3Mvd29yZCAiMSIrPw==",
	    "cMOkc3Mvd29yZCAiMSIrPyE=",
	    "dXNlcjpww6Rzcy93b3JkICIxIis/",
	    "dXNlcjpww6Rzcy93b3JkICIxIis/IQ==",
	    "dXNlcjpww6Rzcy93b3JkICIxIis/QGhvc3Q=",
	    "dXNlcjpww6Rzcy93b3JkICIxIis_",
	    "dXNlcjpww6Rzcy93b3JkICIxIis_IQ==",
	    "dXNlcjpww6Rzcy93b3JkICIxIis_QGhvc3Q=",
	    "eHl6MXDDpHNzL3dvcmQgIjEiKz8=",
	    "eHl6MXDDpHNzL3dvcmQgIjEiKz8h",
	    "eHl6MXDDpHNzL3dvcmQgIjEiKz9AaG9zdA==",
	};
	const char *secrets[] = {secret};

	for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
		check(secrets, 1, whole[i], M);
	for (size_t i = 0; i < ARRAY_SIZE(within); i++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);
		struct mask_set *set;

		assert_int_equal(mask_set_new(secrets, 1, NULL, NULL, &set), 0);
		assert_int_equal(mask_text(set, within[i], strlen(within[i]), &out), 0);
		(void)mask_set_free(set);
		const char *mark = strstr(buf_str(&out), M);
		assert_non_null(mark);
		/* What is left holds bits of the neighbours: at most three groups of four on each side. */
		assert_true(mark - buf_str(&out) <= 12);
		assert_true(strlen(mark) - strlen(M) <= 12);
	}
	/* A short secret is not looked for in base64, and no form of anything is found in other text. */
	const char *shorts[] = {"abcd"};
	check(shorts, 1, "YWJjZA== abcd", "YWJjZA== " M);
	check(secrets, 1, "p%C3%A4ss/wor päss", "p%C3%A4ss/wor päss");
}

static char *repeated(char c, size_t n, const char *end)
{
	char *text = malloc(n + strlen(end) + 1);

	assert_non_null(text);
	memset(text, c, n);
	memcpy(text + n, end, strlen(end) + 1);
	return text;
}

/* However many secrets there are and however much of them a text has, a byte costs at most two steps. */
static void test_steps(void **state UNUSED)
{
	char *secrets[64];
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);
	struct mask_set *set;
	char text[100000];

	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
		char end[16];

		(void)snprintf(end, sizeof(end), "-%zu", i);
		secrets[i] = repeated('p', 300, end);
	}
	assert_int_equal(
	    mask_set_new((const char *const *)secrets, ARRAY_SIZE(secrets), NULL, NULL, &set), 0);
	for (size_t run = 0; run < 400; run += 7) {
		struct mask *m = mask_new(set);

		for (size_t i = 0; i < sizeof(text); i++)
			text[i] = i % (run + 1) == run ? (char)('-' + run % 3) : 'p';
		assert_int_equal(mask_add(m, text, sizeof(text), &out), 0);
		assert_true(mask_steps(m) <= 2 * sizeof(text));
		buf_reset(&out);
		(void)mask_free(m);
	}
	(void)mask_set_free(set);
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		free(secrets[i]);
}

/* The memory is bounded. Each secret is found; the forms of the shortest ones come before those of longer ones. */
static void test_bounds(void **state UNUSED)
{
	char *secrets[33];
	struct mask_set *set;

	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
		char end[16];

		(void)snprintf(end, sizeof(end), "/%zu", i);
		secrets[i] = repeated((char)('0' + i), i == 0 ? 8 : 3900, end);
	}
	assert_int_equal(mask_set_new((const char *const *)secrets, 32, NULL, NULL, &set), 0);
	assert_true(mask_set_memory(set) <= 16 * MASK_BYTES_MAX);
	for (size_t i = 0; i < 32; i++) {
		_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);

		assert_int_equal(mask_text(set, secrets[i], strlen(secrets[i]), &out), 0);
		assert_string_equal(buf_str(&out), M);
	}
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);
	assert_int_equal(mask_text(set, "00000000%2F0", 12, &out), 0);
	assert_string_equal(buf_str(&out), M);
	(void)mask_set_free(set);
	free(secrets[32]);
	secrets[32] = repeated('x', MASK_SECRET_MAX - 1, "y");
	assert_int_equal(mask_set_new((const char *const *)secrets, 33, NULL, NULL, &set), -E2BIG);
	assert_null(set);
	free(secrets[32]);
	secrets[32] = repeated('x', MASK_SECRET_MAX, "y");
	assert_int_equal(mask_set_new((const char *const *)&secrets[32], 1, NULL, NULL, &set),
			 -E2BIG);
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		free(secrets[i]);
}

/* A byte 0 is part of no secret, and leads nowhere behind the last byte of one, where every other byte but one may lead on. */
static void test_every_byte(void **state UNUSED)
{
	static const char zeros[] = "\0abcd\0abc\0e\0abcd";
	char words[256][8];
	const char *secrets[256];
	size_t n = 0;
	struct mask_set *set;
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);

	for (int c = 255; c > 0; c--)
		if (c != 'x') {
			(void)snprintf(words[n], sizeof(words[n]), "abcd%c", c);
			secrets[n] = words[n];
			n++;
		}
	secrets[n++] = "abcd";
	assert_int_equal(mask_set_new(secrets, n, NULL, NULL, &set), 0);
	assert_int_equal(mask_text(set, zeros, sizeof(zeros) - 1, &out), 0);
	assert_int_equal(out.len, 1 + strlen(M) + 7 + strlen(M));
	assert_memory_equal(buf_str(&out), "\0" M "\0abc\0e\0" M, out.len);
	for (int c = 1; c < 256; c++) {
		char text[] = {'-', 'a', 'b', 'c', 'd', (char)c, '-'};

		buf_reset(&out);
		assert_int_equal(mask_text(set, text, sizeof(text), &out), 0);
		assert_string_equal(buf_str(&out), c == 'x' ? "-" M "x-" : "-" M "-");
	}
	(void)mask_set_free(set);
}

/* As html.escape() of Python, which the masking of secrets relies on. */
static void test_html(void **state)
{
	static const char text[] = "a<b> & \"c\" 'd'\xC3\xA9";
	_cleanup_(buf_done) struct buf b = BUF_INIT(100), none = BUF_INIT(7);

	(void)state;
	assert_int_equal(text_add_html(&b, text, strlen(text), true), 0);
	assert_string_equal(buf_str(&b), "a&lt;b&gt; &amp; &quot;c&quot; &#x27;d&#x27;\xC3\xA9");
	buf_reset(&b);
	assert_int_equal(text_add_html(&b, text, strlen(text), false), 0);
	assert_string_equal(buf_str(&b), "a&lt;b&gt; &amp; \"c\" 'd'\xC3\xA9");
	buf_reset(&b);
	assert_int_equal(text_add_html(&b, text, 0, true), 0);
	assert_int_equal(text_add_html(&b, "<<", 2, true), 0);
	assert_string_equal(buf_str(&b), "&lt;&lt;");
	assert_true(text_add_html(&none, "<&", 2, true) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_masks),      cmocka_unit_test(test_passes_at_once),
	    cmocka_unit_test(test_random),     cmocka_unit_test(test_forms),
	    cmocka_unit_test(test_steps),      cmocka_unit_test(test_bounds),
	    cmocka_unit_test(test_every_byte), cmocka_unit_test(test_html),
	};

	return cmocka_run_group_tests_name("mask", tests, NULL, NULL);
}
