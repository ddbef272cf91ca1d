/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the MCP library over time: progress, cancels, questions to the client, tasks, changes.
 */
#include "base/attr.h"
#include "mcp_talk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define YEAR_MS    (INT64_C(365) * 86400000)
#define EVERYTHING 0x1ff /* all of enum mcp_offer */
#define V          "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\""
#define CAPS       "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define REQ(method, params)                                                                        \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"
#define NOTE(method, params)                                                                       \
	"{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":{" params "}}"
#define ERROR(code) "{\"id\":1,\"error\":{\"code\":" #code ",\"message\":\"*\"}}"
#define TASKS_CAP   "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}},\"elicitation\":{}}"

/* ---- calls in flight ---- */

static void test_in_flight(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-11-25", "{}");
	talk_say(&t, REQ("tools/call", "\"name\":\"hold\",\"_meta\":{\"progressToken\":0}"));
	assert_int_equal(t.n_finished, 0);
	assert_int_equal(mcp_peer_n_calls(t.peer), 1);
	/* The same id again, while it is in flight. "1" is another id than 1. */
	talk_say(&t, REQ("ping", ""));
	assert_has(t.answer, ERROR(-32600));
	talk_say(&t, "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"ping\"}");
	assert_has(t.answer, "{\"id\":\"1\",\"result\":{}}");
	/* Progress grows, or is not told. */
	json_array_clear(t.sent);
	mcp_call_progress(t.held[0], 1, 10, "one");
	mcp_call_progress(t.held[0], 1, 10, "again");
	mcp_call_progress(t.held[0], 0.5, 10, "back");
	mcp_call_progress(t.held[0], 1.5, -1, NULL);
	assert_has(t.sent,
		   "[{\"method\":\"notifications/progress\",\"params\":{\"progressToken\":0,"
		   "\"progress\":1,\"total\":10,\"message\":\"one\"}},"
		   "{\"params\":{\"progress\":1.5}}]");
	/* A slow reader is not told either, but gets its answer. */
	t.congested = true;
	mcp_call_progress(t.held[0], 2, -1, NULL);
	mcp_call_log(t.held[0], MCP_LEVEL_ERROR, NULL, json_string("x"));
	assert_int_equal(json_array_size(t.sent), 2);
	mcp_call_finish(t.held[0], mcp_tool_result(json_array(), NULL, false));
	assert_has(t.answer, "{\"id\":1,\"result\":{\"content\":[]}}");
	assert_int_equal(mcp_peer_n_calls(t.peer), 0);
	talk_close(&t);
}

/* A mistake of a handler costs its call, which has its answer already, and not the server. */
static void test_finished_twice(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-11-25", "{}");
	talk_say(&t, REQ("tools/call", "\"name\":\"hold\""));
	struct mcp_call *c = mcp_call_ref(t.held[0]);
	mcp_call_finish(c, mcp_tool_result(json_array(), NULL, false));
	assert_int_equal(t.n_finished, 1);
	mcp_call_finish(c, mcp_tool_result(json_array(), NULL, true));
	mcp_call_finish_error(c, MCP_ERR_INTERNAL, "again", json_object());
	mcp_call_finish_blob(c, json_object(), "MARK", strdup("x"), 1);
	assert_true(mcp_call_become_task(c, 0, 0, NULL) < 0);
	mcp_call_unref(c);
	assert_int_equal(t.n_finished, 1);
	assert_has(t.answer, "{\"id\":1,\"result\":{\"content\":[]}}");
	talk_say(&t, REQ("ping", ""));
	assert_has(t.answer, "{\"id\":1,\"result\":{}}");
	t.n_held = 0;
	talk_close(&t);
}

static void test_cancel(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-11-25", "{}");
	talk_say(&t, REQ("tools/call", "\"name\":\"hold\""));
	talk_say(&t, NOTE("notifications/cancelled", "\"requestId\":\"1\""));
	assert_int_equal(t.n_cancelled, 0);
	talk_say(&t, NOTE("notifications/cancelled", "\"requestId\":1,\"reason\":\"x\""));
	assert_int_equal(t.n_cancelled, 1);
	assert_null(t.answer);
	assert_int_equal(t.n_open, 0);
	/* The id is free again. */
	talk_say(&t, REQ("ping", ""));
	assert_has(t.answer, "{\"id\":1,\"result\":{}}");
	talk_close(&t);
}

