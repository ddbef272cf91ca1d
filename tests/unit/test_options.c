/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a sandbox: what is accepted, what is refused with which words, and that no text but the
 * record has a value of the environment. */
#include "base/jsonio.h"
#include "base/text.h"
#include "sandbox/sandbox_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

static json_t *json_of(const char *text)
{
	json_t *object = NULL;

	assert_int_equal(jsonio_read(text, strlen(text), JSON_ALLOW_NUL, &object, NULL), 0);
	return object;
}

static int read_text(const char *text, bool change, struct sandbox_options *ret, struct err *e)
{
	json_t *object = json_of(text);
	const int r = sandbox_options_read(object, change, ret, e);

	json_decref(object);
	return r;
}

/* ---- what is refused ---- */

static const struct {
	const char *text;
	const char *member;
	const char *says; /* a part of the error's text */
	bool change;
} refused[] = {
    {"{\"memory_mb\":5}", "memory_mb", "from 6 to"},
    {"{\"memory_mb\":16777217}", "memory_mb", "16777216"},
    {"{\"memory_mb\":9223372036854775807}", "memory_mb", ""},
    {"{\"memory_mb\":-1}", "memory_mb", ""},
    {"{\"memory_mb\":512.5}", "memory_mb", "whole number"},
    {"{\"memory_mb\":\"512m\"}", "memory_mb", ""},
    {"{\"memory_mb\":true}", "memory_mb", ""},
    {"{\"cpus\":0}", "cpus", "from 0.01 to 1024"},
    {"{\"cpus\":1e300}", "cpus", ""},
    {"{\"cpus\":-1e300}", "cpus", ""},
    {"{\"processes\":3}", "processes", "from 4"},
    {"{\"disk_mb\":0}", "disk_mb", ""},
    {"{\"timeout_s\":0}", "timeout_s", "from 1 to 604800"},
    {"{\"timeout_s\":604801}", "timeout_s", ""},
    {"{\"ttl_s\":0}", "ttl_s", ""},
    {"{\"root\":1}", "root", "true or false"},
    {"{\"root\":true}", "root", "cannot be changed", true},
    {"{\"image\":\"../science\"}", "image", "name of an image"},
    {"{\"image\":\"\"}", "image", ""},
    {"{\"public\":1}", "public", "true or false"},
    {"{\"public\":\"true\"}", "public", "true or false"},
    {"{\"name\":7}", "name", "text of 0 to 200 bytes"},
    {"{\"name\":\"a\\u0000b\"}", "name", ""},
    {"{\"workdir\":\"/mnt/data/a\\nb\"}", "workdir", "control"},
    {"{\"workdir\":\"/etc\"}", "workdir", "/mnt/data"},
    {"{\"workdir\":\"/mnt/data/../../etc\"}", "workdir", "'..'"},
    {"{\"workdir\":\"//mnt/data\"}", "workdir", ""},
    {"{\"workdir\":\"/\"}", "workdir", ""},
    {"{\"labels\":[]}", "labels", "object"},
    {"{\"labels\":{\"a b\":\"x\"}}", "labels", "letters"},
    {"{\"labels\":{\"-a\":\"x\"}}", "labels", "begins"},
    {"{\"labels\":{\"a\":1}}", "labels", "text"},
    {"{\"labels\":{\"a\":null}}", "labels", "text"},
    {"{\"labels\":{\"a\":\"x\\u001b[1m\"}}", "labels", "control"},
    {"{\"env\":\"A=1\"}", "env", "object"},
    {"{\"env\":{\"\":\"hidden\"}}", "env", "letters"},
    {"{\"env\":{\"A=B\":\"hidden\"}}", "env", "letters"},
    {"{\"env\":{\"1A\":\"hidden\"}}", "env", "no digit first"},
    {"{\"env\":{\"\\u00c4\":\"hidden\"}}", "env", "letters"},
    {"{\"env\":{\"A\":\"hid\\u0000den\"}}", "env", "value of A"},
    {"{\"env\":{\"A\":5}}", "env", "value of A"},
    {"{\"env\":{\"A\":null}}", "env", "value of A"},
    {"{\"env\":{\"PATH\":\"hidden\"}}", "env", "PATH cannot be set"},
    {"{\"env\":{\"LD_PRELOAD\":\"hidden\"}}", "env", "loaded"},
    {"{\"env\":{\"LD_ANY\":\"hidden\"}}", "env", "loaded"},
    {"{\"env\":{\"PYTHONHOME\":\"hidden\"}}", "env", "Python"},
    {"{\"env\":{\"https_proxy\":\"hidden\"}}", "env", "network"},
    {"{\"env\":{\"CAISSON_X\":\"hidden\"}}", "env", "own"},
    {"{\"image\":\"science\"}", "image", "Make a new sandbox", true},
    {"{\"level\":\"strict\"}", "level", "Make a new sandbox", true},
    {"{\"level\":\"\"}", "level", ""},
    {"{\"level\":7}", "level", "text"},
    {"{\"level\":\"a23456789012345678901234567890123\"}", "level", "32"},
    {"{\"ttl_s\":null}", "ttl_s", "", true},
};

