/* SPDX-License-Identifier: Apache-2.0 */
/* fleet/router: the list of workers, and which worker gets what. */
#include "fleet/router/feed.h"
#include "fleet/router/members.h"
#include "fleet/router/merge.h"
#include "fleet/router/place.h"
#include "fleet/router/slices.h"

#include "base/buf.h"
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

static void test_host_of_that_name(void **state)
{
	(void)state;
	struct fleet_members *m = parse("endpointslices:8443", NULL);
	assert_string_equal(m->names[0].host, "endpointslices");
	assert_false(m->names[0].slices);
	free(m);
	(void)parse("endpointslices:a:1", "is not HOST:PORT");
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
	m = parse("endpointslices:fleet/workers-2:8443 # in pods\nfleet:8443\nendpointslices:fleet/"
		  "workers-2:8443",
		  NULL);
	assert_int_equal(m->n, 0);
	assert_int_equal(m->n_names, 2);
	assert_string_equal(m->names[0].host, "fleet/workers-2");
	assert_int_equal(m->names[0].port, 8443);
	assert_true(m->names[0].slices);
	assert_false(m->names[1].slices);
	free(m);
	static const char *const services[] = {"a/b",       "a/b:0",    "/b:1",        "a/:1",
					       "a/b/c:1",   "A/b:1",    "a/b.c:1",     "a/-b:1",
					       "a/b-:1",    "a?b/c:1",  "a/b%2F:1",    "../b:1",
					       "a/b:70000", "[a/b]:1 ", "a/b&watch:1", "a_b/c:1"};
	for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
		char line[80];

		(void)snprintf(line, sizeof(line), "endpointslices:%s", services[i]);
		(void)parse(line, "is not endpointslices:NAMESPACE/NAME:PORT");
	}
	(void)parse("endpointslices:a/b:1\nendpointslices:a/c:1\nendpointslices:a/d:1\n"
		    "endpointslices:a/e:1\nendpointslices:a/f:1",
		    "line 5: more than 4 Services");
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

/* ---- EndpointSlices ---- */

#define META  "\"kind\":\"EndpointSliceList\",\"metadata\":{\"resourceVersion\":\"42\"}"
#define SLICE "{\"addressType\":\"IPv4\",\"endpoints\":["

static const char *slices(const char *text, struct fleet_slices *ret)
{
	return fleet_slices_read(text, strlen(text), 8443, ret);
}

static void test_slices(void **state)
{
	(void)state;
	_cleanup_free_ struct fleet_slices *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	/* Ready or not, of several slices, twice, and without endpoints. */
	assert_null(
	    slices("{" META ",\"items\":[" SLICE
		   "{\"addresses\":[\"10.0.0.9\",\"10.0.0.8\"],\"conditions\":{\"ready\":false,"
		   "\"terminating\":true}},{\"addresses\":[\"10.0.0.7\"]}]},"
		   "{\"addressType\":\"IPv4\",\"endpoints\":null},{\"addressType\":\"FQDN\","
		   "\"endpoints\":[{\"addresses\":[\"a.b\"]}]}," SLICE
		   "{\"addresses\":[\"10.0.0.7\"]}]},{\"addressType\":\"IPv6\",\"endpoints\":["
		   "{\"addresses\":[\"fd00::7\"]}]}]}",
		   s));
	assert_int_equal(s->n, 2);
	assert_string_equal(s->at[0].text, "10.0.0.7:8443");
	assert_string_equal(s->at[1].text, "10.0.0.9:8443");
	assert_string_equal(s->version, "42");
	assert_null(slices("{" META ",\"items\":[{\"addressType\":\"IPv6\",\"endpoints\":["
			   "{\"addresses\":[\"fd00::7\"]}]}]}",
			   s));
	assert_int_equal(s->n, 1);
	assert_string_equal(s->at[0].text, "[fd00::7]:8443");
	/* Of pods that wait for a node, between others. */
	assert_null(
	    slices("{" META ",\"items\":[" SLICE
		   "{\"addresses\":[]},{\"conditions\":{\"ready\":false}},{\"addresses\":null},"
		   "{\"addresses\":[\"10.0.0.7\"]}]}]}",
		   s));
	assert_int_equal(s->n, 1);
	assert_string_equal(s->at[0].text, "10.0.0.7:8443");
	assert_null(slices("{" META ",\"items\":[]}", s));
	assert_int_equal(s->n, 0);
}

