/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that must not pass, and those that must: a table each, as raw bytes. */
#include "base/buf.h"
#include "http_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
    ROW(403, "GET /hello HTTP/1.1\r\nHost: localhost..\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n"),
    /* Origin */
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: null\r\n\r\n"),
    /* a page that another account serves on this machine */
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://localhost:3000\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://127.0.0.1:3000\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\nHost: localhost:81\r\nOrigin: http://localhost\r\n\r\n"),
    ROW(403, "GET /hello HTTP/1.1\r\n" HOST "Origin: https://localhost:6274\r\n\r\n"),
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
    ROW(400, "GET hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET * HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /he#llo HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /h\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /hello\t HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "\r\n\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    ROW(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\r\n\r\n"),
    /* absolute targets: their host counts, whatever Host says */
    ROW(403, "GET http://evil.example/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(403, "GET http://evil.example:80/hello HTTP/1.0\r\n\r\n"),
    ROW(403, "GET http://evil.example HTTP/1.1\r\n" HOST "\r\n"),
    ROW(403, "GET http://10.1.2.3?/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(403, "GET HTTP://localhost.evil.example/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(403, "OPTIONS http://evil.example HTTP/1.1\r\n" HOST "\r\n"),
    /* the page is compared with the host of the target, too */
    ROW(403, "GET http://localhost:81/hello HTTP/1.1\r\n" HOST "Origin: http://127.0.0.1\r\n\r\n"),
    ROW(400, "GET http://127.0.0.1/hello HTTP/1.1\r\n\r\n"),
    ROW(400, "GET http://127.0.0.1/hello HTTP/1.1\r\nHost: a b\r\n\r\n"),
    ROW(400, "GET http://127.0.0.1/hello HTTP/1.1\r\n" HOST HOST "\r\n"),
    ROW(400, "GET http:///hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http:// HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://?q HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://:80/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http:/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http:127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET //127.0.0.1://hello HTTP/1.1\r\nHost: [\r\n\r\n"),
    ROW(400, "GET ://127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://user@127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://a:b@127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.1@evil.example/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.1\\.evil.example/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.%31/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.1:/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.1:0/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.1:65536/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://[::1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET http://127.0.0.1/hello#x HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET ftp://127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET httpx://127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET 127.0.0.1:80 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET http://127.0.0.1 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET http://127.0.0.1/../hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET http://127.0.0.1//hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET https://127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET HTTPS://evil.example/hello HTTP/1.0\r\n\r\n"),
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
    ROW(404, "GET /t/a/b%2fc HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /t/a/b/c%2fd HTTP/1.1\r\n" HOST "\r\n"),
    /* where a slash of a path may be encoded: what is no relative path without dots */
    ROW(404, "GET /c/a%2fb/c HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c%2fa/b HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/%2e%2e%2fetc HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/..%2fetc HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/b%2f..%2fc HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/b%2f%2e%2E HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/b/c%2f../d HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/.%2fb HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/%2fetc%2fpasswd HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/%2f HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/b%2f%2fc HTTP/1.1\r\n" HOST "\r\n"),
    ROW(404, "GET /c/a/b%2f HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /c/a/b%2f%00 HTTP/1.1\r\n" HOST "\r\n"),
    ROW(400, "GET /c/a/b%2fc%2 HTTP/1.1\r\n" HOST "\r\n"),
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
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;x=y\na\r\n0\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n\r\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\n\r\n"),
    ROW(400, "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n X: y\r\n\r\n"),
    ROW(400,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na"),
    ROW(413,
	"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\na"),
    ROW(413, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n"),
    ROW(415, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Encoding: gzip\r\n\r\na"),
    ROW(415, "POST /echo HTTP/1.1\r\n" HOST
	     "Content-Length: 1\r\nContent-Encoding: identity\r\nContent-Encoding: br\r\n\r\na"),
    ROW(415, "POST /echo HTTP/1.1\r\n" HOST
	     "Content-Length: 1\r\nContent-Encoding: identity, gzip\r\n\r\na"),
    ROW(415, "POST /none HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Encoding: gzip\r\n\r\na"),
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

struct good {
	int status;
	const char *bytes;
	const char *has;
};

static void check_good(const struct good *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct http_client c;
		const int got = ask(&c, rows[i].bytes);

		if (got != rows[i].status || !client_wait_for(&c, rows[i].has))
			fail_msg("row %zu: %d %s", i, got, c.data);
		client_close(&c);
	}
}

static void test_good_requests_pass(void **state)
{
	static const struct good rows[] = {
	    {200, "GET /hello HTTP/1.1\r\nHost: localhost:81\r\n\r\n", "\r\n\r\nhello"},
	    {200, "GET /hello HTTP/1.1\r\nHost: [::1]:81\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\nHost: BOX.example\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\nhOST:127.0.0.1 \t\r\n\r\n", "hello"},
	    {200, "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n", "hello"},
	    {200, "GET /hello HTTP/1.0\r\n\r\n", "Connection: close"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://127.0.0.1\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://localhost\r\n\r\n", "hello"},
	    {200,
	     "GET /hello HTTP/1.1\r\nHost: localhost:81\r\nOrigin: http://127.0.0.1:81\r\n\r\n",
	     "hello"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "Origin: http://localhost:6274\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "Origin: vscode-webview://x\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "Origin: https://box.example\r\n\r\n", "hello"},
	    {200, "GET /hello HTTP/1.1\r\n" HOST "X: caf\xe9\r\n\r\n", "hello"},
	    {200, "HEAD /hello HTTP/1.1\r\n" HOST "\r\n", "Content-Length: 5\r\n"},
	    {204, "OPTIONS /hello HTTP/1.1\r\n" HOST "\r\n", "Allow: GET, HEAD, OPTIONS\r\n"},
	    {204, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "Allow: OPTIONS\r\n"},
	    {200, "GET /p/x%20y/%C3%A9?q=a+b%2B HTTP/1.1\r\n" HOST "\r\n",
	     "a=x y b=\xc3\xa9 rest=- q=a b+"},
	    {200, "GET /p/x/lit HTTP/1.1\r\n" HOST "\r\n", "hello"},
	    {200, "GET /t/x/a%20b/c?q HTTP/1.1\r\n" HOST "\r\n", "a=x b=- rest=a b/c q="},
	    {200, "GET /c/x/a%2Fb/c%2fd HTTP/1.1\r\n" HOST "\r\n", "a=x b=- rest=a/b/c/d q=-"},
	    /* Decoded once; a backslash is no slash. */
	    {200, "GET /c/x/a%252F..%252f HTTP/1.1\r\n" HOST "\r\n", "a=x b=- rest=a%2F..%2f q=-"},
	    {200, "GET /c/x/..%5Ca HTTP/1.1\r\n" HOST "\r\n", "a=x b=- rest=..\\a q=-"},
	    {200, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", "\r\n\r\nabc"},
	    {200, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
	     "Content-Length: 0\r\n"},
	    {200, "POST /echo HTTP/1.1\r\n" HOST "\r\n", "Content-Length: 0\r\n"},
	    {200,
	     "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n",
	     "abc0123456789"},
	    {200,
	     "POST /echo HTTP/1.1\r\n" HOST
	     "Transfer-Encoding: chunked\r\n\r\n3;a=b;c=\"d;\\\"\"\r\nabc\r\n1 ; x\r\nd\r\n"
	     "0;last\r\nX: y\r\nZ:\r\n\r\n",
	     "abcd"},
	    {200, "GET /secret HTTP/1.1\r\n" HOST "Authorization: bearer sesame\r\n\r\n", "hello"},
	    {200, "GET /secret HTTP/1.1\r\n" HOST "X-Api-Key: sesame\r\n\r\n", "hello"},
	    {200, "GET /qsecret?api_key=sesame HTTP/1.1\r\n" HOST "\r\n", "hello"},
	    {401, "GET /secret HTTP/1.1\r\n" HOST "\r\n", "WWW-Authenticate: Bearer realm="},
	};

	(void)state;
	check_good(rows, ARRAY_SIZE(rows));
}

static void test_absolute_targets_pass(void **state)
{
	static const struct good rows[] = {
	    {200, "GET http://127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n", "hello"},
	    {200, "GET HTTP://BOX.example:81/hello HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	     "hello"},
	    {200, "GET http://[::1]:81/hello HTTP/1.0\r\n\r\n", "hello"},
	    {200,
	     "GET http://localhost:81/hello HTTP/1.1\r\n" HOST
	     "Origin: http://127.0.0.1:81\r\n\r\n",
	     "hello"},
	    {200, "GET http://127.0.0.1/p/x%20y/z?q=a?b://c HTTP/1.1\r\n" HOST "\r\n",
	     "a=x y b=z rest=- q=a?b://c"},
	    {204, "OPTIONS http://127.0.0.1 HTTP/1.1\r\n" HOST "\r\n", "Allow: OPTIONS\r\n"},
	    {204, "OPTIONS http://127.0.0.1/hello HTTP/1.1\r\n" HOST "\r\n",
	     "Allow: GET, HEAD, OPTIONS\r\n"},
	};

	(void)state;
	check_good(rows, ARRAY_SIZE(rows));
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

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
	    T(test_hostile_requests_are_refused),
	    T(test_hostile_requests_in_pieces),
	    T(test_good_requests_pass),
	    T(test_absolute_targets_pass),
	    T(test_head_limits),
	};
#undef T
	return cmocka_run_group_tests(tests, NULL, NULL);
}
