/* SPDX-License-Identifier: Apache-2.0 */
/* The server on loopback, spoken to with raw bytes: connections, bodies, files, streams, limits. */
#include "base/workers.h"
#include "http/client_address.h"
#include "http/connection.h"
#include "http/range.h"
#include "http_world.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- connections ---- */

static unsigned count(const struct http_client *c, const char *needle)
{
	unsigned n = 0;

	for (const char *p = c->data; (p = strstr(p, needle)); p += strlen(needle))
		n++;
	return n;
}

static void test_pipelined_requests(void **state)
{
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	for (unsigned i = 0; i < 50; i++)
		client_send_str(&c,
				"POST /echo HTTP/1.1\r\n" HOST
				"Content-Length: 3\r\n\r\nabcGET /hello HTTP/1.1\r\n" HOST "\r\n");
	client_send_str(&c, "GET /p/last/one HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	client_wait_eof(&c);
	assert_int_equal(count(&c, "HTTP/1.1 200 OK"), 101);
	assert_int_equal(count(&c, "\r\n\r\nabc"), 50);
	assert_non_null(strstr(c.data, "a=last b=one"));
	client_close(&c);
}

/* A request hidden in the body of a refused one is never looked at. */
static void test_nothing_after_a_refusal(void **state)
{
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "POST /echo HTTP/1.1\r\n" HOST
			    "Content-Length: 5000\r\n\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
	(void)client_wait_for(&c, "\r\n\r\n");
	(void)shutdown(c.fd, SHUT_WR);
	client_wait_eof(&c);
	assert_int_equal(count(&c, "HTTP/1.1 "), 1);
	assert_int_equal(client_status(&c), 413);
	client_close(&c);
}

static void test_late_answer(void **state)
{
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	client_send_str(&c,
			"GET /hold HTTP/1.1\r\n" HOST "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
	client_pump(&c, 20);
	assert_non_null(w.held);
	assert_int_equal(c.len, 0);
	http_respond_text(w.held, 200, "text/plain", "late");
	/* A mistake of a handler costs its own answer at most. */
	http_respond_text(w.held, 200, "text/plain", "again");
	http_respond_shared(w.held, 200, "text/plain", "shared", 6);
	struct shared_bytes *bytes = shared_bytes_new(strdup("again"), 5);
	http_respond_bytes(w.held, 200, "text/plain", bytes);
	(void)shared_bytes_unref(bytes);
	assert_null(http_stream_begin(w.held, 200, "text/plain", NULL, NULL));
	assert_true(client_wait_for(&c, "\r\n\r\nhello"));
	assert_non_null(strstr(c.data, "late"));
	assert_null(strstr(c.data, "again"));
	assert_int_equal(count(&c, "HTTP/1.1 "), 2);
	assert_int_equal(w.gone, 0);
	client_close(&c);
}

static void wait_until(struct http_client *c, const unsigned *counter, unsigned want)
{
	for (unsigned i = 0; i < 500 && *counter < want; i++)
		client_pump(c, 5);
	assert_int_equal(*counter, want);
}

static void test_gone_client_is_noticed(void **state)
{
	struct http_client c, other;

	(void)state;
	client_open(&other, w.loop, w.port);
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
	client_pump(&c, 20);
	assert_non_null(w.held);
	client_close(&c);
	wait_until(&other, &w.gone, 1);
	/* in the middle of a body */
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc");
	client_pump(&c, 20);
	assert_int_equal(w.body_bytes, 3);
	client_close(&c);
	wait_until(&other, &w.gone, 2);
	/* with the server's own end */
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
	client_pump(&c, 20);
	w.server = http_server_free(w.server);
	assert_int_equal(w.gone, 3);
	client_close(&c);
	client_close(&other);
}

static void test_broken_body_is_refused_and_told(void **state)
{
	struct http_client c;

	(void)state;
	assert_int_equal(
	    ask(&c, "POST /upload HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX"),
	    400);
	assert_int_equal(w.gone, 1);
	client_close(&c);
}

/* ---- bodies ---- */

static void test_large_upload_in_pieces(void **state)
{
	static char block[1 << 20];
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "POST /upload HTTP/1.1\r\n" HOST
			    "Content-Length: 33554432\r\nExpect: 100-continue\r\n\r\n");
	assert_true(client_wait_for(&c, "HTTP/1.1 100 Continue\r\n\r\n"));
	client_clear(&c);
	for (unsigned i = 0; i < 16; i++)
		client_send(&c, block, sizeof(block));
	w.pause_next = true;
	for (unsigned i = 0; i < 3; i++)
		client_send(&c, block, 1024);
	client_pump(&c, 10);
	const uint64_t stopped = w.body_bytes;
	assert_true(stopped < 17u << 20);
	http_request_resume_body(w.held);
	client_send(&c, block, sizeof(block) - 3072);
	for (unsigned i = 0; i < 15; i++)
		client_send(&c, block, sizeof(block));
	assert_true(client_wait_for(&c, "got it"));
	assert_int_equal(w.body_bytes, 32u << 20);
	assert_true(w.body_end);
	/* and the connection lives on */
	client_clear(&c);
	client_send_str(&c, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&c, "hello"));
	client_close(&c);
}