static void test_a_limit_that_stays(void **state UNUSED)
{
	struct sandbox_options o = {0};
	struct err e = ERR_INIT;

	assert_true(read_text("{\"disk_mb\":512}", true, &o, &e) < 0);
	assert_int_equal(e.code, ERR_LIMIT_NOT_CHANGEABLE);
	assert_string_equal(e.member, "disk_mb");
	assert_int_equal(read_text("{\"memory_mb\":512,\"cpus\":1,\"processes\":9}", true, &o, &e),
			 0);
	sandbox_options_done(&o);
}

static void test_refused(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct sandbox_options o = {0};
		struct err e = ERR_INIT;

		if (read_text(refused[i].text, refused[i].change, &o, &e) >= 0)
			fail_msg("%s is accepted", refused[i].text);
		assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
		assert_string_equal(e.member, refused[i].member);
		if (!strstr(e.text, refused[i].says) || !strstr(e.text, refused[i].member) ||
		    strstr(e.text, "hidden"))
			fail_msg("%s: %s", refused[i].text, e.text);
		assert_int_equal(o.given, 0);
	}
}

/* A body of N variables with values of SIZE bytes. */
static char *many(size_t n, size_t size)
{
	char *value = malloc(size + 1);
	struct buf b = BUF_INIT(8u << 20);

	assert_non_null(value);
	memset(value, 'v', size);
	value[size] = '\0';
	assert_int_equal(buf_add_str(&b, "{\"env\":{"), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_printf(&b, "%s\"V%zu\":\"%s\"", i ? "," : "", i, value), 0);
	assert_int_equal(buf_add_str(&b, "}}"), 0);
	free(value);
	return buf_take(&b);
}

static void test_env_limits(void **state UNUSED)
{
	static const struct {
		size_t n, size;
		bool good;
	} rows[] = {{64, 0, true},    {65, 0, false},    {1, 16384, true}, {1, 16385, false},
		    {3, 16000, true}, {3, 16384, false}, {64, 700, true},  {64, 800, false}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *text = many(rows[i].n, rows[i].size);
		struct sandbox_options o = {0};
		struct err e = ERR_INIT;
		const int r = read_text(text, false, &o, &e);

		if ((r == 0) != rows[i].good)
			fail_msg("%zu variables of %zu bytes", rows[i].n, rows[i].size);
		assert_null(strstr(e.text, "vvv"));
		sandbox_options_done(&o);
		free(text);
	}
}

/* ---- what is accepted ---- */

#define GOOD                                                                                       \
	"{\"name\":\"My \\u00fc\",\"labels\":{\"team/x\":\"a\",\"b\":\"\"},\"image\":\"science\"," \
	"\"level\":\"strict\",\"root\":true,"                                                      \
	"\"memory_mb\":1024,\"cpus\":0.25,\"processes\":64,\"disk_mb\":100,\"timeout_s\":5,"       \
	"\"ttl_s\":60,\"env\":{\"TOKEN\":\"se=cret\\n2\",\"EMPTY\":\"\"},\"workdir\":\"proj//x/"   \
	"\","                                                                                      \
	"\"public\":true,\"kind\":\"session\"}"

static void test_read(void **state UNUSED)
{
	struct sandbox_options o = {0};
	struct err e = ERR_INIT;

	assert_int_equal(read_text(GOOD, false, &o, &e), 0);
	assert_int_equal(o.given, (1u << SANDBOX_OPTION_MAX_) - 1);
	assert_int_equal(o.number[SANDBOX_OPTION_MEMORY], 1024);
	assert_int_equal(o.number[SANDBOX_OPTION_CPUS], 250);
	assert_int_equal(o.number[SANDBOX_OPTION_ROOT], 1);
	assert_string_equal(o.workdir, "/mnt/data/proj/x");
	assert_int_equal(o.env.n, 2);
	assert_string_equal(o.env.list[0], "TOKEN=se=cret\n2");
	assert_null(o.env.list[2]);
	json_t *shown = sandbox_options_json(&o);
	size_t len;
	char *text = jsonio_text(shown, JSON_COMPACT | JSON_SORT_KEYS, &len);
	assert_non_null(text);
	assert_non_null(strstr(text, "\"env\":[\"TOKEN\",\"EMPTY\"]"));
	assert_non_null(strstr(text, "\"root\":true"));
	assert_null(strstr(text, "cret"));
	free(text);
	json_decref(shown);
	sandbox_options_done(&o);
	assert_int_equal(o.given, 0);
	assert_int_equal(read_text("{\"workdir\":\"/mnt/data//\"}", false, &o, &e), 0);
	assert_string_equal(o.workdir, "/mnt/data");
	sandbox_options_done(&o);
	/* null is the same as leaving it out */
	assert_int_equal(read_text("{\"memory_mb\":null,\"env\":null}", false, &o, &e), 0);
	assert_int_equal(o.given, 0);
}

