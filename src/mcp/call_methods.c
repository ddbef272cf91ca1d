/* SPDX-License-Identifier: Apache-2.0 */
/* The methods that call a handler: tools/call, resources/read, prompts/get, completion/complete. */
#include "mcp/objects.h"

#include "base/json_coerce.h"
#include "base/loop.h"
#include "mcp/content.h"

#include <errno.h>

#define COMPLETION_VALUE_MAX (64U << 10) /* bytes of the value to complete */

/* ---- tools ---- */

static void enter_tool(struct mcp_call *c)
{
	c->waiting = false;
	loop_work("tool", c->item->key);
	c->item->call(c, c->arguments, c->item->user);
}

void mcp_call_again(struct mcp_call *c)
{
	ASSERT(!c->finished && !c->waiting && c->enter);
	c->enter(c);
}

/* Absent arguments become {}. Some models and gateways write the object as its JSON text. False: the call has
 * failed. */
static bool take_arguments(struct mcp_call *c)
{
	const json_t *args = json_object_get(c->params, "arguments");
	int r = 0;

	if (!args || json_means_none(args))
		c->arguments = json_object();
	else
		r = json_coerce_object(args, &c->arguments);
	if (c->arguments)
		return true;
	if (r == -EINVAL)
		call_fail(c, MCP_ERR_PARAMS, NULL, "arguments must be an object");
	else
		mcp_call_finish_error(c, MCP_ERR_INTERNAL, "Out of memory", NULL);
	return false;
}

/* Refuses the call if the client lacks a capability that the tool needs. Legacy clients have no
 * error code for that. */
static bool check_needs(struct mcp_call *c, const struct item *tool)
{
	if (tool->needs && !caps_cover(c->client_caps, tool->needs)) {
		if (c->modern)
			modern_refuse_capability(c, json_incref(tool->needs));
		else
			mcp_call_finish(c, mcp_tool_error("The client lacks a capability that "
							  "this tool needs."));
		return false;
	}
	if ((tool->flags & MCP_TOOL_NEEDS_TASK) && !mcp_call_can_be_task(c)) {
		if (c->modern)
			modern_refuse_capability(c,
						 json_pack("{s:{s:{}}}", "extensions", EXT_TASKS));
		else
			mcp_call_finish(c, mcp_tool_error("This tool runs as a task, which the "
							  "client cannot handle."));
		return false;
	}
	return true;
}

static bool check_arguments(struct mcp_call *c, const struct item *tool)
{
	const json_t *schema = json_object_get(tool->doc, "inputSchema");
	const char *header;
	struct err e = ERR_INIT;

	if (c->modern && c->facts &&
	    header_params_check(c, tool, c->arguments, c->facts, &header) < 0) {
		call_fail(c, MCP_ERR_HEADER, NULL, "Header mismatch: Mcp-Param-%s", header);
		return false;
	}
	if (!(tool->flags & MCP_TOOL_VALIDATES_ITSELF) &&
	    schema_check(c, schema, c->arguments, &e) < 0) {
		mcp_call_finish(c,
				mcp_tool_error("Invalid arguments for %s: %s", tool->key, e.text));
		return false;
	}
	return true;
}

bool identity_may(const struct mcp_server *s, const struct identity *who, const struct item *tool)
{
	const json_t *hints = tool ? json_object_get(tool->doc, "annotations") : NULL;

	return !tool || !tool->call || !s->config.may_call || !who->limited ||
	       s->config.may_call(who->data, tool->key,
				  json_is_true(json_object_get(hints, "readOnlyHint")));
}

bool identity_may_see(const struct mcp_server *s, const struct identity *who,
		      const struct item *tool)
{
	return !tool || !s->config.may_call || !who->limited ||
	       s->config.may_call(who->data, tool->key, true);
}

bool identity_may_ask(const struct mcp_server *s, const struct identity *who, const char *method)
{
	return !s->config.may_ask || !who->limited || s->config.may_ask(who->data, method);
}

bool call_may(const struct mcp_call *c, const struct item *tool)
{
	return identity_may(c->server, c->who, tool);
}

void run_tools_call(struct mcp_call *c)
{
	const char *name = call_param(c, "name", NAME_MAX_BYTES);
	struct item *tool = name ? item_find(c->server, ITEM_TOOL, name) : NULL;

	if (!name) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "name must be the name of a tool");
		return;
	}
	if (!tool) {
		if (c->server->config.unknown_tool_is_result && !c->modern)
			mcp_call_finish(c, mcp_tool_error("Unknown tool: %s", name));
		else
			call_fail(c, MCP_ERR_PARAMS, NULL, "Unknown tool: %s", name);
		return;
	}
	if (!call_may(c, tool)) {
		mcp_call_finish(c, mcp_tool_error("The key of this client may only read, or only "
						  "use other tools: %s is not allowed",
						  tool->key));
		return;
	}
	if (!take_arguments(c))
		return;
	c->item = item_ref(tool);
	c->enter = enter_tool;
	if (check_needs(c, tool) && check_arguments(c, tool) && ask_resume(c))
		enter_tool(c);
}

