/* SPDX-License-Identifier: Apache-2.0 */
/* Small parts of the MCP library: header values, schemas, templates, revisions, the registry. */
#include "mcp/objects.h"

#include "mcp/content.h"
#include "mcp/exact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- header values ---- */

static void test_header_decode(void **state)
{
	static const struct {
		const char *in;
		const char *want; /* NULL: refused */
	} rows[] = {
	    {"", ""},
	    {"plain", "plain"},
	    {" \tplain \t", "plain"},
	    {"two words", "two words"},
	    {"=?base64?aGk=?=", "hi"},
	    {"  =?base64?aGk=?= ", "hi"},
	    {"=?base64?"
	     "?=",
	     ""},
	    {"=?base64?w6k=?=", "\xc3\xa9"},
	    /* no sentinel, so literal */
	    {"=?base64?aGk=", "=?base64?aGk="},
	    {"?base64?aGk=?=", "?base64?aGk=?="},
	    {"=?BASE64?aGk=?=", "=?BASE64?aGk=?="},
	    {"=?utf-8?aGk=?=", "=?utf-8?aGk=?="},
	    {"x=?base64?aGk=?=", "x=?base64?aGk=?="},
	    {"=?base64?=", "=?base64?="},
	    /* a sentinel with something wrong inside */
	    {"=?base64?aGk?=", NULL},
	    {"=?base64?aGk==?=", NULL},
	    {"=?base64?a Gk=?=", NULL},
	    {"=?base64?aGk-?=", NULL},
	    {"=?base64?a?=", NULL},
	    {"=?base64?/w==?=", NULL}, /* not UTF-8 */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *out = NULL;
		size_t len = 0;
		int r = header_decode(rows[i].in, &out, &len);

		if ((r == 0) != (rows[i].want != NULL))
			print_error("%s\n", rows[i].in);
		assert_int_equal(r == 0, rows[i].want != NULL);
		if (r == 0) {
			assert_int_equal(len, strlen(rows[i].want));
			assert_string_equal(out, rows[i].want);
		}
		free(out);
	}
}

/* ---- schemas ---- */

static void test_schema(void **state)
{
	static const struct {
		const char *schema;
		const char *value;
		const char *fault; /* part of the message; NULL: it fits */
	} rows[] = {
	    {"{}", "1", NULL},
	    {"true", "1", NULL},
	    {"false", "1", "not allowed"},
	    {"{\"type\":\"object\"}", "{}", NULL},
	    {"{\"type\":\"object\"}", "[]", "type object"},
	    {"{\"type\":\"string\"}", "\"\"", NULL},
	    {"{\"type\":\"string\"}", "null", "type string"},
	    {"{\"type\":[\"string\",\"null\"]}", "null", NULL},
	    {"{\"type\":[\"string\",\"null\"]}", "1", "none of the allowed types"},
	    {"{\"type\":\"integer\"}", "1", NULL},
	    {"{\"type\":\"integer\"}", "1.0", NULL},
	    {"{\"type\":\"integer\"}", "1.5", "type integer"},
	    {"{\"type\":\"integer\"}", "1e300", "type integer"},
	    {"{\"type\":\"number\"}", "1", NULL},
	    {"{\"type\":\"number\"}", "true", "type number"},
	    {"{\"type\":\"boolean\"}", "false", NULL},
	    {"{\"enum\":[1,\"a\"]}", "\"a\"", NULL},
	    {"{\"enum\":[1,\"a\"]}", "\"b\"", "one of [1,\"a\"]"},
	    {"{\"const\":{\"a\":1}}", "{\"a\":1}", NULL},
	    {"{\"const\":{\"a\":1}}", "{\"a\":2}", "allowed value"},
	    {"{\"minimum\":1,\"maximum\":3}", "1", NULL},
	    {"{\"minimum\":1,\"maximum\":3}", "0", "at least 1"},
	    {"{\"minimum\":1,\"maximum\":3}", "3.5", "at most 3"},
	    {"{\"exclusiveMinimum\":1}", "1", "greater than 1"},
	    {"{\"exclusiveMaximum\":1}", "1", "less than 1"},
	    {"{\"minLength\":2,\"maxLength\":2}", "\"\xc3\xa9\xc3\xa9\"", NULL},
	    {"{\"minLength\":2}", "\"\xc3\xa9\"", "at least 2 characters"},
	    {"{\"maxLength\":2}", "\"abc\"", "at most 2 characters"},
	    {"{\"minItems\":1}", "[]", "at least 1 items"},
	    {"{\"maxItems\":1}", "[1,2]", "at most 1 items"},
	    {"{\"items\":{\"type\":\"string\"}}", "[\"a\",1]", "[1]: must be of type string"},
	    {"{\"required\":[\"a\"]}", "{\"a\":null}", NULL},
	    {"{\"required\":[\"a\"]}", "{}", "'a' is required"},
	    {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":1}", "a: must be"},
	    {"{\"properties\":{\"a\":{}}}", "{\"b\":1}", NULL},
	    {"{\"properties\":{\"a\":{}},\"additionalProperties\":false}", "{\"b\":1}",
	     "'b' is not an argument"},
	    {"{\"additionalProperties\":{\"type\":\"string\"}}", "{\"b\":1}", "b: must be"},
	    {"{\"properties\":{\"a\":{\"items\":{\"properties\":{\"b\":{\"type\":\"null\"}}}}}}",
	     "{\"a\":[{},{\"b\":1}]}", "a[1].b: must be of type null"},
	    /* what is not understood is not refused */
	    {"{\"$ref\":\"#/x\",\"allOf\":[{\"type\":\"null\"}],\"pattern\":\"^x\"}", "1", NULL},
	    {"{\"type\":5,\"enum\":5,\"minimum\":\"x\",\"required\":5}", "{}", NULL},
	};
	struct mcp_call call = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *schema = json_loads(rows[i].schema, JSON_DECODE_ANY, NULL);
		json_t *value = json_loads(rows[i].value, JSON_DECODE_ANY, NULL);
		struct err e = ERR_INIT;
		int r = schema_check(&call, schema, value, &e);

		if ((r < 0) != (rows[i].fault != NULL) || (r < 0 && !strstr(e.text, rows[i].fault)))
			print_error("%s for %s: %s\n", rows[i].schema, rows[i].value, e.text);
		assert_int_equal(r < 0, rows[i].fault != NULL);
		if (r < 0)
			assert_non_null(strstr(e.text, rows[i].fault));
		json_decref(schema);
		json_decref(value);
	}
}