/* What was not taken before a pause comes again after it, and nothing comes twice. */
static void test_pause_inside_a_piece(void **state)
{
	static const struct {
		const char *framing;
		const char *head, *tail; /* of the data */
		size_t untaken;
	} rows[] = {
	    {"Content-Length: 50000\r\n\r\n", "", "", 0},
	    {"Content-Length: 50000\r\n\r\n", "", "", 1},
	    {"Content-Length: 50000\r\n\r\n", "", "", 50000},
	    {"Transfer-Encoding: chunked\r\n\r\n", "c350\r\n", "\r\n0\r\n\r\n", 0},
	    {"Transfer-Encoding: chunked\r\n\r\n", "c350\r\n", "\r\n0\r\n\r\n", 1},
	    {"Transfer-Encoding: chunked\r\n\r\n", "c350\r\n", "\r\n0\r\n\r\n", 50000},
	};
	static char data[50000];
	uint32_t sum = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (char)(i * 7 + i / 251);
		sum = sum * 31 + (unsigned char)data[i];
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_client c;

		w.body_bytes = 0;
		w.body_sum = 0;
		w.body_end = false;
		w.untaken = rows[i].untaken;
		w.pause_next = true;
		client_open(&c, w.loop, w.port);
		client_send_str(&c, "POST /upload HTTP/1.1\r\n" HOST);
		client_send_str(&c, rows[i].framing);
		client_send_str(&c, rows[i].head);
		client_send(&c, data, sizeof(data));
		client_send_str(&c, rows[i].tail);
		client_send_str(&c, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
		client_pump(&c, 20);
		assert_false(w.pause_next);
		assert_false(w.body_end);
		http_request_resume_body(w.held);
		assert_true(client_wait_for(&c, "got it"));
		assert_int_equal(w.body_bytes, sizeof(data));
		assert_int_equal(w.body_sum, sum);
		assert_true(client_wait_for(&c, "hello")); /* the request behind the body */
		client_close(&c);
	}
	w.untaken = 0;
}

/* A client may shut down its side behind a body that is paused: it still waits for the answer. */
static void test_half_close_while_paused(void **state)
{
	struct http_client c;

	(void)state;
	w.body_end = false;
	w.pause_next = true;
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc");
	(void)shutdown(c.fd, SHUT_WR);
	client_pump(&c, 20);
	assert_non_null(w.held);
	http_request_resume_body(w.held);
	assert_true(client_wait_for(&c, "got it"));
	client_close(&c);
}

