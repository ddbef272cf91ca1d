/* SPDX-License-Identifier: Apache-2.0 */
/* image: SANDBOX_PULLS, what it permits and what no way of writing a reference gets past it. */
#include "base/text.h"
#include "build/builds.h"
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

static void origins(void **state)
{
	static const struct {
		const char *base, *origin;
		bool same;
	} rows[] = {
	    {"python:3.11-slim", "docker://docker.io/library/python:3.11-slim", true},
	    {"python:3.11-slim", "docker://python:3.11-slim", true},
	    {"python:3.11-slim", "docker-daemon:python:3.11-slim", true},
	    {"python", "docker://python:latest", true},
	    {"Registry.example/x:1", "docker://registry.EXAMPLE/x:1", true},
	    {"python:3@" DIGEST, "docker://python@" DIGEST, true},
	    {"python:3.11-slim", "docker://docker.io/attacker/python:3.11-slim", false},
	    {"python:3.11-slim", "docker://registry.example/python:3.11-slim", false},
	    {"python:3.11-slim", "docker-daemon:attacker/python:3.11-slim", false},
	    {"some/python:1", "docker://registry.example/some/python:1", false},
	    {"python:3.11-slim", "python:3.11-slim", false},
	    {"base", "base", false},
	    {"python:3", "docker://python:3@" DIGEST, false},
	    {"python:3@" DIGEST, "docker://python:3", false},
	    {"python:3", "docker://python:3.1", false},
	    {"python", "", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char source[300];
		struct image_ref ref;
		struct err e = ERR_INIT;

		(void)snprintf(source, sizeof(source), REF_REGISTRY_PREFIX "%s", rows[i].base);
		assert_int_equal(image_ref_parse(source, &ref, &e), 0);
		if (image_ref_is_origin(&ref, rows[i].origin) != rows[i].same)
			fail_msg("%s and %s", rows[i].base, rows[i].origin);
	}
}

static void found(void **state)
{
	/* An image that was made of `base` names it as its origin, and comes before it. */
	json_t *rows = json_pack("[{s:s,s:s}, {s:s,s:s}, {s:s,s:s}, {s:s,s:s}, {s:s,s:s,s:i}]",
				 "name", "a", "origin", "base", "name", "base", "origin", "",
				 "name", "evil", "origin", "docker://docker.io/attacker/python:3",
				 "name", "mine", "origin", "docker://python:3", "name", "pulled.x",
				 "origin", "docker://docker.io/library/debian:12", "pulled", 1);
	static const struct {
		const char *base, *name;
	} cases[] = {
	    {"base", "base"},
	    {"docker.io/library/base:latest", "base"},
	    {"docker://base", "base"},
	    {"attacker/base", ""},
	    {"docker.io/library/base:1", ""},
	    {"docker.io/library/python:3", "mine"},
	    {"attacker/python:3", "evil"},
	    {"registry.example/python:3", ""},
	    {"ython:3", ""},
	    {"debian:12", ""},
	};
	char name[ENGINE_NAME_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		name[0] = '\0';
		assert_int_equal(build_find_image(rows, cases[i].base, name),
				 cases[i].name[0] != '\0');
		assert_string_equal(name, cases[i].name);
	}
	json_decref(rows);
}

static void base_names(void **state)
{
	static const char *const refs[] = {"docker://attacker/base", "docker://base",
					   "docker://attacker/base:1", "docker://t.x/base",
					   "docker://registry.example/t.cache"};
	char names[ARRAY_SIZE(refs)][IMAGE_PULL_NAME];
	struct image_ref ref;
	struct err e = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refs); i++) {
		assert_int_equal(image_ref_parse(refs[i], &ref, &e), 0);
		image_base_name(&ref, names[i]);
		assert_true(text_starts_with(names[i], IMAGE_BASE_PREFIX));
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(names[i], names[k]);
	}
	assert_true(text_starts_with(names[0], "from.base-latest."));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(permitted),  cmocka_unit_test(not_permitted), cmocka_unit_test(lists),
	    cmocka_unit_test(names),      cmocka_unit_test(origins),       cmocka_unit_test(found),
	    cmocka_unit_test(base_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
