/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that answer at once or after a few notifications. */
#include "fixture.h"

#include <string.h>

const char fixture_png[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIA"
    "X8jx0gAAAABJRU5ErkJggg==";
const char fixture_wav[] = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

#define STEP_MS 50

static json_t *example_resource(void)
{
	static const char text[] = "This is an embedded resource content.";

	return mcp_resource_text("test://embedded-resource", "text/plain", text, strlen(text));
}

static void simple_text(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	fixture_finish_text(call, "This is a simple text response for testing.");
}

static void image(struct mcp_call *call, json_t *args, void *user)
{
	json_t *block = mcp_image(fixture_png, strlen(fixture_png), "image/png");

	(void)args;
	(void)user;
	mcp_call_finish(call, mcp_tool_result(mcp_blocks(1, block), NULL, false));
}

static void audio(struct mcp_call *call, json_t *args, void *user)
{
	json_t *block = mcp_audio(fixture_wav, strlen(fixture_wav), "audio/wav");

	(void)args;
	(void)user;
	mcp_call_finish(call, mcp_tool_result(mcp_blocks(1, block), NULL, false));
}

static void embedded(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	mcp_call_finish(
	    call, mcp_tool_result(mcp_blocks(1, mcp_embedded(example_resource())), NULL, false));
}

static void mixed(struct mcp_call *call, json_t *args, void *user)
{
	json_t *text = mcp_textf("Multiple content types test:");
	json_t *picture = mcp_image(fixture_png, strlen(fixture_png), "image/png");

	(void)args;
	(void)user;
	mcp_call_finish(
	    call, mcp_tool_result(mcp_blocks(3, text, picture, mcp_embedded(example_resource())),
				  NULL, false));
}

static void error(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	mcp_call_finish(call,
			mcp_tool_error("This tool intentionally returns an error for testing"));
}

static void progress_step(struct mcp_call *call, unsigned n)
{
	mcp_call_progress(call, 50.0 * n, 100, NULL);
	if (n == 2)
		fixture_finish_text(call, "Progress complete");
}

static void progress(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	mcp_call_progress(call, 0, 100, NULL);
	fixture_every(user, call, STEP_MS, progress_step);
}

static void log_step(struct mcp_call *call, unsigned n)
{
	static const char *const texts[] = {"Tool execution started", "Tool processing data",
					    "Tool execution completed"};

	mcp_call_log(call, MCP_LEVEL_INFO, "fixture", json_string(texts[n]));
	if (n == 2)
		fixture_finish_text(call, "Logging complete");
}

static void logging(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	mcp_call_log(call, MCP_LEVEL_INFO, "fixture", json_string("Tool execution started"));
	fixture_every(user, call, STEP_MS, log_step);
}

/* At once: the suite gives it half a second, which a busy machine may take for two timers. */
static void logging_at_once(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	for (unsigned n = 0; n < 3; n++)
		mcp_call_log(call, MCP_LEVEL_INFO, "fixture", json_string("Logging"));
	fixture_finish_text(call, "Logging complete");
}

static void reconnect_step(struct mcp_call *call, unsigned n)
{
	if (n == 1)
		mcp_call_close_stream(call, 500);
	else if (n == 4)
		fixture_finish_text(call, "Reconnection test completed successfully");
}

static void reconnection(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	fixture_every(user, call, STEP_MS, reconnect_step);
}

static void mirrored(struct mcp_call *call, json_t *args, void *user)
{
	(void)user;
	fixture_finish_text(call, fixture_arg(call, args, "region", "no region"));
}

static void ok(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	fixture_finish_text(call, "ok");
}

static void change_tools(struct mcp_call *call, json_t *args, void *user)
{
	struct fixture *f = user;
	static const struct fixture_tool extra = {"test_dynamic_tool", "Comes and goes", NULL, ok};
	struct err e = ERR_INIT;

	(void)args;
	if (mcp_server_remove_tool(f->server, extra.name) < 0 &&
	    fixture_add_rows(f, &extra, 1, &e) < 0) {
		mcp_call_finish(call, mcp_tool_error("%s", e.text));
		return;
	}
	mcp_server_tools_changed(f->server);
	fixture_finish_text(call, "The list of tools has changed");
}

static void dynamic_prompt(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	mcp_call_finish(
	    call,
	    mcp_prompt_result(
		NULL,
		mcp_blocks(1, mcp_prompt_message("user", mcp_textf("Here today, gone tomorrow")))));
}

static void change_prompts(struct mcp_call *call, json_t *args, void *user)
{
	struct fixture *f = user;
	const struct mcp_prompt extra = {
	    .name = "test_dynamic_prompt",
	    .description = "Comes and goes",
	    .get = dynamic_prompt,
	};
	struct err e = ERR_INIT;

	(void)args;
	if (mcp_server_remove_prompt(f->server, extra.name) < 0 &&
	    mcp_server_add_prompt(f->server, &extra, &e) < 0) {
		mcp_call_finish(call, mcp_tool_error("%s", e.text));
		return;
	}
	mcp_server_prompts_changed(f->server);
	fixture_finish_text(call, "The list of prompts has changed");
}

static const char schema_2020_12[] =
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
    "\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{"
    "\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
    "\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
    "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
    "\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
    "\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
    "\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},"
    "\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},"
    "\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}";

static const char schema_region[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\","
    "\"description\":\"Where to run\",\"x-mcp-header\":\"Region\"}}}";

static const struct fixture_tool rows[] = {
    {"test_simple_text", "Returns simple text", NULL, simple_text},
    {"test_image_content", "Returns an image", NULL, image},
    {"test_audio_content", "Returns audio", NULL, audio},
    {"test_embedded_resource", "Returns an embedded resource", NULL, embedded},
    {"test_multiple_content_types", "Returns text, image and resource", NULL, mixed},
    {"test_error_handling", "Always fails", NULL, error},
    {"test_tool_with_progress", "Reports progress", NULL, progress},
    {"test_tool_with_logging", "Logs while it runs", NULL, logging},
    {"test_logging_tool", "Logs when asked to", NULL, logging_at_once},
    {"test_reconnection", "Closes its stream in the middle", NULL, reconnection},
    {"test_x_mcp_header", "Has an argument that is mirrored in a header", schema_region, mirrored},
    {"json_schema_2020_12_tool", "Has a schema with everything", schema_2020_12, ok,
     MCP_TOOL_VALIDATES_ITSELF},
    {"test_missing_capability", "Needs a client that samples", NULL, ok, 0, "{\"sampling\":{}}"},
    {"test_trigger_tool_change", "Changes the list of tools", NULL, change_tools},
    {"test_trigger_prompt_change", "Changes the list of prompts", NULL, change_prompts},
};

int fixture_add_content(struct fixture *f, struct err *e)
{
	return fixture_add_rows(f, rows, ARRAY_SIZE(rows), e);
}
