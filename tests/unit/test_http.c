/* SPDX-License-Identifier: Apache-2.0 */
/* The server on loopback, spoken to with raw bytes. */
#include "http/http.h"

#include "base/rand.h"
#include "base/text.h"
#include "http/auth.h"
#include "http_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
	sd_event *loop;
	struct http_server *server;
	struct http_keys *keys;
	uint16_t port;
	struct http_request *held;
	struct http_stream *stream;
	unsigned gone;
	unsigned closed;
	unsigned drained;
	uint64_t body_bytes;
	unsigned body_calls;
	bool body_end;
	bool pause_next;
};

static struct world w;

/* ---- handlers ---- */

static void on_hello(struct http_request *req, void *userdata)
{
	(void)userdata;
	http_respond_text(req, 200, "text/plain", "hello");
}

static void on_echo(struct http_request *req, void *userdata)
{
	size_t len;
	const char *body = http_request_body(req, &len);

	(void)userdata;
	http_respond(req, 200, "application/octet-stream", body, len);
}

static void on_params(struct http_request *req, void *userdata)
{
	const char *q = http_request_query(req, "q");
	char text[256];

	(void)userdata;
	(void)snprintf(text, sizeof(text), "a=%s b=%s rest=%s q=%s",
		       http_request_param(req, "a") ?: "-", http_request_param(req, "b") ?: "-",
		       http_request_param(req, "rest") ?: "-", q ? q : "-");
	http_respond_text(req, 200, "text/plain", text);
}

static void on_held_gone(void *userdata)
{
	struct world *world = userdata;

	world->gone++;
	world->held = NULL;
}

static void on_hold(struct http_request *req, void *userdata)
{
	struct world *world = userdata;

	world->held = req;
	http_request_on_gone(req, on_held_gone, world);
}

static int on_piece(struct http_request *req, const void *data, size_t len, void *userdata)
{
	struct world *world = userdata;

	world->body_calls++;
	world->body_bytes += len;
	if (world->pause_next && data) {
		world->pause_next = false;
		http_request_pause_body(req);
	}
	if (!data) {
		world->body_end = true;
		http_respond_text(req, 200, "text/plain", "got it");
	}
	return 0;
}

static void on_upload(struct http_request *req, void *userdata)
{
	struct world *world = userdata;

	world->held = req;
	http_request_on_gone(req, on_held_gone, world);
	http_request_read_body(req, on_piece, world);
}

static void on_stream_close(void *userdata)
{
	struct world *world = userdata;

	world->closed++;
	world->stream = NULL;
}

static void on_stream_drain(void *userdata)
{
	((struct world *)userdata)->drained++;
}

static void on_stream(struct http_request *req, void *userdata)
{
	static const struct http_stream_ops ops = {.on_close = on_stream_close,
						   .on_drain = on_stream_drain};
	struct world *world = userdata;

	world->stream = http_stream_begin_sse(req, &ops, world);
}

