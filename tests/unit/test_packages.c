/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked for, what an index may answer, and the cache of wheels. The installation itself
 * is tested with a server: tests/integration/packages.test.ts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fdio.h"
#include "base/text.h"
#include "packages/cache.h"
#include "packages/install_plan.h"
#include "packages/packages.h"
#include "packages/spec.h"
#include "packages/url.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what may be asked for ---- */

static void test_good_specs(void **state)
{
	static const struct {
		const char *text;
		const char *items; /* joined by '|' */
	} rows[] = {
	    {"requests", "requests"},
	    {"  requests\n", "requests"},
	    {"requests pandas", "requests|pandas"},
	    {"requests, pandas", "requests|pandas"},
	    {"requests>=2,<3", "requests>=2,<3"},
	    {"requests >= 2.0 , < 3 pandas==2.*", "requests>=2.0,<3|pandas==2.*"},
	    {"requests>=2, pandas", "requests>=2|pandas"},
	    {"fastapi[all]", "fastapi[all]"},
	    {"uvicorn[standard , watch]~=0.30", "uvicorn[standard,watch]~=0.30"},
	    {"a===1.0+local.1", "a===1.0+local.1"},
	    {"a!=1!2.0rc1", "a!=1!2.0rc1"},
	    {"zope.interface ruamel_yaml x-y", "zope.interface|ruamel_yaml|x-y"},
	    {"# first\nrequests # why\n\npandas\r\n", "requests|pandas"},
	    {"tomli; python_version < '3.11'\nrich", "tomli; python_version < '3.11'|rich"},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct spec spec;
		struct err e = ERR_INIT;
		_cleanup_(buf_done) struct buf got = BUF_INIT(4096);

		if (spec_parse(rows[i].text, strlen(rows[i].text), &spec, &e) < 0)
			fail_msg("'%s': %s", rows[i].text, e.text);
		for (size_t k = 0; k < spec.n; k++)
			assert_int_equal(buf_printf(&got, "%s%s", k ? "|" : "", spec.items[k].text),
					 0);
		assert_string_equal(buf_str(&got), rows[i].items);
	}
}

/* Nothing of this may become an argument of pip. */
static void test_bad_specs(void **state)
{
	static const char *const rows[] = {
	    "",
	    "   ",
	    "# nothing",
	    "-r",
	    "--index-url=http://evil",
	    "-e .",
	    "requests --pre",
	    "requests -i http://evil",
	    "requests --extra-index-url http://evil",
	    "./x",
	    "../x",
	    "/x",
	    "a/b",
	    "a\\b",
	    "http://evil/x.whl",
	    "git+https://evil/x",
	    "x @ http://evil/x.whl",
	    "x@http://evil",
	    "file:///etc/passwd",
	    "x.whl",
	    "x-1.0.tar.gz",
	    "x.ZIP",
	    "x;",
	    "x[",
	    "x[]",
	    "x[a",
	    "x[-a]",
	    "x==",
	    "x=1",
	    "x==1;2;$(id)",
	    "x;python_version<'3'`id`",
	    "x$(id)",
	    "x|y",
	    "x&y",
	    "x'",
	    "\"x\"",
	    "x==1 --hash=sha256:00",
	    "caf\xc3\xa9",
	    "_x",
	    "x_",
	    ".x",
	    "x==-1",
	    "x>=1,<2,-r",
	    "x\x01",
	    "x==1.0\xc2\xa0",
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = ERR_INIT;
		if (packages_check_spec(rows[i], strlen(rows[i]), &e) == 0)
			fail_msg("'%s' was taken", rows[i]);
	}
	struct err e = ERR_INIT;
	assert_true(packages_check_spec("x\0y", 3, &e) < 0);
	_cleanup_(buf_done) struct buf many = BUF_INIT(8192);
	for (int i = 0; i <= PACKAGES_NAMES_MAX; i++)
		assert_int_equal(buf_printf(&many, "p%d ", i), 0);
	assert_true(packages_check_spec(many.data, many.len, &e) < 0);
}