/* What a broken stream means differs between the eras. */
static void test_stream_gone(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-11-25", "{}");
	talk_say(&t, REQ("tools/call", "\"name\":\"hold\",\"_meta\":{\"progressToken\":0}"));
	talk_gone(&t);
	assert_int_equal(t.n_cancelled, 0);
	mcp_call_progress(t.held[0], 1, -1, NULL);
	mcp_call_finish(t.held[0], mcp_tool_result(json_array(), NULL, false));
	t.n_held = 0;
	assert_int_equal(json_array_size(t.sent), 0);
	talk_modern(&t, "tools/call", "\"name\":\"hold\"", "{}");
	talk_gone(&t);
	assert_int_equal(t.n_cancelled, 1);
	assert_int_equal(mcp_peer_n_calls(t.peer), 0);
	talk_close(&t);
}

static void test_too_many_calls(void **state)
{
	char text[256];
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-11-25", "{}");
	for (unsigned i = 0; i < 7; i++) {
		(void)snprintf(text, sizeof(text),
			       "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\","
			       "\"params\":{\"name\":\"hold\"}}",
			       i);
		talk_say(&t, text);
	}
	assert_has(t.answer, "{\"id\":6,\"error\":{\"code\":-32603}}");
	/* The end of the connection cancels them all. */
	talk_reconnect(&t, MCP_TRANSPORT_STDIO, NULL);
	assert_int_equal(t.n_cancelled, 6);
	talk_close(&t);
}

static void test_logging(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-11-25", "{}");
	talk_say(&t, REQ("tools/call", "\"name\":\"hold\""));
	assert_false(mcp_call_logs(t.held[0], MCP_LEVEL_DEBUG));
	assert_true(mcp_call_logs(t.held[0], MCP_LEVEL_INFO));
	talk_say(&t, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"logging/setLevel\",\"params\":"
		     "{\"level\":\"error\"}}");
	assert_false(mcp_call_logs(t.held[0], MCP_LEVEL_WARNING));
	mcp_call_log(t.held[0], MCP_LEVEL_ALERT, "l", json_pack("{s:i}", "a", 1));
	assert_has(t.sent, "[{\"method\":\"notifications/message\",\"params\":{\"level\":\"alert\","
			   "\"logger\":\"l\",\"data\":{\"a\":1}}}]");
	/* Modern clients ask with each request, and what was set before means nothing. */
	talk_modern(&t, "tools/call", "\"name\":\"hold\"", "{}");
	assert_false(mcp_call_logs(t.held[1], MCP_LEVEL_EMERGENCY));
	talk_say(&t, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{"
		     "\"name\":\"hold\",\"_meta\":{" V "," CAPS
		     ",\"io.modelcontextprotocol/logLevel\":\"debug\"}}}");
	assert_true(mcp_call_logs(t.held[2], MCP_LEVEL_DEBUG));
	talk_close(&t);
}

/* ---- asking the client ---- */

static void test_legacy_questions(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-11-25", "{\"elicitation\":{}}");
	talk_say(&t, REQ("tools/call", "\"name\":\"ask\""));
	assert_has(t.sent, "[{\"jsonrpc\":\"2.0\",\"id\":\"ask-1\",\"method\":"
			   "\"elicitation/create\",\"params\":{\"message\":\"name\"}}]");
	/* Ids are per direction: an answer to another id is nothing to us. */
	talk_say(&t, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\"}}");
	assert_int_equal(json_array_size(t.sent), 0);
	talk_say(&t, "{\"jsonrpc\":\"2.0\",\"id\":\"ask-1\",\"result\":{\"action\":\"accept\","
		     "\"content\":{\"v\":\"Ann\"}}}");
	assert_has(t.sent, "[{\"id\":\"ask-2\",\"params\":{\"message\":\"colour\"}}]");
	talk_say(&t, "{\"jsonrpc\":\"2.0\",\"id\":\"ask-2\",\"result\":{\"action\":\"accept\","
		     "\"content\":{\"v\":\"red\"}}}");
	assert_int_equal(t.n_finished, 2);
	assert_int_equal(t.n_open, 0);
	talk_close(&t);
}

static void test_legacy_refusals(void **state)
{
	static const char *const answers[] = {
	    "{\"jsonrpc\":\"2.0\",\"id\":\"ask-1\",\"result\":{\"action\":\"maybe\"}}",
	    "{\"jsonrpc\":\"2.0\",\"id\":\"ask-1\",\"result\":[]}",
	};
	struct talk t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
		talk_handshake(&t, "2025-06-18", "{\"elicitation\":{}}");
		talk_say(&t, REQ("tools/call", "\"name\":\"ask\""));
		talk_say(&t, answers[i]);
		assert_int_equal(t.n_open, 0);
		assert_int_equal(mcp_peer_n_calls(t.peer), 0);
		talk_close(&t);
	}
	/* Nobody answers. */
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_handshake(&t, "2025-06-18", "{\"elicitation\":{}}");
	talk_say(&t, REQ("tools/call", "\"name\":\"ask\""));
	mcp_server_tick(t.server);
	assert_int_equal(t.n_finished, 0);
	/* Whatever becomes of the date. */
	talk_now_ms += YEAR_MS;
	mcp_server_tick(t.server);
	assert_int_equal(t.n_finished, 0);
	talk_now_ms -= 2 * YEAR_MS;
	talk_tick_ms += 61000;
	mcp_server_tick(t.server);
	assert_has(t.answer, "{\"id\":1,\"result\":{\"isError\":true}}");
	/* A cancel while the client is asked. */
	talk_say(&t, REQ("tools/call", "\"name\":\"ask\""));
	talk_say(&t, NOTE("notifications/cancelled", "\"requestId\":1"));
	assert_has(t.sent, "[{\"method\":\"notifications/cancelled\",\"params\":"
			   "{\"requestId\":\"ask-2\"}}]");
	assert_int_equal(t.n_open, 0);
	/* And a client that cannot be asked. */
	talk_reconnect(&t, MCP_TRANSPORT_STDIO, NULL);
	talk_handshake(&t, "2025-06-18", "{}");
	talk_say(&t, REQ("tools/call", "\"name\":\"ask\""));
	assert_has(t.answer, "{\"result\":{\"isError\":true}}");
	talk_close(&t);
}

