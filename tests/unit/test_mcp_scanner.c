/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming scanner: it must agree with a full parser on what JSON is, whatever the pieces. */
#include "base/attr.h"
#include "base/text.h"
#include "mcp/scanner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include <cmocka.h>
#include <jansson.h>

static const struct scan_limits small = {
    .max_message = 4096,
    .max_rest = 2048,
    .spill_min = 16,
    .max_values = 20,
    .max_depth = 5,
};

static enum scan_fault scan(struct scanner *s, const char *text, size_t len, size_t piece)
{
	for (size_t at = 0; at < len; at += piece)
		(void)scanner_feed(s, text + at, MIN(piece, len - at));
	return scanner_end(s);
}

/* ---- what is JSON ---- */

static void test_grammar(void **state)
{
	static const struct {
		const char *text;
		enum scan_fault want;
	} rows[] = {
	    {"{}", SCAN_OK},
	    {" { } ", SCAN_OK},
	    {"[]", SCAN_OK},
	    {"[ 1 , 2 ]", SCAN_OK},
	    {"{\"a\":1,\"b\":[true,false,null]}", SCAN_OK},
	    {"\"\"", SCAN_OK},
	    {"0", SCAN_OK},
	    {"-0", SCAN_OK},
	    {"-1.5e+10", SCAN_OK},
	    {"1E5", SCAN_OK},
	    {"123 ", SCAN_OK},
	    {"true", SCAN_OK},
	    {"\"\\u0000\\u00e9\\ud83d\\ude00\"", SCAN_OK},
	    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", SCAN_OK},
	    {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", SCAN_OK},
	    {"\"\x7f\"", SCAN_OK},
	    {"\xef\xbb\xbf{}", SCAN_OK}, /* a byte order mark */
	    {"\xef\xbb{}", SCAN_SYNTAX},
	    {"{\xef\xbb\xbf}", SCAN_SYNTAX},
	    {"", SCAN_SYNTAX},
	    {" ", SCAN_SYNTAX},
	    {"{", SCAN_SYNTAX},
	    {"}", SCAN_SYNTAX},
	    {"{]", SCAN_SYNTAX},
	    {"[}", SCAN_SYNTAX},
	    {"[1,]", SCAN_SYNTAX},
	    {"[,1]", SCAN_SYNTAX},
	    {"[1 2]", SCAN_SYNTAX},
	    {"{\"a\"}", SCAN_SYNTAX},
	    {"{\"a\":}", SCAN_SYNTAX},
	    {"{\"a\":1,}", SCAN_SYNTAX},
	    {"{a:1}", SCAN_SYNTAX},
	    {"{1:1}", SCAN_SYNTAX},
	    {"{\"a\" 1}", SCAN_SYNTAX},
	    {"{}{}", SCAN_SYNTAX},
	    {"1 2", SCAN_SYNTAX},
	    {"tru", SCAN_SYNTAX},
	    {"truex", SCAN_SYNTAX},
	    {"nul1", SCAN_SYNTAX},
	    {"NaN", SCAN_SYNTAX},
	    {"Infinity", SCAN_SYNTAX},
	    {"+1", SCAN_SYNTAX},
	    {"01", SCAN_SYNTAX},
	    {"-", SCAN_SYNTAX},
	    {"1.", SCAN_SYNTAX},
	    {".5", SCAN_SYNTAX},
	    {"1e", SCAN_SYNTAX},
	    {"1e+", SCAN_SYNTAX},
	    {"0x10", SCAN_SYNTAX},
	    {"'a'", SCAN_SYNTAX},
	    {"\"a", SCAN_SYNTAX},
	    {"\"\\x41\"", SCAN_SYNTAX},
	    {"\"\\u12g4\"", SCAN_SYNTAX},
	    {"\"\\U0041\"", SCAN_SYNTAX},
	    {"\"a\nb\"", SCAN_SYNTAX},
	    {"\"\x01\"", SCAN_SYNTAX},
	    {"/* */1", SCAN_SYNTAX},
	    {"\v1", SCAN_SYNTAX},
	    {"\"\\ud800\"", SCAN_UTF8},
	    {"\"\\udc00\"", SCAN_UTF8},
	    {"\"\\ud800x\"", SCAN_UTF8},
	    {"\"\\ud800\\n\"", SCAN_UTF8},
	    {"\"\\ud800\\u0041\"", SCAN_UTF8},
	    {"\"\\ud800\\ud800\"", SCAN_UTF8},
	    {"\"\x80\"", SCAN_UTF8},
	    {"\"\xc0\x80\"", SCAN_UTF8}, /* overlong */
	    {"\"\xc1\xbf\"", SCAN_UTF8},
	    {"\"\xe0\x80\x80\"", SCAN_UTF8}, /* overlong */
	    {"\"\xed\xa0\x80\"", SCAN_UTF8}, /* surrogate */
	    {"\"\xf0\x80\x80\x80\"", SCAN_UTF8},
	    {"\"\xf4\x90\x80\x80\"", SCAN_UTF8}, /* above U+10FFFF */
	    {"\"\xf5\x80\x80\x80\"", SCAN_UTF8},
	    {"\"\xc3\"", SCAN_UTF8},
	    {"\"\xe2\x82\"", SCAN_UTF8},
	    {"[[[[[]]]]]", SCAN_OK},
	    {"[[[[[[]]]]]]", SCAN_DEPTH},
	    {"{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}", SCAN_DEPTH},
	    {"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]", SCAN_OK},
	    {"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]", SCAN_VALUES},
	    {"{\"0123456789abcdef\":1}", SCAN_OK},
	    {"{\"0123456789abcdefg\":1}", SCAN_VALUES}, /* too long for a key */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t len = strlen(rows[i].text);

		for (size_t piece = 1; piece <= len + 1; piece++) {
			struct scanner s;
			enum scan_fault got;

			scanner_init(&s, &small);
			got = scan(&s, rows[i].text, len, piece);
			if (got != rows[i].want)
				print_error("%s in pieces of %zu: %u, want %u\n", rows[i].text,
					    piece, got, rows[i].want);
			assert_int_equal(got, rows[i].want);
			scanner_done(&s);
		}
	}
}

static void test_sizes(void **state)
{
	char text[5000];
	struct scanner s;

	(void)state;
	memset(text, ' ', sizeof(text));
	scanner_init(&s, &small);
	assert_int_equal(scanner_feed(&s, text, 4096), SCAN_OK);
	assert_true(scanner_is_blank(&s));
	assert_int_equal(scanner_feed(&s, text, 1), SCAN_TOO_LARGE);
	scanner_reset(&s);
	/* A number is not spilled: it counts against what is kept. */
	memset(text, '7', sizeof(text));
	assert_int_equal(scanner_feed(&s, text, 2048), SCAN_OK);
	assert_false(scanner_is_blank(&s));
	assert_int_equal(scanner_feed(&s, text, 1), SCAN_TOO_LARGE);
	scanner_reset(&s);
	assert_true(scanner_is_blank(&s));
	assert_int_equal(scan(&s, "{}", 2, 1), SCAN_OK);
	scanner_done(&s);
}

/* What was too much still says whose it was. */
static void test_id_of_a_refused_message(void **state)
{
#define LONG "0123456789012345678901234567890123456789012345678901234567890123456789"
#define MANY "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]"
	static const struct {
		const char *text, *id;
	} rows[] = {
	    {"{\"id\":7,\"method\":\"m\",\"params\":" MANY "}", "7"},
	    {"{\"method\":\"m\",\"params\":" MANY ",\"id\":-12}", "-12"},
	    {"{ \"method\" : \"m\" , \"p\" : " MANY " , \"id\" : \"a\\u0041\" }", "\"a\\u0041\""},
	    {"{\"method\":\"m\",\"" LONG "\":1,\"id\":1}", "1"},
	    /* an answer, a notification, two ids, none that is one */
	    {"{\"result\":" MANY ",\"id\":1}", ""},
	    {"{\"method\":\"m\",\"params\":" MANY "}", ""},
	    {"{\"method\":\"m\",\"id\":1,\"params\":" MANY ",\"id\":2}", ""},
	    {"{\"method\":\"m\",\"id\":null,\"params\":" MANY "}", ""},
	    {"{\"method\":\"m\",\"id\":[1],\"params\":" MANY "}", ""},
	    {"{\"method\":\"m\",\"params\":{\"id\":1,\"x\":" MANY "}}", ""},
	    {"[{\"method\":\"m\",\"id\":1,\"params\":" MANY "}]", ""},
	    {"{\"method\":\"m\",\"params\":" MANY ",\"id\":\"" LONG LONG LONG "\"}", ""},
	    /* no JSON after all, and the id came before */
	    {"{\"method\":\"m\",\"id\":1,\"params\":" MANY ",}", "1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t piece = 1; piece <= 64; piece += 7) {
			struct scanner s;
			size_t len;

			scanner_init(&s, &small);
			assert_int_equal(scan(&s, rows[i].text, strlen(rows[i].text), piece),
					 SCAN_VALUES);
			const char *id = scanner_id(&s, &len);
			if (len != strlen(rows[i].id) || memcmp(id, rows[i].id, len) != 0)
				print_error("%s: %.*s\n", rows[i].text, (int)len, id);
			assert_int_equal(len, strlen(rows[i].id));
			assert_memory_equal(id, rows[i].id, len);
			assert_true(s.rest.len <= small.max_rest);
			scanner_done(&s);
		}
	}
#undef LONG
#undef MANY
}

/* ---- spilled strings ---- */

/* The text of a string, wherever it is. */
static char *text_of(const struct scanner *s, const json_t *string, size_t *ret_len)
{
	struct mcp_text_ref ref;
	char *out;

	if (!spill_find(s->spill, json_string_value(string), json_string_length(string), &ref)) {
		*ret_len = json_string_length(string);
		out = malloc(*ret_len + 1);
		assert_non_null(out);
		memcpy(out, json_string_value(string), *ret_len);
		return out;
	}
	out = malloc(ref.len + 1);
	assert_non_null(out);
	*ret_len = ref.len;
	assert_int_equal(pread(ref.fd, out, ref.len, (off_t)ref.off), ref.len);
	return out;
}

static void compare(const struct scanner *s, const json_t *got, const json_t *want)
{
	const char *key;
	json_t *child;
	size_t i;

	assert_int_equal(json_typeof(got), json_typeof(want));
	if (json_is_string(want)) {
		size_t len;
		char *text = text_of(s, got, &len);

		assert_int_equal(len, json_string_length(want));
		assert_memory_equal(text, json_string_value(want), len);
		free(text);
	} else if (json_is_object(want)) {
		assert_int_equal(json_object_size(got), json_object_size(want));
		json_object_foreach((json_t *)(uintptr_t)want, key, child)
			compare(s, json_object_get(got, key), child);
	} else if (json_is_array(want)) {
		assert_int_equal(json_array_size(got), json_array_size(want));
		json_array_foreach(want, i, child)
			compare(s, json_array_get(got, i), child);
	} else {
		assert_true(json_equal(got, want));
	}
}

/* What is left must parse, and mean the same as the whole parsed at once. */
static void test_lifting(void **state)
{
	static const char *const texts[] = {
	    "{\"a\":\"0123456789abcdef\"}",  /* just short enough */
	    "{\"a\":\"0123456789abcdefg\"}", /* just long enough */
	    "[\"\\u0030\\u0031\\u0032\\u0033\"]",
	    "[\"\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\"]",
	    "[\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"]",
	    "[\"0123456789abcde\xf0\x9f\x98\x80 and more\"]",
	    "[\"0123456789ab\\ud83d\\ude00\\ud83d\\ude00\\u0000\\u0007\\u07ff\\uffff\"]",
	    "[\"short\",\"a string that is long enough\",7,\"another one of that kind\",\"\"]",
	    "{\"k\":[{\"x\":\"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"\\\"\"}],\"y\":1.5}",
	    "\"spilled:00000000000000000000000000000000:0\"", /* a guess at a placeholder */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		size_t len = strlen(texts[i]);
		json_t *want = json_loads(texts[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

		assert_non_null(want);
		for (size_t piece = 1; piece <= len; piece++) {
			struct scanner s;
			json_t *got;

			scanner_init(&s, &small);
			assert_int_equal(scan(&s, texts[i], len, piece), SCAN_OK);
			got = json_loadb(s.rest.data, s.rest.len, JSON_DECODE_ANY | JSON_ALLOW_NUL,
					 NULL);
			assert_non_null(got);
			compare(&s, got, want);
			json_decref(got);
			scanner_done(&s);
		}
		json_decref(want);
	}
}

/* Long values of content_base64 arrive decoded, however the text was cut and its key written. */
static void test_base64(void **state)
{
#define KEY "{\"content_base64\":\""
	static const struct {
		const char *text;
		enum mcp_text_form form;
		const char *bytes;
	} rows[] = {
	    {KEY "MDEyMzQ1Njc4OWFiY2RlZg==\"}", MCP_TEXT_DECODED, "0123456789abcdef"},
	    {KEY "MDEyMzQ1Njc4OWFiY2Rl\"}", MCP_TEXT_DECODED, "0123456789abcde"},
	    {"{\"content\\u005fbase64\":\"MDEyMzQ1Njc4OWFiY2Rl\"}", MCP_TEXT_DECODED,
	     "0123456789abcde"},
	    {"{ \"content_base64\" : \"MDEyMzQ1\\u004ejc4OWFiY2Rl\" }", MCP_TEXT_DECODED,
	     "0123456789abcde"},
	    {KEY "Pz8\\/Pz8\\/Pz8\\/Pz8\\/Pz8\\/\"}", MCP_TEXT_DECODED,
	     "\?\?\?\?\?\?\?\?\?\?\?\?\?\?\?"},
	    {KEY "MDEyMzQ1Njc4OWFiY2RlZg=\"}", MCP_TEXT_DECODED, "0123456789abcdef"},
	    {KEY "MDEyMzQ1Njc4OWFiY2RlZg\"}", MCP_TEXT_DECODED, "0123456789abcdef"},
	    {KEY "MDEyMzQ1Njc4OWFi==2RlZg==\"}", MCP_TEXT_NOT_BASE64, NULL},
	    {KEY "MDEyMzQ1*jc4OWFiY2RlZg==\"}", MCP_TEXT_NOT_BASE64, NULL},
	    {KEY "MDEyMzQ1\\nNjc4OWFiY2RlZg==\"}", MCP_TEXT_DECODED, "0123456789abcdef"},
	    {KEY "data:;base64,MDEyMzQ1Njc4OWFiY2RlZg==\"}", MCP_TEXT_DECODED, "0123456789abcdef"},
	    {"{\"content_base6\":\"MDEyMzQ1Njc4OWFiY2Rl\"}", MCP_TEXT_AS_SENT,
	     "MDEyMzQ1Njc4OWFiY2Rl"},
	    {"{\"content_base64\":[\"MDEyMzQ1Njc4OWFiY2Rl\"]}", MCP_TEXT_AS_SENT,
	     "MDEyMzQ1Njc4OWFiY2Rl"},
	    {"{\"content_base64\":{\"a\":\"MDEyMzQ1Njc4OWFiY2Rl\"}}", MCP_TEXT_AS_SENT,
	     "MDEyMzQ1Njc4OWFiY2Rl"},
	};

	struct scan_limits limits = small;

	(void)state;
	limits.spill_min = 19; /* the longest key here */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const size_t len = strlen(rows[i].text);

		for (size_t piece = 1; piece <= len; piece++) {
			struct scanner s;
			struct mcp_text_ref ref;
			char bytes[64] = "";

			scanner_init(&s, &limits);
			assert_int_equal(scan(&s, rows[i].text, len, piece), SCAN_OK);
			json_t *root = json_loadb(s.rest.data, s.rest.len, 0, NULL);
			json_t *value = json_object_iter_value(json_object_iter(root));
			if (json_is_array(value))
				value = json_array_get(value, 0);
			if (json_is_object(value))
				value = json_object_get(value, "a");
			assert_true(spill_find(s.spill, json_string_value(value),
					       json_string_length(value), &ref));
			assert_int_equal(ref.form, rows[i].form);
			if (rows[i].bytes) {
				assert_int_equal(ref.fd_len, strlen(rows[i].bytes));
				assert_int_equal(pread(ref.fd, bytes, ref.fd_len, (off_t)ref.off),
						 ref.fd_len);
				assert_string_equal(bytes, rows[i].bytes);
			}
			if (ref.form == MCP_TEXT_AS_SENT)
				assert_int_equal(ref.len, ref.fd_len);
			json_decref(root);
			scanner_done(&s);
		}
	}
#undef KEY
}

/* Another message's placeholder, a damaged one and one out of range are ordinary strings. */
static void test_placeholders(void **state)
{
	struct mcp_text_ref ref;
	char name[SPILL_NAME_MAX];
	struct spill *a = spill_new(NULL, "");
	struct spill *b = spill_new(NULL, "");

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(spill_begin(a, false), 0);
	assert_int_equal(spill_add(a, "abc", 3), 0);
	assert_int_equal(spill_end(a, name), 0);
	assert_true(spill_find(a, name, strlen(name), &ref));
	assert_int_equal(ref.len, 3);
	assert_false(spill_find(b, name, strlen(name), &ref));
	assert_false(spill_find(NULL, name, strlen(name), &ref));
	for (size_t i = 0; i < strlen(name); i++) {
		char damaged[SPILL_NAME_MAX];

		assert_false(spill_find(a, name, i, &ref));
		memcpy(damaged, name, sizeof(damaged));
		damaged[i] ^= 1;
		assert_false(spill_find(a, damaged, strlen(name), &ref));
	}
	spill_unref(a);
	spill_unref(b);
}

/* Many unfinished messages together are bounded, and what ends makes room again. */
static void test_spill_total(void **state)
{
	static char piece[1 << 20];
	struct budgets *b = budgets_new(&(struct budgets_config){0});
	struct spill *l[3];
	size_t n = 0;
	int r = 0;

	(void)state;
	assert_non_null(b);
	budgets_set(b, BUDGET_MESSAGE_FILES, &(struct budget_bounds){.total = 64 * sizeof(piece)});
	for (; r == 0 && n < ARRAY_SIZE(l); n++) {
		l[n] = spill_new(b, "");
		assert_non_null(l[n]);
		assert_int_equal(spill_begin(l[n], false), 0);
		for (int i = 0; r == 0 && i < 32; i++)
			r = spill_add(l[n], piece, sizeof(piece));
	}
	assert_int_equal(r, -EDQUOT);
	assert_int_equal(n, ARRAY_SIZE(l));
	spill_unref(l[0]);
	assert_int_equal(spill_add(l[n - 1], piece, sizeof(piece)), 0);
	for (size_t i = 1; i < n; i++)
		spill_unref(l[i]);
	assert_int_equal(budget_used(b, BUDGET_MESSAGE_FILES), 0);
	(void)budgets_free(b);
}

static void test_no_spill(void **state)
{
	struct rlimit usual, none;
	struct scanner s;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = usual.rlim_max};
	scanner_init(&s, &small);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	const enum scan_fault fault = scan(&s, "[\"0123456789abcdefg\"]", 21, 3);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
	assert_int_equal(fault, SCAN_NO_SPILL);
	scanner_done(&s);
}