static void test_canonical(void **state)
{
	char name[SPEC_NAME_MAX + 1];
	(void)state;

	spec_canonical("Foo._-Bar__baz", name);
	assert_string_equal(name, "foo-bar-baz");
	assert_true(spec_is_word("1.0+local"));
	assert_false(spec_is_word("../x"));
	assert_false(spec_is_word(""));
	assert_false(spec_is_word("-r"));
}

/* ---- indexes and their answers ---- */

static void test_urls(void **state)
{
	static const char *const bad[] = {"",
					  "pypi.org",
					  "ftp://x/",
					  "https://",
					  "https://x:0/",
					  "https://x y/",
					  "https://x/#a",
					  "https://x:99999/",
					  "https://[::1/",
					  "file:///x"};
	struct url url;
	struct err e = ERR_INIT;
	char name[256];
	(void)state;

	assert_int_equal(url_parse("https://pypi.org/simple", &url, &e), 0);
	assert_true(url.https && url.port == 443 && streq(url.host, "pypi.org"));
	assert_int_equal(url_parse("http://user:p%40ss@127.0.0.1:3141/root/pypi/", &url, &e), 0);
	assert_true(!url.https && url.port == 3141 && streq(url.host, "127.0.0.1"));
	assert_int_equal(url_parse("http://[::1]:80", &url, &e), 0);
	assert_true(url.port == 80 && streq(url.host, "::1"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (url_parse(bad[i], &url, &e) == 0)
			fail_msg("'%s' was taken", bad[i]);
	assert_true(url_wheel_name("https://x/a/b-1%2Bl-py3-none-any.whl?x#y", name));
	assert_string_equal(name, "b-1+l-py3-none-any.whl");
	assert_false(url_wheel_name("https://x/..%2Fb.whl", name));
	assert_false(url_wheel_name("https://x/%2e.whl%00", name));
	assert_false(url_wheel_name("https://x/.whl", name));
	assert_false(url_wheel_name("https://x/-rf.whl", name));
	assert_false(url_wheel_name("https://x/b.tar.gz", name));
}

static int parse(const char *text, bool sources, struct plan *ret)
{
	json_t *rows = json_loads(text, 0, NULL);
	int r = plan_parse(rows, sources, ret);

	assert_non_null(rows);
	json_decref(rows);
	return r;
}

#define HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ROW(name, version, url, hash)                                                              \
	"[{\"name\":\"" name "\",\"version\":\"" version "\",\"url\":\"" url                       \
	"\",\"sha256\":\"" hash "\",\"requested\":true}]"

static void test_plans(void **state)
{
	static const char *const bad[] = {"{}",
					  "[1]",
					  "[{}]",
					  ROW("../x", "1", "https://x/x.whl", HEX),
					  ROW("x", "1 2", "https://x/x.whl", HEX),
					  ROW("x", "1", "https://x/x.whl", "abc"),
					  ROW("x", "1", "https://x/x.tar.gz", HEX),
					  ROW("x", "1", "https://x/..%2fx.whl", HEX),
					  ROW("x", "1", "https://x/x.whl#sha256=0", HEX),
					  ROW("x", "1", "https://x/ x.whl", HEX)};
	struct plan plan = {0};
	struct plan again = {0};
	(void)state;

	assert_int_equal(parse("[]", false, &plan), 0);
	plan_done(&plan);
	assert_int_equal(
	    parse(ROW("x", "1.0", "https://x/x-1.0-py3-none-any.whl", HEX), false, &plan), 0);
	assert_int_equal(plan.n, 1);
	assert_string_equal(plan.wheels[0].file, "x-1.0-py3-none-any.whl");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (parse(bad[i], false, &again) == 0)
			fail_msg("%s was taken", bad[i]);

	struct plans *plans = plans_new(UINT64_MAX);
	assert_non_null(plans);
	assert_int_equal(plans_find(plans, HEX, &again), -ENOENT);
	plans_keep(plans, HEX, &plan);
	assert_int_equal(plans_find(plans, HEX, &again), 0);
	assert_int_equal(again.n, 1);
	assert_int_equal(again.wheels[0].fd, -1);
	plan_done(&again);
	plans_forget(plans, HEX);
	assert_int_equal(plans_find(plans, HEX, &again), -ENOENT);
	(void)plans_free(plans);
	plan_done(&plan);
}

/* ---- the cache ---- */

static void hex_of(int n, char ret[SHA256_HEX])
{
	(void)snprintf(ret, SHA256_HEX, "%064x", (unsigned)n);
}

static void keep(struct cache *cache, int n, size_t bytes)
{
	char hex[SHA256_HEX];
	static char data[4096];
	_cleanup_fd_ int fd = cache_begin(cache);

	assert_true(fd >= 0 && bytes <= sizeof(data));
	assert_int_equal(fd_write_all(fd, data, bytes), 0);
	hex_of(n, hex);
	cache_keep(cache, fd, hex, bytes);
}

static bool has(struct cache *cache, int n)
{
	char hex[SHA256_HEX];
	_cleanup_fd_ int fd = -1;

	hex_of(n, hex);
	fd = cache_open(cache, hex);
	return fd >= 0;
}

static void test_cache(void **state)
{
	char dir[] = "/tmp/caisson-cache-XXXXXX";
	struct cache *cache;
	(void)state;

	assert_non_null(mkdtemp(dir));
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	cache = cache_new(fd, 10000);
	assert_non_null(cache);
	keep(cache, 1, 4000);
	keep(cache, 2, 4000);
	assert_true(has(cache, 2) && has(cache, 1));
	static const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	char old[SHA256_HEX];
	hex_of(2, old);
	assert_int_equal(utimensat(fd, old, long_ago, 0), 0);
	keep(cache, 3, 4000);
	assert_true(has(cache, 1) && has(cache, 3));
	assert_false(has(cache, 2));
	assert_int_equal(cache_open(cache, "../../etc/passwd"), -1);
	assert_int_equal(cache_open(cache, ""), -1);
	char hex[SHA256_HEX];
	hex_of(1, hex);
	cache_drop(cache, hex);
	assert_false(has(cache, 1));
	hex_of(3, hex);
	cache_drop(cache, hex);
	(void)cache_free(cache);
	assert_int_equal(rmdir(dir), 0);

	cache = cache_new(-1, 0);
	assert_non_null(cache);
	keep(cache, 1, 10);
	assert_false(has(cache, 1));
	(void)cache_free(cache);
}

/* ---- what sandboxes are told of the index ---- */

static void test_inside(void **state)
{
	static const struct {
		const char *url;
		bool own_ca;
		const char *env; /* joined by '|'; NULL: nothing */
		uint16_t port;
	} rows[] = {
	    {"https://pypi.org/simple", false,
	     "PIP_INDEX_URL=https://pypi.org/simple|UV_DEFAULT_INDEX=https://pypi.org/simple", 443},
	    {"http://127.0.0.1:3141/a/", false,
	     "PIP_INDEX_URL=http://127.0.0.1:3141/a/|UV_DEFAULT_INDEX=http://127.0.0.1:3141/a/|"
	     "PIP_TRUSTED_HOST=127.0.0.1:3141",
	     3141},
	    {"http://[::1]/", true,
	     "PIP_INDEX_URL=http://[::1]/|UV_DEFAULT_INDEX=http://[::1]/|PIP_TRUSTED_HOST=[::1]:80",
	     80},
	    {"https://index.example.org/", true, NULL, 0},
	    {"https://user:secret@index.example.org/", false, NULL, 0},
	    {"http://token@index.example.org/simple", false, NULL, 0},
	    {"http://@index.example.org", false, NULL, 0},
	    {"https://index.example.org/simple?token=secret", false, NULL, 0},
	    {"https://index.example.org?user=a@b", false, NULL, 0},
	    {"https://index.example.org/a@b/", false, NULL, 0},
	    {"https://index.example.org/api/v4/projects/1234/packages/pypi/simple", false,
	     "PIP_INDEX_URL=https://index.example.org/api/v4/projects/1234/packages/pypi/simple|"
	     "UV_DEFAULT_INDEX=https://index.example.org/api/v4/projects/1234/packages/pypi/simple",
	     443},
	    {"https://index.example.org/x7Kp2mQ9vL4tR8wZ/team/simple/", false, NULL, 0},
	    {"https://index.example.org/team/x7Kp2mQ", false, NULL, 0},
	    {"https://index.example.org/550e8400-e29b-41d4-a716-446655440000/simple", false, NULL,
	     0},
	    {"https://index.example.org/kqzvtrmwpxbnaie/simple", false, NULL, 0},
	    {"https://index.example.org/4711471147114711/simple", false, NULL, 0},
	    {"https://index.example.org/a%20b/simple", false, NULL, 0},
	    {"", false, NULL, 0},
	    {"ftp://index.example.org/", false, NULL, 0},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct packages_config config = {
		    .index_url = rows[i].url, .index_has_own_ca = rows[i].own_ca, .wheel_fd = -1};
		struct packages_inside inside;
		_cleanup_(buf_done) struct buf got = BUF_INIT(8192);

		packages_inside(&config, &inside);
		for (size_t k = 0; inside.env[k]; k++)
			assert_int_equal(buf_printf(&got, "%s%s", k ? "|" : "", inside.env[k]), 0);
		assert_string_equal(buf_str(&got), rows[i].env ? rows[i].env : "");
		assert_int_equal(inside.host[0] != '\0', rows[i].env != NULL);
		assert_int_equal(inside.port, rows[i].port);
		config.wheel_fd = 0;
		packages_inside(&config, &inside);
		assert_true(!inside.env[0] && inside.host[0] == '\0');
	}
}

static void test_secrets(void **state)
{
	static const char token[] = "https://index.example.org/x7Kp2mQ9vL4tR8wZ/simple";
	static const char user[] = "https://a:b@index.example.org/simple";
	static const char plain[] = "https://index.example.org/simple";
	static const struct {
		const char *url;
		enum packages_tell tell;
		bool sources, told, refused;
	} rows[] = {
	    {plain, PACKAGES_TELL_AUTO, true, true, false},
	    {plain, PACKAGES_TELL_OFF, true, false, false},
	    {token, PACKAGES_TELL_AUTO, false, false, false},
	    {token, PACKAGES_TELL_AUTO, true, false, true},
	    {token, PACKAGES_TELL_ON, true, true, false},
	    {user, PACKAGES_TELL_AUTO, false, false, false},
	    {user, PACKAGES_TELL_AUTO, true, false, true},
	    {user, PACKAGES_TELL_OFF, true, false, true},
	    {user, PACKAGES_TELL_ON, false, false, true},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct packages_config config = {.index_url = rows[i].url,
						 .tell = rows[i].tell,
						 .allow_sources = rows[i].sources,
						 .wheel_fd = -1};
		struct packages_inside inside;
		struct err e = ERR_INIT;

		packages_inside(&config, &inside);
		assert_int_equal(inside.host[0] != '\0', rows[i].told);
		assert_int_equal(packages_check_secrets(&config, &e) < 0, rows[i].refused);
		if (rows[i].refused)
			assert_int_equal(e.code, ERR_SETTING_INVALID);
		config.wheel_fd = 0; /* no index, no secret */
		assert_int_equal(packages_check_secrets(&config, &e), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good_specs), cmocka_unit_test(test_bad_specs),
	    cmocka_unit_test(test_canonical),  cmocka_unit_test(test_urls),
	    cmocka_unit_test(test_plans),      cmocka_unit_test(test_cache),
	    cmocka_unit_test(test_inside),     cmocka_unit_test(test_secrets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
