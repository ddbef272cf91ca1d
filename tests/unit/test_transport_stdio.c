/* SPDX-License-Identifier: Apache-2.0 */
/* stdio over pipes, sockets and files: lines of every kind, slow and dead clients. */
#include "transport/transport.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "mcp_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>

#define PATIENCE_NS (5 * NS_PER_S)

struct world {
	sd_event *loop;
	struct mcp_fixture mcp;
	struct transport_stdio *stdio;
	int to, from; /* our ends; -1 closed */
	struct buf got;
	uint64_t drain_ns;
	bool ended;
	int reason;
};

static struct world w;

static void on_end(int reason, void *userdata)
{
	struct world *world = userdata;

	world->ended = true;
	world->reason = reason;
}

static void start_on(int in_fd, int out_fd)
{
	const struct transport_stdio_config cfg = {
	    .loop = w.loop,
	    .mcp = w.mcp.server,
	    .in_fd = in_fd,
	    .out_fd = out_fd,
	    .reader = {.max_message = 1u << 20},
	    .queue_max = 8u << 20,
	    .drain_ns = w.drain_ns,
	    .on_end = on_end,
	    .userdata = &w,
	};

	assert_int_equal(transport_stdio_new(&cfg, &w.stdio), 0);
}

static int setup(void **state)
{
	(void)state;
	w = (struct world){.to = -1, .from = -1, .got = BUF_INIT(64u << 20), .drain_ns = NS_PER_S};
	mcp_fixture_init(&w.mcp);
	assert_int_equal(sd_event_new(&w.loop), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	w.stdio = transport_stdio_free(w.stdio);
	mcp_fixture_done(&w.mcp);
	w.loop = sd_event_unref(w.loop);
	w.to = fd_close(w.to);
	w.from = fd_close(w.from);
	buf_done(&w.got);
	return 0;
}

/* Pipes between the test and the transport; the transport's ends are kept in THEIRS. */
static void start_on_pipes(int theirs[2])
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	w.to = in[1];
	w.from = out[0];
	theirs[0] = in[0];
	theirs[1] = out[1];
	assert_int_equal(fd_set_nonblock(w.to, true), 0);
	assert_int_equal(fd_set_nonblock(w.from, true), 0);
	start_on(in[0], out[1]);
}

static void take_once(void)
{
	char buf[65536];
	const ssize_t n = read(w.from, buf, sizeof(buf));

	if (n > 0)
		assert_int_equal(buf_add(&w.got, buf, (size_t)n), 0);
}

static void take(void)
{
	char buf[65536];
	ssize_t n;

	while (w.from >= 0 && (n = read(w.from, buf, sizeof(buf))) > 0)
		assert_int_equal(buf_add(&w.got, buf, (size_t)n), 0);
}

static void turn(void)
{
	assert_true(sd_event_run(w.loop, 2000) >= 0);
}

static void send_text(const char *data, size_t len)
{
	const uint64_t end = now_ns() + PATIENCE_NS;

	while (len > 0 && now_ns() < end && !w.ended) {
		const ssize_t n = write(w.to, data, len);

		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
		take();
		turn();
	}
	assert_int_equal(len, 0);
}

static void say(const char *text)
{
	send_text(text, strlen(text));
}

static bool wait_for(const char *text)
{
	const uint64_t end = now_ns() + PATIENCE_NS;

	while (!strstr(buf_str(&w.got), text)) {
		if (now_ns() > end || w.ended)
			return false;
		turn();
		take();
	}
	return true;
}

static void wait_end(void)
{
	const uint64_t end = now_ns() + PATIENCE_NS;

	while (!w.ended && now_ns() < end) {
		turn();
		take();
	}
	take();
	assert_true(w.ended);
}

static unsigned count(const char *needle)
{
	unsigned n = 0;

	for (const char *p = buf_str(&w.got); (p = strstr(p, needle)); p += strlen(needle))
		n++;
	return n;
}

