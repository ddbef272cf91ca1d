/* SPDX-License-Identifier: Apache-2.0 */
/* image: definitions, and what the command line adds to them. */
#include "base/buf.h"
#include "image/def.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void definitions(void **state)
{
	static const struct {
		const char *text;
		const char *refusal; /* part of the message; NULL = taken */
	} rows[] = {
	    {"suite = forky\npackages = python3\n", NULL},
	    {"  suite=forky  \n\n# comment\npackages\t=\ta b  c\npackages = d", NULL},
	    {"suite = forky\n", "'packages' is missing"},
	    {"packages = python3\n", "'suite' is missing"},
	    {"suite = forky\nsuite = sid\npackages = a", "x.conf:2: 'suite' is given twice"},
	    {"suite = forky\npakages = a", "x.conf:2: unknown key"},
	    {"suite forky", "x.conf:1: expected"},
	    {"suite =\npackages = a", "x.conf:1: '' is no value"},
	    /* Words become arguments of a program that runs as root. */
	    {"suite = -forky\npackages = a", "x.conf:1:"},
	    {"suite = forky\npackages = -a", "x.conf:2:"},
	    {"suite = forky\npackages = a,b", "x.conf:2:"},
	    {"suite = forky\npackages = ?essential", "x.conf:2:"},
	    {"suite = forky\npackages = ./x.deb", "x.conf:2:"},
	    {"suite = forky\npackages = a\nexclude = usr/*", "x.conf:3:"},
	    {"suite = forky\npackages = a\nexclude = /usr/*\";x", "x.conf:3:"},
	    {"suite = forky\npackages = a\npreload = os; x", "x.conf:3:"},
	    {"suite = forky\npackages = a\npreload = os.path a._b", NULL},
	    {"suite = forky\npackages = a\npreload = os..path", "x.conf:3:"},
	    {"suite = forky\npackages = a\nhook = ../x", "x.conf:3:"},
	    {"suite = forky\npackages = a\nhook = .x", "x.conf:3:"},
	    {"suite = forky\npackages = a\nindex = polars==2.1.0 Rich[jupyter]>=1,<15 x~=1.0",
	     NULL},
	    {"suite = forky\npackages = a\nindex = --index-url", "x.conf:3:"},
	    {"suite = forky\npackages = a\nindex = ./x.whl", "x.conf:3:"},
	    {"suite = forky\npackages = a\nindex = a@http://x/a.whl", "x.conf:3:"},
	    {"suite = forky\npackages = a\nindex = a, b", "x.conf:3: 'a,'"},
	    {"suite = forky\npackages = a\nwheels = ../x", "x.conf:3:"},
	    {"suite = forky\npackages = a\r\n", "x.conf:2:"},
	    {"suite = forky\npackages = a\ndescription = a\x1b[2J", "x.conf:3: 'a?[2J'"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(image_def_done) struct image_def d = {0};
		struct err e = ERR_INIT;
		int r = image_def_parse("x", rows[i].text, strlen(rows[i].text), &d, &e);

		if (rows[i].refusal) {
			assert_true(r < 0);
			if (!strstr(e.text, rows[i].refusal))
				fail_msg("row %zu: '%s' lacks '%s'", i, e.text, rows[i].refusal);
		} else {
			if (r < 0)
				fail_msg("row %zu: %s", i, e.text);
			assert_string_equal(d.variant, "essential");
			assert_string_equal(d.components.v[0], "main");
		}
	}
}

static void definition_limits(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1 << 20);
	_cleanup_(image_def_done) struct image_def d = {0};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(buf_add_str(&b, "suite = x\npackages ="), 0);
	for (int i = 0; i <= IMAGE_DEF_PACKAGES; i++)
		assert_int_equal(buf_printf(&b, " p%d", i), 0);
	assert_true(image_def_parse("x", buf_str(&b), b.len, &d, &e) < 0);
	assert_non_null(strstr(e.text, "more than"));
	assert_true(image_def_parse("../x", "", 0, &d, &e) < 0);
}

/* What is added on the command line is checked like a definition, and changes its digest. */
static void definition_extended(void **state)
{
	static const struct {
		struct image_def_more more;
		const char *refusal; /* part of the message; NULL = taken */
	} rows[] = {
	    {{"mine", "polars scikit-image", NULL}, NULL},
	    {{"mine", " polars ", "graphviz"}, NULL},
	    {{"mine", NULL, NULL}, NULL},
	    {{"mine", NULL, NULL, "wave xml.dom"}, NULL},
	    {{"mine", NULL, NULL, "wave;x"}, "--preload: 'wave;x' is no value"},
	    {{"../mine", "polars", NULL}, "no image name"},
	    {{"mine", "--upgrade", NULL}, "--packages: '--upgrade' is no value"},
	    {{"mine", NULL, "-o"}, "--debian: '-o' is no value"},
	};
	static const char text[] = "suite = forky\npackages = python3\n";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(image_def_done) struct image_def d = {0};
		struct err e = ERR_INIT;

		assert_int_equal(image_def_parse("base", text, strlen(text), &d, &e), 0);
		int r = image_def_extend(&d, &rows[i].more, &e);

		if (rows[i].refusal) {
			assert_true(r < 0);
			if (!strstr(e.text, rows[i].refusal))
				fail_msg("row %zu: '%s' lacks '%s'", i, e.text, rows[i].refusal);
			continue;
		}
		assert_int_equal(r, 0);
		assert_string_equal(d.name, "mine");
		assert_int_equal(strlen(d.digest), 64);
		if (rows[i].more.preload) {
			assert_int_equal(d.preloads.n, 2);
			assert_string_equal(d.preloads.v[1], "xml.dom");
			assert_string_equal(d.description, "base and wave xml.dom");
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(definitions),
	    cmocka_unit_test(definition_limits),
	    cmocka_unit_test(definition_extended),
	};

	return cmocka_run_group_tests_name("image_def", tests, NULL, NULL);
}
