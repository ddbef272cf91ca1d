/* SPDX-License-Identifier: Apache-2.0 */
/* fleet/router: the list of workers, and which worker gets what. */
#include "fleet/router/members.h"
#include "fleet/router/place.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 20000u

static struct fleet_members *parse(const char *text, const char *why)
{
	struct fleet_members *m = malloc(sizeof(*m));
	struct err e = ERR_INIT;

	assert_non_null(m);
	const int r = fleet_members_parse(text, strlen(text), m, &e);
	if (!why) {
		assert_int_equal(r, 0);
		return m;
	}
	assert_int_equal(e.code, ERR_SETTING_INVALID);
	assert_non_null(strstr(e.text, why));
	free(m);
	return NULL;
}

static void test_members(void **state)
{
	(void)state;
	struct fleet_members *m =
	    parse("# fleet\n\n 10.0.0.7:8443\t# first\r\n[fd00::7]:1\n10.0.0.7:8443\n"
		  "127.0.0.1:65535",
		  NULL);

	assert_int_equal(m->n, 3);
	assert_string_equal(m->at[0].text, "10.0.0.7:8443");
	assert_string_equal(m->at[1].text, "[fd00::7]:1");
	assert_string_equal(m->at[2].text, "127.0.0.1:65535");
	free(m);
	m = parse("", NULL);
	assert_int_equal(m->n, 0);
	free(m);
	m = parse("10.0.0.1:1\nWorker-1.fleet:8443\nworker-1.fleet:8443\nlocalhost:1\n"
		  "_workers._tcp.a:2\nworker-1.fleet:2\n",
		  NULL);
	assert_int_equal(m->n, 1);
	assert_int_equal(m->n_names, 4);
	assert_string_equal(m->names[0].host, "worker-1.fleet");
	assert_int_equal(m->names[0].port, 8443);
	free(m);
	static const char *const wrong[] = {"10.0.0.256:1", "a..b:1", ".a:1",      "a.:1",
					    "-a:1",         "a-:1",   "a-.b:1",    "a/b:1",
					    "1.2.3:1",      "b.7:1",  "\303\244:1"};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		(void)parse(wrong[i], "is neither a numeric address nor a DNS name");
	char label[80];
	memset(label, 'a', 64);
	memcpy(label + 64, ":1", 3);
	(void)parse(label, "nor a DNS name");
	(void)parse("10.0.0.1", "line 1: '10.0.0.1' is not HOST:PORT");
	(void)parse("10.0.0.1:0", "is not HOST:PORT");
	(void)parse("10.0.0.1:70000", "is not HOST:PORT");
	(void)parse("10.0.0.1:1 10.0.0.2:2", "is not HOST:PORT");
}

static void test_too_many(void **state)
{
	(void)state;
	_cleanup_free_ char *text = calloc(FLEET_MEMBERS_MAX + 1, 32);
	char long_line[400];
	size_t len = 0;

	for (unsigned i = 0; i <= FLEET_MEMBERS_MAX; i++)
		len += (size_t)snprintf(text + len, 32, "10.0.%u.%u:1\n", i / 200, i % 200 + 1);
	(void)parse(text, "more than 256 workers");
	len = 0;
	for (unsigned i = 0; i <= FLEET_NAMES_MAX; i++)
		len += (size_t)snprintf(text + len, 32, "w%u.a:1\n", i);
	(void)parse(text, "more than 64 names");
	memset(long_line, '1', sizeof(long_line));
	long_line[sizeof(long_line) - 1] = '\0';
	(void)parse(long_line, "line 1 is not HOST:PORT");

	struct fleet_members *m = malloc(sizeof(*m));
	struct err e = ERR_INIT;
	assert_true(fleet_members_parse("1\0:1", 4, m, &e) < 0);
	free(m);
}

static struct fleet_candidate *workers(size_t n)
{
	struct fleet_candidate *c = calloc(n, sizeof(*c));

	assert_non_null(c);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(c[i].worker, sizeof(c[i].worker), "w%02zu", i);
		c[i].max = 100;
		c[i].usable = true;
	}
	return c;
}

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void test_any(void **state)
{
	(void)state;
	_cleanup_free_ struct fleet_candidate *c = workers(8);
	uint32_t seed = 1;
	uint64_t most = 0, least = UINT64_MAX;

	for (unsigned i = 0; i < 400; i++) {
		const uint32_t a = next(&seed), b = next(&seed);
		const size_t at = fleet_place_any(c, 8, a, b);

		assert_true(at < 8);
		c[at].open++;
	}
	for (unsigned i = 0; i < 8; i++) {
		most = MAX(most, c[i].open);
		least = MIN(least, c[i].open);
	}
	assert_true(most - least <= 8); /* chance alone would leave about 40 */

	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned k = 0; k < 8; k++)
			c[k].usable = next(&seed) % 3 == 0;
		const uint32_t a = next(&seed), b = next(&seed);
		const size_t at = fleet_place_any(c, 8, a, b);
		bool any = false;

		for (unsigned k = 0; k < 8; k++)
			any = any || c[k].usable;
		assert_true(any ? at < 8 && c[at].usable : at == FLEET_NOBODY);
	}
	assert_true(fleet_place_any(c, 0, 1, 2) == FLEET_NOBODY);
	for (unsigned k = 0; k < 8; k++)
		c[k] = (struct fleet_candidate){.usable = true}; /* none has room, or says so */
	assert_true(fleet_place_any(c, 8, 7, 9) < 8);
}

/* Only what had its home at the worker that goes has another one, and all have their share. */
static void test_home(void **state)
{
	(void)state;
	_cleanup_free_ struct fleet_candidate *c = workers(10);
	unsigned count[10] = {0}, moved = 0;
	char who[16];

	for (unsigned i = 0; i < 5000; i++) {
		(void)snprintf(who, sizeof(who), "user-%u", i);
		c[3].usable = true;
		const size_t before = fleet_place_home(c, 10, who);
		assert_true(before == fleet_place_home(c, 10, who));
		c[3].usable = false;
		const size_t after = fleet_place_home(c, 10, who);

		count[before]++;
		assert_true(before == 3 ? after != 3 : after == before);
		moved += before != after;
	}
	assert_int_equal(moved, count[3]);
	for (unsigned i = 0; i < 10; i++)
		assert_true(count[i] > 400 && count[i] < 600);
	for (unsigned i = 0; i < 10; i++)
		c[i].usable = false;
	assert_true(fleet_place_home(c, 10, "x") == FLEET_NOBODY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_members),
	    cmocka_unit_test(test_too_many),
	    cmocka_unit_test(test_any),
	    cmocka_unit_test(test_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
