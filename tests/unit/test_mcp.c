/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations with the MCP library: what clients of each revision say, and what they must get. */
#include "base/attr.h"
#include "mcp_talk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EVERYTHING 0x1ff /* all of enum mcp_offer */
#define V          "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\""
#define CAPS       "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define META       "\"_meta\":{" V "," CAPS "}"
#define REQ(method, params)                                                                        \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"
#define NOTE(method, params)                                                                       \
	"{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":{" params "}}"
#define ERROR(code) "{\"id\":1,\"error\":{\"code\":" #code ",\"message\":\"*\"}}"
#define NO_ID(code) "{\"error\":{\"code\":" #code "}}"

/* ---- one message, one answer ---- */

struct row {
	const char *in;
	const char *want; /* NULL: no answer */
};

static void run_rows(const struct row *rows, size_t n, const char *revision)
{
	for (size_t i = 0; i < n; i++) {
		struct talk t;

		talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
		if (revision)
			talk_handshake(&t, revision, "{}");
		talk_say(&t, rows[i].in);
		assert_int_equal(t.n_finished, 1);
		if (rows[i].want)
			assert_has(t.answer, rows[i].want);
		else
			assert_null(t.answer);
		talk_close(&t);
	}
}

static void test_malformed(void **state)
{
	static const struct row rows[] = {
	    {"", NO_ID(-32700)},
	    {"{", NO_ID(-32700)},
	    {"nonsense", NO_ID(-32700)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}x", NO_ID(-32700)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", NO_ID(-32700)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", NO_ID(-32700)},
	    {"1", NO_ID(-32600)},
	    {"\"ping\"", NO_ID(-32600)},
	    {"null", NO_ID(-32600)},
	    {"{}", NO_ID(-32600)},
	    {"[]", NO_ID(-32600)},
	    {"{\"id\":1,\"method\":\"ping\"}", ERROR(-32600)},
	    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", ERROR(-32600)},
	    {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", ERROR(-32600)},
	    /* ids: never invented, never changed */
	    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", NO_ID(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", "{\"id\":1.5,\"result\":{}}"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}", NO_ID(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", NO_ID(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"ping\"}",
	     "{\"id\":\"1\",\"result\":{}}"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"ping\"}",
	     "{\"id\":\"\",\"result\":{}}"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":-9007199254740993,\"method\":\"ping\"}",
	     "{\"id\":-9007199254740993,\"result\":{}}"},
	    /* methods and params */
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", ERROR(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1}", ERROR(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[1]}", ERROR(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":3}", ERROR(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}",
	     "{\"id\":1,\"result\":{}}"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}",
	     "{\"id\":1,\"result\":{}}"},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000\"}", ERROR(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"result\":{}}", ERROR(-32600)},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", NO_ID(-32600)},
	    {REQ("no/such", ""), ERROR(-32601)},
	    {REQ("notifications/initialized", ""), ERROR(-32601)},
	    /* never answered */
	    {NOTE("notifications/unknown", ""), NULL},
	    {NOTE("ping", ""), NULL},
	    {NOTE("notifications/cancelled", "\"requestId\":12"), NULL},
	    {NOTE("notifications/cancelled", "\"requestId\":{}"), NULL},
	    {"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}", NULL},
	    {"{\"jsonrpc\":\"2.0\",\"id\":\"ask-1\",\"error\":{\"code\":1}}", NULL},
	};

	(void)state;
	run_rows(rows, ARRAY_SIZE(rows), NULL);
	run_rows(rows, ARRAY_SIZE(rows), "2025-11-25");
}

static void test_depth(void **state)
{
	char text[512];
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	for (unsigned depth = MCP_DEPTH_MAX; depth <= MCP_DEPTH_MAX + 1; depth++) {
		/* The message and its params are two levels. */
		int n = snprintf(
		    text, sizeof(text),
		    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":");

		for (unsigned i = 0; i < depth - 2; i++)
			text[n++] = '[';
		for (unsigned i = 0; i < depth - 2; i++)
			text[n++] = ']';
		talk_say_n(&t, NULL, text, (size_t)n + (size_t)snprintf(text + n, 8, "}}"));
		assert_has(t.answer, depth > MCP_DEPTH_MAX ? NO_ID(-32600) : "{\"result\":{}}");
	}
	talk_close(&t);
}