static void test_lines(void **state)
{
	int theirs[2];

	(void)state;
	start_on_pipes(theirs);
	say("\n\r\n  \n" INITIALIZE("2025-06-18") "\r\n");
	assert_true(wait_for("\"protocolVersion\":\"2025-06-18\""));
	say(PING(1) "\n" PING(2) "\n" PING(3) "\n");
	assert_true(wait_for("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n"));
	assert_int_equal(count("\n"), 4);
	say("{\"jsonrpc\":\n" PING(4) "\n");
	assert_true(wait_for("-32700"));
	assert_true(wait_for("\"id\":4,\"result\":{}"));
	/* a message in pieces */
	for (const char *p = PING(5) "\n"; *p; p++)
		send_text(p, 1);
	assert_true(wait_for("\"id\":5,\"result\":{}"));
	/* both eras on one pipe */
	say(MODERN_CALL(6, "echo") "\n");
	assert_true(wait_for("\"resultType\":\"complete\""));
	fd_close_many(theirs, 2);
}

static void test_overlong_line_is_answered_and_skipped(void **state)
{
	static char block[64 << 10];
	int theirs[2];

	(void)state;
	memset(block, 'x', sizeof(block));
	start_on_pipes(theirs);
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"");
	for (unsigned i = 0; i < 64; i++)
		send_text(block, sizeof(block));
	say("\"}\n" PING(2) "\n");
	assert_true(wait_for("too large"));
	assert_true(wait_for("\"id\":2,\"result\":{}"));
	assert_true(wait_for("\"id\":1,\"error\":{\"code\":-32600"));
	/* the id comes last, as some clients write it */
	say("{\"method\":\"ping\",\"params\":{\"x\":\"");
	for (unsigned i = 0; i < 64; i++)
		send_text(block, sizeof(block));
	say("\"},\"jsonrpc\":\"2.0\",\"id\":\"last\"}\n");
	assert_true(wait_for("\"id\":\"last\",\"error\":{\"code\":-32600"));
	/* rubbish without an end */
	for (unsigned i = 0; i < 64; i++)
		send_text(block, sizeof(block));
	say("\n" PING(3) "\n");
	assert_true(wait_for("-32700"));
	assert_true(wait_for("\"id\":3,\"result\":{}"));
	fd_close_many(theirs, 2);
}

static void test_end_of_input(void **state)
{
	int theirs[2];

	(void)state;
	start_on_pipes(theirs);
	say(INITIALIZE("2025-06-18") "\n" PING(7)); /* the last line has no newline */
	w.to = fd_close(w.to);
	wait_end();
	assert_int_equal(w.reason, 0);
	assert_non_null(strstr(buf_str(&w.got), "\"id\":7,\"result\":{}"));
	fd_close_many(theirs, 2);
}

static void test_end_of_input_waits_for_answers_briefly(void **state)
{
	int theirs[2];
	const uint64_t begin = now_ns();

	(void)state;
	start_on_pipes(theirs);
	say(INITIALIZE("2025-06-18") "\n" CALL(1, "hold") "\n");
	assert_true(wait_for("\"id\":0"));
	w.to = fd_close(w.to);
	for (unsigned i = 0; i < 20; i++)
		turn();
	assert_false(w.ended);
	mcp_fixture_finish(&w.mcp, "in time");
	wait_end();
	assert_non_null(strstr(buf_str(&w.got), "in time"));
	assert_true(now_ns() - begin < NS_PER_S);
	fd_close_many(theirs, 2);
}

static void test_end_of_input_cancels_what_takes_too_long(void **state)
{
	int theirs[2];

	(void)state;
	start_on_pipes(theirs);
	say(INITIALIZE("2025-06-18") "\n" CALL(1, "hold") "\n");
	w.to = fd_close(w.to);
	wait_end();
	assert_int_equal(w.mcp.cancelled, 1);
	fd_close_many(theirs, 2);
}

