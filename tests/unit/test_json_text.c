/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text: what is written is what jansson reads, whatever the bytes; the walk finds what is there and never leaves the
 * text, however it is cut. */
#include "base/json_text.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse(const struct buf *b)
{
	json_t *v = json_loads(buf_str(b), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

	if (!v)
		print_message("not JSON: %s\n", buf_str(b));
	assert_non_null(v);
	return v;
}

static void assert_written(const char *s, size_t len, const char *expected, size_t expected_len)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1 << 20);

	assert_int_equal(json_text_add(&b, s, len), 0);
	json_t *v = parse(&b);
	assert_int_equal(json_string_length(v), expected_len);
	assert_memory_equal(json_string_value(v), expected, expected_len);
	json_decref(v);
}

static void test_every_byte_is_written(void **state)
{
	char all[256], last[256];

	(void)state;
	for (int i = 0; i < 128; i++)
		all[i] = (char)i;
	assert_written(all, 128, all, 128);
	assert_written("", 0, "", 0);
	assert_written("ä€😀\"\\/", strlen("ä€😀\"\\/"), "ä€😀\"\\/", strlen("ä€😀\"\\/"));
	/* What is not UTF-8 is replaced, and what stands around it stays. */
	assert_written("a\xff\x80z", 4, "a\xef\xbf\xbd\xef\xbf\xbdz", 8);
	memset(last, 0x01, sizeof(last));
	assert_written(last, sizeof(last), last, sizeof(last));
}

/* Short runs are gathered and long ones are not, so both, in every order, with escapes of both lengths between them. */
static void test_runs_of_every_length(void **state)
{
	static char text[60000];
	unsigned random = 1;
	size_t n = 0;

	(void)state;
	while (n + 200 < sizeof(text)) {
		random = random * 1103515245 + 12345;
		const size_t run = (random >> 16) % ((random >> 8) % 4 == 0 ? 180 : 20);
		for (size_t i = 0; i < run; i++)
			text[n++] = (char)('a' + i % 26);
		text[n++] = "\"\n\x01\\"[(random >> 24) % 4];
	}
	for (size_t from = 0; from < 300; from++)
		assert_written(text + from, n - from, text + from, n - from);
}

static void test_members(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4096);

	(void)state;
	assert_int_equal(buf_add_char(&b, '{'), 0);
	assert_int_equal(json_text_member(&b, "text", "a \"b\""), 0);
	assert_int_equal(json_text_member(&b, "none", NULL), 0);
	assert_int_equal(json_text_members(&b, "iibbtj", "small", INT64_MIN, "large", INT64_MAX,
					   "yes", true, "no", false, "missing", NULL, "list", "["),
			 0);
	assert_int_equal(json_text_object(&b, "ss", "a", "1", "b", NULL), 0);
	assert_int_equal(json_text_object(&b, ""), 0);
	assert_int_equal(buf_add_str(&b, "]}"), 0);
	json_t *v = parse(&b);
	assert_string_equal(json_string_value(json_object_get(v, "text")), "a \"b\"");
	assert_true(json_is_null(json_object_get(v, "none")));
	assert_int_equal(json_integer_value(json_object_get(v, "small")), INT64_MIN);
	assert_int_equal(json_integer_value(json_object_get(v, "large")), INT64_MAX);
	assert_true(json_is_true(json_object_get(v, "yes")));
	assert_true(json_is_false(json_object_get(v, "no")));
	assert_null(json_object_get(v, "missing"));
	const json_t *list = json_object_get(v, "list");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "a")), "1");
	assert_int_equal(json_object_size(json_array_get(list, 1)), 0);
	json_decref(v);
}

static void test_full_buffer(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(8);

	(void)state;
	assert_int_equal(json_text_add(&b, "0123456789", 10), -ENOBUFS);
	assert_int_equal(json_text_member(&b, "key", "value"), -ENOBUFS);
}

