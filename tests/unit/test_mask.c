/* SPDX-License-Identifier: Apache-2.0 */
/* Masking of secrets in streams: the same text in whatever pieces it comes, compared with a plain search. */
#include "api/mask.h"
#include "base/text.h"

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

	assert_int_equal(mask_set_new(secrets, n, &set), 0);
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

	assert_int_equal(mask_set_new(one, 1, &set), 0);
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

/* Marks every byte of every occurrence, without any cleverness. */
static void plain_search(const char *const *secrets, size_t n, const char *text, struct buf *out)
{
	const size_t len = strlen(text);
	char *in = calloc(len + 1, 1);

	assert_non_null(in);
	for (size_t s = 0; s < n; s++)
		for (const char *p = text; (p = strstr(p, secrets[s])); p++)
			memset(in + (p - text), 1 + (p > text && in[p - text - 1]),
			       strlen(secrets[s]));
	for (size_t i = 0; i < len; i++) {
		if (!in[i])
			assert_int_equal(buf_add_char(out, text[i]), 0);
		else if (i == 0 || !in[i - 1])
			assert_int_equal(buf_add_str(out, M), 0);
	}
	free(in);
}

static void test_random(void **state UNUSED)
{
	uint32_t seed = 7;

	for (int round = 0; round < 3000; round++) {
		char words[3][12], text[80];
		const char *secrets[] = {words[0], words[1], words[2]};

		for (size_t w = 0; w < ARRAY_SIZE(words); w++) {
			size_t len = MASK_SECRET_MIN + (seed = seed * 1664525 + 1013904223) / 7 % 7;

			for (size_t i = 0; i < len; i++)
				words[w][i] =
				    (char)('a' + (seed = seed * 1664525 + 1013904223) / 65536 % 2);
			words[w][len] = '\0';
		}
		for (size_t i = 0; i < sizeof(text) - 1; i++)
			text[i] =
			    (char)('a' + (seed = seed * 1664525 + 1013904223) / 65536 % 3 % 3);
		text[sizeof(text) - 1] = '\0';
		_cleanup_(buf_done) struct buf wanted = BUF_INIT(OUT_MAX);
		plain_search(secrets, 3, text, &wanted);
		check_pieces(secrets, 3, text, 1 + seed / 65536 % 20, buf_str(&wanted));
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

		assert_int_equal(mask_set_new(secrets, 1, &set), 0);
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

/* Secrets cost nothing where none of them begins. */
static void test_steps(void **state UNUSED)
{
	char values[64][16];
	const char *secrets[64];
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUT_MAX);
	struct mask_set *set;
	char text[1000];

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		(void)snprintf(values[i], sizeof(values[i]), "secret-%zu", i);
		secrets[i] = values[i];
	}
	memset(text, '.', sizeof(text));
	assert_int_equal(mask_set_new(secrets, ARRAY_SIZE(secrets), &set), 0);
	struct mask *m = mask_new(set);
	assert_int_equal(mask_add(m, text, sizeof(text), &out), 0);
	assert_int_equal(mask_steps(m), sizeof(text));
	(void)mask_free(m);
	(void)mask_set_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_masks),  cmocka_unit_test(test_passes_at_once),
	    cmocka_unit_test(test_random), cmocka_unit_test(test_forms),
	    cmocka_unit_test(test_steps),
	};

	return cmocka_run_group_tests_name("mask", tests, NULL, NULL);
}
