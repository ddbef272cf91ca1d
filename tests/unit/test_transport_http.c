/* SPDX-License-Identifier: Apache-2.0 */
/* MCP over HTTP on loopback: both eras on /mcp, and the legacy /sse with /messages/. */
#include "transport/transport.h"

#include "base/rand.h"
#include "base/text.h"
#include "http/static_keys.h"
#include "http_client.h"
#include "mcp_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define PATH_SIZE 96 /* of the way in that an SSE client is told */

struct world {
	sd_event *loop;
	struct http_server *http;
	struct transport_http *transport;
	struct budgets *budgets;
	struct http_keys *keys;
	struct mcp_fixture mcp;
	uint16_t port;
};

static struct world w;

static int setup_with(bool with_keys)
{
	static const char *const keys[] = {"alice-key", "bob-key"};
	static const char *const origins[] = {"http://localhost:3000", NULL};
	struct http_config http = {.origins = origins};
	struct transport_http_config cfg = {.keepalive_ns = 2 * NS_PER_S};
	struct http_listener *l;
	struct err e = ERR_INIT;

	w = (struct world){0};
	mcp_fixture_init(&w.mcp);
	assert_int_equal(sd_event_new(&w.loop), 0);
	if (with_keys) {
		assert_int_equal(http_keys_new(keys, NULL, 2, &w.keys), 0);
		http.auth = client_check_key;
		http.auth_userdata = w.keys;
	}
	assert_int_equal(http_server_new(w.loop, &http, &w.http), 0);
	w.budgets = budgets_new(&(struct budgets_config){0});
	assert_non_null(w.budgets);
	budgets_set(w.budgets, BUDGET_MCP_SESSIONS, &(struct budget_bounds){.total = 3});
	cfg.budgets = w.budgets;
	cfg.loop = w.loop;
	cfg.http = w.http;
	cfg.mcp = w.mcp.server;
	cfg.reader.max_message = 1u << 20;
	assert_int_equal(transport_http_new(&cfg, &w.transport), 0);
	assert_int_equal(
	    http_server_listen(w.http, "127.0.0.1", 0, HTTP_SCOPE_MAIN, &w.port, &l, &e), 0);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_with(false);
}

static int setup_keys(void **state)
{
	(void)state;
	return setup_with(true);
}

static int teardown(void **state)
{
	(void)state;
	w.http = http_server_free(w.http);
	w.transport = transport_http_free(w.transport);
	w.budgets = budgets_free(w.budgets);
	mcp_fixture_done(&w.mcp);
	w.keys = http_keys_free(w.keys);
	w.loop = sd_event_unref(w.loop);
	return 0;
}

#define HOST "Host: 127.0.0.1\r\n"
#define JSON_TYPES                                                                                 \
	"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
#define MODERN(method, name) "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " method "\r\n" name

static void send_request(struct http_client *c, const char *line, const char *headers,
			 const char *body)
{
	char head[2048];

	(void)snprintf(head, sizeof(head), "%s HTTP/1.1\r\n" HOST "%sContent-Length: %zu\r\n\r\n",
		       line, headers, strlen(body));
	client_send_str(c, head);
	client_send_str(c, body);
}

/* One request on a fresh connection, to the end of its answer. */
static int ask(struct http_client *c, const char *line, const char *headers, const char *body)
{
	char all[1200];

	client_open(c, w.loop, w.port);
	(void)snprintf(all, sizeof(all), "Connection: close\r\n%s", headers);
	send_request(c, line, all, body);
	client_wait_eof(c);
	return client_status(c);
}

static int post(struct http_client *c, const char *headers, const char *body)
{
	char all[1024];

	(void)snprintf(all, sizeof(all), JSON_TYPES "%s", headers);
	return ask(c, "POST /mcp", all, body);
}