/* Says the next round of "ask" with the requestState of the last answer. */
static void next_round(struct talk *t, const char *params)
{
	json_t *s = json_object_get(json_object_get(t->answer, "result"), "requestState");
	char text[4096];

	assert_true(json_is_string(s));
	assert_true((size_t)snprintf(text, sizeof(text), "%s,\"requestState\":\"%s\"", params,
				     json_string_value(s)) < sizeof(text));
	talk_modern(t, "tools/call", text, "{\"elicitation\":{}}");
}

#define ASK      "\"name\":\"ask\",\"arguments\":{\"a\":1}"
#define ASK_MORE ASK ",\"inputResponses\":"

static void test_modern_questions(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_modern(&t, "tools/call", ASK, "{}");
	assert_has(t.answer, "{\"error\":{\"code\":-32021,\"data\":{\"requiredCapabilities\":"
			     "{\"elicitation\":{}}}}}");
	talk_modern(&t, "tools/call", ASK, "{\"elicitation\":{}}");
	assert_has(t.answer,
		   "{\"result\":{\"resultType\":\"input_required\",\"requestState\":\"*\","
		   "\"inputRequests\":{\"name\":{\"method\":\"elicitation/create\","
		   "\"params\":{\"message\":\"name\"}}}}}");
	/* A wrong key, no answers, answers of a wrong form: the same question again. */
	next_round(&t, ASK_MORE "{\"nome\":{\"action\":\"accept\"}}");
	assert_has(t.answer, "{\"result\":{\"inputRequests\":{\"name\":\"*\"}}}");
	next_round(&t, ASK_MORE "null");
	assert_has(t.answer, "{\"result\":{\"inputRequests\":{\"name\":\"*\"}}}");
	next_round(&t, ASK_MORE "{\"name\":12345}");
	assert_has(t.answer, "{\"result\":{\"inputRequests\":{\"name\":\"*\"}}}");
	next_round(&t, ASK_MORE "{\"name\":{\"role\":\"user\",\"content\":{}}}");
	assert_has(t.answer, "{\"result\":{\"inputRequests\":{\"name\":\"*\"}}}");
	/* The right one; and the first answer is still known in the third round. */
	next_round(&t, ASK_MORE "{\"name\":{\"action\":\"accept\",\"content\":{\"v\":\"Ann\"}},"
				"\"other\":1}");
	assert_has(t.answer, "{\"result\":{\"inputRequests\":{\"colour\":\"*\"}}}");
	next_round(&t, ASK_MORE "{\"colour\":{\"action\":\"accept\",\"content\":{\"v\":\"red\"}}}");
	assert_has(t.answer, "{\"result\":{\"resultType\":\"complete\",\"structuredContent\":"
			     "{\"name\":{\"v\":\"Ann\"},\"colour\":{\"v\":\"red\"}}}}");
	talk_close(&t);
}