static const char sample[] =
    "{ \"a\" : 1 , "
    "\"b\":[true,{\"x\":\"]}\"},\"\\\"\"],\"c\":\"q\\\\\",\"d\":{\"a\":2},\"e\":null}";

static void test_walk(void **state)
{
	static const char *const keys[] = {"a", "b", "c", "d", "e"};
	static const char *const values[] = {"1", "[true,{\"x\":\"]}\"},\"\\\"\"]", "\"q\\\\\"",
					     "{\"a\":2}", "null"};
	struct json_piece key, value, list;
	struct json_walk w;
	size_t n = 0;

	(void)state;
	assert_true(json_walk_begin(&w, sample, strlen(sample)));
	for (; json_walk_next(&w, &key, &value); n++) {
		assert_true(n < 5 && json_piece_is(&key, keys[n]));
		assert_true(json_piece_is(&value, values[n]));
	}
	assert_int_equal(n, 5);
	list = json_find(sample, strlen(sample), "b");
	assert_true(json_walk_begin(&w, list.data, list.len));
	for (n = 0; json_walk_next(&w, &key, &value); n++)
		assert_int_equal(key.len, 0);
	assert_int_equal(n, 3);
	assert_int_equal(json_find(sample, strlen(sample), "x").len, 0); /* of another object */
	assert_false(json_walk_begin(&w, "1", 1));
	assert_false(json_walk_begin(&w, "", 0));
}

/* A text that is cut anywhere, or has another byte anywhere, is never read beyond its end. Each copy has just its own
 * bytes, so that sanitizers see it. */
static void walk_all(const char *text, size_t len, unsigned depth)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4096);
	struct json_piece key, value;
	struct json_walk w;
	unsigned n = 0;

	if (depth > 8 || !json_walk_begin(&w, text, len))
		return;
	while (n++ < 100 && json_walk_next(&w, &key, &value)) {
		assert_true(value.data >= text && value.data + value.len <= text + len);
		(void)!json_piece_text(&value, &b);
		walk_all(value.data, value.len, depth + 1);
	}
}

static void test_damaged_text(void **state)
{
	static const char others[] = "\"\\{}[],: u0\n";
	const size_t len = strlen(sample);

	(void)state;
	for (size_t cut = 0; cut <= len; cut++)
		for (const char *o = others; *o; o++) {
			char *copy = malloc(cut ? cut : 1);

			assert_non_null(copy);
			memcpy(copy, sample, cut);
			walk_all(copy, cut, 0);
			for (size_t at = 0; at < cut; at++) {
				copy[at] = *o;
				walk_all(copy, cut, 0);
				copy[at] = sample[at];
			}
			free(copy);
		}
}

static void assert_text(const char *json, const char *expected)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4096);
	const struct json_piece p = {json, strlen(json)};

	assert_int_equal(json_piece_text(&p, &b), 0);
	assert_string_equal(buf_str(&b), expected);
}

static void test_text_of_a_piece(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(4096);
	const struct json_piece number = {"12", 2}, none = {"", 0}, open = {"\"", 1};

	(void)state;
	assert_text("\"plain\"", "plain");
	assert_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
	assert_text("\"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\"", "Aä€😀");
	/* Half a pair, a NUL and what is no number do not become bytes that nobody expects. */
	assert_text("\"\\ud83d!\"", "\xef\xbf\xbd!");
	assert_text("\"\\u0000\"", "\xef\xbf\xbd");
	assert_text("\"\\u00zz\"", "\xef\xbf\xbd"
				   "00zz");
	assert_int_equal(json_piece_text(&number, &b), -EINVAL);
	assert_int_equal(json_piece_text(&none, &b), -EINVAL);
	assert_int_equal(json_piece_text(&open, &b), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_byte_is_written),
	    cmocka_unit_test(test_runs_of_every_length),
	    cmocka_unit_test(test_members),
	    cmocka_unit_test(test_full_buffer),
	    cmocka_unit_test(test_walk),
	    cmocka_unit_test(test_damaged_text),
	    cmocka_unit_test(test_text_of_a_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