/* Initializes and copies the session header line to RET. */
static void begin_session(char ret[80], const char *headers, const char *body)
{
	static const char name[] = "Mcp-Session-Id: ";
	struct http_client c;
	const char *p;

	assert_int_equal(post(&c, headers, body), 200);
	p = strstr(c.data, name);
	assert_non_null(p);
	(void)snprintf(ret, 80, "%.*s\r\n", (int)strcspn(p, "\r"), p);
	client_close(&c);
}

static void expect(int status, const char *line, const char *headers, const char *body,
		   const char *has)
{
	struct http_client c;
	const int got = ask(&c, line, headers, body);

	if (got != status || !strstr(c.data, has))
		fail_msg("%s %s%s: %d instead of %d, '%s' in: %s", line, headers, body, got, status,
			 has, c.data);
	client_close(&c);
}

static struct transport_http_counts counts(void)
{
	struct transport_http_counts n;

	transport_http_count(w.transport, &n);
	return n;
}

/* ---- Streamable HTTP, legacy ---- */

static void test_session_life(void **state)
{
	char session[80], headers[256];
	struct http_client c;

	(void)state;
	begin_session(session, "", INITIALIZE("2025-06-18"));
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", session);
	expect(202, "POST /mcp", headers,
	       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", "");
	expect(200, "POST /mcp", headers, PING(1), "\"result\":{}");
	expect(200, "POST /mcp", headers, CALL(2, "echo"), "nothing");
	expect(200, "POST /mcp", headers, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"no/such\"}",
	       "-32601");
	expect(400, "POST /mcp", headers, "{\"jsonrpc\":", "-32700");
	expect(400, "POST /mcp", headers, INITIALIZE("2025-06-18"), "-32600");
	expect(400, "POST /mcp", JSON_TYPES, PING(1), "-32000");
	expect(404, "POST /mcp", JSON_TYPES "Mcp-Session-Id: 00000000000000000000000000000000\r\n",
	       PING(1), "-32001");
	expect(415, "POST /mcp", "Content-Type: text/plain\r\n", PING(1), "application/json");
	expect(415, "POST /mcp", "", PING(1), "application/json");
	expect(415, "POST /mcp", "Content-Type: application/jsonl\r\n", PING(1),
	       "application/json");
	expect(405, "GET /mcp", "", "", "Allow: GET, HEAD, POST, DELETE, OPTIONS");
	expect(405, "GET /mcp", MODERN("x", ""), "", "Allow: GET, HEAD, POST, DELETE, OPTIONS");
	expect(404, "GET /mcp", "Mcp-Session-Id: no\r\n", "", "-32001");
	expect(405, "DELETE /mcp", "", "", "Allow: GET, HEAD, POST, DELETE, OPTIONS");
	expect(405, "PUT /mcp", "", "", "Allow: ");
	/* one stream, not two */
	client_open(&c, w.loop, w.port);
	send_request(&c, "GET /mcp", session, "");
	assert_true(client_wait_for(&c, ": open"));
	(void)snprintf(headers, sizeof(headers), "%sAccept: text/event-stream\r\n", session);
	expect(409, "GET /mcp", headers, "", "stream already");
	(void)snprintf(headers, sizeof(headers), "%sAccept: application/json\r\n", session);
	expect(406, "GET /mcp", headers, "", "text/event-stream");
	client_close(&c);
}

static void test_get_stream_and_delete(void **state)
{
	char session[80];
	struct http_client c;

	(void)state;
	begin_session(session, "", INITIALIZE("2025-06-18"));
	client_open(&c, w.loop, w.port);
	send_request(&c, "GET /mcp", session, "");
	assert_true(client_wait_for(&c, ": open"));
	mcp_server_tools_changed(w.mcp.server);
	assert_true(client_wait_for(
	    &c, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"));
	assert_true(client_wait_for(&c, ": keepalive"));
	expect(200, "DELETE /mcp", session, "", "");
	assert_true(client_wait_for(&c, "0\r\n\r\n"));
	expect(404, "GET /mcp", session, "", "-32001");
	assert_int_equal(counts().sessions, 0);
	assert_int_equal(counts().streams, 0);
	client_close(&c);
}

static void wait_held(struct http_client *c, unsigned n)
{
	for (unsigned i = 0; i < 200 && w.mcp.held_calls < n; i++)
		client_pump(c, 5);
	assert_int_equal(w.mcp.held_calls, n);
}

static void test_answer_becomes_a_stream(void **state)
{
	char session[80], headers[256];
	struct http_client c;

	(void)state;
	begin_session(session, "", INITIALIZE("2025-11-25"));
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", session);
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", headers, CALL(5, "hold"));
	wait_held(&c, 1);
	assert_int_equal(c.len, 0);
	mcp_call_progress(w.mcp.held, 1, 2, "half");
	assert_true(client_wait_for(&c, "_1_0\nretry: 1000\ndata: \n\n"));
	assert_true(client_wait_for(&c,
				    "_1_1\nevent: message\ndata: "
				    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\""));
	mcp_fixture_finish(&w.mcp, "the end");
	assert_true(client_wait_for(&c, "the end"));
	assert_true(client_wait_for(&c, "0\r\n\r\n"));
	/* without a word for long: a stream with a sign of life */
	client_clear(&c);
	send_request(&c, "POST /mcp", headers, CALL(6, "hold"));
	assert_true(client_wait_for(&c, ": keepalive"));
	mcp_fixture_finish(&w.mcp, "late");
	assert_true(client_wait_for(&c, "late"));
	client_close(&c);
	/* a client that cannot take a stream gets JSON, and no progress */
	(void)snprintf(headers, sizeof(headers),
		       "Content-Type: application/json\r\nAccept: application/json\r\n%s", session);
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", headers, CALL(7, "hold"));
	wait_held(&c, 3);
	mcp_call_progress(w.mcp.held, 1, 2, "half");
	mcp_fixture_finish(&w.mcp, "json");
	assert_true(client_wait_for(&c, "json\"}"));
	assert_non_null(strstr(c.data, "Content-Type: application/json"));
	client_close(&c);
}

static void test_resumption(void **state)
{
	char session[80], headers[256];
	struct http_client c;

	(void)state;
	begin_session(session, "", INITIALIZE("2025-11-25"));
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", session);
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", headers, CALL(5, "hold"));
	wait_held(&c, 1);
	mcp_call_progress(w.mcp.held, 1, 3, "one");
	assert_true(client_wait_for(&c, "one"));
	client_close(&c);
	/* away: legacy work goes on, and what it says is kept */
	client_open(&c, w.loop, w.port);
	client_pump(&c, 50);
	assert_int_equal(w.mcp.cancelled, 0);
	mcp_call_progress(w.mcp.held, 2, 3, "two");
	(void)snprintf(headers, sizeof(headers),
		       "%sAccept: text/event-stream\r\nLast-Event-ID: %.8s_1_1\r\n", session,
		       strchr(session, ' ') + 1);
	send_request(&c, "GET /mcp", headers, "");
	assert_true(client_wait_for(&c, "two"));
	assert_null(strstr(c.data, "one"));
	mcp_fixture_finish(&w.mcp, "the end");
	assert_true(client_wait_for(&c, "the end"));
	assert_true(client_wait_for(&c, "0\r\n\r\n"));
	/* once more, after the end */
	client_clear(&c);
	send_request(&c, "GET /mcp", headers, "");
	assert_true(client_wait_for(&c, "0\r\n\r\n"));
	assert_non_null(strstr(c.data, "two"));
	assert_non_null(strstr(c.data, "the end"));
	client_clear(&c);
	(void)snprintf(headers, sizeof(headers), "%sLast-Event-ID: what\r\n", session);
	send_request(&c, "GET /mcp", headers, "");
	assert_true(client_wait_for(&c, "none of ours"));
	client_close(&c);
	/* the session's end frees what was kept */
	expect(200, "DELETE /mcp", session, "", "");
	assert_int_equal(counts().stored_bytes, 0);
}

static void test_session_ends_under_a_call(void **state)
{
	char session[80], headers[256];
	struct http_client c;

	(void)state;
	begin_session(session, "", INITIALIZE("2025-03-26"));
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", session);
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", headers, CALL(5, "hold"));
	wait_held(&c, 1);
	expect(200, "DELETE /mcp", session, "", "");
	assert_true(client_wait_for(&c, "The session has ended"));
	assert_int_equal(w.mcp.cancelled, 1);
	assert_int_equal(counts().exchanges, 0);
	client_close(&c);
}

static void test_session_limit(void **state)
{
	char first[80], more[80], headers[256];

	(void)state;
	begin_session(first, "", INITIALIZE("2025-06-18"));
	for (unsigned i = 0; i < 3; i++)
		begin_session(more, "", INITIALIZE("2025-06-18"));
	assert_int_equal(counts().sessions, 3);
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", first);
	expect(404, "POST /mcp", headers, PING(1), "-32001"); /* the idlest went */
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", more);
	expect(200, "POST /mcp", headers, PING(1), "{}");
}

static void test_sessions_belong_to_their_principal(void **state)
{
	char session[80], headers[256];

	(void)state;
	expect(401, "POST /mcp", JSON_TYPES, INITIALIZE("2025-06-18"),
	       "WWW-Authenticate: Bearer realm=");
	expect(404, "GET /.well-known/oauth-protected-resource/mcp", "", "", "");
	begin_session(session, "Authorization: Bearer alice-key\r\n", INITIALIZE("2025-06-18"));
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "Authorization: Bearer alice-key\r\n%s",
		       session);
	expect(200, "POST /mcp", headers, PING(1), "{}");
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "X-Api-Key: bob-key\r\n%s", session);
	expect(404, "POST /mcp", headers, PING(1), "-32001");
	(void)snprintf(headers, sizeof(headers), "X-Api-Key: bob-key\r\n%s", session);
	expect(404, "DELETE /mcp", headers, "", "-32001");
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", session);
	expect(401, "POST /mcp", headers, PING(1), "");
	expect(401, "GET /sse", "", "", "");
	expect(401, "POST /mcp?api_key=alice-key", JSON_TYPES, PING(1), "");
}

static void test_browsers(void **state)
{
	(void)state;
	expect(204, "OPTIONS /mcp",
	       "Origin: http://localhost:3000\r\nAccess-Control-Request-Headers: content-type, "
	       "mcp-param-region, evil\r\n",
	       "", "mcp-name, mcp-param-region\r\n");
	expect(403, "OPTIONS /mcp", "Origin: http://evil.example\r\n", "", "Origin");
	expect(403, "OPTIONS /mcp", "Origin: http://localhost:3001\r\n", "", "Origin");
	expect(403, "POST /mcp", JSON_TYPES "Origin: http://evil.example\r\n",
	       INITIALIZE("2025-06-18"), "");
	expect(200, "POST /mcp", JSON_TYPES "Origin: http://localhost:3000\r\n",
	       INITIALIZE("2025-06-18"), "Access-Control-Allow-Origin: http://localhost:3000\r\n");
}

/* ---- Streamable HTTP, modern ---- */

static void test_modern(void **state)
{
	struct http_client c, other;

	(void)state;
	expect(200, "POST /mcp", JSON_TYPES MODERN("tools/call", "Mcp-Name: echo\r\n"),
	       MODERN_CALL(1, "echo"), "resultType");
	expect(200, "POST /mcp",
	       JSON_TYPES MODERN("tools/call", "Mcp-Name: echo\r\nMcp-Session-Id: gone\r\n"),
	       MODERN_CALL(1, "echo"), "resultType");
	expect(400, "POST /mcp", JSON_TYPES MODERN("tools/list", "Mcp-Name: echo\r\n"),
	       MODERN_CALL(1, "echo"), "-32020");
	/* the client leaves before the first byte of the answer */
	client_open(&other, w.loop, w.port);
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", JSON_TYPES MODERN("tools/call", "Mcp-Name: hold\r\n"),
		     MODERN_CALL(2, "hold"));
	wait_held(&c, 1);
	client_close(&c);
	for (unsigned i = 0; i < 200 && w.mcp.cancelled < 1; i++)
		client_pump(&other, 5);
	assert_int_equal(w.mcp.cancelled, 1);
	/* and in the middle of a stream */
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", JSON_TYPES MODERN("tools/call", "Mcp-Name: hold\r\n"),
		     MODERN_CALL(3, "hold"));
	wait_held(&c, 2);
	mcp_call_progress(w.mcp.held, 1, 2, "half");
	assert_true(client_wait_for(&c, "event: message\ndata: "));
	assert_null(strstr(c.data, "id: "));
	client_close(&c);
	for (unsigned i = 0; i < 200 && w.mcp.cancelled < 2; i++)
		client_pump(&other, 5);
	assert_int_equal(w.mcp.cancelled, 2);
	assert_int_equal(counts().exchanges, 0);
	client_close(&other);
}