/* ---- templates and versions ---- */

static void test_templates(void **state)
{
	static const struct {
		const char *tmpl;
		const char *uri;
		bool want;
	} rows[] = {
	    {"x://a", "x://a", true},
	    {"x://a", "x://ab", false},
	    {"x://{id}", "x://1", true},
	    {"x://{id}", "x://", false},
	    {"x://{id}", "x://1/2", false},
	    {"x://{id}/d", "x://1/d", true},
	    {"x://{id}/d", "x://1/e", false},
	    {"x://{id}/d", "x:///d", false},
	    {"x://{+p}", "x://1/2", true},
	    {"x://{+p}", "x://", false},
	    {"x://{id}/{+p}", "x://1/2/3", true},
	    {"x://{id}/{+p}", "x://1/", false},
	    {"x://{a}.{b}", "x://1.2", true},
	    {"x://{a}.{b}", "x://1.2.3", true},
	    {"x://{a", "x://1", false},
	    {"", "", true},
	    {"{a}{b}", "xy", true},
	    {"{a}{b}", "x", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (template_matches(rows[i].tmpl, rows[i].uri) != rows[i].want)
			print_error("%s %s\n", rows[i].tmpl, rows[i].uri);
		assert_int_equal(template_matches(rows[i].tmpl, rows[i].uri), rows[i].want);
	}
}

static void test_revisions(void **state)
{
	static const struct {
		const char *header;
		enum version_claim want;
	} rows[] = {
	    {NULL, VERSION_ABSENT},          {"2024-11-05", VERSION_LEGACY},
	    {"2025-11-25", VERSION_LEGACY},  {"2026-07-28", VERSION_MODERN},
	    {"2031-01-01", VERSION_MODERN},  {"2026-07-27", VERSION_UNKNOWN},
	    {"2025-11-26", VERSION_UNKNOWN}, {"v999.0.0", VERSION_UNKNOWN},
	    {"", VERSION_UNKNOWN},           {"2026-07-28x", VERSION_UNKNOWN},
	    {"DRAFT-2026", VERSION_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(
		    version_classify(rows[i].header, rows[i].header ? strlen(rows[i].header) : 0),
		    rows[i].want);
	assert_true(mcp_version_is_modern(" 2026-07-28 "));
	assert_false(mcp_version_is_modern("2025-11-25"));
	assert_false(mcp_version_is_modern(NULL));
}

/* ---- the registry ---- */

static void nothing(struct mcp_call *call, json_t *arguments, void *user)
{
	(void)call;
	(void)arguments;
	(void)user;
}

static void test_bad_tools(void **state)
{
	static const char *const names[] = {"", "two words", "a/b", "\xc3\xa9"};
	static const char *const schemas[] = {
	    "{",
	    "[]",
	    "{}",
	    "{\"type\":\"array\"}",
	    "{\"type\":\"object\"}x",
	    "{\"type\":\"object\",\"type\":\"object\"}",
	    /* x-mcp-header */
	    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\","
	    "\"x-mcp-header\":\"A\"}}}",
	    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\","
	    "\"x-mcp-header\":\"\"}}}",
	    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\","
	    "\"x-mcp-header\":\"A B\"}}}",
	    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":"
	    "\"A\"},\"b\":{\"type\":\"string\",\"x-mcp-header\":\"a\"}}}",
	};
	const struct mcp_server_config config = {.name = "t", .version = "1"};
	struct mcp_server *s;
	struct err e = ERR_INIT;

	(void)state;
	s = mcp_server_new(&config, &e);
	assert_non_null(s);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct mcp_tool tool = {.name = names[i], .call = nothing};

		assert_int_equal(mcp_server_add_tool(s, &tool, &e), -EINVAL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(schemas); i++) {
		const struct mcp_tool tool = {
		    .name = "t", .input_schema = schemas[i], .call = nothing};

		assert_int_equal(mcp_server_add_tool(s, &tool, &e), -EINVAL);
		assert_non_null(strstr(e.text, "tool 't'"));
	}
	assert_int_equal(mcp_server_remove_tool(s, "t"), -ENOENT);
	mcp_server_free(s);
}

/* ---- content ---- */

static void test_content(void **state)
{
	json_t *v;
	char *text;

	(void)state;
	/* What is not UTF-8 is nothing, and nothing makes nothing. */
	assert_null(mcp_text("\xff", 1));
	assert_null(mcp_tool_result(mcp_blocks(2, mcp_textf("a"), mcp_text("\xff", 1)),
				    json_object(), true));
	v = mcp_tool_result(mcp_blocks(2, mcp_textf("%d", 5), mcp_text("u", 1)), NULL, true);
	text = json_dumps(v, JSON_COMPACT);
	assert_string_equal(text, "{\"content\":[{\"type\":\"text\",\"text\":\"5\"},{\"type\":"
				  "\"text\",\"text\":\"u\"}],\"isError\":true}");
	free(text);
	json_decref(v);
	v = json_array();
	for (unsigned i = 0; i < 150; i++)
		json_array_append_new(v, json_string("x"));
	v = mcp_completion_result(v, 150, false);
	assert_int_equal(
	    json_array_size(json_object_get(json_object_get(v, "completion"), "values")), 100);
	assert_true(json_is_true(json_object_get(json_object_get(v, "completion"), "hasMore")));
	json_decref(v);
}

/* ---- numbers as they were written ---- */

static void test_exact(void **state)
{
	static const char *const hidden[] = {
	    "{\"id\":1.0}",
	    "{\"id\":-0}",
	    "{\"id\":1e999,\"method\":\"a\"}",
	    "{\"id\":18446744073709551615}",
	    "{\"a\":[\"]\\\"\"],\"id\":1.50,\"b\":\"\\\\\"}",
	    "{\"params\":{\"requestId\":0.1}}",
	    "{\"params\":{\"_meta\":{\"a\":1,\"progressToken\":-1E+2}},\"id\":2.0}",
	    "[{\"id\":1.0},7,{\"id\":99999999999999999999}]",
	};
	static const char *const same[] = {
	    "",
	    "1.0",
	    "[1.0]",
	    "{\"id\":\"1.0\"}",
	    "{\"id\":-12}",
	    "{\"id\":[1.0]}",
	    "{\"a\":1.0,\"requestId\":1.0,\"progressToken\":1.0}",
	    "{\"params\":{\"id\":1.0,\"progressToken\":1.0,\"a\":{\"id\":1.0}}}",
	    "{\"params\":[{\"requestId\":1.0}],\"_meta\":{\"progressToken\":1.0}}",
	    "{\"params\":{\"_meta\":[1.0,{\"progressToken\":1.0}]}}",
	};
	struct buf b = BUF_INIT(4096);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		buf_reset(&b);
		assert_int_equal(exact_hide(hidden[i], strlen(hidden[i]), &b), 0);
		assert_string_not_equal(buf_str(&b), hidden[i]);
		exact_restore(&b, 0);
		assert_string_equal(buf_str(&b), hidden[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		buf_reset(&b);
		assert_int_equal(exact_hide(same[i], strlen(same[i]), &b), 0);
		assert_string_equal(buf_str(&b), same[i]);
	}
	buf_done(&b);
	json_t *v = exact_number("1.0", 3);
	assert_true(exact_is(v));
	json_decref(v);
	v = json_string("number:1.0");
	assert_false(exact_is(v) || exact_is(NULL) || exact_number("12", 2) ||
		     exact_number("\"1.0\"", 5));
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_header_decode), cmocka_unit_test(test_schema),
	    cmocka_unit_test(test_templates),     cmocka_unit_test(test_revisions),
	    cmocka_unit_test(test_bad_tools),     cmocka_unit_test(test_content),
	    cmocka_unit_test(test_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