static void test_dead_client_is_noticed_at_once(void **state)
{
	int theirs[2];

	(void)state;
	start_on_pipes(theirs);
	say(INITIALIZE("2025-06-18") "\n" CALL(1, "hold") "\n");
	assert_true(wait_for("\"id\":0"));
	w.to = fd_close(w.to);
	w.from = fd_close(w.from);
	const uint64_t begin = now_ns();
	wait_end();
	assert_true(now_ns() - begin < NS_PER_S / 2);
	assert_int_equal(w.reason, -EPIPE);
	assert_int_equal(w.mcp.cancelled, 1);
	fd_close_many(theirs, 2);
}

/* A call of 60,000 bytes, which is answered with as many. */
static void make_long_call(struct buf *line)
{
	assert_int_equal(
	    buf_add_str(
		line,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
		"\"echo\",\"arguments\":{\"text\":\""),
	    0);
	while (line->len < 60000)
		assert_int_equal(buf_add_str(line, "aaaaaaaaaaaaaaaa"), 0);
	assert_int_equal(buf_add_str(line, "\"}}}\n"), 0);
}

/* What is on its way arrives whole, however long a reader takes, as long as it takes anything. */
static void test_end_of_input_lets_a_slow_reader_read(void **state)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(1u << 20);
	const unsigned n_calls = 7;
	int theirs[2];

	(void)state;
	w.drain_ns = 3 * NS_PER_S;
	start_on_pipes(theirs);
	make_long_call(&line);
	for (size_t sent = 0; sent < n_calls * line.len;) {
		const size_t off = sent % line.len;
		const ssize_t n = write(w.to, line.data + off, line.len - off);

		sent += n > 0 ? (size_t)n : 0;
		turn();
	}
	w.to = fd_close(w.to);
	const uint64_t began = now_ns();
	for (uint64_t next = began; !w.ended && now_ns() < began + 60 * NS_PER_S; turn()) {
		if (now_ns() < next)
			continue;
		take_once(); /* a pipe's worth */
		next = now_ns() + 800 * NS_PER_MS;
	}
	take();
	assert_true(w.ended);
	assert_int_equal(w.reason, 0);
	assert_true(now_ns() > began + w.drain_ns);
	assert_int_equal(count("\"result\""), n_calls);
	assert_int_equal(count("\n"), n_calls);
	fd_close_many(theirs, 2);
}

/* The client does not read: nothing blocks, what waits is bounded, and all of it comes in the end.
 */
static void test_slow_reader(void **state)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(1u << 20);
	int theirs[2];
	unsigned sent = 0;

	(void)state;
	start_on_pipes(theirs);
	make_long_call(&line);
	for (unsigned stalled = 0; sent < 1000 && stalled < 50;) {
		static size_t off;
		const ssize_t n = write(w.to, line.data + off, line.len - off);

		stalled = n > 0 ? 0 : stalled + 1;
		off += n > 0 ? (size_t)n : 0;
		if (off == line.len) {
			off = 0;
			sent++;
		}
		turn();
	}
	assert_in_range(sent, 10, 100);
	const uint64_t end = now_ns() + PATIENCE_NS;

	while (count("\n") < sent && now_ns() < end) {
		take();
		turn();
	}
	assert_int_equal(count("\"result\""), sent);
	fd_close_many(theirs, 2);
}