static void test_legacy_answers(void **state)
{
	static const struct row rows[] = {
	    {REQ("ping", ""), "{\"id\":1,\"result\":{}}"},
	    {REQ("tools/list", ""), "{\"result\":{\"tools\":[\"*\",\"*\",\"*\",\"*\"],"
				    "\"nextCursor\":\"o4\"}}"},
	    {REQ("tools/list", "\"cursor\":\"o4\""), "{\"result\":{\"tools\":["
						     "{\"name\":\"sampler\"},"
						     "{\"name\":\"background\"}]}}"},
	    {REQ("tools/list", "\"cursor\":\"0\""), ERROR(-32602)},
	    {REQ("tools/list", "\"cursor\":\"o0\""), ERROR(-32602)},
	    {REQ("tools/list", "\"cursor\":\"o99\""), ERROR(-32602)},
	    {REQ("tools/list", "\"cursor\":\"o4 \""), ERROR(-32602)},
	    {REQ("tools/list", "\"cursor\":4"), ERROR(-32602)},
	    {REQ("tools/call", "\"name\":\"echo\",\"arguments\":{\"n\":2}"),
	     "{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"n\\\":2}\"}],"
	     "\"structuredContent\":{\"n\":2}}}"},
	    {REQ("tools/call", "\"name\":\"nope\""), ERROR(-32602)},
	    {REQ("tools/call", "\"name\":\"echo\\u0000\""), ERROR(-32602)},
	    {REQ("tools/call", "\"name\":5"), ERROR(-32602)},
	    {REQ("tools/call", ""), ERROR(-32602)},
	    {REQ("tools/call", "\"name\":\"echo\",\"arguments\":[2]"), ERROR(-32602)},
	    {REQ("tools/call", "\"name\":\"echo\",\"arguments\":\"x\""), ERROR(-32602)},
	    /* arguments that a model could mend are results */
	    {REQ("tools/call", "\"name\":\"echo\""), "{\"result\":{\"isError\":true}}"},
	    {REQ("tools/call", "\"name\":\"echo\",\"arguments\":null"),
	     "{\"result\":{\"isError\":true}}"},
	    {REQ("tools/call", "\"name\":\"echo\",\"arguments\":{\"n\":0}"),
	     "{\"result\":{\"isError\":true}}"},
	    {REQ("tools/call", "\"name\":\"echo\",\"arguments\":{\"n\":1,\"x\":1}"),
	     "{\"result\":{\"isError\":true,\"content\":[{\"text\":\"Invalid arguments for "
	     "echo: 'x' is not an argument of this tool\"}]}}"},
	    {REQ("tools/call", "\"name\":\"sampler\""), "{\"result\":{\"isError\":true}}"},
	    {REQ("tools/call", "\"name\":\"background\""), "{\"result\":{\"isError\":true}}"},
	    {REQ("resources/list", ""), "{\"result\":{\"resources\":[{\"uri\":\"x://one\"}]}}"},
	    {REQ("resources/templates/list", ""),
	     "{\"result\":{\"resourceTemplates\":[{\"uriTemplate\":\"x://t/{id}\"}]}}"},
	    {REQ("resources/read", "\"uri\":\"x://t/1\""),
	     "{\"result\":{\"contents\":[{\"uri\":\"x://t/1\",\"text\":\"text\"}]}}"},
	    {REQ("resources/read", "\"uri\":\"x://t/1/2\""),
	     "{\"error\":{\"code\":-32002,\"data\":{\"uri\":\"x://t/1/2\"}}}"},
	    {REQ("resources/read", ""), ERROR(-32602)},
	    {REQ("resources/subscribe", "\"uri\":\"x://one\""), "{\"result\":{}}"},
	    {REQ("resources/subscribe", "\"uri\":\"x://two\""),
	     "{\"error\":{\"code\":-32002,\"data\":{\"uri\":\"x://two\"}}}"},
	    {REQ("resources/unsubscribe", "\"uri\":\"x://two\""), "{\"result\":{}}"},
	    {REQ("prompts/list", ""), "{\"result\":{\"prompts\":[{\"name\":\"p\",\"arguments\":"
				      "[{\"name\":\"topic\",\"required\":true}]}]}}"},
	    {REQ("prompts/get", "\"name\":\"p\",\"arguments\":{\"topic\":\"t\"}"),
	     "{\"result\":{\"messages\":[{\"role\":\"user\",\"content\":{\"text\":\"t\"}}]}}"},
	    {REQ("prompts/get", "\"name\":\"p\""), ERROR(-32602)},
	    {REQ("prompts/get", "\"name\":\"p\",\"arguments\":{\"topic\":1}"), ERROR(-32602)},
	    {REQ("prompts/get", "\"name\":\"q\""), ERROR(-32602)},
	    {REQ("completion/complete", "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},"
					"\"argument\":{\"name\":\"topic\",\"value\":\"a\"}"),
	     "{\"result\":{\"completion\":{\"values\":[]}}}"},
	    {REQ("completion/complete", "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"q\"},"
					"\"argument\":{\"name\":\"topic\",\"value\":\"a\"}"),
	     ERROR(-32602)},
	    {REQ("completion/complete", "\"ref\":{\"type\":\"ref/other\",\"name\":\"p\"},"
					"\"argument\":{\"name\":\"topic\",\"value\":\"a\"}"),
	     ERROR(-32602)},
	    {REQ("logging/setLevel", "\"level\":\"debug\""), "{\"result\":{}}"},
	    {REQ("logging/setLevel", "\"level\":\"loud\""), ERROR(-32602)},
	    /* methods of the other era */
	    {REQ("server/discover", ""), ERROR(-32602)},
	    {REQ("subscriptions/listen", "\"notifications\":{}"), ERROR(-32601)},
	    {REQ("tasks/get", "\"taskId\":\"x\""), ERROR(-32601)},
	};

	(void)state;
	run_rows(rows, ARRAY_SIZE(rows), "2025-11-25");
}

