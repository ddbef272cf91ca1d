/* SPDX-License-Identifier: Apache-2.0 */
/* Tools and a prompt that ask the client, in either era. */
#include "fixture.h"

#include <string.h>

/* {"mode":"form","message":…,"requestedSchema":{…one required property…}} */
static json_t *form(const char *message, const char *property, const char *type)
{
	return json_pack("{s:s,s:s,s:{s:s,s:{s:{s:s}},s:[s]}}", "mode", "form", "message", message,
			 "requestedSchema", "type", "object", "properties", property, "type", type,
			 "required", property);
}

static json_t *sampling(const char *text)
{
	return json_pack("{s:[{s:s,s:{s:s,s:s}}],s:i}", "messages", "role", "user", "content",
			 "type", "text", "text", text, "maxTokens", 100);
}

/* The field of an accepted elicitation, if it is a string; else NULL. */
static const char *accepted(const struct mcp_call *call, const char *key, const char *field)
{
	const json_t *answer = mcp_call_input(call, key);
	const char *action = json_string_value(json_object_get(answer, "action"));

	if (!action || strcmp(action, "accept") != 0)
		return NULL;
	return json_string_value(json_object_get(json_object_get(answer, "content"), field));
}

static void ask_one(struct mcp_call *call, const char *key, const char *method, json_t *params)
{
	const struct mcp_input input = {key, method, params};

	mcp_call_need_input(call, &input, 1, NULL);
}

/* ---- tools that work in both eras ---- */

static void sampling_tool(struct mcp_call *call, json_t *args, void *user)
{
	const json_t *answer = mcp_call_input(call, "answer");
	const json_t *content = json_object_get(answer, "content");
	const char *text = json_string_value(json_object_get(content, "text"));

	(void)user;
	if (!answer)
		ask_one(call, "answer", "sampling/createMessage",
			sampling(fixture_arg(call, args, "prompt", "Hello")));
	else
		mcp_call_finish(
		    call, mcp_tool_result(
			      mcp_blocks(1, mcp_textf("LLM response: %s", text ? text : "(none)")),
			      NULL, false));
}

static void finish_answer(struct mcp_call *call, const json_t *answer)
{
	char *text = json_dumps(answer, JSON_COMPACT);

	mcp_call_finish(
	    call, mcp_tool_result(mcp_blocks(1, mcp_textf("User response: %s", text ? text : "")),
				  NULL, false));
	free(text);
}

/* Asks with PARAMS (owned) and shows the answer. */
static void elicit(struct mcp_call *call, json_t *params)
{
	const json_t *answer = mcp_call_input(call, "answer");

	if (answer) {
		json_decref(params);
		finish_answer(call, answer);
		return;
	}
	ask_one(call, "answer", "elicitation/create", params);
}

static void elicitation_tool(struct mcp_call *call, json_t *args, void *user)
{
	(void)user;
	elicit(call,
	       json_pack("{s:s,s:{s:s,s:{s:{s:s,s:s},s:{s:s,s:s}},s:[s,s]}}", "message",
			 fixture_arg(call, args, "message", "Who are you?"), "requestedSchema",
			 "type", "object", "properties", "username", "type", "string",
			 "description", "User's response", "email", "type", "string", "description",
			 "User's email address", "required", "username", "email"));
}

static void elicit_text(struct mcp_call *call, const char *message, const char *schema)
{
	elicit(call, json_pack("{s:s,s:o}", "message", message, "requestedSchema",
			       json_loads(schema, 0, NULL)));
}

static void defaults_tool(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	elicit_text(call, "Please review the defaults",
		    "{\"type\":\"object\",\"properties\":{"
		    "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
		    "\"age\":{\"type\":\"integer\",\"default\":30},"
		    "\"score\":{\"type\":\"number\",\"default\":95.5},"
		    "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\","
		    "\"pending\"],\"default\":\"active\"},"
		    "\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}");
}