static void test_wrong_slices(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} wrong[] = {
	    {"", "no JSON"},
	    {"no", "no JSON"},
	    {"{}", "no list of EndpointSlices"},
	    {"[1]", "no list of EndpointSlices"},
	    {"{\"kind\":\"Status\",\"items\":[]}", "no list of EndpointSlices"},
	    {"{" META ",\"items\":{}}", "no list of EndpointSlices"},
	    {"{\"kind\":\"EndpointSliceList\",\"metadata\":{},\"items\":[]}", "no resourceVersion"},
	    {"{\"kind\":\"EndpointSliceList\",\"metadata\":{\"resourceVersion\":\"1&watch=0\"},"
	     "\"items\":[]}",
	     "no resourceVersion"},
	    {"{" META ",\"items\":[" SLICE "{\"addresses\":[\"0.0.0.0\"]}]}]}", "not one of a pod"},
	    {"{" META ",\"items\":[" SLICE "{\"addresses\":[\"224.0.0.1\"]}]}]}",
	     "not one of a pod"},
	    {"{" META ",\"items\":[" SLICE "{\"addresses\":{}}]}]}", "not one of a pod"},
	    {"{" META ",\"items\":[" SLICE "{\"addresses\":[7]}]}]}", "not one of a pod"},
	    {"{" META ",\"items\":[" SLICE "{\"addresses\":[\"workers\"]}]}]}", "not one of a pod"},
	};
	_cleanup_free_ struct fleet_slices *s = calloc(1, sizeof(*s));
	struct buf b = BUF_INIT(FLEET_SLICES_BYTES);

	assert_non_null(s);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const char *why = slices(wrong[i].text, s);

		assert_non_null(why);
		assert_non_null(strstr(why, wrong[i].why));
	}
	assert_int_equal(buf_add_str(&b, "{" META ",\"items\":[" SLICE), 0);
	for (unsigned i = 0; i <= FLEET_MEMBERS_MAX; i++)
		assert_int_equal(buf_printf(&b, "%s{\"addresses\":[\"10.1.%u.%u\"]}", i ? "," : "",
					    i / 200, i % 200),
				 0);
	assert_int_equal(buf_add_str(&b, "]}]}"), 0);
	assert_string_equal(fleet_slices_read(buf_str(&b), b.len, 1, s),
			    "it has too many addresses");
	b.len = 0;
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(buf_add_str(&b, "["), 0);
	assert_non_null(strstr(fleet_slices_read(buf_str(&b), b.len, 1, s), "nested"));
	b.len = 0;
	assert_int_equal(buf_add_str(&b, "[0"), 0);
	for (unsigned i = 0; i <= FLEET_SLICES_VALUES; i++)
		assert_int_equal(buf_add_str(&b, ",0"), 0);
	assert_non_null(strstr(fleet_slices_read(buf_str(&b), b.len, 1, s), "too large"));
	buf_done(&b);
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
		c[k] = (struct fleet_candidate){.open = k == 5 ? 9 : 10, .max = 10, .usable = true};
	for (uint32_t a = 0; a < 8; a++)
		assert_int_equal(fleet_place_any(c, 8, a, a / 2), 5); /* the one with room */
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

/* Rows of one worker: numbers from FIRST down, N of them; NEXT 0: there are no more. */
static int take(struct merge_rows *r, const char *worker, int first, int n, int next)
{
	json_t *rows = json_array();

	for (int i = 0; i < n; i++) {
		char at[16];

		(void)snprintf(at, sizeof(at), "%04d", first - i);
		assert_int_equal(json_array_append_new(rows, json_pack("{s:i, s:s}", "seq",
								       first - i, "last_at", at)),
				 0);
	}
	json_t *answer = json_pack("{s:o, s:o}", "notebooks", rows, "next",
				   next > 0 ? json_integer(next) : json_null());
	size_t *sizes = merge_measure(r->kind, answer);
	const int e = merge_take(r, merge_part_new(r, worker), answer, sizes);
	free(sizes);
	json_decref(answer);
	return e;
}

