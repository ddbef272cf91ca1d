/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations with the MCP library in which one allocation after the other fails: every message
 * must still be finished at most once, nothing may leak or be used after its end, and the next
 * conversation must work. */
#include "base/attr.h"
#include "mcp_talk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS_MAX 5000 /* more allocations than any message here needs */
#define META                                                                                       \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
	"\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"extensions\":{"      \
	"\"io.modelcontextprotocol/tasks\":{}}},\"progressToken\":1}"
#define REQ(method, params)                                                                        \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" params "}}"

static const char *const messages[] = {
    REQ("initialize", "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"roots\":{}}"),
    REQ("ping", ""),
    REQ("tools/list", ""),
    REQ("tools/list", "\"cursor\":\"o4\"," META),
    REQ("tools/call", "\"name\":\"echo\",\"arguments\":{\"n\":1}"),
    REQ("tools/call", "\"name\":\"echo\",\"arguments\":{\"n\":0}," META),
    REQ("tools/call", "\"name\":\"ask\"," META),
    REQ("tools/call", "\"name\":\"ask\",\"inputResponses\":{\"name\":{\"action\":\"accept\","
		      "\"content\":{}}}," META),
    REQ("tools/call", "\"name\":\"ask\",\"arguments\":{\"task\":true}," META),
    REQ("tools/call", "\"name\":\"hold\",\"arguments\":{\"task\":true}," META),
    REQ("tools/call", "\"name\":\"sampler\"," META),
    REQ("resources/list", META),
    REQ("resources/read", "\"uri\":\"x://one\"," META),
    REQ("resources/read", "\"uri\":\"x://none\""),
    REQ("resources/subscribe", "\"uri\":\"x://one\""),
    REQ("prompts/get", "\"name\":\"p\",\"arguments\":{\"topic\":\"t\"}"),
    REQ("completion/complete", "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"p\"},"
			       "\"argument\":{\"name\":\"topic\",\"value\":\"a\"}"),
    REQ("server/discover", META),
    REQ("subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true,"
				"\"resourceSubscriptions\":[\"x://one\"]}," META),
    REQ("no/such", META),
};

/* True when the failure came to pass. */
static bool one(const char *message, long fail_at)
{
	struct talk t;

	talk_open(&t, MCP_TRANSPORT_STDIO, 0x1ff);
	talk_fail_at = fail_at;
	talk_say(&t, message);
	fail_at = talk_fail_at;
	talk_fail_at = -1;
	assert_true(t.n_finished <= 1);
	/* What is not finished is held by its tool, a task, or a stream that waits for changes. */
	assert_int_equal(t.n_finished + t.n_open, 1);
	talk_close(&t);
	return fail_at < 0;
}

static void test_allocations(void **state)
{
	long total = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		long n = 0;

		while (one(messages[i], n)) {
			n++;
			assert_true(n < ROUNDS_MAX);
		}
		total += n;
	}
	assert_true(total > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