/* requestState is the client's to play with. */
static void test_forged_state(void **state)
{
	static const char other[] =
	    "\"name\":\"ask\",\"arguments\":{\"a\":2},\"inputResponses\":{}";
	json_t *first;
	json_t *s;
	char text[4096];
	char *copy;
	size_t len;
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	talk_modern(&t, "tools/call", ASK, "{\"elicitation\":{}}");
	first = json_deep_copy(t.answer);
	s = json_object_get(json_object_get(first, "result"), "requestState");
	len = json_string_length(s);
	/* Every byte changed, and the text cut everywhere. */
	for (size_t i = 0; i <= len; i++) {
		copy = strdup(json_string_value(s));
		assert_non_null(copy);
		if (i < len)
			copy[i] = copy[i] == 'A' ? 'B' : 'A';
		(void)snprintf(text, sizeof(text), ASK ",\"requestState\":\"%s%s\"", copy,
			       i < len ? "" : "-TAMPERED");
		talk_modern(&t, "tools/call", text, "{\"elicitation\":{}}");
		assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
		(void)snprintf(text, sizeof(text), ASK ",\"requestState\":\"%.*s\"",
			       (int)(i ? i - 1 : 0), json_string_value(s));
		talk_modern(&t, "tools/call", text, "{\"elicitation\":{}}");
		assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
		free(copy);
	}
	/* Other arguments, another client, later. */
	json_object_update(t.answer, first);
	next_round(&t, other);
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	talk_reconnect(&t, MCP_TRANSPORT_STDIO, "somebody else");
	json_object_update(t.answer, first);
	next_round(&t, ASK_MORE "{}");
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	talk_reconnect(&t, MCP_TRANSPORT_STDIO, NULL);
	json_object_update(t.answer, first);
	next_round(&t, ASK_MORE "{}");
	assert_has(t.answer, "{\"result\":{\"resultType\":\"input_required\"}}");
	json_object_update(t.answer, first);
	talk_now_ms += 61000;
	next_round(&t, ASK_MORE "{}");
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	json_decref(first);
	talk_close(&t);
}

/* ---- tasks ---- */

static void task_method(struct talk *t, const char *method, const char *id, const char *more)
{
	char params[512];

	(void)snprintf(params, sizeof(params), "\"taskId\":\"%s\"%s", id, more);
	talk_modern(t, method, params, TASKS_CAP);
}

/* Starts TOOL as a task; RET: room for its id. */
static void start_task(struct talk *t, const char *tool, char ret[64])
{
	char params[128];

	(void)snprintf(params, sizeof(params), "\"name\":\"%s\",\"arguments\":{\"task\":true}",
		       tool);
	talk_modern(t, "tools/call", params, TASKS_CAP);
	assert_has(t->answer, "{\"result\":{\"resultType\":\"task\",\"taskId\":\"*\","
			      "\"status\":\"*\",\"createdAt\":\"*\",\"lastUpdatedAt\":\"*\","
			      "\"ttlMs\":1000,\"pollIntervalMs\":\"*\"}}");
	(void)snprintf(
	    ret, 64, "%s",
	    json_string_value(json_object_get(json_object_get(t->answer, "result"), "taskId")));
}