static void test_modern_answers(void **state)
{
	static const struct row rows[] = {
	    {REQ("server/discover", META),
	     "{\"result\":{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"
	     "\"capabilities\":{\"tools\":{\"listChanged\":true},\"extensions\":"
	     "{\"io.modelcontextprotocol/tasks\":{}}},\"ttlMs\":0,\"cacheScope\":\"private\","
	     "\"instructions\":\"Be good.\","
	     "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"test\"}}}}"},
	    {REQ("tools/list", META), "{\"result\":{\"resultType\":\"complete\",\"ttlMs\":0,"
				      "\"nextCursor\":\"o4\"}}"},
	    {REQ("resources/list", META), "{\"result\":{\"cacheScope\":\"private\"}}"},
	    {REQ("resources/read", "\"uri\":\"x://one\"," META),
	     "{\"result\":{\"cacheScope\":\"private\",\"ttlMs\":0}}"},
	    {REQ("resources/read", "\"uri\":\"x://two\"," META),
	     "{\"error\":{\"code\":-32602,\"data\":{\"uri\":\"x://two\"}}}"},
	    {REQ("tools/call", "\"name\":\"echo\",\"arguments\":{\"n\":2}," META),
	     "{\"result\":{\"resultType\":\"complete\",\"structuredContent\":{\"n\":2}}}"},
	    {REQ("tools/call", "\"name\":\"nope\"," META), ERROR(-32602)},
	    {REQ("tools/call", "\"name\":\"sampler\"," META),
	     "{\"error\":{\"code\":-32021,\"data\":{\"requiredCapabilities\":"
	     "{\"sampling\":{}}}}}"},
	    {REQ("tools/call", "\"name\":\"background\"," META),
	     "{\"error\":{\"code\":-32021,\"data\":{\"requiredCapabilities\":{\"extensions\":"
	     "{\"io.modelcontextprotocol/tasks\":{}}}}}}"},
	    {REQ("tasks/get", "\"taskId\":\"x\"," META), ERROR(-32021)},
	    /* the envelope */
	    {REQ("tools/list", "\"_meta\":{" V "}"), ERROR(-32602)},
	    {REQ("tools/list",
		 "\"_meta\":{" V ",\"io.modelcontextprotocol/clientCapabilities\":[1]}"),
	     ERROR(-32602)},
	    {REQ("tools/list",
		 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":3," CAPS "}"),
	     ERROR(-32602)},
	    {REQ("tools/list", "\"_meta\":{" V "," CAPS ",\"io.modelcontextprotocol/logLevel\":"
			       "\"loud\"}"),
	     ERROR(-32602)},
	    {REQ("tools/list",
		 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"v9\"," CAPS "}"),
	     "{\"error\":{\"code\":-32022,\"data\":{\"supported\":[\"2026-07-28\"],"
	     "\"requested\":\"v9\"}}}"},
	    {REQ("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
			       "\"2025-11-25\"," CAPS "}"),
	     ERROR(-32022)},
	    /* removed methods */
	    {REQ("initialize", "\"protocolVersion\":\"2025-11-25\"," META), ERROR(-32601)},
	    {REQ("ping", META), ERROR(-32601)},
	    {REQ("logging/setLevel", "\"level\":\"info\"," META), ERROR(-32601)},
	    {REQ("resources/subscribe", "\"uri\":\"x://one\"," META), ERROR(-32601)},
	    {REQ("resources/unsubscribe", "\"uri\":\"x://one\"," META), ERROR(-32601)},
	    {REQ("tasks/list", META), ERROR(-32601)},
	    {REQ("tasks/result", META), ERROR(-32601)},
	    {REQ("subscriptions/listen", META), ERROR(-32602)},
	    {NOTE("notifications/whatever", META), NULL},
	    {"[" REQ("tools/list", META) "]", NO_ID(-32600)},
	};

	(void)state;
	run_rows(rows, ARRAY_SIZE(rows), NULL);
	/* Both eras live on one connection. */
	run_rows(rows, ARRAY_SIZE(rows), "2025-11-25");
	run_rows(rows, ARRAY_SIZE(rows), "2025-03-26");
}