static void test_merge(void **state UNUSED)
{
	struct sandbox_options o = {0}, change = {0};
	struct err e = ERR_INIT;

	assert_int_equal(read_text(GOOD, false, &o, &e), 0);
	assert_int_equal(
	    read_text("{\"name\":\"new\",\"ttl_s\":9,\"labels\":{\"b\":null,\"c\":\"d\"},"
		      "\"env\":{\"EMPTY\":null,\"TOKEN\":\"two\",\"NONE\":null}}",
		      true, &change, &e),
	    0);
	assert_int_equal(sandbox_options_merge(&o, &change, &e), 0);
	assert_string_equal(o.name, "new");
	assert_int_equal(o.number[SANDBOX_OPTION_TTL], 9);
	assert_int_equal(o.number[SANDBOX_OPTION_TIMEOUT], 5);
	assert_int_equal(o.env.n, 1);
	assert_string_equal(o.env.list[0], "TOKEN=two");
	assert_int_equal(o.labels.n, 2);
	assert_string_equal(o.labels.list[1], "c=d");
	sandbox_options_done(&change);
	/* too many afterwards: nothing has changed */
	char *text = many(64, 1);
	assert_int_equal(read_text(text, true, &change, &e), 0);
	free(text);
	assert_true(sandbox_options_merge(&o, &change, &e) < 0);
	assert_string_equal(e.member, "env");
	assert_int_equal(o.env.n, 1);
	sandbox_options_done(&change);
	sandbox_options_done(&o);
}

static void test_record(void **state UNUSED)
{
	struct buf text = BUF_INIT(SANDBOX_OPTIONS_TEXT_MAX), env = BUF_INIT(1u << 20);
	struct sandbox_options o = {0}, back = {0};
	struct err e = ERR_INIT;

	assert_int_equal(read_text(GOOD, false, &o, &e), 0);
	assert_int_equal(sandbox_options_text(&o, &text, &env), 0);
	assert_null(strstr(buf_str(&text), "TOKEN"));
	assert_int_equal(sandbox_options_parse(buf_str(&text), buf_str(&env), &back), 0);
	/* name and image have columns of their own */
	assert_int_equal(back.given,
			 o.given & ~(1u << SANDBOX_OPTION_NAME | 1u << SANDBOX_OPTION_IMAGE));
	assert_memory_equal(back.number, o.number, sizeof(o.number));
	assert_string_equal(back.workdir, o.workdir);
	assert_string_equal(back.level, "strict");
	assert_string_equal(back.env.list[0], o.env.list[0]);
	assert_string_equal(back.labels.list[0], o.labels.list[0]);
	sandbox_options_done(&back);
	sandbox_options_done(&o);
	/* A record of another version, or a damaged one: what is valid is taken. */
	assert_int_equal(sandbox_options_parse("{\"ttl_s\":9,\"cpus\":\"x\",\"later\":1}",
					       "{\"A\":\"1\"}", &back),
			 0);
	assert_int_equal(back.number[SANDBOX_OPTION_TTL], 9);
	assert_false(sandbox_option_given(&back, SANDBOX_OPTION_CPUS));
	assert_int_equal(back.env.n, 1);
	sandbox_options_done(&back);
	assert_int_equal(sandbox_options_parse("", "", &back), 0);
	assert_int_equal(back.given, 0);
	assert_true(sandbox_options_parse("{", "", &back) < 0);
	buf_done(&text);
	buf_done(&env);
}

/* The longest labels and folder fit into the record. */
static void test_longest_record(void **state UNUSED)
{
	struct buf b = BUF_INIT(1u << 20), text = BUF_INIT(SANDBOX_OPTIONS_TEXT_MAX - 1);
	struct buf env = BUF_INIT(1);
	struct sandbox_options o = {0};
	struct err e = ERR_INIT;
	char name[SANDBOX_LABEL_NAME_MAX + 1];

	assert_int_equal(buf_add_str(&b, "{\"workdir\":\""), 0);
	for (int i = 0; i < SANDBOX_WORKDIR_MAX - 10; i++)
		assert_int_equal(buf_add_str(&b, "\\\""), 0);
	assert_int_equal(buf_add_str(&b, "\",\"labels\":{"), 0);
	for (int i = 0; i < SANDBOX_LABELS_MAX; i++) {
		memset(name, 'a' + i, sizeof(name) - 1);
		name[sizeof(name) - 1] = '\0';
		assert_int_equal(buf_printf(&b, "%s\"%s\":\"", i ? "," : "", name), 0);
		for (int k = 0; k < SANDBOX_LABEL_VALUE_MAX; k++)
			assert_int_equal(buf_add_str(&b, "\\\\"), 0);
		assert_int_equal(buf_add_str(&b, "\""), 0);
	}
	assert_int_equal(buf_add_str(&b, "}}"), 0);
	assert_int_equal(read_text(buf_str(&b), false, &o, &e), 0);
	assert_int_equal(sandbox_options_text(&o, &text, &env), 0);
	sandbox_options_done(&o);
	buf_done(&b);
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_limit_that_stays),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_env_limits),
	    cmocka_unit_test(test_read),
	    cmocka_unit_test(test_merge),
	    cmocka_unit_test(test_record),
	    cmocka_unit_test(test_longest_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
