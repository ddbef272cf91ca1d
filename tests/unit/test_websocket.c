/* SPDX-License-Identifier: Apache-2.0 */
/* WebSockets: the key, the reader of frames, and a server on loopback whose sockets echo what they are sent. */
#include "http/connection.h"
#include "http/ws_accept.h"
#include "http_world.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define MESSAGE_MAX 1000u
#define KEY         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define UPGRADE     "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
#define VERSION     "Sec-WebSocket-Version: 13\r\n"
#define HELLO       "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION KEY "\r\n"
#define FLOOD_BYTES (8u << 10)

/* ---- the server's side ---- */

static struct {
	struct http_socket *socket;
	struct buf echo; /* what is to be sent */
	bool echo_text;
	unsigned messages, closed, asked;
	bool full;  /* on_message has no room */
	bool flood; /* on_room always has something */
	bool ended; /* on_message ends the socket */
	bool slow;  /* on_message takes a while */
} g;

static bool on_message(bool text, const void *data, size_t len, void *userdata)
{
	(void)userdata;
	if (g.full)
		return false;
	g.messages++;
	if (g.slow) {
		const uint64_t until = now_ns() + 50 * NS_PER_US;

		while (now_ns() < until)
			;
	}
	if (g.ended) {
		http_socket_end(TAKE_PTR(g.socket), 4000, "enough");
		return true;
	}
	buf_reset(&g.echo);
	assert_int_equal(buf_add(&g.echo, data, len), 0);
	g.echo_text = text;
	http_socket_ask(g.socket);
	return true;
}

static bool on_room(void *userdata)
{
	static const char piece[FLOOD_BYTES];

	(void)userdata;
	g.asked++;
	if (g.flood) {
		assert_int_equal(http_socket_send(g.socket, false, piece, sizeof(piece)), 0);
	} else if (g.echo.len > 0) {
		assert_int_equal(http_socket_send(g.socket, g.echo_text, g.echo.data, g.echo.len),
				 0);
		buf_reset(&g.echo);
	}
	return g.flood;
}

static void on_close(void *userdata)
{
	(void)userdata;
	g.closed++;
	g.socket = NULL;
}

static void on_socket(struct http_request *req, void *userdata)
{
	static const struct http_socket_ops ops = {on_message, on_room, on_close};

	(void)userdata;
	g.socket = http_socket_begin(req, &ops, MESSAGE_MAX, NULL);
}

static void on_caller(struct http_request *req, void *userdata)
{
	http_request_set_caller(req, &g, NULL);
	on_socket(req, userdata);
}

static const struct http_route rows[] = {
    {HTTP_GET, "/socket", on_socket, 0, 0},
    {HTTP_GET, "/caller", on_caller, 0, 0},
};

static int setup(void **state)
{
	assert_int_equal(world_setup(state), 0);
	memset(&g, 0, sizeof(g));
	g.echo.max = MESSAGE_MAX;
	return http_server_add_routes(w.server, rows, ARRAY_SIZE(rows), HTTP_SCOPE_MAIN, NULL);
}

static int setup_tight(void **state)
{
	assert_int_equal(world_setup_tight(state), 0);
	memset(&g, 0, sizeof(g));
	return http_server_add_routes(w.server, rows, ARRAY_SIZE(rows), HTTP_SCOPE_MAIN, NULL);
}

static int teardown(void **state)
{
	buf_done(&g.echo);
	return world_teardown(state);
}

/* ---- the client's side ---- */

/* Appends a frame with a mask. FIRST: the first byte. */
static void add_frame(struct buf *b, unsigned first, const void *data, size_t len)
{
	static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
	uint8_t head[WS_HEAD_MAX];
	const size_t n = ws_write_head(WS_TEXT, len, NULL, head);

	head[0] = (uint8_t)first;
	head[1] |= 0x80;
	assert_int_equal(buf_add(b, head, n), 0);
	assert_int_equal(buf_add(b, mask, sizeof(mask)), 0);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(buf_add_char(b, (char)(((const uint8_t *)data)[i] ^ mask[i % 4])),
				 0);
}

static void send_frame(struct http_client *c, unsigned first, const void *data, size_t len)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1 << 20);

	add_frame(&b, first, data, len);
	client_send(c, b.data, b.len);
}