/* ---- resources ---- */

static void enter_read(struct mcp_call *c)
{
	const char *uri = call_param(c, "uri", URI_MAX);

	c->waiting = false;
	if (c->item)
		c->item->read(c, uri, c->item->user);
	else
		c->server->source.read(c, uri, c->server->source.user);
}

void run_resources_read(struct mcp_call *c)
{
	const char *uri = call_param(c, "uri", URI_MAX);
	struct mcp_server *s = c->server;
	struct item *it;

	if (!uri) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "uri must be a string");
		return;
	}
	it = item_find(s, ITEM_RESOURCE, uri);
	for (size_t i = 0; i < s->items[ITEM_TEMPLATE].n && !it; i++) {
		if (template_matches(s->items[ITEM_TEMPLATE].v[i]->key, uri))
			it = s->items[ITEM_TEMPLATE].v[i];
	}
	if (!it && !s->source.read) {
		mcp_call_finish_no_resource(c, uri);
		return;
	}
	c->item = it ? item_ref(it) : NULL;
	c->enter = enter_read;
	if (ask_resume(c))
		enter_read(c);
}

/* ---- prompts ---- */

static void enter_prompt(struct mcp_call *c)
{
	c->waiting = false;
	c->item->get(c, c->arguments, c->item->user);
}

/* Arguments of prompts are strings, and the required ones must be present. */
static bool check_prompt_arguments(struct mcp_call *c, const struct item *prompt)
{
	const json_t *args = json_object_get(prompt->doc, "arguments");
	const json_t *arg;
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach(c->arguments, key, value) {
		if (!json_is_string(value)) {
			call_fail(c, MCP_ERR_PARAMS, NULL, "Prompt arguments must be strings");
			return false;
		}
	}
	json_array_foreach(args, i, arg) {
		const char *name = json_string_value(json_object_get(arg, "name"));

		if (json_is_true(json_object_get(arg, "required")) &&
		    !json_object_get(c->arguments, name)) {
			call_fail(c, MCP_ERR_PARAMS, NULL, "Missing prompt argument: %s", name);
			return false;
		}
	}
	return true;
}

void run_prompts_get(struct mcp_call *c)
{
	const char *name = call_param(c, "name", NAME_MAX_BYTES);
	struct item *prompt = name ? item_find(c->server, ITEM_PROMPT, name) : NULL;

	if (!name) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "name must be the name of a prompt");
		return;
	}
	if (!prompt) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "Unknown prompt: %s", name);
		return;
	}
	if (!take_arguments(c))
		return;
	c->item = item_ref(prompt);
	c->enter = enter_prompt;
	if (check_prompt_arguments(c, prompt) && ask_resume(c))
		enter_prompt(c);
}

/* ---- completion ---- */

/* A string member of OBJ without NUL bytes, or NULL. */
static const char *member(const json_t *obj, const char *key, size_t max)
{
	const json_t *v = json_object_get(obj, key);
	const char *s = json_string_value(v);

	return s && json_string_length(v) <= max && strlen(s) == json_string_length(v) ? s : NULL;
}

void run_complete(struct mcp_call *c)
{
	const json_t *ref = json_object_get(c->params, "ref");
	const json_t *argument = json_object_get(c->params, "argument");
	json_t *context = json_object_get(json_object_get(c->params, "context"), "arguments");
	const char *type = member(ref, "type", NAME_MAX_BYTES);
	struct mcp_completion what = {
	    .is_prompt = type && streq(type, "ref/prompt"),
	    .argument = member(argument, "name", NAME_MAX_BYTES),
	    .value = member(argument, "value", COMPLETION_VALUE_MAX),
	    .context = json_is_object(context) ? context : NULL,
	};

	what.ref =
	    what.is_prompt ? member(ref, "name", NAME_MAX_BYTES) : member(ref, "uri", URI_MAX);
	if (!type || (!what.is_prompt && !streq(type, "ref/resource")) || !what.ref) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "ref must be a ref/prompt or a ref/resource");
		return;
	}
	if (what.is_prompt && !item_find(c->server, ITEM_PROMPT, what.ref)) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "Unknown prompt: %s", what.ref);
		return;
	}
	if (!what.argument || !what.value) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "argument must have name and value");
		return;
	}
	if (!c->server->complete) {
		mcp_call_finish(c, mcp_completion_result(json_array(), -1, false));
		return;
	}
	c->server->complete(c, &what, c->server->complete_user);
}