static const char file_text[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static void on_file(struct http_request *req, void *userdata)
{
	const struct http_file file = {.size = sizeof(file_text) - 1,
				       .type = "text/plain",
				       .etag = "\"v1\"",
				       .mtime_s = 784111777,
				       .name = "a \xc3\xa9\".txt"};
	const int fd = memfd_create("file", MFD_CLOEXEC);

	(void)userdata;
	assert_int_equal(write(fd, file_text, sizeof(file_text) - 1), sizeof(file_text) - 1);
	http_respond_file(req, fd, &file);
}

static void on_big(struct http_request *req, void *userdata)
{
	struct http_file file = {.size = 50u << 20, .type = "application/octet-stream"};
	const int fd = memfd_create("file", MFD_CLOEXEC);

	(void)userdata;
	assert_int_equal(ftruncate(fd, (off_t)file.size), 0);
	http_respond_file(req, fd, &file);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/hello", on_hello, 0, 0},
    {HTTP_POST, "/echo", on_echo, 0, 1000},
    {HTTP_GET, "/p/{a}/{b}", on_params, 0, 0},
    {HTTP_GET, "/p/{a}/lit", on_hello, 0, 0},
    {HTTP_GET, "/t/{a}/{rest...}", on_params, 0, 0},
    {HTTP_GET, "/hold", on_hold, 0, 0},
    {HTTP_POST, "/upload", on_upload, HTTP_ROUTE_STREAM_BODY, 100u << 20},
    {HTTP_GET, "/stream", on_stream, 0, 0},
    {HTTP_GET, "/file", on_file, 0, 0},
    {HTTP_GET, "/big", on_big, 0, 0},
    {HTTP_GET, "/secret", on_hello, HTTP_ROUTE_AUTH, 0},
    {HTTP_GET, "/qsecret", on_hello, HTTP_ROUTE_AUTH | HTTP_ROUTE_QUERY_KEY, 0},
};

static const struct http_route link_routes[] = {
    {HTTP_GET, "/link", on_hello, 0, 0},
};

static int setup_with(const struct http_config *limits)
{
	static const char *const keys[] = {"sesame"};
	static const char *const hosts[] = {"box.example", NULL};
	struct http_config cfg = *limits;
	struct http_listener *l;
	struct err e = ERR_INIT;

	w = (struct world){0};
	assert_int_equal(http_keys_new(keys, NULL, 1, &w.keys), 0);
	cfg.hosts = hosts;
	cfg.auth = http_keys_check;
	cfg.auth_userdata = w.keys;
	assert_int_equal(sd_event_new(&w.loop), 0);
	assert_int_equal(http_server_new(w.loop, &cfg, &w.server), 0);
	assert_int_equal(
	    http_server_add_routes(w.server, routes, ARRAY_SIZE(routes), HTTP_SCOPE_MAIN, &w), 0);
	assert_int_equal(http_server_add_routes(w.server, link_routes, 1, HTTP_SCOPE_LINKS, &w), 0);
	assert_int_equal(
	    http_server_listen(w.server, "127.0.0.1", 0, HTTP_SCOPE_MAIN, &w.port, &l, &e), 0);
	return 0;
}

static int setup(void **state)
{
	const struct http_config limits = {.stream_queue_max = 1u << 20, .head_max = 16384};

	(void)state;
	return setup_with(&limits);
}

static int setup_tight(void **state)
{
	const struct http_config limits = {.max_connections = 3,
					   .head_timeout_ns = 200 * NS_PER_MS,
					   .idle_timeout_ns = 300 * NS_PER_MS,
					   .stall_timeout_ns = 300 * NS_PER_MS};

	(void)state;
	return setup_with(&limits);
}

static int teardown(void **state)
{
	(void)state;
	w.server = http_server_free(w.server);
	w.keys = http_keys_free(w.keys);
	w.loop = sd_event_unref(w.loop);
	return 0;
}

#define HOST "Host: 127.0.0.1\r\n"

/* Sends BYTES on a fresh connection and returns the status; the answer stays in C. */
static int ask_n(struct http_client *c, const char *bytes, size_t len)
{
	client_open(c, w.loop, w.port);
	client_send(c, bytes, len);
	(void)client_wait_for(c, "\r\n\r\n");
	return client_status(c);
}

static int ask(struct http_client *c, const char *bytes)
{
	return ask_n(c, bytes, strlen(bytes));
}

static int status_of(const char *bytes, size_t len)
{
	struct http_client c;
	const int status = ask_n(&c, bytes, len);

	client_close(&c);
	return status;
}

/* ---- requests that must not pass ---- */

#define ROW(status, bytes)                                                                         \
	{                                                                                          \
		status, bytes, sizeof(bytes) - 1                                                   \
	}

static const struct {
	int status;
	const char *bytes;
	size_t len;
} hostile[] = {
    /* two ways to find the end of the body */
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST
	     "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\na"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1 1\r\n\r\na"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
	     "chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    /* line ends */
    ROW(400, "GET /hello HTTP/1.1\nHost: 127.0.0.1\n\n"),
    ROW(400, "GET /hello HTTP/1.1\r\nHost: 127.0.0.1\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\r\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "\r\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\nTransfer-Encoding: chunked\r\n\r\n"),
    /* folds */
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n X: a\r\n" HOST "\r\n"),
    /* names and values */
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X : a\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X\x01: a\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST ": a\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "X: a\x1b[2J\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST
	     "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "Mcp-Session-Id: a\r\nmcp-session-id: b\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST
	     "Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n"),
    /* Host */
    ROW(400, "GET /hello HTTP/1.1\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\nHost:\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST HOST "\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\n" HOST "Host: evil.example\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\nHost: 127.0.0.1, evil.example\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\nHost: user@127.0.0.1\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\nHost: 127.0.0.1:99999\r\n\r\n"),
    ROW(400, "GET /hello HTTP/1.1\r\nHost: 127.0.0.1/\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n"),
    /* Origin */
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: null\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://localhost.evil.example\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://localhost@evil.example\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: file://localhost\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin:\r\n\r\n"),
    /* request line */
    ROW(400, " GET /hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET  /hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /hello  HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /hello HTTP/1.1 \r\n" HOST "\r\n"),
    ROW(400, "GET /hello\r\n" HOST "\r\n"),
    ROW(400, "GET /hello http/1.1\r\n" HOST "\r\n"),
    ROW(505, "GET /hello HTTP/2.0\r\n" HOST "\r\n"),
    ROW(505, "GET /hello HTTP/1.2\r\n" HOST "\r\n"),
    ROW(400, "GET /hello HTTP/1.11\r\n" HOST "\r\n"),
    ROW(400, "G@T /hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(501, "TRACE /hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(501, "get /hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(501, "CONNECT evil.example:443 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET * HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /he#llo HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /h\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /hello\t HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "\r\n\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    ROW(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\r\n\r\n"),
    /* paths */
    ROW(400, "GET /p/%zz/b HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /p/a%2 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /p/a%00/b HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /hello?q=%00 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /hello?q=% HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /p/a%2fb HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /p/a%2Fb/c HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /p/../hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /p/%2e%2e/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /t/a/.%2e/etc/passwd HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /hello/ HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET //hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /p//b HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /link HTTP/1.1\r\n" HOST "\r\n"),
    ROW(405, "DELETE /hello HTTP/1.1\r\n" HOST "\r\n"),
    /* chunks */
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\ra\r\n0\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na"),
    ROW(413,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\na"),
    ROW(413, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n"),
    ROW(417, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\nExpect: the-worst\r\n\r\na"),
    /* keys */
    ROW(401, "GET /secret HTTP/1.1\r\n" HOST "\r\n"),
    ROW(401, "GET /secret HTTP/1.1\r\n" HOST "Authorization: Bearer wrong\r\n\r\n"),
    ROW(401, "GET /secret HTTP/1.1\r\n" HOST "Authorization: Basic sesame\r\n\r\n"),
    ROW(401, "GET /secret?api_key=sesame HTTP/1.1\r\n" HOST "\r\n"),
    ROW(401, "GET /qsecret?api_key=sesam HTTP/1.1\r\n" HOST "\r\n"),
};

static void test_hostile_requests_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		const int got = status_of(hostile[i].bytes, hostile[i].len);

		if (got != hostile[i].status)
			fail_msg("row %zu: %d instead of %d: %s", i, got, hostile[i].status,
				 hostile[i].bytes);
	}
}

/* The same answer when the bytes come one by one; and after a good request on the same connection.
 */
static void test_hostile_requests_in_pieces(void **state)
{
	static const char good[] = "GET /hello HTTP/1.1\r\n" HOST "\r\n";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
		struct http_client c;

		client_open(&c, w.loop, w.port);
		client_send_str(&c, good);
		assert_true(client_wait_for(&c, "hello"));
		client_clear(&c);
		for (size_t k = 0; k < hostile[i].len && !c.len; k += 3)
			client_send(&c, hostile[i].bytes + k, MIN((size_t)3, hostile[i].len - k));
		(void)client_wait_for(&c, "\r\n\r\n");
		if (client_status(&c) != hostile[i].status)
			fail_msg("row %zu: %d instead of %d", i, client_status(&c),
				 hostile[i].status);
		client_close(&c);
	}
}

static void test_good_requests_pass(void **state)
{
	static const struct {
		int status;
		const char *bytes;
		const char *has;
	} rows[] = {
	    {200, "GET /hello HTTP/1.1\r\nHost: localhost:81\r\n\r\n", "\r\n\r\nhello"},
	    {200, "GET /hello HTTP/1.1\r\nHost: [::1]:81\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\nHost: BOX.example\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\nhOST:127.0.0.1 \t\r\n\r\n", "hello"},
	    {200, "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n", "hello"},
	    {200, "GET /hello HTTP/1.0\r\n\r\n", "Connection: close"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://localhost:3000\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "Origin: https://box.example\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "X: caf\xe9\r\n\r\n", "hello"},
	    {200, "HEAD /hello HTTP/1.1\r\n" HOST "\r\n", "Content-Length: 5\r\n"},
	    {204, "OPTIONS /hello HTTP/1.1\r\n" HOST "\r\n", "Allow: GET, HEAD, OPTIONS\r\n"},
	    {204, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "Allow: OPTIONS\r\n"},
	    {200, "GET /p/x%20y/%C3%A9?q=a+b%2B HTTP/1.1\r\n" HOST "\r\n",
	     "a=x y b=\xc3\xa9 rest=- q=a b+"},
	    {200, "GET /p/x/lit HTTP/1.1\r\n" HOST "\r\n", "hello"},
	    {200, "GET /t/x/a%20b/c?q HTTP/1.1\r\n" HOST "\r\n", "a=x b=- rest=a b/c q="},
	    {200, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", "\r\n\r\nabc"},
	    {200, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
	     "Content-Length: 0\r\n"},
	    {200, "POST /echo HTTP/1.1\r\n" HOST "\r\n", "Content-Length: 0\r\n"},
	    {200,
	     "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n",
	     "abc0123456789"},
	    {200, "GET /secret HTTP/1.1\r\n" HOST "Authorization: bearer sesame\r\n\r\n", "hello"},
	    {200, "GET /secret HTTP/1.1\r\n" HOST "X-Api-Key: sesame\r\n\r\n", "hello"},
	    {200, "GET /qsecret?api_key=sesame HTTP/1.1\r\n" HOST "\r\n", "hello"},
	    {401, "GET /secret HTTP/1.1\r\n" HOST "\r\n", "WWW-Authenticate: Bearer realm="},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_client c;
		const int got = ask(&c, rows[i].bytes);

		if (got != rows[i].status || !client_wait_for(&c, rows[i].has))
			fail_msg("row %zu: %d %s", i, got, c.data);
		client_close(&c);
	}
}

static void test_head_limits(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1 << 20);

	(void)state;
	assert_int_equal(buf_add_str(&b, "GET /hello HTTP/1.1\r\n" HOST "X: "), 0);
	while (b.len < 16000)
		assert_int_equal(buf_add_str(&b, "aaaaaaaaaaaaaaaa"), 0);
	assert_int_equal(buf_add_str(&b, "\r\n\r\n"), 0);
	assert_int_equal(status_of(b.data, b.len), 200);
	buf_reset(&b);
	assert_int_equal(buf_add_str(&b, "GET /hello HTTP/1.1\r\n" HOST "X: "), 0);
	while (b.len < 40000)
		assert_int_equal(buf_add_str(&b, "aaaaaaaaaaaaaaaa"), 0);
	assert_int_equal(status_of(b.data, b.len), 431);
	buf_reset(&b);
	assert_int_equal(buf_add_str(&b, "GET /hello HTTP/1.1\r\n" HOST), 0);
	for (unsigned i = 0; i < HTTP_HEADERS_MAX; i++)
		assert_int_equal(buf_printf(&b, "X%u: a\r\n", i), 0);
	assert_int_equal(buf_add_str(&b, "\r\n"), 0);
	assert_int_equal(status_of(b.data, b.len), 431);
}

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
	assert_true(client_wait_for(&c, "\r\n\r\nhello"));
	assert_non_null(strstr(c.data, "late"));
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
	while (!c.eof && total < 50u << 20) {
		client_pump(&c, 2);
		total += c.len;
		client_clear(&c);
	}
	assert_true(total > 50u << 20 && total < (50u << 20) + 1000);
	client_close(&c);
	client_close(&other);
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

static void test_unix_socket(void **state)
{
	char path[] = "/tmp/caisson-test-XXXXXX/sock";
	struct http_listener *l, *second;
	struct err e = ERR_INIT;
	struct http_client c;

	(void)state;
	path[24] = '\0';
	assert_non_null(mkdtemp(path));
	path[24] = '/';
	assert_int_equal(http_server_listen_unix(w.server, path, 0600, HTTP_SCOPE_MAIN, &l, &e), 0);
	assert_int_equal(
	    http_server_listen_unix(w.server, path, 0600, HTTP_SCOPE_MAIN, &second, &e),
	    -EADDRINUSE);
	client_open_unix(&c, w.loop, path);
	client_send_str(&c, "GET /hello HTTP/1.1\r\nHost: whatever\r\n\r\n");
	assert_true(client_wait_for(&c, "hello"));
	client_close(&c);
	http_listener_close(l);
	assert_int_equal(access(path, F_OK), -1);
	path[24] = '\0';
	assert_int_equal(rmdir(path), 0);
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
		assert_in_range(now_ns() - begin, 150 * NS_PER_MS, 2 * NS_PER_S);
		client_close(&c);
	}
}

/* A handler that takes its time is no slow client. */
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
#define L(name) cmocka_unit_test_setup_teardown(name, setup_tight, teardown)
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(test_hostile_requests_are_refused),
	    T(test_hostile_requests_in_pieces),
	    T(test_good_requests_pass),
	    T(test_head_limits),
	    T(test_pipelined_requests),
	    T(test_nothing_after_a_refusal),
	    T(test_late_answer),
	    T(test_gone_client_is_noticed),
	    T(test_broken_body_is_refused_and_told),
	    T(test_large_upload_in_pieces),
	    T(test_flood_starves_nobody),
	    T(test_files),
	    T(test_large_file_to_a_slow_reader),
	    T(test_stream),
	    T(test_stream_to_nobody_and_to_a_slow_reader),
	    T(test_unix_socket),
	    T(test_drain),
	    L(test_slow_clients_are_dropped),
	    L(test_waiting_for_us_has_no_limit),
	    L(test_reader_that_stops),
	    L(test_connection_limit),
	};
#undef T
#undef L
	return cmocka_run_group_tests(tests, NULL, NULL);
}
