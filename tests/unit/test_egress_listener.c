/* SPDX-License-Identifier: Apache-2.0 */
/* An init that was taken over still has the listening socket of its sandbox's gate: it clears O_NONBLOCK, sets
 * options that accepted connections inherit, and closes it. The loop never waits, and other gates go on. */
#include "base/fdio.h"
#include "base/rand.h"
#include "egress/gate.h"
#include "egress_world.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define LONG_NS (20 * NS_PER_S)

static const char bad[] = "X\r\n\r\n";

static int setup(void **state)
{
	struct egress_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	egress_world_begin(w);
	egress_world_gate(w, egress_policy_new(EGRESS_NONE), NULL);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	egress_world_end(*state);
	free(*state);
	return 0;
}

/* Somebody connects, and is refused at once. */
static void ask(struct egress_world *w, unsigned refused)
{
	int client = egress_world_client(w);

	egress_world_send(client, bad, sizeof(bad) - 1);
	egress_world_until(w, &w->events.refused, refused);
	(void)fd_close(client);
}

static void test_accept_that_waits(void **state)
{
	struct egress_world *w = *state;
	const uint64_t begin = now_ns();

	ask(w, 1);
	assert_int_equal(fcntl(w->gate->fd, F_SETFL, 0), 0); /* what init can do with its copy */
	_cleanup_fd_ int client = egress_world_client(w);
	while (!w->gate->accept && now_ns() - begin < LONG_NS)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	struct egress_gate *hangs = w->gate;
	assert_non_null(hangs->accept);

	/* While that gate hangs the loop turns, and a gate of somebody else works. */
	w->gate = NULL;
	egress_world_gate(w, egress_policy_new(EGRESS_NONE), NULL);
	ask(w, 2);
	assert_false(hangs->ended);
	while (!hangs->ended && now_ns() - begin < LONG_NS)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	assert_true(hangs->ended);
	ask(w, 3);
	(void)egress_close_gate(hangs);
}

/* The machine, or this thread, stood still for longer than a call may hang: that alone ends no gate. */
static void test_a_loop_that_stood_still(void **state)
{
	struct egress_world *w = *state;
	const struct timespec long_ = {.tv_sec = 3};
	const uint64_t begin = now_ns();

	assert_int_equal(fcntl(w->gate->fd, F_SETFL, 0), 0);
	_cleanup_fd_ int client = egress_world_client(w);
	while (!w->gate->accept && now_ns() - begin < LONG_NS)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	assert_non_null(w->gate->accept);
	assert_int_equal(nanosleep(&long_, NULL), 0);
	for (int i = 0; i < 20; i++)
		assert_true(sd_event_run(w->loop, 1000) >= 0);
	assert_false(w->gate->ended);
}

/* A gate may also be closed while it hangs. */
static void test_closed_while_it_waits(void **state)
{
	struct egress_world *w = *state;
	const uint64_t begin = now_ns();

	assert_int_equal(fcntl(w->gate->fd, F_SETFL, 0), 0);
	_cleanup_fd_ int client = egress_world_client(w);
	while (!w->gate->accept && now_ns() - begin < LONG_NS)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	egress_world_gate(w, egress_policy_new(EGRESS_NONE), NULL);
	ask(w, 1);
}

static void test_a_socket_that_listens_no_more(void **state)
{
	struct egress_world *w = *state;
	const uint64_t begin = now_ns();

	assert_int_equal(shutdown(w->gate->fd, SHUT_RDWR), 0);
	while (!w->gate->ended && now_ns() - begin < LONG_NS)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	assert_true(w->gate->ended);
	/* The loop has nothing to do: it does not spin on a socket that is readable for ever. */
	for (int i = 0; i < 100 && sd_event_run(w->loop, 0) > 0; i++)
		;
	assert_int_equal(sd_event_run(w->loop, 50000), 0);
}

static void test_inherited_options(void **state)
{
	struct egress_world *w = *state;
	const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
	struct linger got = {0};
	socklen_t len = sizeof(got);
	const uint64_t begin = now_ns();

	assert_int_equal(setsockopt(w->gate->fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0);
	_cleanup_fd_ int client = egress_world_client(w);
	while (list_is_empty(&w->gate->conns) && now_ns() - begin < LONG_NS)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	const struct egress_conn *c = list_first(&w->gate->conns, struct egress_conn, node);
	assert_non_null(c);
	assert_int_equal(getsockopt(c->client, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_int_equal(got.l_onoff, 0);
	assert_true(fcntl(c->client, F_GETFL) & O_NONBLOCK);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_accept_that_waits),     T(test_a_loop_that_stood_still),
	    T(test_closed_while_it_waits), T(test_a_socket_that_listens_no_more),
	    T(test_inherited_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
