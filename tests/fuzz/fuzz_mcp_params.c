/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of requests that reach handlers: the first byte chooses the method and the era, the
 * rest is what stands between the braces of `params`. Property: every request is finished exactly
 * once, whatever its parameters are. */
#include "fuzz.h"

#include "mcp/content.h"
#include "mcp/peer.h"

#include <string.h>

static const char *const methods[] = {
    "tools/call",       "tools/list",          "resources/read",  "resources/subscribe",
    "prompts/get",      "completion/complete", "initialize",      "subscriptions/listen",
    "logging/setLevel", "tasks/update",        "server/discover",
};

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":1},"
    "\"b\":{\"enum\":[\"x\",[1]]},\"c\":{\"items\":{\"maxLength\":3}}}}";

static unsigned n_finished;

static void on_send(struct mcp_sink *sink UNUSED, enum mcp_out kind UNUSED, char *json,
		    size_t len UNUSED)
{
	free(json);
}

static void on_finish(struct mcp_sink *sink UNUSED, unsigned status UNUSED, char *json, size_t len)
{
	n_finished++;
	if (json)
		ASSERT(strlen(json) == len && !strchr(json, '\n'));
	free(json);
}

static void on_peer_send(struct mcp_peer *peer UNUSED, enum mcp_out kind UNUSED, char *json,
			 size_t len UNUSED)
{
	free(json);
}

static const struct mcp_sink_ops sink_ops = {.send = on_send, .finish = on_finish};
static const struct mcp_peer_ops peer_ops = {.send = on_peer_send};

static void tool(struct mcp_call *call, json_t *arguments, void *user UNUSED)
{
	mcp_call_progress(call, 1, 2, "half");
	mcp_call_finish(call, mcp_tool_result(json_array(), json_incref(arguments), false));
}

/* Asks once, as a task where it can be one. */
static void ask(struct mcp_call *call, json_t *arguments UNUSED, void *user UNUSED)
{
	struct mcp_input input = {"k", "elicitation/create", NULL};

	if (mcp_call_input(call, "k")) {
		mcp_call_finish(call, mcp_tool_error("thanks"));
		return;
	}
	(void)mcp_call_become_task(call, 1, 1, NULL);
	mcp_call_need_input(call, &input, 1, NULL);
}

static void read_it(struct mcp_call *call, const char *uri, void *user UNUSED)
{
	mcp_call_finish(call,
			mcp_resource_result(mcp_blocks(1, mcp_resource_text(uri, NULL, "", 0))));
}

static void get_prompt(struct mcp_call *call, json_t *arguments UNUSED, void *user UNUSED)
{
	mcp_call_finish(call, mcp_prompt_result(NULL, json_array()));
}

static struct mcp_server *make_server(void)
{
	const struct mcp_server_config config = {
	    .name = "fuzz", .version = "1", .offers = 0x1ff, .page_size = 1};
	const struct mcp_tool t = {.name = "t", .input_schema = schema, .call = tool};
	const struct mcp_tool a = {.name = "a", .call = ask};
	const struct mcp_resource tmpl = {.uri = "x://{a}/{+b}", .name = "r", .read = read_it};
	const struct mcp_prompt prompt = {.name = "p", .get = get_prompt};
	struct err e = ERR_INIT;
	struct mcp_server *s = mcp_server_new(&config, &e);

	ASSERT(s && mcp_server_add_tool(s, &t, &e) == 0 && mcp_server_add_tool(s, &a, &e) == 0 &&
	       mcp_server_add_template(s, &tmpl, &e) == 0 &&
	       mcp_server_add_prompt(s, &prompt, &e) == 0);
	return s;
}

static void say(struct mcp_peer *peer, struct mcp_reader *reader, const char *method,
		const uint8_t *data, size_t size, bool modern)
{
	static const char meta[] =
	    "\"_meta\":{\"io.modelcontextprotocol/"
	    "protocolVersion\":\"2026-07-28\",\"progressToken\":1,"
	    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"extensions\":"
	    "{\"io.modelcontextprotocol/tasks\":{}}}},";
	struct mcp_sink sink = {.ops = &sink_ops};
	char head[128];
	int n = snprintf(head, sizeof(head),
			 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{", method);

	(void)mcp_reader_feed(reader, head, (size_t)n);
	if (modern)
		(void)mcp_reader_feed(reader, meta, sizeof(meta) - 1);
	(void)mcp_reader_feed(reader, (const char *)data, size);
	(void)mcp_reader_feed(reader, "}}", 2);
	n_finished = 0;
	mcp_peer_receive(peer, reader, NULL, &sink);
	/* A listen stream, and a legacy question, end with the peer. */
	if (n_finished == 0)
		mcp_sink_gone(peer, &sink);
	ASSERT(n_finished <= 1);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	const struct mcp_peer_config config = {.transport = MCP_TRANSPORT_STDIO, .ops = &peer_ops};

	if (size == 0)
		return 0;
	struct mcp_server *server = make_server();
	struct mcp_reader *reader = mcp_reader_new(NULL);
	struct mcp_peer *peer = mcp_peer_new(server, &config);
	const unsigned which = data[0] - '0'; /* readable seeds: '0' is the first method */

	ASSERT(reader && peer);
	say(peer, reader, methods[which / 2 % ARRAY_SIZE(methods)], data + 1, size - 1,
	    which % 2 != 0);
	mcp_peer_close(peer);
	(void)mcp_reader_free(reader);
	(void)mcp_server_free(server);
	return 0;
}
