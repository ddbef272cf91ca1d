/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that wait for room on the disk of the host: who is made when there is some, and who has to wait at all. The
 * monitor is real, the processes are not (../fuzz/monitor_world.h). */
#include "../fuzz/monitor_world.h"
#include "base/fdio.h"
#include "base/rand.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static struct monitor m;
static int front = -1;

static int set_up(void **state UNUSED)
{
	world_begin(&m, true, &front);
	m.disks.dir = 0;
	world_room(0);
	return 0;
}

static int tear_down(void **state UNUSED)
{
	world_check(&m);
	front = fd_close(front);
	world_end(&m);
	return 0;
}

static void ask_as(uint32_t payer, uint32_t slot, const char *persist)
{
	struct proto_mon_create c = {.head = PROTO_HEAD(MON_CREATE, proto_mon_create),
				     .slot = slot,
				     .payer = payer,
				     .limits = WORLD_LIMITS,
				     .image = "a"};

	(void)snprintf(c.persist, sizeof(c.persist), "%s", persist);
	monitor_sandbox_create(&m, &c);
	world_check(&m);
}

static void ask(uint32_t slot, const char *persist)
{
	ask_as(0, slot, persist);
}

static void go_on(unsigned room)
{
	world_room(room);
	monitor_sandboxes_go_on(&m, false);
	world_check(&m);
}

/* One letter for each slot: Waits, is being Made, is Free. */
static void assert_slots(const char *want)
{
	char are[WORLD_SLOTS + 1] = "";

	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		are[i] = m.sandboxes[i].state == SANDBOX_ASKED    ? 'W'
			 : m.sandboxes[i].state == SANDBOX_MAKING ? 'M'
								  : 'F';
	assert_string_equal(are, want);
}

static void test_oldest_first(void **state UNUSED)
{
	ask(4, "");
	ask(1, "");
	ask(3, "new");
	assert_slots("FWFWWF");
	go_on(1);
	assert_slots("FWFWMF");
	go_on(1);
	assert_slots("FMFWMF");
	go_on(1);
	assert_slots("FMFMMF");
}

/* One user has four that wait; another one comes last and is second. */
static void test_users_take_turns(void **state UNUSED)
{
	for (uint32_t i = 0; i < 4; i++)
		ask_as(1, i, "");
	ask_as(2, 4, "new");
	assert_slots("WWWWWF");
	go_on(0); /* who is tried in vain stays the first */
	go_on(1);
	assert_slots("MWWWWF");
	go_on(1);
	assert_slots("MWWWMF");
	ask_as(2, 5, "");
	go_on(1);
	assert_slots("MMWWMW");
	go_on(1);
	assert_slots("MMWWMM");
}

/* What was given up is no turn, and whoever was served and asks again waits for the others. */
static void test_turns_of_those_who_leave(void **state UNUSED)
{
	for (uint32_t i = 0; i < 3; i++)
		ask_as(1, i, "");
	monitor_sandbox_destroy(&m, 0, 0);
	monitor_sandbox_destroy(&m, 1, 0);
	ask_as(2, 4, "");
	go_on(1);
	assert_slots("FFMFWF");
	ask_as(2, 5, "");
	ask_as(3, 3, "");
	go_on(1);
	assert_slots("FFMWMW");
	go_on(1);
	assert_slots("FFMMMW");
	go_on(1);
	assert_slots("FFMMMM");
}

/* Room that became free between two looks is for those who wait. */
static void test_newcomer_is_last(void **state UNUSED)
{
	ask(4, "");
	world_room(1);
	ask(0, "");
	ask(2, "new");
	assert_slots("WFWFWF");
	go_on(2);
	assert_slots("MFWFMF");
	go_on(1);
	assert_slots("MFMFMF");
	world_room(1);
	ask(1, ""); /* nobody waits any more */
	assert_slots("MMMFMF");
}

/* A stored workspace that is there needs no room to be opened: neither for itself, nor behind others. */
static void test_no_needless_wait(void **state UNUSED)
{
	ask(5, "there");
	assert_slots("FFFFFM");
	ask(4, "");
	ask(2, "there-too");
	ask(0, "new");
	assert_slots("WFMFWM");
}

static void test_only_so_long(void **state UNUSED)
{
	ask(4, "");
	world_pass(3 * NS_PER_S);
	ask(1, "");
	go_on(0);
	assert_slots("FWFFWF");
	world_pass(3 * NS_PER_S);
	go_on(0);
	assert_slots("FWFFFF");
	monitor_sandboxes_go_on(&m, true);
	assert_slots("FFFFFF");
}

static void test_leaves(void **state UNUSED)
{
	ask(4, "");
	ask(1, "");
	ask(3, "");
	monitor_sandbox_destroy(&m, 1, 0);
	monitor_sandbox_destroy(&m, 4, 0);
	world_check(&m);
	assert_slots("FFFWFF");
	ask(4, "");
	go_on(1);
	assert_slots("FFFMWF");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	    T(test_oldest_first),     T(test_users_take_turns), T(test_turns_of_those_who_leave),
	    T(test_newcomer_is_last), T(test_no_needless_wait), T(test_only_so_long),
	    T(test_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