static void test_versions(void **state)
{
	static const struct {
		const char *asked;
		const char *got;
	} rows[] = {
	    {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"},
	    {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"},
	    {"2026-07-28", "2025-11-25"}, {"2030-01-01", "2025-11-25"},
	    {"1", "2025-11-25"},          {"", "2025-11-25"},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct talk t;

		talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
		(void)snprintf(text, sizeof(text), REQ("initialize", "\"protocolVersion\":\"%s\""),
			       rows[i].asked);
		talk_say(&t, text);
		(void)snprintf(text, sizeof(text),
			       "{\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":"
			       "{\"resources\":{\"subscribe\":true}}}}",
			       rows[i].got);
		assert_has(t.answer, text);
		assert_true(mcp_peer_is_session(t.peer));
		/* What a revision does not know is not listed. */
		talk_say(&t, REQ("tools/list", ""));
		assert_int_equal(
		    json_object_get(
			json_array_get(
			    json_object_get(json_object_get(t.answer, "result"), "tools"), 0),
			"icons") != NULL,
		    mcp_peer_revision(t.peer) >= MCP_REV_2025_11_25);
		talk_close(&t);
	}
}

/* Nothing that was not offered exists. */
static void test_offers(void **state)
{
	static const char *const methods[] = {"logging/setLevel", "completion/complete",
					      "resources/subscribe", "tasks/get"};
	char text[256];
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, 0);
	talk_handshake(&t, "2025-11-25", "{}");
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		(void)snprintf(text, sizeof(text), REQ("%s", ""), methods[i]);
		talk_say(&t, text);
		assert_has(t.answer, ERROR(-32601));
	}
	talk_modern(&t, "subscriptions/listen", "\"notifications\":{}", "{}");
	assert_has(t.answer, "{\"error\":{\"code\":-32601}}");
	talk_close(&t);
}

/* ---- pages of tools ---- */

static void on_view(struct mcp_call *call, json_t *args UNUSED, void *user UNUSED)
{
	mcp_call_finish(call, mcp_tool_error("not called"));
}

#define UI_CAPS                                                                                    \
	"{\"extensions\":{\"io.modelcontextprotocol/ui\":{\"mimeTypes\":[\"" MCP_VIEW_TYPE "\"]}}" \
	"}"

static bool shows_view(const struct talk *t)
{
	const json_t *tools = json_object_get(json_object_get(t->answer, "result"), "tools"), *tool;
	size_t i;

	json_array_foreach(tools, i, tool) {
		const json_t *ui = json_object_get(json_object_get(tool, "_meta"), "ui");
		if (json_object_get(ui, "resourceUri"))
			return true;
	}
	return false;
}