/* A client that has shut down its side gets its answers, late ones and pipelined ones, as they are. */
static void test_half_closed_client_is_answered(void **state)
{
	static const char *const versions[] = {"HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.0\r\n\r\n"};
	static const char *const ends[][2] = {{"HT", "eH"}, {"H"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct http_client c;

		client_open(&c, w.loop, w.port);
		client_send_str(&c, "GET /hold ");
		client_send_str(&c, versions[i]);
		if (i == 0)
			client_send_str(&c, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
		(void)shutdown(c.fd, SHUT_WR);
		for (unsigned k = 1; k <= (i == 0 ? 2 : 1); k++) {
			/* For the first one the second probe goes out, too. */
			client_pump(&c, k == 1 && i == 0 ? 1200 : 50);
			assert_int_equal(w.gone, 0);
			assert_int_equal(count(&c, "HTTP/1.1 200 OK\r\n"), k - 1);
			assert_string_equal(c.data + (k == 2 ? c.len - 2 : 0), ends[i][k - 1]);
			struct http_request *held = TAKE_PTR(w.held);
			assert_non_null(held);
			http_respond_text(held, 200, "text/plain", "late");
			client_pump(&c, 50);
			assert_int_equal(count(&c, "HTTP/1.1 200 OK\r\n"), k);
			assert_int_equal(count(&c, "\r\n\r\nlate"), k);
		}
		client_wait_eof(&c);
		assert_false(c.reset);
		client_close(&c);
	}
}

static bool is_ended(const void *caller)
{
	return *(const char *)caller == 'x';
}

static void test_half_closed_client_is_refused(void **state)
{
	static char name[] = "x";
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
	client_pump(&c, 20);
	http_request_set_caller(w.held, name, NULL);
	(void)shutdown(c.fd, SHUT_WR);
	assert_true(client_wait_for(&c, "H"));
	http_server_end_callers(w.server, is_ended);
	assert_true(client_wait_for(&c, "\r\n\r\n{"));
	assert_memory_equal(c.data, "HTTP/1.1 401 Unauthorized\r\n", 27);
	assert_int_equal(w.gone, 1);
	client_close(&c);
}

/* It may close its socket after it has shut down its side. */
static void test_half_closed_client_leaves(void **state)
{
	struct http_client c, other;

	(void)state;
	client_open(&other, w.loop, w.port);
	for (unsigned k = 0; k < 2; k++) {
		client_open(&c, w.loop, w.port);
		client_send_str(&c, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
		client_pump(&c, 20);
		(void)shutdown(c.fd, SHUT_WR);
		if (k == 1) /* after the first probe: the second one finds out */
			assert_true(client_wait_for(&c, "H"));
		client_close(&c);
		wait_until(&other, &w.gone, k + 1);
	}
	client_close(&other);
}

static void test_half_closed_stream(void **state)
{
	struct http_client c, other;

	(void)state;
	client_open(&other, w.loop, w.port);
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&c, "\r\n\r\n"));
	client_clear(&c);
	(void)shutdown(c.fd, SHUT_WR);
	assert_true(client_wait_for(&c, "0"));
	assert_int_equal(w.closed, 0);
	assert_int_equal(http_stream_write(w.stream, "hello", 5), 0);
	assert_true(client_wait_for(&c, "hello\r\n"));
	http_stream_end(w.stream);
	client_wait_eof(&c);
	assert_string_equal(c.data, "05\r\nhello\r\n0\r\n\r\n");
	client_close(&c);
	/* gone while nothing is sent */
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&c, "\r\n\r\n"));
	client_close(&c);
	wait_until(&other, &w.closed, 1);
	/* An event stream of HTTP/1.0 has no byte that says nothing: who shuts down its side is gone. */
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /stream HTTP/1.0\r\n\r\n");
	assert_true(client_wait_for(&c, "\r\n\r\n"));
	(void)shutdown(c.fd, SHUT_WR);
	wait_until(&other, &w.closed, 2);
	client_close(&c);
	client_close(&other);
}

/* ---- what is counted ---- */

struct noted {
	int status;
	bool request;
};
static struct noted noted[16];
static unsigned n_noted;

static void note(struct http_request *req, int status, uint64_t bytes, uint64_t ns, void *userdata)
{
	(void)bytes;
	(void)ns;
	(void)userdata;
	assert_true(n_noted < ARRAY_SIZE(noted));
	noted[n_noted++] = (struct noted){status, req != NULL};
	if (req)
		assert_int_equal(http_request_path(req)[0], '/');
}

static int world_setup_noted(void **state)
{
	const struct http_config limits = {
	    .log = note, .head_timeout_ns = 200 * NS_PER_MS, .stall_timeout_ns = 200 * NS_PER_MS};

	(void)state;
	n_noted = 0;
	return world_setup_with(&limits);
}

