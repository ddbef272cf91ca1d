/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the text of a history something was shown: output that is no UTF-8, cut in the middle, with many places. */
#include "api/history/cell.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define STREAM_MAX (32u << 10) /* as in cell_output.c */

static struct cell cell;

static void begin(void)
{
	cell = (struct cell){0};
	kept_output_init(&cell.streams[ENGINE_STDOUT].kept, STREAM_MAX, false);
}

static void add(const char *data, size_t len)
{
	kept_output_add(&cell.streams[ENGINE_STDOUT].kept, data, len);
}

static void end(void)
{
	kept_output_done(&cell.streams[ENGINE_STDOUT].kept);
}

static void test_short(void **state UNUSED)
{
	uint64_t places[] = {0, 1, 2, 5, 8, 100};

	begin();
	memset(places, 0, sizeof(places));
	cell_places_in_text(&cell, places, ARRAY_SIZE(places));
	assert_int_equal(places[5], 0);
	add("a\xff\xc3\xa9z\xff\xff.", 8); /* as text: a ??? é z ??? ??? . */
	const uint64_t at[] = {0, 1, 2, 4, 5, 8}, wanted[] = {0, 1, 4, 6, 7, 14};
	memcpy(places, at, sizeof(at));
	cell_places_in_text(&cell, places, ARRAY_SIZE(places));
	assert_memory_equal(places, wanted, sizeof(wanted));
	end();
}

/* The text ends with what stands behind the place. */
static void behind(uint64_t place, const char *wanted)
{
	uint64_t places[] = {5, 50000, place};
	char *text = NULL;

	cell_places_in_text(&cell, places, ARRAY_SIZE(places));
	text = cell_stream_text(&cell, ENGINE_STDOUT);
	assert_non_null(text);
	assert_int_equal(places[0], 5);
	assert_true(places[1] > 1000 && places[1] < strlen(text) - 1000);
	assert_memory_equal(text + places[1] - 2, "]\n", 2); /* behind the line that says so */
	assert_string_equal(text + places[2], wanted);
	free(text);
}

static void test_cut(void **state UNUSED)
{
	static char xs[100000];

	memset(xs, 'x', sizeof(xs));
	begin();
	add(xs, sizeof(xs));
	add("\xff\xff one", 6);
	add("\xfftwo", 4);
	behind(sizeof(xs) + 6, "\xef\xbf\xbdtwo");
	behind(sizeof(xs) + 2, " one\xef\xbf\xbdtwo");
	behind(sizeof(xs) + 10, "");
	end();
}

static uint64_t time_of(size_t n)
{
	uint64_t places[200], least = UINT64_MAX;

	for (int round = 0; round < 20; round++) {
		struct timespec from, to;

		for (size_t i = 0; i < n; i++)
			places[i] = 100000 + i;
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		cell_places_in_text(&cell, places, n);
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		const uint64_t ns = (uint64_t)(to.tv_sec - from.tv_sec) * NS_PER_S +
				    (uint64_t)to.tv_nsec - (uint64_t)from.tv_nsec;
		least = MIN(least, ns);
	}
	return least;
}

/* (timing) They need no more than a few times what one of them needs: each byte is looked at once. */
static void test_many(void **state UNUSED)
{
	static char bad[116000];

	memset(bad, 0xff, sizeof(bad));
	begin();
	add(bad, sizeof(bad));
	assert_true(time_of(200) < 10 * time_of(1));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_short),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