/* ---- agreement with the parser ---- */

/* The limits apart, both must accept the same texts. jansson also refuses numbers out of range. */
static void agree(const char *text, size_t len)
{
	static const struct scan_limits wide = {
	    .max_message = 4096,
	    .max_rest = 4096,
	    .spill_min = 4096,
	    .max_values = 4096,
	    .max_depth = 64,
	};
	struct scanner s;
	json_error_t e;
	enum scan_fault fault;
	json_t *parsed = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
	bool range = !parsed && (json_error_code(&e) == json_error_numeric_overflow ||
				 json_error_code(&e) == json_error_null_byte_in_key);

	scanner_init(&s, &wide);
	fault = scan(&s, text, len, len ? len : 1);
	if (!range && (fault == SCAN_OK) != (parsed != NULL))
		print_error("%.*s: scanner %u, parser %s\n", (int)len, text, fault,
			    parsed ? "takes it" : e.text);
	assert_true(range || (fault == SCAN_OK) == (parsed != NULL));
	scanner_done(&s);
	json_decref(parsed);
}

static void test_mutations(void **state)
{
	static const char *const seeds[] = {
	    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"x\":[1,-2.5e3,null]}}",
	    "[true,false,\"\\u00e9\\ud83d\\ude00\xe2\x82\xac\",{\"\":{}},0]",
	};
	static const unsigned char nasty[] = {0,   '"', '\\', '{', '}',  '[',  ']',  ',',  ':',
					      'e', '0', '-',  ' ', 0x1f, 0x80, 0xc3, 0xed, 0xff};
	char text[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
		size_t len = strlen(seeds[i]);

		for (size_t at = 0; at <= len; at++) {
			agree(seeds[i], at);
			agree(seeds[i] + at, len - at);
		}
		for (size_t at = 0; at < len; at++) {
			memcpy(text, seeds[i], len);
			for (unsigned bit = 0; bit < 8; bit++) {
				text[at] = (char)(seeds[i][at] ^ (1 << bit));
				agree(text, len);
			}
			for (size_t n = 0; n < ARRAY_SIZE(nasty); n++) {
				text[at] = (char)nasty[n];
				agree(text, len);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_grammar),
	    cmocka_unit_test(test_sizes),
	    cmocka_unit_test(test_id_of_a_refused_message),
	    cmocka_unit_test(test_lifting),
	    cmocka_unit_test(test_spill_total),
	    cmocka_unit_test(test_base64),
	    cmocka_unit_test(test_placeholders),
	    cmocka_unit_test(test_no_spill),
	    cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