/* However often an answer has its large text, and wherever a full pipe cuts it. */
static void test_large_text_in_several_places(void **state)
{
	_cleanup_(buf_done) struct buf content = BUF_INIT(4u << 20);
	int theirs[2];

	(void)state;
	start_on_pipes(theirs);
	for (unsigned places = 0; places <= 3; places++) {
		char call[256];

		(void)snprintf(
		    call, sizeof(call),
		    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{"
		    "\"name\":\"blob\",\"arguments\":{\"places\":%u}}}\n",
		    places, places);
		assert_int_equal(fd_write_all(w.to, call, strlen(call)), 0);
	}
	for (unsigned i = 0; i < 10; i++) {
		turn();
		take_once();
	}
	const uint64_t end = now_ns() + PATIENCE_NS;
	while (count("\n") < 4 && now_ns() < end) {
		take();
		turn();
	}
	for (unsigned places = 0; places <= 3; places++) {
		buf_reset(&content);
		assert_int_equal(
		    buf_printf(&content, "\"id\":%u,\"result\":{\"content\":[", places), 0);
		for (unsigned i = 0; i < places; i++) {
			assert_int_equal(
			    buf_add_str(&content, i ? ",{\"type\":\"text\",\"text\":\"<"
						    : "{\"type\":\"text\",\"text\":\"<"),
			    0);
			for (unsigned n = 0; n < MCP_FIXTURE_BLOB; n++)
				assert_int_equal(buf_add_char(&content, (char)('a' + n % 26)), 0);
			assert_int_equal(buf_add_str(&content, ">\"}"), 0);
		}
		assert_int_equal(buf_add_str(&content, "]}}\n"), 0);
		assert_non_null(strstr(buf_str(&w.got), buf_str(&content)));
	}
	fd_close_many(theirs, 2);
}

static void test_flags_of_shared_descriptors_stay(void **state)
{
	int theirs[2];

	(void)state;
	start_on_pipes(theirs);
	assert_false(fcntl(theirs[0], F_GETFL) & O_NONBLOCK);
	assert_false(fcntl(theirs[1], F_GETFL) & O_NONBLOCK);
	fd_close_many(theirs, 2);
}

static void test_socket(void **state)
{
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	w.from = pair[0];
	w.to = fd_dup(pair[0]);
	assert_int_equal(fd_set_nonblock(w.from, true), 0);
	start_on(pair[1], pair[1]);
	say(INITIALIZE("2025-06-18") "\n");
	assert_true(wait_for("\"id\":0"));
	w.to = fd_close(w.to);
	w.from = fd_close(w.from);
	wait_end();
	w.stdio = transport_stdio_free(w.stdio);
	(void)fd_close(pair[1]);
}

static void test_files(void **state)
{
	int in = memfd_create("in", MFD_CLOEXEC);
	int out = memfd_create("out", MFD_CLOEXEC);
	static const char text[] = INITIALIZE("2025-06-18") "\n" CALL(1, "echo") "\n";

	(void)state;
	assert_int_equal(fd_write_all(in, text, sizeof(text) - 1), 0);
	assert_int_equal(lseek(in, 0, SEEK_SET), 0);
	start_on(in, out);
	wait_end();
	assert_int_equal(w.reason, 0);
	assert_int_equal(lseek(out, 0, SEEK_SET), 0);
	assert_int_equal(fd_read_file(out, &w.got), 0);
	assert_int_equal(count("\n"), 2);
	w.stdio = transport_stdio_free(w.stdio);
	(void)fd_close(in);
	(void)fd_close(out);
}

static void test_dev_null(void **state)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)state;
	start_on(fd, fd);
	wait_end();
	assert_int_equal(w.reason, 0);
	w.stdio = transport_stdio_free(w.stdio);
	(void)fd_close(fd);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(test_lines),
	    T(test_overlong_line_is_answered_and_skipped),
	    T(test_end_of_input),
	    T(test_end_of_input_waits_for_answers_briefly),
	    T(test_end_of_input_cancels_what_takes_too_long),
	    T(test_end_of_input_lets_a_slow_reader_read),
	    T(test_dead_client_is_noticed_at_once),
	    T(test_slow_reader),
	    T(test_large_text_in_several_places),
	    T(test_flags_of_shared_descriptors_stay),
	    T(test_socket),
	    T(test_files),
	    T(test_dev_null),
	};
#undef T
	return cmocka_run_group_tests(tests, NULL, NULL);
}