/* Every answer is told once, also one to what is no request. */
static void test_refusals_are_noted(void **state)
{
	static const struct {
		const char *bytes;
		struct noted want;
	} rows[] = {
	    {"GET /hello HTTP/1.1\r\n" HOST "\r\n", {200, true}},
	    {"GET /hello HTTP/1.1\r\nHost: localhost.\r\n\r\n", {200, true}},
	    {"GET /nothing HTTP/1.1\r\n" HOST "\r\n", {404, true}},
	    {"GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", {403, true}},
	    {"GET /hello\n", {400, false}},
	    {"GET /hello HTTP/1.1\r\n\r\n", {400, false}},
	    {"GET /hello?q=% HTTP/1.1\r\n" HOST "\r\n", {400, false}},
	    {"TRACE / HTTP/1.1\r\n" HOST "\r\n", {501, false}},
	    {"GET / HTTP/2.0\r\n\r\n", {505, false}},
	    {"POST /echo HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", {417, false}},
	    {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2000\r\n\r\n", {413, true}},
	    {"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n", {400, true}},
	    {"GET /hel", {408, false}},
	    {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 20\r\n\r\nabc", {408, true}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const int status = status_of(rows[i].bytes, strlen(rows[i].bytes));

		assert_int_equal(status, rows[i].want.status);
		assert_int_equal(n_noted, i + 1);
		assert_int_equal(noted[i].status, rows[i].want.status);
		assert_int_equal(noted[i].request, rows[i].want.request);
	}
}

/* A body that never stops coming costs others, and other sources of the loop, no more than a turn
 * or two. */
static void test_flood_starves_nobody(void **state)
{
	static const char hello[] = "GET /hello HTTP/1.1\r\n" HOST "\r\n";
	static char block[1 << 20];
	struct http_client flood, other;
	unsigned turns = 0;

	(void)state;
	client_open(&flood, w.loop, w.port);
	client_send_str(&flood,
			"POST /upload HTTP/1.1\r\n" HOST "Content-Length: 104857600\r\n\r\n");
	client_open(&other, w.loop, w.port);
	client_send_str(&other, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&other, "hello"));
	for (unsigned round = 0; round < 10; round++) {
		client_clear(&other);
		assert_int_equal(send(other.fd, hello, sizeof(hello) - 1, 0), sizeof(hello) - 1);
		for (turns = 0; turns < 20 && other.len == 0; turns++) {
			(void)send(flood.fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);
			assert_true(sd_event_run(w.loop, 0) >= 0);
			client_take(&other);
		}
		assert_in_range(turns, 1, 5);
	}
	client_close(&flood);
	client_close(&other);
}

static void wait_turn(struct http_turns *t, struct http_conn *c, unsigned slot)
{
	*c = (struct http_conn){.turn_slot = slot};
	list_init(&c->ready_link);
	turns_add(t, c);
	turns_add(t, c); /* it is there already */
}

/* Whoever used the least lately is next, however many connections the others have and however long they
 * have waited. */
static void test_turns(void **state)
{
	enum { GREEDY = 3, OTHER = 5, GOOD = 7 };
	static struct http_turns t;
	struct http_conn greedy[40], other[2], good, *c;

	(void)state;
	turns_init(&t);
	turns_age(&t, 5 * NS_PER_S);
	assert_null(turns_next(&t));
	turns_charge(&t, OTHER, NS_PER_MS);
	for (size_t i = 0; i < ARRAY_SIZE(greedy); i++)
		wait_turn(&t, &greedy[i], GREEDY);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		wait_turn(&t, &other[i], OTHER);
	/* Each has its turn once it has used less than the other one; within one the oldest goes first. */
	assert_ptr_equal(turns_next(&t), &greedy[0]);
	turns_charge(&t, GREEDY, 3 * NS_PER_MS);
	assert_ptr_equal(turns_next(&t), &other[0]);
	turns_charge(&t, OTHER, NS_PER_MS);
	wait_turn(&t, &good, GOOD);
	assert_ptr_equal(turns_next(&t), &good);
	assert_ptr_equal(turns_next(&t), &other[1]);
	assert_ptr_equal(turns_next(&t), &greedy[1]);
	/* A connection that is closed leaves, and old use is forgotten. */
	list_remove(&greedy[2].ready_link);
	turns_charge(&t, GOOD, NS_PER_MS);
	wait_turn(&t, &good, GOOD);
	assert_ptr_equal(turns_next(&t), &good);
	turns_age(&t, 15 * NS_PER_S);
	turns_charge(&t, GOOD, NS_PER_MS);
	wait_turn(&t, &good, GOOD);
	for (size_t i = 3; i < ARRAY_SIZE(greedy); i++) {
		c = turns_next(&t);
		assert_ptr_equal(c, &greedy[i]);
	}
	assert_ptr_equal(turns_next(&t), &good);
	assert_false(turns_waiting(&t));
}

/* ---- files ---- */

static void test_files(void **state)
{
	static const struct {
		int status;
		const char *headers;
		const char *has;
	} rows[] = {
	    {200, "", "\r\n\r\n0123456789abcdefghijklmnopqrstuvwxyz"},
	    {200, "",
	     "Content-Disposition: inline; filename=\"a ___.txt\"; "
	     "filename*=UTF-8''a%20%C3%A9%22.txt\r\n"},
	    {200, "", "ETag: \"v1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"},
	    {206, "Range: bytes=0-3\r\n", "\r\n\r\n0123"},
	    {206, "Range: bytes=-4\r\n", "Content-Range: bytes 32-35/36\r\n"},
	    {206, "Range: bytes=34-\r\n", "\r\n\r\nyz"},
	    {206, "Range: bytes=34-999999999999999999999999\r\n", "\r\n\r\nyz"},
	    {416, "Range: bytes=36-\r\n", "Content-Range: bytes */36\r\n"},
	    {416, "Range: bytes=-0\r\n", "bytes */36"},
	    {200, "Range: bytes=0-1,3-4\r\n", "Content-Length: 36\r\n"},
	    {200, "Range: bytes=5-2\r\n", "Content-Length: 36\r\n"},
	    {200, "Range: lines=1-2\r\n", "Content-Length: 36\r\n"},
	    {206, "Range: bytes=0-0\r\nIf-Range: \"v1\"\r\n", "Content-Length: 1\r\n"},
	    {200, "Range: bytes=0-0\r\nIf-Range: \"v0\"\r\n", "Content-Length: 36\r\n"},
	    {200, "Range: bytes=0-0\r\nIf-Range: W/\"v1\"\r\n", "Content-Length: 36\r\n"},
	    {206, "Range: bytes=0-0\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
	     "Content-Length: 1\r\n"},
	    {304, "If-None-Match: \"v0\", W/\"v1\"\r\n", "ETag: \"v1\"\r\n"},
	    {304, "If-None-Match: *\r\n", "ETag: \"v1\"\r\n"},
	    {200, "If-None-Match: \"v0\"\r\n", "Content-Length: 36\r\n"},
	    {304, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "304"},
	    {200, "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", "Content-Length: 36\r\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_client c;
		char req[512];
		int got;

		(void)snprintf(req, sizeof(req), "GET /file HTTP/1.1\r\n" HOST "%s\r\n",
			       rows[i].headers);
		got = ask(&c, req);
		if (got != rows[i].status || !client_wait_for(&c, rows[i].has))
			fail_msg("row %zu: %d %s", i, got, c.data);
		client_close(&c);
	}
}

static void test_large_file_to_a_slow_reader(void **state)
{
	struct http_client c, other;
	size_t total = 0;

	(void)state;
	client_open(&other, w.loop, w.port);
	assert_int_equal(ask(&c, "GET /big HTTP/1.1\r\n" HOST "\r\n"), 200);
	client_send_str(&other, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&other, "hello"));
	while (!c.eof && total < WORLD_BIG) {
		client_pump(&c, 2);
		total += c.len;
		client_clear(&c);
	}
	assert_true(total > WORLD_BIG && total < WORLD_BIG + 1000);
	client_close(&c);
	client_close(&other);
}

struct gate {
	int pipe[2];
	unsigned ran;
};

static void wait_at_gate(void *user)
{
	struct gate *g = user;
	char c;

	(void)!read(g->pipe[0], &c, 1);
}

static void passed_gate(void *user)
{
	((struct gate *)user)->ran++;
}

static void hold_tenant(struct gate *g)
{
	*g = (struct gate){0};
	assert_int_equal(pipe2(g->pipe, O_CLOEXEC), 0);
	for (unsigned i = 0; i < WORKERS_EACH; i++)
		assert_int_equal(workers_run("tenant", wait_at_gate, passed_gate, g), 0);
}

static void let_tenant_go(struct gate *g)
{
	assert_int_equal(write(g->pipe[1], "xx", WORKERS_EACH), WORKERS_EACH);
	while (g->ran < WORKERS_EACH)
		assert_true(sd_event_run(w.loop, UINT64_MAX) >= 0);
}

static void close_gate(struct gate *g)
{
	(void)close(g->pipe[0]);
	(void)close(g->pipe[1]);
}

/* The disk of one tenant hangs: whoever loads its file waits, without a timeout, and nobody else. */
static void test_file_that_cannot_be_read_yet(void **state)
{
	struct http_client c, other;
	struct gate g;

	(void)state;
	hold_tenant(&g);
	assert_int_equal(ask(&c, "GET /big HTTP/1.1\r\n" HOST "\r\n"), 200);
	client_clear(&c);
	assert_int_equal(ask(&other, "GET /hello HTTP/1.1\r\n" HOST "\r\n"), 200);
	client_pump(&c, 2);
	assert_int_equal(c.len, 0);
	let_tenant_go(&g);
	size_t total = 0;
	while (!c.eof && total < WORLD_BIG) {
		client_pump(&c, 2);
		total += c.len;
		client_clear(&c);
	}
	assert_int_equal(total, WORLD_BIG);
	client_close(&c);
	client_close(&other);
	close_gate(&g);
}

/* The client leaves while a thread is to send. The loop does not wait for the thread, and the file is closed by it. */
static void test_file_whose_client_leaves(void **state)
{
	struct http_client c, other;
	struct gate g;

	(void)state;
	hold_tenant(&g);
	assert_int_equal(ask(&c, "GET /big HTTP/1.1\r\n" HOST "\r\n"), 200);
	client_clear(&c);
	assert_int_equal(
	    setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)),
	    0);
	client_close(&c); /* a reset */
	while (http_server_busy(w.server) > 0)
		assert_true(sd_event_run(w.loop, UINT64_MAX) >= 0);
	assert_int_equal(ask(&other, "GET /hello HTTP/1.1\r\n" HOST "\r\n"), 200);
	client_close(&other);
	assert_int_not_equal(fcntl(w.big_fd, F_GETFD), -1);
	let_tenant_go(&g);
	workers_end();
	w.jobs = sd_event_source_disable_unref(w.jobs);
	assert_int_equal(fcntl(w.big_fd, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
	close_gate(&g);
}

/* ---- streams ---- */

static void test_stream(void **state)
{
	struct http_client c;

	(void)state;
	assert_int_equal(ask(&c, "GET /stream HTTP/1.1\r\n" HOST "\r\n"), 200);
	assert_non_null(strstr(c.data, "text/event-stream"));
	assert_non_null(w.stream);
	assert_int_equal(http_stream_write(w.stream, "data: 1\n\n", 9), 0);
	assert_true(client_wait_for(&c, "9\r\ndata: 1\n\n\r\n"));
	http_stream_end(TAKE_PTR(w.stream));
	assert_true(client_wait_for(&c, "0\r\n\r\n"));
	assert_int_equal(w.closed, 0);
	client_clear(&c);
	client_send_str(&c, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&c, "hello"));
	client_close(&c);
	/* HTTP/1.0: raw, ends with the connection */
	assert_int_equal(ask(&c, "GET /stream HTTP/1.0\r\n" HOST "\r\n"), 200);
	assert_int_equal(http_stream_write(w.stream, "data: 1\n\n", 9), 0);
	http_stream_end(TAKE_PTR(w.stream));
	client_wait_eof(&c);
	assert_non_null(strstr(c.data, "\r\n\r\ndata: 1\n\n"));
	client_close(&c);
	/* HEAD gets no stream */
	w.stream = NULL;
	assert_int_equal(ask(&c, "HEAD /stream HTTP/1.1\r\n" HOST "\r\n"), 200);
	assert_null(w.stream);
	client_close(&c);
}