static void test_tasks(void **state)
{
	struct talk t;
	char id[64];

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	start_task(&t, "hold", id);
	assert_int_equal(mcp_peer_n_calls(t.peer), 0);
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"resultType\":\"complete\",\"status\":\"working\","
			     "\"statusMessage\":\"holding\"}}");
	mcp_call_task_status(t.held[0], "half");
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"statusMessage\":\"half\"}}");
	/* It outlives its connection, and is nobody else's. */
	talk_reconnect(&t, MCP_TRANSPORT_STDIO, "somebody else");
	assert_int_equal(t.n_cancelled, 0);
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	task_method(&t, "tasks/cancel", id, "");
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	talk_reconnect(&t, MCP_TRANSPORT_STDIO, NULL);
	mcp_call_finish(t.held[0], mcp_tool_error("no"));
	t.n_held = 0;
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer,
		   "{\"result\":{\"status\":\"completed\",\"result\":{\"isError\":true}}}");
	/* Cancelling what is over changes nothing. */
	task_method(&t, "tasks/cancel", id, "");
	assert_has(t.answer, "{\"result\":{\"resultType\":\"complete\"}}");
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"status\":\"completed\"}}");
	/* The result goes after a while, whatever becomes of the date. */
	talk_now_ms += YEAR_MS;
	mcp_server_tick(t.server);
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"status\":\"completed\"}}");
	talk_now_ms -= 2 * YEAR_MS;
	talk_tick_ms += 61000;
	mcp_server_tick(t.server);
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	talk_close(&t);
}

static void test_task_ends(void **state)
{
	struct talk t;
	char id[64];
	char more[64];

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	start_task(&t, "hold", id);
	task_method(&t, "tasks/cancel", id, "");
	assert_int_equal(t.n_cancelled, 1);
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"status\":\"cancelled\"}}");
	start_task(&t, "background", id);
	mcp_call_finish_error(t.held[0], MCP_ERR_INTERNAL, "broke", NULL);
	t.n_held = 0;
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"status\":\"failed\",\"error\":{\"code\":-32603}}}");
	/* Three may be kept: finished ones make room, running ones do not. */
	for (unsigned i = 0; i < 3; i++)
		start_task(&t, "hold", more);
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	talk_modern(&t, "tools/call", "\"name\":\"hold\",\"arguments\":{\"task\":true}", TASKS_CAP);
	assert_int_equal(t.n_finished, 0);
	/* The server ends under three running tasks. */
	talk_close(&t);
	assert_int_equal(t.n_cancelled, 5);
}

static void test_task_questions(void **state)
{
	static const char first[] = ",\"inputResponses\":{\"x\":1,\"name\":{\"action\":\"accept\","
				    "\"content\":{\"v\":1}}}";
	struct talk t;
	char id[64];

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	start_task(&t, "ask", id);
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"status\":\"input_required\",\"inputRequests\":"
			     "{\"name\":{\"method\":\"elicitation/create\"}}}}");
	task_method(&t, "tasks/update", id, ",\"inputResponses\":{\"name\":{\"action\":\"?\"}}");
	task_method(&t, "tasks/update", id, first);
	assert_has(t.answer, "{\"result\":{\"resultType\":\"complete\"}}");
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"inputRequests\":{\"colour\":\"*\"}}}");
	task_method(&t, "tasks/update", id,
		    ",\"inputResponses\":{\"colour\":{\"action\":\"accept\",\"content\":{}}}");
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"status\":\"completed\",\"result\":"
			     "{\"structuredContent\":{\"name\":{\"v\":1}}}}}");
	task_method(&t, "tasks/update", id, "");
	assert_has(t.answer, "{\"error\":{\"code\":-32602}}");
	/* Cancelled while it asks. */
	start_task(&t, "ask", id);
	task_method(&t, "tasks/cancel", id, "");
	task_method(&t, "tasks/get", id, "");
	assert_has(t.answer, "{\"result\":{\"status\":\"cancelled\"}}");
	talk_close(&t);
}

/* ---- changes ---- */

static bool is_uri(const char *uri, void *user)
{
	return strcmp(uri, user) == 0;
}

static void resource_updated(struct mcp_server *server, const char *uri, const char *principal)
{
	mcp_server_resources_updated(server, principal, is_uri, (void *)(uintptr_t)uri);
}