static void open_at(struct http_client *c, const char *hello)
{
	assert_int_equal(ask(c, hello), 101);
	assert_non_null(
	    strstr(c->data, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
	client_clear(c);
}

static bool has(const struct http_client *c, const void *data, size_t len)
{
	return memmem(c->data, c->len, data, len) != NULL;
}

/* ---- the key ---- */

static void test_key(void **state)
{
	char text[WS_ACCEPT_SIZE];

	(void)state;
	ws_accept("dGhlIHNhbXBsZSBub25jZQ==", text); /* of RFC 6455 §1.3 */
	assert_string_equal(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	ws_accept("AQIDBAUGBwgJCgsMDQ4PEC==", text); /* of §4.1 */
	assert_string_equal(text, "OfS0wDaT5NoxF2gqm7Zj2YtetzM=");
	assert_true(ws_is_key("dGhlIHNhbXBsZSBub25jZQ=="));
	assert_false(ws_is_key("dGhlIHNhbXBsZSBub25jZQ="));
	assert_false(ws_is_key("dGhlIHNhbXBsZSBub25jZQAA"));
	assert_false(ws_is_key("dGhlIHNhbXBsZSBub25jZQ-_"));
	assert_false(ws_is_key(""));
}

/* ---- the reader ---- */

static const struct hostile_row {
	const char *what;
	int code;
	const char *bytes;
	size_t len;
} hostile[] = {
#define ROW(what, code, bytes)                                                                     \
	{                                                                                          \
		what, code, bytes, sizeof(bytes) - 1                                               \
	}
    ROW("no mask", 1002, "\x81\x01x"),
    ROW("RSV1", 1002, "\xc1\x80mask"),
    ROW("RSV3", 1002, "\x91\x80mask"),
    ROW("opcode 3", 1002, "\x83\x80mask"),
    ROW("opcode 11", 1002, "\x8b\x80mask"),
    ROW("a ping in fragments", 1002, "\x09\x80mask"),
    ROW("a ping of 126 bytes", 1002, "\x89\xfe\x00\x7emask"),
    ROW("a close of 64 bits", 1002, "\x88\xff"),
    ROW("nothing goes on", 1002, "\x80\x80mask"),
    ROW("a text in a text", 1002, "\x01\x80mask\x81\x80mask"),
    ROW("125 in 16 bits", 1002, "\x82\xfe\x00\x7dmask"),
    ROW("65,535 in 64 bits", 1002, "\x82\xff\0\0\0\0\0\0\xff\xffmask"),
    ROW("a length of 2^63", 1002, "\x82\xff\x80\0\0\0\0\0\0\0mask"),
    ROW("1,001 bytes", 1009, "\x82\xfe\x03\xe9mask"),
    ROW("2^32 bytes", 1009, "\x82\xff\0\0\0\1\0\0\0\0mask"),
    ROW("1,001 bytes in fragments", 1009, "\x02\x81maskx\x80\xfe\x03\xe8mask"),
    ROW("a close of one byte", 1002, "\x88\x81\0\0\0\0\x03"),
    ROW("a close with 999", 1002, "\x88\x82\0\0\0\0\x03\xe7"),
    ROW("a close with 1005", 1002, "\x88\x82\0\0\0\0\x03\xed"),
    ROW("a close with 2999", 1002, "\x88\x82\0\0\0\0\x0b\xb7"),
    ROW("a reason that is no text", 1007, "\x88\x83\0\0\0\0\x03\xe8\xff"),
    ROW("a text that is none, before its end", 1007,
	"\x81\x89\0\0\0\0\xff"
	"text"),
    ROW("a text that ends in a character", 1007, "\x81\x81\0\0\0\0\xc3"),
    ROW("a surrogate over fragments", 1007, "\x01\x81\0\0\0\0\xed\x80\x82\0\0\0\0\xa0\x80"),
#undef ROW
};

static void test_hostile_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		const struct hostile_row *h = &hostile[i];
		struct ws_reader r;
		struct ws_heard heard;
		int code = 0;

		print_message("%s\n", h->what);
		ws_reader_init(&r, MESSAGE_MAX, true);
		for (size_t at = 0, used; code == 0 && at < h->len; at += used)
			code =
			    ws_read(&r, (const uint8_t *)h->bytes + at, h->len - at, &used, &heard);
		assert_int_equal(code, h->code);
		ws_reader_done(&r);
	}
}

static void test_messages_in_fragments(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(10000);
	struct ws_reader r;
	struct ws_heard heard;
	size_t used;

	(void)state;
	add_frame(&b, 0x01, "a\xc3", 2);
	add_frame(&b, 0x89, "?", 1);
	add_frame(&b, 0x00, "", 0);
	add_frame(&b, 0x80, "\xa4", 1);
	add_frame(&b, 0x82, "\xff", 1);
	ws_reader_init(&r, MESSAGE_MAX, true);
	const struct ws_heard want[] = {
	    {.opcode = WS_PING, .data = "?", .len = 1},
	    {.opcode = WS_TEXT, .data = "a\xc3\xa4", .len = 3},
	    {.opcode = WS_BINARY, .data = "\xff", .len = 1},
	};
	size_t at = 0;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++, at += used) {
		assert_int_equal(
		    ws_read(&r, (const uint8_t *)b.data + at, b.len - at, &used, &heard), 0);
		assert_int_equal(heard.opcode, want[i].opcode);
		assert_int_equal(heard.len, want[i].len);
		assert_memory_equal(heard.data, want[i].data, want[i].len);
	}
	assert_int_equal(at, b.len);
	ws_reader_done(&r);
}