/* Only a client that announces it sees the page of a tool, whichever client asked before. */
static void test_views(void **state)
{
	static const struct {
		const char *revision;
		const char *caps;
		bool shown;
	} rows[] = {
	    {"2025-11-25", "{}", false},
	    {"2025-11-25", UI_CAPS, true},
	    {"2024-11-05", UI_CAPS, true},
	    {"2025-11-25", "{}", false},
	    {"2025-11-25",
	     "{\"extensions\":{\"io.modelcontextprotocol/ui\":{\"mimeTypes\":[\"text/html\",1]}}}",
	     false},
	    {"2025-11-25", "{\"extensions\":{\"io.modelcontextprotocol/ui\":7}}", false},
	    {"2025-11-25", "{\"extensions\":[]}", false},
	};
	const struct mcp_tool with_view = {
	    .name = "echo", .description = "d", .view = "ui://x", .call = on_view};
	struct err e = ERR_INIT;
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, 0);
	assert_int_equal(mcp_server_add_tool(t.server, &with_view, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		talk_reconnect(&t, MCP_TRANSPORT_STDIO, NULL);
		talk_handshake(&t, rows[i].revision, rows[i].caps);
		talk_say(&t, REQ("tools/list", ""));
		assert_int_equal(shows_view(&t), rows[i].shown);
	}
	talk_modern(&t, "tools/list", "", UI_CAPS);
	assert_true(shows_view(&t));
	talk_modern(&t, "tools/list", "", "{}");
	assert_false(shows_view(&t));
	talk_close(&t);
}

/* ---- HTTP ---- */

static const char *no_param(void *user, const char *name)
{
	(void)name;
	return user;
}