static void test_legacy_changes(void **state)
{
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	mcp_server_tools_changed(t.server); /* nobody there yet */
	assert_int_equal(json_array_size(t.sent), 0);
	talk_handshake(&t, "2025-11-25", "{}");
	mcp_server_tools_changed(t.server);
	mcp_server_resources_changed(t.server, "somebody else");
	resource_updated(t.server, "x://one", NULL);
	assert_has(t.sent, "[{\"method\":\"notifications/tools/list_changed\"}]");
	talk_say(&t, REQ("resources/subscribe", "\"uri\":\"x://one\""));
	resource_updated(t.server, "x://one", "");
	assert_has(t.sent, "[{\"method\":\"notifications/resources/updated\",\"params\":"
			   "{\"uri\":\"x://one\"}}]");
	talk_say(&t, REQ("resources/unsubscribe", "\"uri\":\"x://one\""));
	resource_updated(t.server, "x://one", NULL);
	assert_int_equal(json_array_size(t.sent), 0);
	talk_close(&t);
}

static void test_listen(void **state)
{
	struct talk t;
	char id[64];
	char params[256];

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	start_task(&t, "hold", id);
	(void)snprintf(params, sizeof(params),
		       "\"notifications\":{\"toolsListChanged\":true,\"promptsListChanged\":false,"
		       "\"nonsense\":true,\"resourceSubscriptions\":[\"x://one\",5],"
		       "\"taskIds\":[\"%s\"]}",
		       id);
	talk_modern(&t, "subscriptions/listen", params, TASKS_CAP);
	assert_int_equal(t.n_finished, 0);
	assert_has(t.sent, "[{\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{"
			   "\"notifications\":{\"toolsListChanged\":true,\"resourceSubscriptions\":"
			   "[\"x://one\"],\"taskIds\":[\"*\"]},"
			   "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"*\"}}}]");
	json_array_clear(t.sent);
	mcp_server_tools_changed(t.server);
	mcp_server_prompts_changed(t.server);
	resource_updated(t.server, "x://one", NULL);
	resource_updated(t.server, "x://two", NULL);
	mcp_call_task_status(t.held[0], "more");
	assert_has(t.sent,
		   "[{\"method\":\"notifications/tools/list_changed\",\"params\":{\"_meta\":{"
		   "\"io.modelcontextprotocol/subscriptionId\":\"*\"}}},"
		   "{\"method\":\"notifications/resources/updated\",\"params\":"
		   "{\"uri\":\"x://one\"}},"
		   "{\"method\":\"notifications/tasks\",\"params\":"
		   "{\"statusMessage\":\"more\"}}]");
	mcp_peer_end_listens(t.peer);
	assert_has(t.answer, "{\"result\":{\"resultType\":\"complete\",\"_meta\":{"
			     "\"io.modelcontextprotocol/subscriptionId\":\"*\"}}}");
	/* Nothing to wait for: acknowledged and over. */
	talk_modern(&t, "subscriptions/listen", "\"notifications\":{}", "{}");
	assert_int_equal(json_array_size(t.sent), 1);
	assert_int_equal(t.n_finished, 1);
	/* A client that goes. */
	talk_modern(&t, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}",
		    "{}");
	talk_gone(&t);
	mcp_server_tools_changed(t.server);
	assert_int_equal(mcp_peer_n_calls(t.peer), 0);
	talk_close(&t);
}

/* ---- resources that come and go ---- */

/* Three items, LIMIT of them at a time; AFTER is the number of the last one. */
static void list_source(struct mcp_call *call, const char *after, size_t limit, void *user)
{
	json_t *items = json_array();
	unsigned first = after ? (unsigned)(after[0] - '0') + 1 : 1;
	char next[8] = "";
	char uri[16];

	(void)user;
	limit = MIN(limit, 2U);
	for (unsigned i = first; i <= 3 && i < first + limit; i++) {
		(void)snprintf(uri, sizeof(uri), "s://%u", i);
		(void)snprintf(next, sizeof(next), "%u", i);
		json_array_append_new(items, json_pack("{s:s,s:s}", "uri", uri, "name", next));
	}
	mcp_call_finish_page(call, items, first + limit <= 3 ? next : NULL);
}

static void read_source(struct mcp_call *call, const char *uri, void *user)
{
	(void)user;
	if (strcmp(uri, "s://1") != 0)
		mcp_call_finish_no_resource(call, uri);
	else
		mcp_call_finish(call, mcp_resource_result(json_array()));
}