/* What one side writes, the other reads, and its own does not. */
static void test_both_sides(void **state)
{
	static const size_t lengths[] = {0, 1, 125, 126, 65535, 65536};
	const uint8_t mask[WS_MASK_BYTES] = {1, 2, 3, 4};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(lengths); i++) {
		const size_t len = lengths[i / 2];
		const bool masked = i % 2;
		static uint8_t frame[WS_HEAD_MAX + 65536];
		const size_t at = ws_write_head(WS_BINARY, len, masked ? mask : NULL, frame);
		struct ws_reader good, wrong;
		struct ws_heard heard;
		size_t used;

		memset(frame + at, 7, len);
		if (masked)
			ws_mask(frame + at, len, mask);
		ws_reader_init(&good, 65536, masked);
		ws_reader_init(&wrong, 65536, !masked);
		assert_int_equal(ws_read(&good, frame, at + len, &used, &heard), 0);
		assert_true(used == at + len && heard.opcode == WS_BINARY && heard.len == len);
		assert_true(len == 0 || ((const uint8_t *)heard.data)[len - 1] == 7);
		assert_int_equal(ws_read(&wrong, frame, at + len, &used, &heard), WS_CODE_PROTOCOL);
		ws_reader_done(&good);
	}
}

/* ---- the upgrade ---- */