static void test_stream_to_nobody_and_to_a_slow_reader(void **state)
{
	static char block[256 << 10];
	struct http_client c, other;
	int r = 0;

	(void)state;
	client_open(&other, w.loop, w.port);
	assert_int_equal(ask(&c, "GET /stream HTTP/1.1\r\n" HOST "\r\n"), 200);
	for (unsigned i = 0; i < 1000 && r == 0; i++)
		r = http_stream_write(w.stream, block, sizeof(block));
	assert_int_equal(r, -ENOBUFS);
	assert_true(http_stream_queued(w.stream) < (2u << 20));
	while (w.drained == 0 && !c.eof) {
		client_pump(&c, 5);
		client_clear(&c);
	}
	assert_int_equal(http_stream_queued(w.stream), 0);
	client_close(&c);
	wait_until(&other, &w.closed, 1);
	client_close(&other);
}

static void test_stream_behind_a_large_message(void **state)
{
	static char large[24 << 20], block[256 << 10];
	struct http_client c, other;
	int r = 0;

	(void)state;
	client_open(&other, w.loop, w.port);
	assert_int_equal(ask(&c, "GET /stream HTTP/1.1\r\n" HOST "\r\n"), 200);
	assert_int_equal(http_stream_write(w.stream, large, sizeof(large)), 0);
	assert_true(http_stream_queued(w.stream) > (2u << 20));
	/* The limit of this server is 1 MiB: what is behind the message counts, not the message. */
	assert_int_equal(http_stream_write(w.stream, "data: 1\n\n", 9), 0);
	for (unsigned i = 0; i < 1000 && r == 0; i++)
		r = http_stream_write(w.stream, block, sizeof(block));
	assert_int_equal(r, -ENOBUFS);
	assert_true(http_stream_queued(w.stream) < sizeof(large) + (2u << 20));
	client_close(&c);
	wait_until(&other, &w.closed, 1);
	client_close(&other);
}

