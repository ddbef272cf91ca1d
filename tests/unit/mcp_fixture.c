/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp_fixture.h"

static json_t *tool_text(const char *text)
{
	return mcp_tool_result(mcp_blocks(1, mcp_textf("%s", text)), NULL, false);
}

static void on_echo(struct mcp_call *call, json_t *arguments, void *user)
{
	const char *text = mcp_text_arg(call, arguments, "text");

	(void)user;
	mcp_call_finish(call, tool_text(text ? text : "nothing"));
}

static void on_cancel(struct mcp_call *call, void *user)
{
	struct mcp_fixture *f = user;

	f->cancelled++;
	if (f->held == call)
		f->held = NULL;
	mcp_call_finish(call, tool_text("cancelled"));
}

static void on_hold(struct mcp_call *call, json_t *arguments, void *user)
{
	struct mcp_fixture *f = user;

	(void)arguments;
	f->held = call;
	f->held_calls++;
	mcp_call_on_cancel(call, on_cancel, f);
}

static void on_ask(struct mcp_call *call, json_t *arguments, void *user)
{
	const struct mcp_input question = {.key = "roots", .method = "roots/list"};

	(void)arguments;
	(void)user;
	if (mcp_call_input(call, "roots"))
		mcp_call_finish(call, tool_text("answered"));
	else
		mcp_call_need_input(call, &question, 1, NULL);
}

/* Answers with a large text in as many blocks of content as asked for. */
static void on_blob(struct mcp_call *call, json_t *arguments, void *user)
{
	static const char mark[] = "0123456789abcdef";
	const json_int_t places = json_integer_value(json_object_get(arguments, "places"));
	json_t *blocks = json_array();
	char *blob = malloc(MCP_FIXTURE_BLOB);

	(void)user;
	ASSERT(blob);
	for (size_t i = 0; i < MCP_FIXTURE_BLOB; i++)
		blob[i] = (char)('a' + i % 26);
	for (json_int_t i = 0; i < places; i++)
		ASSERT(json_array_append_new(blocks, mcp_textf("<%s>", mark)) == 0);
	mcp_call_finish_blob(call, mcp_tool_result(blocks, NULL, false), mark, blob,
			     MCP_FIXTURE_BLOB);
}

void mcp_fixture_finish(struct mcp_fixture *f, const char *text)
{
	struct mcp_call *call = TAKE_PTR(f->held);

	mcp_call_finish(call, tool_text(text));
}

void mcp_fixture_init(struct mcp_fixture *f)
{
	const struct mcp_server_config config = {.name = "fixture",
						 .version = "1",
						 .offers = MCP_OFFER_TOOLS_LIST_CHANGED |
							   MCP_OFFER_LOGGING};
	const struct mcp_tool echo = {
	    .name = "echo",
	    .description = "Says it again.",
	    .input_schema = "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}",
	    .call = on_echo,
	};
	const struct mcp_tool hold = {
	    .name = "hold", .description = "Waits.", .call = on_hold, .user = f};
	const struct mcp_tool ask = {.name = "ask", .description = "Asks back.", .call = on_ask};
	const struct mcp_tool blob = {
	    .name = "blob",
	    .description = "A large text, once or more.",
	    .input_schema =
		"{\"type\":\"object\",\"properties\":{\"places\":{\"type\":\"integer\"}}}",
	    .call = on_blob,
	};
	struct err e = ERR_INIT;

	*f = (struct mcp_fixture){0};
	f->server = mcp_server_new(&config, &e);
	ASSERT(f->server);
	ASSERT(mcp_server_add_tool(f->server, &echo, &e) == 0);
	ASSERT(mcp_server_add_tool(f->server, &hold, &e) == 0);
	ASSERT(mcp_server_add_tool(f->server, &ask, &e) == 0);
	ASSERT(mcp_server_add_tool(f->server, &blob, &e) == 0);
}

void mcp_fixture_done(struct mcp_fixture *f)
{
	f->server = mcp_server_free(f->server);
}