static void test_http(void **state)
{
	static const struct http_row {
		const char *in;
		enum mcp_session_fact session;
		const char *version;
		const char *method;
		const char *name;
		const char *param; /* of Mcp-Param-S */
		unsigned status;
		const char *want;
	} rows[] = {
#define CALL(args) REQ("tools/call", "\"name\":\"echo\",\"arguments\":{" args "}," META)
#define NEW        "2026-07-28"
	    /* modern: headers must say what the body says */
	    {CALL("\"n\":1"), 0, NEW, "tools/call", "echo", NULL, 200, "{\"result\":{}}"},
	    {CALL("\"n\":1"), 0, " " NEW "\t", " tools/call ", " echo", NULL, 200,
	     "{\"result\":{}}"},
	    {CALL("\"n\":1"), 0, NEW, "tools/call", "=?base64?ZWNobw==?=", NULL, 200,
	     "{\"result\":{}}"},
	    {CALL("\"n\":1"), 0, NEW, "tools/call", "=?base64?ZWNobw?=", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NEW, "tools/call", "=?base64?ZWNobw==", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NULL, "tools/call", "echo", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, "2025-11-25", "tools/call", "echo", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NEW, NULL, "echo", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NEW, "Tools/Call", "echo", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NEW, "tools/call", NULL, NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NEW, "tools/call", "ECHO", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NEW, "tools/call", "echo, echo", NULL, 400, ERROR(-32020)},
	    /* x-mcp-header */
	    {CALL("\"n\":1,\"s\":\"abc\""), 0, NEW, "tools/call", "echo", "abc", 200,
	     "{\"result\":{}}"},
	    {CALL("\"n\":1,\"s\":\"abc\""), 0, NEW, "tools/call", "echo", "=?base64?YWJj?=", 200,
	     "{\"result\":{}}"},
	    {CALL("\"n\":1,\"s\":\"abc\""), 0, NEW, "tools/call", "echo", NULL, 400, ERROR(-32020)},
	    {CALL("\"n\":1,\"s\":\"abc\""), 0, NEW, "tools/call", "echo", "abd", 400,
	     ERROR(-32020)},
	    {CALL("\"n\":1"), 0, NEW, "tools/call", "echo", "abc", 400, ERROR(-32020)},
	    {CALL("\"n\":1,\"s\":\"a\\u0000\""), 0, NEW, "tools/call", "echo", "a", 400,
	     ERROR(-32020)},
	    /* order of checks */
	    {REQ("no/such", "\"_meta\":{" V "}"), 0, "2025-11-25", NULL, NULL, NULL, 400,
	     ERROR(-32602)},
	    {REQ("no/such", META), 0, NEW, "no/such", NULL, NULL, 404, ERROR(-32601)},
	    {REQ("initialize", META), 0, NEW, "initialize", NULL, NULL, 404, ERROR(-32601)},
	    {REQ("tools/list",
		 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"v9\"," CAPS "}"),
	     0, "v9", "tools/list", NULL, NULL, 400, ERROR(-32022)},
	    {REQ("tools/list",
		 "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"v9\"," CAPS "}"),
	     0, NEW, "tools/list", NULL, NULL, 400, ERROR(-32020)},
	    {REQ("tools/call", "\"name\":\"sampler\"," META), 0, NEW, "tools/call", "sampler", NULL,
	     400, ERROR(-32021)},
	    {REQ("tools/call", "\"name\":\"nope\"," META), 0, NEW, "tools/call", "nope", NULL, 200,
	     ERROR(-32602)},
	    /* sessions mean nothing to the modern era */
	    {REQ("server/discover", META), MCP_SESSION_UNKNOWN, NEW, "server/discover", NULL, NULL,
	     200, "{\"result\":{}}"},
	    /* headers of one era, bodies of the other */
	    {REQ("server/discover", ""), 0, NEW, "server/discover", NULL, NULL, 400, ERROR(-32602)},
	    {REQ("initialize", "\"protocolVersion\":\"2025-11-25\""), 0, NEW, NULL, NULL, NULL, 200,
	     "{\"result\":{\"protocolVersion\":\"2025-11-25\"}}"},
	    {REQ("initialize", "\"protocolVersion\":\"2025-11-25\""), 0, "v9", NULL, NULL, NULL,
	     200, "{\"result\":{\"protocolVersion\":\"2025-11-25\"}}"},
	    {NOTE("notifications/initialized", ""), 0, NEW, NULL, NULL, NULL, 202, NULL},
	    {NOTE("notifications/cancelled", META), 0, NEW, NULL, NULL, NULL, 202, NULL},
	    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 0, NEW, NULL, NULL, NULL, 400,
	     ERROR(-32600)},
	    /* legacy sessions */
	    {REQ("initialize", "\"protocolVersion\":\"2025-11-25\""), 0, NULL, NULL, NULL, NULL,
	     200, "{\"result\":{\"protocolVersion\":\"2025-11-25\"}}"},
	    {REQ("tools/list", ""), 0, NULL, NULL, NULL, NULL, 400, ERROR(-32000)},
	    {REQ("tools/list", ""), MCP_SESSION_UNKNOWN, NULL, NULL, NULL, NULL, 404,
	     ERROR(-32001)},
	    {REQ("tools/list", ""), 0, "v999", NULL, NULL, NULL, 400, ERROR(-32000)},
	    {REQ("tools/list", ""), 0, "2025-13-13", NULL, NULL, NULL, 400, ERROR(-32000)},
	    {NOTE("notifications/initialized", ""), MCP_SESSION_UNKNOWN, NULL, NULL, NULL, NULL,
	     404, NO_ID(-32001)},
	    {"{", 0, NULL, NULL, NULL, NULL, 400, NO_ID(-32700)},
	    {"7", 0, NULL, NULL, NULL, NULL, 400, NO_ID(-32600)},
	    {"[" REQ("ping", "") "]", 0, NULL, NULL, NULL, NULL, 400, NO_ID(-32600)},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct http_row *r = &rows[i];
		struct mcp_http_facts facts = {
		    .session = r->session,
		    .protocol_version = r->version,
		    .method = r->method,
		    .name = r->name,
		    .param = no_param,
		};
		char param[64];
		struct talk t;

		if (r->param) {
			(void)snprintf(param, sizeof(param), "%s", r->param);
			facts.user = param;
		}
		talk_open(&t, MCP_TRANSPORT_HTTP, EVERYTHING);
		talk_say_n(&t, &facts, r->in, strlen(r->in));
		if (t.status != r->status)
			print_error("row %zu: %s\n", i, r->in);
		assert_int_equal(t.status, r->status);
		assert_int_equal(t.n_finished, 1);
		if (r->want)
			assert_has(t.answer, r->want);
		else
			assert_null(t.answer);
		talk_close(&t);
	}
}