static void enums_tool(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	elicit_text(call, "Please choose",
		    "{\"type\":\"object\",\"properties\":{"
		    "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
		    "\"option3\"]},"
		    "\"titledSingle\":{\"type\":\"string\",\"oneOf\":["
		    "{\"const\":\"value1\",\"title\":\"First Option\"},"
		    "{\"const\":\"value2\",\"title\":\"Second Option\"},"
		    "{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
		    "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
		    "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
		    "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\","
		    "\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
		    "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":["
		    "{\"const\":\"value1\",\"title\":\"First Choice\"},"
		    "{\"const\":\"value2\",\"title\":\"Second Choice\"},"
		    "{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},\"required\":[]}");
}

/* ---- input_required ---- */

static void ask_name(struct mcp_call *call, json_t *args, void *user)
{
	const char *name = accepted(call, "user_name", "name");

	(void)args;
	(void)user;
	if (!name)
		ask_one(call, "user_name", "elicitation/create",
			form("What is your name?", "name", "string"));
	else
		mcp_call_finish(call, mcp_tool_result(mcp_blocks(1, mcp_textf("Hello, %s!", name)),
						      NULL, false));
}

static void ask_capital(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	if (mcp_call_input(call, "capital_question"))
		finish_answer(call, mcp_call_input(call, "capital_question"));
	else
		ask_one(call, "capital_question", "sampling/createMessage",
			sampling("What is the capital of France?"));
}

static void ask_roots(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	if (mcp_call_input(call, "client_roots"))
		finish_answer(call, mcp_call_input(call, "client_roots"));
	else
		ask_one(call, "client_roots", "roots/list", NULL);
}

static void ask_with_state(struct mcp_call *call, json_t *args, void *user)
{
	const struct mcp_input input = {"confirm", "elicitation/create",
					form("Please confirm", "ok", "boolean")};

	(void)args;
	(void)user;
	if (mcp_call_state(call) && mcp_call_input(call, "confirm")) {
		json_decref(input.params);
		fixture_finish_text(call, "state-ok");
		return;
	}
	mcp_call_need_input(call, &input, 1, json_string("confirming"));
}

static void ask_three(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	if (mcp_call_input(call, "user_name") && mcp_call_input(call, "greeting") &&
	    mcp_call_input(call, "client_roots")) {
		fixture_finish_text(call, "All three answers are here");
		return;
	}
	mcp_call_need_input(
	    call,
	    (const struct mcp_input[]){
		{"user_name", "elicitation/create", form("What is your name?", "name", "string")},
		{"greeting", "sampling/createMessage", sampling("Generate a greeting")},
		{"client_roots", "roots/list", NULL},
	    },
	    3, NULL);
}

static void ask_twice(struct mcp_call *call, json_t *args, void *user)
{
	const char *name = accepted(call, "step1", "name");
	const char *color = accepted(call, "step2", "color");

	(void)args;
	(void)user;
	if (!name)
		ask_one(call, "step1", "elicitation/create",
			form("Step 1: What is your name?", "name", "string"));
	else if (!color)
		ask_one(call, "step2", "elicitation/create",
			form("Step 2: What is your favorite color?", "color", "string"));
	else
		mcp_call_finish(
		    call, mcp_tool_result(mcp_blocks(1, mcp_textf("%s likes %s", name, color)),
					  NULL, false));
}

static void ask_what_client_can(struct mcp_call *call, json_t *args, void *user)
{
	(void)args;
	(void)user;
	if (mcp_call_input(call, "question") || mcp_call_input(call, "form"))
		fixture_finish_text(call, "Thank you");
	else if (mcp_call_client_has(call, "sampling"))
		ask_one(call, "question", "sampling/createMessage", sampling("Say hello"));
	else if (mcp_call_client_has(call, "elicitation"))
		ask_one(call, "form", "elicitation/create", form("Say hello", "text", "string"));
	else
		fixture_finish_text(call, "The client cannot be asked anything");
}

static void prompt(struct mcp_call *call, json_t *args, void *user)
{
	const char *topic = accepted(call, "user_context", "context");

	(void)args;
	(void)user;
	if (!topic) {
		ask_one(call, "user_context", "elicitation/create",
			form("What context should the prompt use?", "context", "string"));
		return;
	}
	mcp_call_finish(
	    call, mcp_prompt_result(
		      NULL, mcp_blocks(1, mcp_prompt_message(
					      "user", mcp_textf("Use this context: %s", topic)))));
}

static const char schema_prompt[] =
    "{\"type\":\"object\",\"properties\":{\"prompt\":{\"type\":\"string\"}}}";
static const char schema_message[] =
    "{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\"}}}";

static const struct fixture_tool rows[] = {
    {"test_sampling", "Asks the client's model", schema_prompt, sampling_tool},
    {"test_elicitation", "Asks the person", schema_message, elicitation_tool},
    {"test_elicitation_sep1034_defaults", "Asks with defaults", NULL, defaults_tool},
    {"test_elicitation_sep1330_enums", "Asks with enums", NULL, enums_tool},
    {"test_streaming_elicitation", "Asks the person's name", NULL, ask_name},
    {"test_input_required_result_elicitation", "Asks the person's name", NULL, ask_name},
    {"test_input_required_result_sampling", "Asks the client's model", NULL, ask_capital},
    {"test_input_required_result_list_roots", "Asks for the roots", NULL, ask_roots},
    {"test_input_required_result_request_state", "Remembers something", NULL, ask_with_state},
    {"test_input_required_result_tampered_state", "Remembers something", NULL, ask_with_state},
    {"test_input_required_result_multiple_inputs", "Asks three things at once", NULL, ask_three},
    {"test_input_required_result_multi_round", "Asks twice", NULL, ask_twice},
    {"test_input_required_result_capabilities", "Asks what the client can answer", NULL,
     ask_what_client_can},
};

int fixture_add_inputs(struct fixture *f, struct err *e)
{
	const struct mcp_prompt p = {
	    .name = "test_input_required_result_prompt",
	    .description = "Asks for its context",
	    .get = prompt,
	    .user = f,
	};
	int r = fixture_add_rows(f, rows, ARRAY_SIZE(rows), e);

	return r < 0 ? r : mcp_server_add_prompt(f->server, &p, e);
}