static void test_drain(void **state)
{
	struct http_client c, idle;

	(void)state;
	client_open(&idle, w.loop, w.port);
	client_send_str(&idle, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&idle, "hello"));
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
	client_pump(&c, 10);
	assert_int_equal(http_server_busy(w.server), 1);
	http_server_drain(w.server);
	client_wait_eof(&idle);
	http_respond_text(w.held, 200, "text/plain", "late");
	client_wait_eof(&c);
	assert_non_null(strstr(c.data, "Connection: close"));
	assert_non_null(strstr(c.data, "late"));
	assert_int_equal(http_server_busy(w.server), 0);
	client_close(&c);
	client_close(&idle);
}

/* ---- limits ---- */

static void test_slow_clients_are_dropped(void **state)
{
	static const struct {
		const char *bytes;
		int status; /* 0: closed without a word */
	} rows[] = {
	    {"", 0},
	    {"GET /hello HT", 408},
	    {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabc", 408},
	    {"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nabc", 408},
	    {"GET /hello HTTP/1.1\r\n" HOST "\r\n", 200}, /* then idle */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint64_t begin = now_ns();
		struct http_client c;

		client_open(&c, w.loop, w.port);
		client_send_str(&c, rows[i].bytes);
		client_wait_eof(&c);
		assert_true(c.eof);
		assert_int_equal(client_status(&c), rows[i].status);
		assert_true(now_ns() - begin >= 150 * NS_PER_MS);
		client_close(&c);
	}
}

/* A byte now and then does not hold a connection. */
static void test_trickling_body_is_dropped(void **state)
{
	const uint64_t begin = now_ns();
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n");
	while (!c.eof && !c.reset && now_ns() - begin < 20 * NS_PER_S) {
		client_send_str(&c, "x");
		client_pump(&c, 20);
	}
	assert_true(now_ns() - begin < 20 * NS_PER_S);
	assert_true(c.reset || client_status(&c) == 408);
	client_close(&c);
}

static int setup_few_per_address(void **state)
{
	struct budgets *budgets = budgets_new(&(struct budgets_config){0});
	const struct http_config limits = {.budgets = budgets, .count_loopback = true};

	*state = budgets;
	assert_non_null(budgets);
	budgets_set(budgets, BUDGET_CONNECTIONS, &(struct budget_bounds){.stranger = 2});
	return world_setup_with(&limits);
}

static void test_connections_of_one_address(void **state)
{
	struct http_client c[3];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		client_open(&c[i], w.loop, w.port);
		client_send_str(&c[i], "GET /hello HTTP/1.1\r\n" HOST "\r\n");
		assert_true(client_wait_for(&c[i], "HTTP/1.1 200 "));
	}
	client_open(&c[2], w.loop, w.port);
	client_wait_eof(&c[2]);
	assert_true(c[2].eof || c[2].reset);
	assert_int_equal(client_status(&c[2]), 429);
	client_close(&c[2]);
	/* the others go on, and one that leaves makes room */
	client_clear(&c[1]);
	client_send_str(&c[1], "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&c[1], "HTTP/1.1 200 "));
	client_close(&c[0]);
	client_pump(&c[1], 20);
	client_open(&c[2], w.loop, w.port);
	client_send_str(&c[2], "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&c[2], "HTTP/1.1 200 "));
	client_close(&c[1]);
	client_close(&c[2]);
}

static int teardown_few_per_address(void **state)
{
	int r = world_teardown(state);

	(void)budgets_free(*state);
	return r;
}

/* The networks that strangers count by. */
static void test_networks(void **state)
{
	static const struct {
		const char *address, *network;
	} rows[] = {
	    {"192.0.2.1", "192.0.2.1"},
	    {"::ffff:192.0.2.2", "192.0.2.2"},
	    {"2001:db8::1", "2001:db8::/64"},
	    {"2001:db8:0:0:ffff::3", "2001:db8::/64"},
	    {"2001:db8:0:1::3", "2001:db8:0:1::/64"},
	    {"127.0.0.1", "loopback"},
	    {"::1", "loopback"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char network[HTTP_NETWORK_TEXT];
		union http_address a;
		socklen_t len;

		assert_int_equal(http_address_parse(rows[i].address, 1, &a, &len), 0);
		http_network_text(&a, network);
		assert_string_equal(network, rows[i].network);
	}
}

/* A handler that takes its time is no slow client. */
static void test_ranges(void **state)
{
	static const struct {
		const char *value;
		enum http_range what;
		uint64_t first, last; /* of ten bytes */
	} rows[] = {
	    {NULL, HTTP_RANGE_WHOLE, 0, 0},
	    {"bytes=0-0", HTTP_RANGE_PART, 0, 0},
	    {"bytes=3-7", HTTP_RANGE_PART, 3, 7},
	    {"bytes=3-9", HTTP_RANGE_PART, 3, 9},
	    {"bytes=3-10", HTTP_RANGE_PART, 3, 9},
	    {"BYTES= 3-", HTTP_RANGE_PART, 3, 9},
	    {"bytes=9-99999999999999999999999", HTTP_RANGE_PART, 9, 9},
	    {"bytes=10-", HTTP_RANGE_UNSATISFIABLE, 0, 0},
	    {"bytes=99999999999999999999999-", HTTP_RANGE_UNSATISFIABLE, 0, 0},
	    {"bytes=-1", HTTP_RANGE_PART, 9, 9},
	    {"bytes=-10", HTTP_RANGE_PART, 0, 9},
	    {"bytes=-11", HTTP_RANGE_PART, 0, 9},
	    {"bytes=-0", HTTP_RANGE_UNSATISFIABLE, 0, 0},
	    {"bytes=-", HTTP_RANGE_WHOLE, 0, 0},
	    {"bytes=7-3", HTTP_RANGE_WHOLE, 0, 0},
	    {"bytes=0-1,3-4", HTTP_RANGE_WHOLE, 0, 0},
	    {"bytes=a-1", HTTP_RANGE_WHOLE, 0, 0},
	    {"bytes=1-a", HTTP_RANGE_WHOLE, 0, 0},
	    {"lines=1-2", HTTP_RANGE_WHOLE, 0, 0},
	};
	uint64_t first, last;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		first = last = 0;
		assert_int_equal(http_range_parse(rows[i].value, 10, &first, &last), rows[i].what);
		assert_int_equal(first, rows[i].first);
		assert_int_equal(last, rows[i].last);
	}
	assert_int_equal(http_range_parse("bytes=0-", 0, &first, &last), HTTP_RANGE_UNSATISFIABLE);
	assert_int_equal(http_range_parse("bytes=-1", 0, &first, &last), HTTP_RANGE_UNSATISFIABLE);
}

static void test_entity_tags(void **state)
{
	static const struct {
		const char *list;
		bool strong, weak;
	} rows[] = {
	    {"*", true, true},
	    {"\"a\"", true, true},
	    {"W/\"a\"", false, true},
	    {"\"b\", \"a\"", true, true},
	    {"\"b\" W/\"a\"", false, true},
	    {"\"ab\"", false, false},
	    {"\"b\"", false, false},
	    {"a", false, false},
	    {"\"a", false, false},
	    {"", false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(http_etag_in_list(rows[i].list, "\"a\"", false), rows[i].strong);
		assert_int_equal(http_etag_in_list(rows[i].list, "\"a\"", true), rows[i].weak);
	}
}

static void test_waiting_for_us_has_no_limit(void **state)
{
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
	client_pump(&c, 600);
	assert_non_null(w.held);
	http_respond_text(w.held, 200, "text/plain", "late");
	assert_true(client_wait_for(&c, "late"));
	client_close(&c);
}

static void test_reader_that_stops(void **state)
{
	struct http_client c, other;
	const uint64_t begin = now_ns();

	(void)state;
	client_open(&other, w.loop, w.port);
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "GET /big HTTP/1.1\r\n" HOST "\r\n");
	while (http_server_busy(w.server) == 0)
		client_pump(&other, 5);
	while (http_server_busy(w.server) > 0 && now_ns() - begin < 3 * NS_PER_S)
		client_pump(&other, 5);
	assert_int_equal(http_server_busy(w.server), 0);
	client_close(&c);
	client_close(&other);
}

static void test_connection_limit(void **state)
{
	struct http_client held, idle[2], more;

	(void)state;
	client_open(&held, w.loop, w.port);
	client_send_str(&held, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
	client_pump(&held, 10);
	for (unsigned i = 0; i < 2; i++) {
		client_open(&idle[i], w.loop, w.port);
		client_send_str(&idle[i], "GET /hello HTTP/1.1\r\n" HOST "\r\n");
		assert_true(client_wait_for(&idle[i], "hello"));
	}
	/* the idlest goes for the newcomer, never the one that waits for us */
	client_open(&more, w.loop, w.port);
	client_send_str(&more, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_true(client_wait_for(&more, "hello"));
	client_pump(&idle[0], 10);
	assert_true(idle[0].eof);
	assert_int_equal(w.gone, 0);
	http_respond_text(w.held, 200, "text/plain", "late");
	assert_true(client_wait_for(&held, "late"));
	client_close(&held);
	client_close(&idle[0]);
	client_close(&idle[1]);
	client_close(&more);
}

int main(void)
{
#define L(name) cmocka_unit_test_setup_teardown(name, world_setup_tight, world_teardown)
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
	    T(test_pipelined_requests),
	    T(test_nothing_after_a_refusal),
	    T(test_late_answer),
	    T(test_gone_client_is_noticed),
	    T(test_broken_body_is_refused_and_told),
	    T(test_large_upload_in_pieces),
	    T(test_pause_inside_a_piece),
	    T(test_half_close_while_paused),
	    T(test_half_closed_client_is_answered),
	    T(test_half_closed_client_is_refused),
	    T(test_half_closed_client_leaves),
	    T(test_half_closed_stream),
	    cmocka_unit_test_setup_teardown(test_refusals_are_noted, world_setup_noted,
					    world_teardown),
	    T(test_flood_starves_nobody),
	    cmocka_unit_test(test_turns),
	    T(test_files),
	    T(test_large_file_to_a_slow_reader),
	    T(test_file_that_cannot_be_read_yet),
	    T(test_file_whose_client_leaves),
	    T(test_stream),
	    T(test_stream_to_nobody_and_to_a_slow_reader),
	    T(test_stream_behind_a_large_message),
	    T(test_drain),
	    L(test_slow_clients_are_dropped),
	    L(test_trickling_body_is_dropped),
	    cmocka_unit_test_setup_teardown(test_connections_of_one_address, setup_few_per_address,
					    teardown_few_per_address),
	    cmocka_unit_test(test_networks),
	    cmocka_unit_test(test_ranges),
	    cmocka_unit_test(test_entity_tags),
	    L(test_waiting_for_us_has_no_limit),
	    L(test_reader_that_stops),
	    L(test_connection_limit),
	};
#undef T
#undef L
	return cmocka_run_group_tests(tests, NULL, NULL);
}
