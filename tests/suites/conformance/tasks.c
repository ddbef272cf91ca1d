/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that become tasks. */
#include "fixture.h"

#include <string.h>

#define POLL_MS   200
#define TTL_MS    60000
#define SECOND_MS 1000

static void greet(struct mcp_call *call, json_t *args, void *user)
{
	(void)user;
	mcp_call_finish(
	    call,
	    mcp_tool_result(
		mcp_blocks(1, mcp_textf("Hello, %s!", fixture_arg(call, args, "name", "World"))),
		NULL, false));
}

/* Clients without the extension wait for the result instead. */
static void background(struct mcp_call *call)
{
	(void)mcp_call_become_task(call, POLL_MS, TTL_MS, "At work");
}

static void compute_done(struct mcp_call *call, unsigned n)
{
	(void)n;
	fixture_finish_text(call, "The computation is done");
}

static void slow_compute(struct mcp_call *call, json_t *args, void *user)
{
	double seconds = json_number_value(json_object_get(args, "seconds"));

	background(call);
	fixture_every(user, call, (unsigned)(seconds * SECOND_MS) + 1, compute_done);
}

static void job_failed(struct mcp_call *call, unsigned n)
{
	(void)n;
	mcp_call_finish(call, mcp_tool_error("The job failed"));
}

static void failing_job(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	background(call);
	fixture_every(user, call, SECOND_MS, job_failed);
}

static void job_broke(struct mcp_call *call, unsigned n)
{
	(void)n;
	mcp_call_finish_error(call, MCP_ERR_INTERNAL, "The job broke", NULL);
}

static void protocol_error_job(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	background(call);
	fixture_every(user, call, SECOND_MS / 2, job_broke);
}

static json_t *confirmation(const char *message)
{
	return json_pack("{s:s,s:s,s:{s:s,s:{s:{s:s}},s:[s]}}", "mode", "form", "message", message,
			 "requestedSchema", "type", "object", "properties", "confirm", "type",
			 "boolean", "required", "confirm");
}

static void confirm_delete(struct mcp_call *call, json_t *args, void *user)
{
	const json_t *answer = mcp_call_input(call, "confirm");
	const struct mcp_input input = {"confirm", "elicitation/create", NULL};
	const char *name = fixture_arg(call, args, "filename", "the file");
	bool yes;

	(void)user;
	if (!answer) {
		struct mcp_input ask = input;

		background(call);
		ask.params = confirmation("Really delete it?");
		mcp_call_need_input(call, &ask, 1, NULL);
		return;
	}
	yes = json_is_true(json_object_get(json_object_get(answer, "content"), "confirm"));
	mcp_call_finish(
	    call,
	    mcp_tool_result(mcp_blocks(1, mcp_textf("%s %s", name, yes ? "is deleted" : "is kept")),
			    NULL, false));
}

static void multi_input(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	if (mcp_call_input(call, "first") && mcp_call_input(call, "second")) {
		fixture_finish_text(call, "Both answers are here");
		return;
	}
	background(call);
	mcp_call_need_input(call,
			    (const struct mcp_input[]){
				{"first", "elicitation/create", confirmation("First question")},
				{"second", "elicitation/create", confirmation("Second question")},
			    },
			    2, NULL);
}

static void named_done(struct mcp_call *call, unsigned n)
{
	const json_t *answer = mcp_call_input(call, "user_name");
	const char *name =
	    json_string_value(json_object_get(json_object_get(answer, "content"), "name"));

	(void)n;
	mcp_call_finish(
	    call, mcp_tool_result(mcp_blocks(1, mcp_textf("Done for %s", name ? name : "nobody")),
				  NULL, false));
}

static void tool_with_task(struct mcp_call *call, json_t *args, void *user)
{
	const struct mcp_input input = {"user_name", "elicitation/create",
					json_pack("{s:s,s:s,s:{s:s,s:{s:{s:s}},s:[s]}}", "mode",
						  "form", "message", "What is your name?",
						  "requestedSchema", "type", "object", "properties",
						  "name", "type", "string", "required", "name")};

	(void)args;
	if (!mcp_call_input(call, "user_name")) {
		mcp_call_need_input(call, &input, 1, NULL);
		return;
	}
	json_decref(input.params);
	background(call);
	fixture_every(user, call, SECOND_MS / 2, named_done);
}

#define SCHEMA(properties) "{\"type\":\"object\",\"properties\":{" properties "}}"

static const struct fixture_tool rows[] = {
    {"greet", "Greets at once", SCHEMA("\"name\":{\"type\":\"string\"}"), greet},
    {"slow_compute", "Takes its time",
     SCHEMA("\"seconds\":{\"type\":\"number\",\"minimum\":0,\"maximum\":3600},"
	    "\"label\":{\"type\":\"string\"}"),
     slow_compute},
    {"failing_job", "Fails after a second", NULL, failing_job, MCP_TOOL_NEEDS_TASK},
    {"protocol_error_job", "Breaks", NULL, protocol_error_job, MCP_TOOL_NEEDS_TASK},
    {"confirm_delete", "Asks before it deletes", SCHEMA("\"filename\":{\"type\":\"string\"}"),
     confirm_delete, MCP_TOOL_NEEDS_TASK},
    {"multi_input", "Asks two things at once", NULL, multi_input, MCP_TOOL_NEEDS_TASK},
    {"test_tool_with_task", "Asks, then goes to the background", NULL, tool_with_task,
     MCP_TOOL_NEEDS_TASK},
};

int fixture_add_tasks(struct fixture *f, struct err *e)
{
	return fixture_add_rows(f, rows, ARRAY_SIZE(rows), e);
}