static void test_listen(void **state)
{
	static const char listen_body[] = "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":"
					  "\"subscriptions/listen\",\"params\":{\"notifications\":"
					  "{\"toolsListChanged\":true}," MODERN_META "}}";
	struct http_client c;

	(void)state;
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", JSON_TYPES MODERN("subscriptions/listen", ""), listen_body);
	assert_true(client_wait_for(&c, "notifications/subscriptions/acknowledged"));
	mcp_server_tools_changed(w.mcp.server);
	assert_true(client_wait_for(&c, "notifications/tools/list_changed"));
	transport_http_finish(w.transport);
	assert_true(client_wait_for(&c, "\"resultType\":\"complete\""));
	assert_true(client_wait_for(&c, "0\r\n\r\n"));
	client_close(&c);
}

static void test_too_large_messages(void **state)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(8u << 20);
	struct http_client c;

	(void)state;
	/* announced */
	client_open(&c, w.loop, w.port);
	client_send_str(&c,
			"POST /mcp HTTP/1.1\r\n" HOST JSON_TYPES "Content-Length: 1048577\r\n\r\n");
	assert_true(client_wait_for(&c, "HTTP/1.1 413 "));
	assert_true(client_wait_for(&c, "\"error\":{\"code\":-32600"));
	client_close(&c);
	/* as it comes: the id was there before it became too much */
	assert_int_equal(
	    buf_add_str(&body,
			"200000\r\n{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":77,\"x\":\""),
	    0);
	while (body.len < 2u << 20)
		assert_int_equal(buf_add_str(&body, "aaaaaaaaaaaaaaaa"), 0);
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "POST /mcp HTTP/1.1\r\n" HOST JSON_TYPES
			    "Transfer-Encoding: chunked\r\n\r\n");
	client_send(&c, body.data, body.len);
	assert_true(client_wait_for(&c, "HTTP/1.1 413 "));
	assert_true(client_wait_for(&c, "\"id\":77,\"error\":{\"code\":-32600"));
	client_close(&c);
	/* broken off in the middle */
	client_open(&c, w.loop, w.port);
	client_send_str(&c, "POST /mcp HTTP/1.1\r\n" HOST JSON_TYPES
			    "Content-Length: 1000\r\n\r\n{\"jsonrpc\":");
	client_pump(&c, 10);
	client_close(&c);
	/* bad from the first byte: said at once */
	client_open(&c, w.loop, w.port);
	client_send_str(&c,
			"POST /mcp HTTP/1.1\r\n" HOST JSON_TYPES "Content-Length: 1000\r\n\r\n}");
	assert_true(client_wait_for(&c, "-32700"));
	client_close(&c);
}

