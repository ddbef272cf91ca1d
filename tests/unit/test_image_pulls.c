/* SPDX-License-Identifier: Apache-2.0 */
/* image: SANDBOX_PULLS, what it permits and what no way of writing a reference gets past it. */
#include "base/text.h"
#include "image/pulls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define DIGEST "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static enum err_code judge(const char *list, const char *reference, struct image_pull *ret)
{
	struct err e = ERR_INIT;

	return image_pull_judge(list, reference, ret, &e) < 0 ? e.code : ERR_NONE;
}

static void permitted(void **state)
{
	static const struct {
		const char *list, *reference, *text;
		bool inside;
	} rows[] = {
	    {"python", "python:3.11-slim", "docker.io/library/python:3.11-slim"},
	    {"docker.io/library/python", "python", "docker.io/library/python:latest"},
	    {"docker.io/library/python", "docker://docker.io/python:3",
	     "docker.io/library/python:3"},
	    {"library/python", "DOCKER.IO/library/python@" DIGEST, ""},
	    {"docker.io/library/python", "library/python:3@" DIGEST,
	     "docker.io/library/python@" DIGEST},
	    {"docker.io/library/*", "debian", "docker.io/library/debian:latest"},
	    {"docker.io/*", "some/tool:1", "docker.io/some/tool:1"},
	    {"some/*", "some/tool:1", "docker.io/some/tool:1"},
	    {"a.example/x,\tregistry.example/*", "registry.example/a/b/c:1",
	     "registry.example/a/b/c:1"},
	    {"REGISTRY.example/team/*", "registry.EXAMPLE/team/x",
	     "registry.example/team/x:latest"},
	    {"127.0.0.1:5000/*", "127.0.0.1:5000/x", "127.0.0.1:5000/x:latest", true},
	    {"10.1.2.3/*", "10.1.2.3/x", "10.1.2.3/x:latest", true},
	    {"[::1]:5000/x", "[::1]:5000/x", "[::1]:5000/x:latest", true},
	    {"localhost/x", "localhost/x", "localhost/x:latest", true},
	    {"registry.internal/x", "registry.internal/x", "registry.internal/x:latest", true},
	    {"inside:registry.example/*", "registry.example/x", "registry.example/x:latest", true},
	    {"registry.example/x inside:registry.example/y", "registry.example/x",
	     "registry.example/x:latest"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct image_pull p;
		const enum err_code code = judge(rows[i].list, rows[i].reference, &p);

		/* Hosts of any case are one, but only "docker.io" in small letters is Docker's. */
		if (!rows[i].text[0]) {
			assert_int_equal(code, ERR_FORBIDDEN);
			continue;
		}
		assert_int_equal(code, ERR_NONE);
		assert_string_equal(p.text, rows[i].text);
		assert_int_equal(p.inside, rows[i].inside);
	}
}

static void not_permitted(void **state)
{
	static const char list[] = "docker.io/library/python, registry.example:5000/team/*";
	static const char *const tricks[] = {
	    "python-evil",
	    "library/pythonx",
	    "docker.io/library/python/x",
	    "docker.io/python2",
	    "evil/python",
	    "docker.io/evil/library/python",
	    "docker.io.evil.example/library/python",
	    "evil.example/docker.io/library/python",
	    "docker.io:443/library/python",
	    "docker.io./library/python",
	    "registry.example/team/x",
	    "registry.example:50000/team/x",
	    "registry.example:5000/team",
	    "registry.example:5000/teamx/y",
	    "registry.example:5000/x/team/y",
	    "xregistry.example:5000/team/y",
	    "python-evil:latest@" DIGEST,
	};
	static const char *const no_names[] = {
	    "",
	    "-",
	    "--name",
	    "Python",
	    "x@docker.io/library/python",
	    "evil.example@docker.io/library/python",
	    "docker.io@evil.example/library/python",
	    "python:3@sha256:xyz",
	    "python@" DIGEST "0",
	    "python@" DIGEST "@" DIGEST,
	    "python:3:4",
	    "docker.io/library/../library/python",
	    "docker.io//library/python",
	    "docker.io/library/python/",
	    "https://docker.io/library/python",
	    "python\nx",
	    "python x",
	    "docker.io/library/python?x",
	    "docker.io/library/python#x",
	    "docker.io/library/%70ython",
	    "registry.example:0/team/x",
	    "registry.example:99999/team/x",
	};
	char tag[200] = "python:";
	struct image_pull p;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tricks); i++) {
		assert_int_equal(judge(list, tricks[i], &p), ERR_FORBIDDEN);
		assert_int_equal(judge("", tricks[i], &p), ERR_FORBIDDEN);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no_names); i++)
		assert_int_equal(judge(list, no_names[i], &p), ERR_INVALID_ARGUMENT);
	memset(tag + strlen(tag), 'x', 129);
	assert_int_equal(judge(list, tag, &p), ERR_INVALID_ARGUMENT);
}

static void lists(void **state)
{
	static const char *const bad[] = {
	    "*",
	    "/*",
	    "*/*",
	    "docker.io/lib*",
	    "docker.io/*/python",
	    "python:3",
	    "python@" DIGEST,
	    "https://docker.io/x",
	    "docker.io/library/",
	    "Python",
	    "inside:",
	    "x@docker.io/*",
	    "docker.io/x;docker.io/y",
	    "outside:x.example/*",
	};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(image_pulls_check("", &e), 0);
	assert_int_equal(image_pulls_check(" ,\tpython ,, docker.io/*", &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		e = ERR_INIT;
		assert_true(image_pulls_check(bad[i], &e) < 0);
		assert_int_equal(e.code, ERR_SETTING_INVALID);
	}
}

static void names(void **state)
{
	char name[IMAGE_PULL_NAME], other[IMAGE_PULL_NAME];
	char long_one[300] = "docker.io/some/";
	struct image_pull p;

	(void)state;
	assert_int_equal(judge("docker.io/*", "python:3.11-SLIM", &p), ERR_NONE);
	image_pull_name(&p, DIGEST, name);
	assert_true(text_starts_with(name, "pulled.python-3.11-slim."));
	image_pull_name(&p, "sha256:b", other);
	assert_string_not_equal(name, other);
	assert_int_equal(judge("docker.io/*", "python:3.11-slim", &p), ERR_NONE);
	image_pull_name(&p, DIGEST, other);
	assert_string_not_equal(name, other); /* tags have a case */
	memset(long_one + strlen(long_one), 'x', 240);
	assert_int_equal(judge("docker.io/*", long_one, &p), ERR_NONE);
	image_pull_name(&p, DIGEST, name);
	assert_int_equal(strlen(name), IMAGE_PULL_NAME - 1 - 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(permitted),
	    cmocka_unit_test(not_permitted),
	    cmocka_unit_test(lists),
	    cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