static bool may_subscribe(struct mcp_peer *peer, const char *uri, void *user)
{
	(void)peer;
	(void)user;
	return strcmp(uri, "s://1") == 0;
}

static void test_source(void **state)
{
	static const struct mcp_resource_source source = {
	    .list = list_source,
	    .read = read_source,
	    .may_subscribe = may_subscribe,
	};
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	mcp_server_set_resource_source(t.server, &source);
	talk_handshake(&t, "2025-11-25", "{}");
	/* What is registered comes first, then the source's pages. */
	talk_say(&t, REQ("resources/list", ""));
	assert_has(t.answer, "{\"result\":{\"resources\":[{\"uri\":\"x://one\"}],"
			     "\"nextCursor\":\"s\"}}");
	talk_say(&t, REQ("resources/list", "\"cursor\":\"s\""));
	assert_has(t.answer, "{\"result\":{\"resources\":[{\"uri\":\"s://1\"},{\"uri\":\"s://2\"}],"
			     "\"nextCursor\":\"s2\"}}");
	talk_say(&t, REQ("resources/list", "\"cursor\":\"s2\""));
	assert_has(t.answer, "{\"result\":{\"resources\":[{\"uri\":\"s://3\"}]}}");
	assert_null(json_object_get(json_object_get(t.answer, "result"), "nextCursor"));
	talk_say(&t, REQ("resources/list", "\"cursor\":\"x\""));
	assert_has(t.answer, ERROR(-32602));
	talk_say(&t, REQ("resources/read", "\"uri\":\"s://1\""));
	assert_has(t.answer, "{\"result\":{\"contents\":[]}}");
	talk_say(&t, REQ("resources/read", "\"uri\":\"s://9\""));
	assert_has(t.answer, ERROR(-32002));
	talk_say(&t, REQ("resources/subscribe", "\"uri\":\"s://1\""));
	assert_has(t.answer, "{\"result\":{}}");
	talk_say(&t, REQ("resources/subscribe", "\"uri\":\"s://9\""));
	assert_has(t.answer, ERROR(-32002));
	talk_close(&t);
}

/* ---- long strings ---- */

static void test_long_strings(void **state)
{
	static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
				   "\"params\":{\"name\":\"length\",\"arguments\":{\"text\":\"";
	static const char unit[] = "ab\\n\xc3\xa9\\u00e9\\ud83d\\ude00\\\"";
	static const size_t unit_bytes = 2 + 1 + 2 + 2 + 4 + 1;
	static const unsigned counts[] = {10, 5000, 100000};
	char want[128];
	struct talk t;

	(void)state;
	talk_open(&t, MCP_TRANSPORT_STDIO, EVERYTHING);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		size_t len = sizeof(head) - 1 + counts[i] * (sizeof(unit) - 1) + 4;
		char *text = malloc(len + 1);
		char *p = text;

		assert_non_null(text);
		p = stpcpy(p, head);
		for (unsigned n = 0; n < counts[i]; n++)
			p = stpcpy(p, unit);
		p = stpcpy(p, "\"}}}");
		talk_say_n(&t, NULL, text, (size_t)(p - text));
		free(text);
		(void)snprintf(want, sizeof(want),
			       "{\"result\":{\"structuredContent\":{\"len\":%zu,\"spilled\":%s}}}",
			       unit_bytes * counts[i], counts[i] > 3000 ? "true" : "false");
		assert_has(t.answer, want);
	}
	talk_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_in_flight),
	    cmocka_unit_test(test_cancel),
	    cmocka_unit_test(test_finished_twice),
	    cmocka_unit_test(test_stream_gone),
	    cmocka_unit_test(test_too_many_calls),
	    cmocka_unit_test(test_logging),
	    cmocka_unit_test(test_legacy_questions),
	    cmocka_unit_test(test_legacy_refusals),
	    cmocka_unit_test(test_modern_questions),
	    cmocka_unit_test(test_forged_state),
	    cmocka_unit_test(test_tasks),
	    cmocka_unit_test(test_task_ends),
	    cmocka_unit_test(test_task_questions),
	    cmocka_unit_test(test_legacy_changes),
	    cmocka_unit_test(test_listen),
	    cmocka_unit_test(test_source),
	    cmocka_unit_test(test_long_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
