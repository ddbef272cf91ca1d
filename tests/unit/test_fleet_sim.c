/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated fleet. `test_fleet_sim table` writes the table of docs/fleet.md, which takes a minute. */
#include "fleet_sim.h"

#include "base/attr.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* bench/README.md: a worker with two cores makes, runs and ends 120 sandboxes a second. */
#define SERVICE_S (2.0 / 120)
#define USUAL     .service_s = SERVICE_S, .seed = 1

static const struct {
	const char *what;
	struct sim_config c;
} scenes[] = {
    {"10 workers, half of what they can do, 10,000 claims",
     {USUAL, .workers = 10, .routers = 2, .places = 1024, .claims = 10000, .rate = 600,
      .life_s = 14}},
    {"100 workers, the same, 100,000 claims",
     {USUAL, .workers = 100, .routers = 3, .places = 1024, .claims = 100000, .rate = 6000,
      .life_s = 14}},
    {"1,000 workers, the same, a million claims",
     {USUAL, .workers = 1000, .routers = 10, .places = 1024, .claims = 1000000, .rate = 60000,
      .life_s = 14}},
    {"1,000 workers, a million sandboxes that stay",
     {USUAL, .workers = 1000, .routers = 10, .places = 1024, .claims = 1000000, .rate = 60000}},
    {"100 workers, a burst of 100,000 in a second",
     {USUAL, .workers = 100, .routers = 3, .places = 1024, .claims = 100000, .rate = 100000}},
    {"100 workers, one cut off after 5 s",
     {USUAL, .workers = 100, .routers = 3, .places = 1024, .claims = 100000, .rate = 6000,
      .life_s = 14, .cut_s = 5}},
    {"100 workers, 95 of them full, 5 new ones",
     {USUAL, .workers = 100, .routers = 3, .places = 1024, .full = 95, .claims = 5000,
      .rate = 500}},
    {"100 workers, 102,400 claims for 102,400 places",
     {USUAL, .workers = 100, .routers = 3, .places = 1024, .claims = 102400, .rate = 6000}},
};

static int table(void)
{
	(void)printf(
	    "| fleet | p50 | p99 | imbalance | refused | with room | lost | known after |\n"
	    "|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(scenes); i++) {
		const struct sim_result r = sim_run(&scenes[i].c);

		(void)printf("| %s | %.0f ms | %.0f ms | %.2f | %u | %u | %u | ", scenes[i].what,
			     r.p50_ms, r.p99_ms, r.imbalance, r.refused, r.refused_with_room,
			     r.lost);
		(void)printf(r.lost > 0 ? "%.1f s |\n" : " |\n", r.cut_known_s);
	}
	return 0;
}

static void a_seed_gives_one_result(void **state UNUSED)
{
	const struct sim_result a = sim_run(&scenes[0].c), b = sim_run(&scenes[0].c);

	/* Member by member: between them there may be bytes that mean nothing. */
	assert_int_equal(a.placed, b.placed);
	assert_int_equal(a.refused, b.refused);
	assert_int_equal(a.refused_with_room, b.refused_with_room);
	assert_int_equal(a.lost, b.lost);
	assert_int_equal(a.retries, b.retries);
	assert_true(a.p50_ms <= b.p50_ms && a.p50_ms >= b.p50_ms);
	assert_true(a.p99_ms <= b.p99_ms && a.p99_ms >= b.p99_ms);
	assert_true(a.imbalance <= b.imbalance && a.imbalance >= b.imbalance);
	assert_true(a.cut_known_s <= b.cut_known_s && a.cut_known_s >= b.cut_known_s);
	assert_int_equal(a.placed, 10000);
	assert_true(a.p50_ms > 8 && a.p50_ms < 40);
	assert_true(a.p99_ms > a.p50_ms && a.p99_ms < 200);
	assert_true(a.imbalance < 1.2);
}

/* Routers do not know of each other, and have looked up to a second ago. */
static void a_burst_is_spread(void **state UNUSED)
{
	const struct sim_result r = sim_run(&(struct sim_config){
	    USUAL, .workers = 20, .routers = 3, .places = 500, .claims = 9000, .rate = 9000});

	assert_int_equal(r.placed, 9000);
	assert_true(r.imbalance < 1.2);
}

static void who_has_room_is_found(void **state UNUSED)
{
	const struct sim_result r =
	    sim_run(&(struct sim_config){USUAL, .workers = 50, .routers = 3, .places = 1024,
					 .full = 48, .claims = 1000, .rate = 200});

	assert_int_equal(r.placed, 1000);
	assert_int_equal(r.refused, 0);
}

static void who_is_gone_gets_nothing(void **state UNUSED)
{
	const struct sim_result r =
	    sim_run(&(struct sim_config){USUAL, .workers = 10, .routers = 3, .places = 1024,
					 .claims = 6000, .rate = 600, .life_s = 5, .cut_s = 4});

	assert_true(r.lost > 0);
	assert_true(r.cut_known_s < 3);
	assert_int_equal(r.placed + r.lost, 6000); /* what waits there is answered in this model */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_seed_gives_one_result),
	    cmocka_unit_test(a_burst_is_spread),
	    cmocka_unit_test(who_has_room_is_found),
	    cmocka_unit_test(who_is_gone_gets_nothing),
	};

	return argc == 2 && streq(argv[1], "table") ? table()
						    : cmocka_run_group_tests(tests, NULL, NULL);
}