/* ---- HTTP+SSE ---- */

static void open_sse(struct http_client *c, char ret_path[PATH_SIZE], const char *line)
{
	const char *p;

	client_open(c, w.loop, w.port);
	send_request(c, line, "Accept: text/event-stream\r\n", "");
	assert_true(client_wait_for(c, "event: endpoint\r\ndata: /messages/?session_id="));
	p = strstr(c->data, "/messages/");
	(void)snprintf(ret_path, PATH_SIZE, "POST %.*s", (int)strcspn(p, "\r"), p);
	assert_int_equal(strcspn(strchr(ret_path, '=') + 1, "&"), 32);
}

static void test_sse(void **state)
{
	char path[PATH_SIZE];
	struct http_client c, other;

	(void)state;
	open_sse(&c, path, "GET /sse");
	expect(202, path, JSON_TYPES, INITIALIZE("2024-11-05"), "Accepted");
	assert_true(client_wait_for(
	    &c, "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":"));
	expect(202, path, JSON_TYPES, CALL(1, "hold"), "Accepted");
	mcp_call_progress(w.mcp.held, 1, 2, "half");
	assert_true(client_wait_for(&c, "notifications/progress"));
	mcp_fixture_finish(&w.mcp, "the end");
	assert_true(client_wait_for(&c, "the end"));
	assert_true(client_wait_for(&c, ": keepalive"));
	expect(400, path, JSON_TYPES, "{]", "Could not parse message");
	expect(400, path, "Content-Type: text/plain\r\n", PING(1), "Could not parse message");
	expect(400, "POST /messages/", JSON_TYPES, PING(1), "session_id is required");
	expect(400, "POST /messages/?session_id=x", JSON_TYPES, PING(1), "Invalid session ID");
	expect(404, "POST /messages/?session_id=00000000000000000000000000000000", JSON_TYPES,
	       PING(1), "Could not find session");
	expect(405, "POST /sse", JSON_TYPES, PING(1), "");
	/* a call in flight ends with the stream */
	expect(202, path, JSON_TYPES, CALL(2, "hold"), "Accepted");
	client_close(&c);
	client_open(&other, w.loop, w.port);
	for (unsigned i = 0; i < 200 && w.mcp.cancelled < 1; i++)
		client_pump(&other, 5);
	assert_int_equal(w.mcp.cancelled, 1);
	expect(404, path, JSON_TYPES, PING(1), "Could not find session");
	assert_int_equal(counts().sse, 0);
	client_close(&other);
}

/* The client waits for an event with the id of its request, not for the answer to its POST. */
static void test_sse_refuses_on_the_stream(void **state)
{
	static const char twice[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":51,\"params\":{\"a\":1,\"a\":2}}";
	static const char old[] = "{\"jsonrpc\":\"1.0\",\"method\":\"ping\",\"id\":52}";
	static const char later[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":53,\"params\":{\"_meta\":"
	    "{\"io.modelcontextprotocol/protocolVersion\":\"2999-01-01\","
	    "\"io.modelcontextprotocol/clientCapabilities\":{}}}}";
	static const char response[] = "{\"jsonrpc\":\"1.0\",\"id\":54,\"result\":{}}";
	static const char held_twice[] =
	    "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1,\"params\":{\"a\":1,\"a\":2}}";
	_cleanup_(buf_done) struct buf body = BUF_INIT(8u << 20);
	char path[PATH_SIZE], head[300];
	struct http_client c, poster;

	(void)state;
	open_sse(&c, path, "GET /sse");
	expect(202, path, JSON_TYPES, INITIALIZE("2024-11-05"), "Accepted");
	expect(202, path, JSON_TYPES, twice, "Accepted");
	assert_true(client_wait_for(&c, "\"id\":51,\"error\":{\"code\":-32600"));
	expect(202, path, JSON_TYPES, old, "Accepted");
	assert_true(client_wait_for(&c, "\"id\":52,\"error\":{\"code\":-32600"));
	expect(202, path, JSON_TYPES, later, "Accepted");
	assert_true(client_wait_for(&c, "\"id\":53,\"error\":{\"code\":-32022"));
	/* too large, and the id was there before it became so */
	assert_int_equal(
	    buf_add_str(&body,
			"200000\r\n{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":55,\"x\":\""),
	    0);
	while (body.len < 2u << 20)
		assert_int_equal(buf_add_str(&body, "aaaaaaaaaaaaaaaa"), 0);
	client_open(&poster, w.loop, w.port);
	(void)snprintf(head, sizeof(head),
		       "%s HTTP/1.1\r\n" HOST JSON_TYPES "Transfer-Encoding: chunked\r\n\r\n",
		       path);
	client_send_str(&poster, head);
	client_send(&poster, body.data, body.len);
	assert_true(client_wait_for(&poster, "HTTP/1.1 202 "));
	assert_true(client_wait_for(&c, "\"id\":55,\"error\":{\"code\":-32600"));
	client_close(&poster);
	/* no request, so nobody waits for an event */
	expect(400, path, JSON_TYPES, response, "Could not parse message");
	/* an event would end the call that has the id */
	expect(202, path, JSON_TYPES, CALL(1, "hold"), "Accepted");
	expect(400, path, JSON_TYPES, PING(1), "Could not parse message");
	expect(400, path, JSON_TYPES, held_twice, "Could not parse message");
	mcp_fixture_finish(&w.mcp, "the end");
	assert_true(client_wait_for(&c, "the end"));
	assert_null(strstr(c.data, "\"id\":54"));
	assert_null(strstr(c.data, "\"id\":1,\"error\""));
	client_close(&c);
}

static void test_sse_ends_in_the_middle_of_a_post(void **state)
{
	char path[PATH_SIZE], head[300];
	struct http_client c, poster;

	(void)state;
	open_sse(&c, path, "GET /sse");
	client_open(&poster, w.loop, w.port);
	(void)snprintf(head, sizeof(head),
		       "%s HTTP/1.1\r\n" HOST JSON_TYPES "Content-Length: %zu\r\n\r\n{", path,
		       strlen(PING(1)));
	client_send_str(&poster, head);
	client_pump(&poster, 10);
	client_close(&c);
	client_pump(&poster, 20);
	client_send_str(&poster, PING(1) + 1);
	assert_true(client_wait_for(&poster, "Could not find session"));
	client_close(&poster);
}

/* Its questions die with a stream; nothing is said on it any more. */
static void test_sse_ends_while_a_question_is_open(void **state)
{
	char path[PATH_SIZE];
	struct http_client c, other;

	(void)state;
	open_sse(&c, path, "GET /sse");
	expect(202, path, JSON_TYPES, INITIALIZE("2025-03-26"), "Accepted");
	expect(202, path, JSON_TYPES, CALL(1, "ask"), "Accepted");
	expect(202, path, JSON_TYPES, CALL(2, "ask"), "Accepted");
	assert_true(client_wait_for(&c, "roots/list"));
	client_close(&c);
	client_open(&other, w.loop, w.port);
	for (unsigned i = 0; i < 200 && counts().sse > 0; i++)
		client_pump(&other, 5);
	assert_int_equal(counts().sse, 0);
	client_close(&other);
}

static void test_question_over_a_stream(void **state)
{
	char session[80], headers[256], answer[160];
	struct http_client c;
	const char *id;

	(void)state;
	begin_session(session, "", INITIALIZE("2025-06-18"));
	(void)snprintf(headers, sizeof(headers), JSON_TYPES "%s", session);
	client_open(&c, w.loop, w.port);
	send_request(&c, "POST /mcp", headers, CALL(5, "ask"));
	assert_true(client_wait_for(&c, "roots/list"));
	id = strstr(strstr(c.data, "event: message"), "\"id\":");
	assert_non_null(id);
	(void)snprintf(answer, sizeof(answer),
		       "{\"jsonrpc\":\"2.0\",%.*s,\"result\":{\"roots\":[]}}",
		       (int)strcspn(id, ",}"), id);
	expect(202, "POST /mcp", headers, answer, "");
	assert_true(client_wait_for(&c, "answered"));
	client_close(&c);
}

/* ---- clients that vanish ---- */

static void vanish(const char *bytes, size_t len, bool reset)
{
	const struct linger hard = {.l_onoff = 1};
	struct http_client c;

	client_open(&c, w.loop, w.port);
	client_send(&c, bytes, len);
	if (reset)
		assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
	client_close(&c);
	assert_true(sd_event_run(w.loop, 0) >= 0);
}

static void test_clients_that_vanish_anywhere(void **state)
{
	static const struct {
		const char *line, *headers, *body;
	} requests[] = {
	    {"POST /mcp", JSON_TYPES, INITIALIZE("2025-11-25")},
	    {"POST /mcp", JSON_TYPES MODERN("tools/call", "Mcp-Name: echo\r\n"),
	     MODERN_CALL(1, "echo")},
	    {"POST /mcp", JSON_TYPES MODERN("tools/call", "Mcp-Name: hold\r\n"),
	     MODERN_CALL(1, "hold")},
	    {"POST /mcp", JSON_TYPES MODERN("tools/call", "Mcp-Name: ask\r\n"),
	     MODERN_CALL(1, "ask")},
	    {"GET /sse", "", ""},
	};
	struct http_client c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		char bytes[2048];
		const int len = snprintf(bytes, sizeof(bytes),
					 "%s HTTP/1.1\r\n" HOST "%sContent-Length: %zu\r\n\r\n%s",
					 requests[i].line, requests[i].headers,
					 strlen(requests[i].body), requests[i].body);

		for (int cut = 1; cut <= len; cut += cut < len - 8 ? 7 : 1)
			vanish(bytes, (size_t)cut, cut & 1);
	}
	client_open(&c, w.loop, w.port);
	for (unsigned i = 0; i < 200 && counts().sse + counts().exchanges + counts().streams > 0;
	     i++)
		client_pump(&c, 5);
	assert_int_equal(counts().exchanges, 0);
	assert_int_equal(counts().streams, 0);
	assert_int_equal(counts().sse, 0);
	assert_int_equal(w.mcp.cancelled, w.mcp.held_calls);
	client_close(&c);
}

static void test_sse_key_in_the_query(void **state)
{
	char path[PATH_SIZE];
	struct http_client c;

	(void)state;
	/* The way in has the key, because the client can send it nowhere else. */
	open_sse(&c, path, "GET /sse?api_key=alice-key");
	assert_non_null(strstr(path, "&api_key=alice-key"));
	expect(202, path, JSON_TYPES, PING(1), "Accepted");
	assert_true(client_wait_for(&c, "\"result\":{}"));
	/* Without it the id is worth nothing, and with another one it is unknown. */
	*strchr(path, '&') = '\0';
	expect(401, path, JSON_TYPES, PING(2), "Authentication required");
	expect(404, path, JSON_TYPES "X-Api-Key: bob-key\r\n", PING(2), "Could not find session");
	expect(202, path, JSON_TYPES "X-Api-Key: alice-key\r\n", PING(2), "Accepted");
	client_close(&c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define K(name) cmocka_unit_test_setup_teardown(name, setup_keys, teardown)
	const struct CMUnitTest tests[] = {
	    T(test_session_life),
	    T(test_get_stream_and_delete),
	    T(test_answer_becomes_a_stream),
	    T(test_resumption),
	    T(test_session_ends_under_a_call),
	    T(test_session_limit),
	    K(test_sessions_belong_to_their_principal),
	    T(test_browsers),
	    T(test_modern),
	    T(test_listen),
	    T(test_too_large_messages),
	    T(test_sse),
	    T(test_sse_refuses_on_the_stream),
	    T(test_sse_ends_in_the_middle_of_a_post),
	    T(test_sse_ends_while_a_question_is_open),
	    T(test_question_over_a_stream),
	    T(test_clients_that_vanish_anywhere),
	    K(test_sse_key_in_the_query),
	};
#undef T
#undef K
	return cmocka_run_group_tests(tests, NULL, NULL);
}