static char *page_of(struct merge_rows *r)
{
	struct buf b = BUF_INIT(64u << 10);

	assert_int_equal(merge_write(r, NULL, &b), 0);
	merge_rows_done(r);
	return buf_take(&b);
}

static void test_pages(void **state)
{
	(void)state;
	const struct merge_kind *kind = merge_kind_of("/api/v1/notebooks");
	struct merge_rows r;

	merge_rows_init(&r, kind, NULL);
	r.limit = 3;
	assert_int_equal(take(&r, "aaa", 9, 2, 8), 0);
	assert_int_equal(take(&r, "bbb", 7, 3, 0), 0);
	char *text = page_of(&r);
	assert_non_null(strstr(text, "\"next\":\"aaa.8_bbb.7\""));
	free(text);
	merge_rows_init(&r, kind, NULL);
	r.limit = 1;
	assert_int_equal(merge_read_cursor(&r, "aaa.8_bbb.7_ccc.5_ddd.e"), 0);
	assert_int_equal(take(&r, "aaa", 7, 2, 0), 0);
	text = page_of(&r);
	/* Workers that are away go on where they were when they are back. */
	assert_non_null(strstr(text, "\"next\":\"aaa.7_bbb.7_ccc.5_ddd.e\""));
	free(text);
	merge_rows_init(&r, kind, NULL);
	r.limit = 5;
	assert_int_equal(merge_read_cursor(&r, "aaa.8_bbb.7_ccc.5"), 0);
	assert_int_equal(take(&r, "aaa", 7, 1, 0), 0);
	assert_int_equal(take(&r, "bbb", 6, 2, 0), 0);
	const struct merge_part *silent = merge_part_new(&r, "ccc");
	assert_int_equal(silent->before, 5);
	text = page_of(&r);
	assert_non_null(strstr(text, "\"next\":null")); /* all that have answered have ended */
	free(text);
}

static void test_cursors(void **state)
{
	(void)state;
	static const char *const wrong[] = {"",
					    "aaa",
					    "aaa.",
					    "aaa.x",
					    "aa.1",
					    "aaaa.1",
					    "aaa.1_",
					    "_aaa.1",
					    "aaa.-1",
					    "aaa.1e",
					    "AAA.1",
					    "aaa.e1",
					    "aaa.1_aaa.2",
					    "aaa.9999999999999999999"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct merge_rows r;

		merge_rows_init(&r, merge_kind_of("/api/v1/history"), NULL);
		assert_int_equal(merge_read_cursor(&r, wrong[i]), -EINVAL);
		merge_rows_done(&r);
	}
}

static void test_events(void **state)
{
	(void)state;
	static const struct {
		const char *text, *name;
	} rows[] = {
	    {"id: a-1\nevent: run.ended\ndata: {}", "run.ended"},
	    {"event: x\ndata: {}", "x"},
	    {"data: {}", NULL},
	    {"event: x", NULL},
	    {"event: x\ndata: 1\ndata: 2", NULL},
	    {"event: x\nevent: y\ndata: 1", NULL},
	    {"event: x\r\ndata: 1", NULL},
	    {"event: X\ndata: 1", NULL},
	    {": heartbeat", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[64];
		struct feed_event v;

		(void)snprintf(text, sizeof(text), "%s", rows[i].text);
		assert_int_equal(feed_event_read(text, &v), rows[i].name != NULL);
		if (rows[i].name)
			assert_string_equal(v.name, rows[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_members),      cmocka_unit_test(test_host_of_that_name),
	    cmocka_unit_test(test_too_many),     cmocka_unit_test(test_slices),
	    cmocka_unit_test(test_wrong_slices), cmocka_unit_test(test_any),
	    cmocka_unit_test(test_home),         cmocka_unit_test(test_pages),
	    cmocka_unit_test(test_cursors),      cmocka_unit_test(test_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