static void test_http_session(void **state)
{
	const struct mcp_http_facts fresh = {0};
	const struct mcp_http_facts known = {.session = MCP_SESSION_KNOWN,
					     .protocol_version = "2025-06-18"};
	static const char init[] = REQ("initialize", "\"protocolVersion\":\"2025-11-25\"");
	static const char ping[] = REQ("ping", "");
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_HTTP, EVERYTHING);
	talk_say_n(&t, &fresh, init, strlen(init));
	assert_true(mcp_peer_is_session(t.peer));
	/* Another version in the header than was negotiated is what clients do. */
	talk_say_n(&t, &known, ping, strlen(ping));
	assert_int_equal(t.status, 200);
	talk_say_n(&t, &known, init, strlen(init));
	assert_int_equal(t.status, 400);
	assert_has(t.answer, ERROR(-32600));
	talk_close(&t);
}

/* ---- batches ---- */

static void test_batches(void **state)
{
	static const struct row rows[] = {
	    {"[" REQ("ping",
		     "") "," NOTE("notifications/initialized",
				  "") ","
				      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"no/such\"}]",
	     "[{\"id\":1,\"result\":{}},{\"id\":2,\"error\":{\"code\":-32601}}]"},
	    {"[" NOTE("notifications/initialized", "") "]", NULL},
	    {"[{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}]", NULL},
	    {"[]", NO_ID(-32600)},
	    {"[1]", "[{\"error\":{\"code\":-32600}}]"},
	    {"[[]]", "[{\"error\":{\"code\":-32600}}]"},
	    {"[" REQ("initialize", "\"protocolVersion\":\"2025-03-26\"") "]",
	     "[{\"id\":1,\"error\":{\"code\":-32600}}]"},
	    {"[" REQ("ping", "") "," REQ("ping", "") "]",
	     "[{\"id\":1,\"result\":{}},{\"id\":1,\"result\":{}}]"},
	};
	static const char batch[] = "[" REQ("ping", "") "]";
	static const char *const others[] = {"2024-11-05", "2025-06-18", "2025-11-25"};

	(void)state;
	run_rows(rows, ARRAY_SIZE(rows), "2025-03-26");
	struct talk early; /* no revision yet */
	talk_open(&early, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_say(&early, batch);
	assert_has(early.answer,
		   "{\"error\":{\"code\":-32600,\"message\":\"Send initialize first, by "
		   "itself: whether batches exist depends on the revision\"}}");
	talk_close(&early);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct talk t;

		talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
		talk_handshake(&t, others[i], "{}");
		talk_say(&t, batch);
		assert_has(t.answer, NO_ID(-32600));
		talk_close(&t);
	}
}

static void test_batch_waits(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-03-26", "{}");
	talk_say(&t, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":"
		     "{\"name\":\"hold\",\"_meta\":{\"progressToken\":\"p\"}}},"
		     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"},"
		     "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":"
		     "{\"name\":\"hold\"}}]");
	assert_int_equal(t.n_finished, 0);
	mcp_call_progress(t.held[0], 1, -1, NULL);
	assert_int_equal(json_array_size(t.sent), 1);
	mcp_call_finish(t.held[0], mcp_tool_result(json_array(), NULL, false));
	assert_int_equal(t.n_finished, 0);
	/* Cancelling the other one completes the array without it. */
	talk_say(&t, NOTE("notifications/cancelled", "\"requestId\":3"));
	assert_int_equal(t.n_finished, 2);
	assert_int_equal(t.n_cancelled, 1);
	t.n_held = 0;
	talk_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_malformed),      cmocka_unit_test(test_depth),
	    cmocka_unit_test(test_legacy_answers), cmocka_unit_test(test_modern_answers),
	    cmocka_unit_test(test_versions),       cmocka_unit_test(test_offers),
	    cmocka_unit_test(test_http),           cmocka_unit_test(test_http_session),
	    cmocka_unit_test(test_batches),        cmocka_unit_test(test_batch_waits),
	    cmocka_unit_test(test_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