static void test_handshakes(void **state)
{
	static const struct {
		int status;
		const char *bytes;
	} table[] = {
	    {426, "GET /socket HTTP/1.1\r\n" HOST UPGRADE KEY "\r\n"},
	    {426, "GET /socket HTTP/1.1\r\n" HOST UPGRADE KEY "Sec-WebSocket-Version: 8\r\n\r\n"},
	    {400, "GET /socket HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n" VERSION KEY "\r\n"},
	    {400, "GET /socket HTTP/1.1\r\n" HOST "Connection: Upgrade\r\n" VERSION KEY "\r\n"},
	    {400, "GET /socket HTTP/1.0\r\n" HOST UPGRADE VERSION KEY "\r\n"},
	    {400, "HEAD /socket HTTP/1.1\r\n" HOST UPGRADE VERSION KEY "\r\n"},
	    {400, "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION "\r\n"},
	    {400, "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION "Sec-WebSocket-Key: x\r\n\r\n"},
	    {400, "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION KEY KEY "\r\n"},
	    {400, "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION VERSION KEY "\r\n"},
	    {413,
	     "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION KEY "Content-Length: 100000\r\n\r\n"},
	    {400, "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION KEY "Content-Length: 1\r\n\r\nx"},
	    {403, "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION KEY
		  "Origin: http://evil.example\r\n\r\n"},
	    {403, "GET /socket HTTP/1.1\r\nHost: evil.example\r\n" UPGRADE VERSION KEY "\r\n"},
	    {101, "GET /socket HTTP/1.1\r\n" HOST UPGRADE VERSION KEY
		  "Origin: http://localhost:6274\r\n\r\n"},
	    {101,
	     "GET /socket HTTP/1.1\r\n" HOST "connection: x\r\nconnection: UPGRADE\r\n"
	     "upgrade: h2c, WebSocket\r\nsec-websocket-extensions: permessage-deflate\r\n" VERSION
		 KEY "\r\n"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct http_client c;

		assert_int_equal(ask(&c, table[i].bytes), table[i].status);
		assert_true((table[i].status == 426) == has(&c, VERSION, strlen(VERSION)));
		assert_null(strstr(c.data, "permessage"));
		client_close(&c);
	}
}

/* A proxy that believes in an upgrade sends on what its client says. Nothing of it is a request. */
static void test_nothing_is_smuggled(void **state)
{
	static const char *const first[] = {
	    HELLO,
	    "GET /socket HTTP/1.1\r\n" HOST UPGRADE KEY "Sec-WebSocket-Version: 777\r\n\r\n",
	    "GET /hello HTTP/1.1\r\n" HOST UPGRADE VERSION KEY "\r\n",
	    "GET /none HTTP/1.1\r\n" HOST UPGRADE VERSION KEY "\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		struct http_client c;

		client_open(&c, w.loop, w.port);
		client_send_str(&c, first[i]);
		client_send_str(&c, "GET /p/stolen/secret HTTP/1.1\r\n" HOST "\r\n");
		client_wait_eof(&c);
		assert_null(strstr(c.data, "stolen"));
		assert_non_null(strstr(c.data, "HTTP/1.1 "));
		assert_null(strstr(c.data + 1, "HTTP/1.1 "));
		client_close(&c);
	}
}

/* ---- messages ---- */

static void test_echo_ping_and_close(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(10000);
	struct http_client c;
	char long_text[300];

	(void)state;
	open_at(&c, HELLO);
	send_frame(&c, 0x81, "gr\xc3\xbc\xc3\x9f", 6);
	assert_true(client_wait_for(&c, "\x81\x06gr\xc3\xbc\xc3\x9f"));
	memset(long_text, 'x', sizeof(long_text));
	add_frame(&b, 0x82, long_text, sizeof(long_text));
	for (size_t i = 0; i < b.len; i++) /* however it arrives */
		client_send(&c, b.data + i, 1);
	assert_true(client_wait_for(&c, "\x82\x7e\x01\x2cxxx"));
	send_frame(&c, 0x89, "are you there", 13);
	assert_true(client_wait_for(&c, "\x8a\x0d"
					"are you there"));
	send_frame(&c, 0x8a, "", 0); /* nobody asked */
	send_frame(&c, 0x88,
		   "\x0b\xb8"
		   "bye",
		   5);
	client_wait_eof(&c);
	assert_true(has(&c, "\x88\x02\x0b\xb8", 4));
	assert_int_equal(g.messages, 2);
	assert_int_equal(g.closed, 1);
	client_close(&c);
}

static void test_bad_frames_close(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		struct http_client c;
		const char close[] = {(char)(hostile[i].code >> 8), (char)hostile[i].code};

		open_at(&c, HELLO);
		client_send(&c, hostile[i].bytes, hostile[i].len);
		client_wait_eof(&c);
		assert_true(c.len > 4 && c.data[0] == (char)0x88);
		assert_memory_equal(c.data + 2, close, sizeof(close));
		assert_int_equal(g.closed, i + 1);
		client_close(&c);
	}
}

static void test_ends(void **state)
{
	struct http_client c;

	(void)state;
	/* by the owner, inside of its callback */
	open_at(&c, HELLO);
	g.ended = true;
	send_frame(&c, 0x81, "a", 1);
	send_frame(&c, 0x81, "b", 1);
	client_wait_eof(&c);
	assert_true(has(&c,
			"\x88\x08\x0f\xa0"
			"enough",
			10));
	assert_int_equal(g.messages, 1);
	assert_int_equal(g.closed, 0);
	client_close(&c);
	/* the client goes, without and with a shutdown */
	for (int how = 0; how < 2; how++) {
		struct http_client other;

		open_at(&c, HELLO);
		if (how == 1)
			assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
		else
			client_close(&c);
		client_open(&other, w.loop, w.port);
		for (unsigned i = 0; i < 500 && g.closed <= (unsigned)how; i++)
			client_pump(&other, 5);
		assert_int_equal(g.closed, how + 1);
		client_close(&other);
		if (how == 1)
			client_close(&c);
	}
	/* the server stops */
	open_at(&c, HELLO);
	http_server_drain(w.server);
	client_wait_eof(&c);
	assert_true(has(&c,
			"\x88\x11\x03\xe9"
			"the server ends",
			19));
	assert_int_equal(g.closed, 3);
	assert_int_equal(http_server_busy(w.server), 0);
	client_close(&c);
}

static bool all_ended(const void *caller)
{
	return caller == &g;
}

static void test_a_caller_that_ends(void **state)
{
	struct http_client c, other;

	(void)state;
	open_at(&other, HELLO);
	open_at(&c, "GET /caller HTTP/1.1\r\n" HOST UPGRADE VERSION KEY "\r\n");
	http_server_end_callers(w.server, all_ended);
	client_wait_eof(&c);
	assert_true(has(&c, "\x88\x1a\x03\xf0", 4));
	assert_int_equal(g.closed, 1);
	assert_false(client_take(&other) || other.eof);
	client_close(&c);
	client_close(&other);
}

/* ---- back-pressure ---- */

static size_t kept(void)
{
	return socket_memory(g.socket->conn) + g.socket->conn->in.cap +
	       out_queued(&g.socket->conn->out);
}

/* An owner without room: the client has to wait, and neither side loses anything. */
static void test_an_owner_without_room(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(64 << 20);
	char text[MESSAGE_MAX] = {0};
	struct http_client c;
	size_t sent = 0;

	(void)state;
	open_at(&c, HELLO);
	g.full = true;
	while (b.len < (32u << 20))
		add_frame(&b, 0x82, text, sizeof(text));
	for (unsigned idle = 0; idle < 50;) {
		const ssize_t n =
		    send(c.fd, b.data + sent, b.len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
		client_pump(&c, 2);
	}
	assert_true(sent < b.len);
	assert_int_equal(g.messages, 0);
	assert_true(kept() < (64u << 10));
	g.full = false;
	http_socket_resume(g.socket);
	client_send(&c, b.data + sent, b.len - sent);
	for (unsigned i = 0; i < 5000 && g.messages < (b.len + 1007) / 1008; i++)
		client_pump(&c, 2);
	assert_int_equal(g.messages, b.len / 1008);
	client_close(&c);
}

/* A client that reads nothing: little waits for it, also of the answers to its pings. Then it is cut. */
static void test_others_come_between(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1 << 20);
	const unsigned sent = 8000;
	struct http_client flooder, other;

	(void)state;
	open_at(&flooder, HELLO);
	g.slow = true;
	for (unsigned i = 0; i < sent; i++)
		add_frame(&b, 0x82, "x", 1);
	client_send(&flooder, b.data, b.len);
	assert_int_equal(ask(&other, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404);
	assert_in_range(g.messages, 1, sent / 4);
	client_close(&other);
	client_close(&flooder);
}

static void test_a_client_that_never_reads(void **state)
{
	_cleanup_(buf_done) struct buf pings = BUF_INIT(1 << 20);
	struct http_client c, other;
	const int small = 4096;

	(void)state;
	open_at(&c, HELLO);
	(void)setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	g.flood = true;
	for (unsigned i = 0; i < 1000; i++)
		add_frame(&pings, 0x89, "0123456789", 10);
	http_socket_ask(g.socket);
	client_open(&other, w.loop, w.port);
	for (size_t at = 0; g.closed == 0 && at < 100;) {
		if (send(c.fd, pings.data, pings.len, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
			at++;
		if (g.socket)
			assert_true(kept() < HTTP_STREAM_WINDOW + 2 * FLOOD_BYTES + (32u << 10));
		sd_event_run(w.loop, 2000);
	}
	const unsigned asked = g.asked;
	for (unsigned i = 0; i < 2000 && g.closed == 0; i++)
		sd_event_run(w.loop, 5000);
	assert_int_equal(g.closed, 1);
	assert_true(g.asked <= asked + 64);
	client_close(&c);
	client_close(&other);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_key),
	    cmocka_unit_test(test_hostile_frames),
	    cmocka_unit_test(test_messages_in_fragments),
	    cmocka_unit_test(test_both_sides),
	    T(test_handshakes),
	    T(test_nothing_is_smuggled),
	    T(test_echo_ping_and_close),
	    T(test_bad_frames_close),
	    T(test_ends),
	    T(test_a_caller_that_ends),
	    T(test_an_owner_without_room),
	    T(test_others_come_between),
	    cmocka_unit_test_setup_teardown(test_a_client_that_never_reads, setup_tight, teardown),
	};
#undef T
	return cmocka_run_group_tests(tests, NULL, NULL);
}
