/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the tools of a profile to an MCP server and checks the arguments of every call before the
 * tool's own function sees them. */
#include "tools/common.h"
#include "tools/extras.h"
#include "tools/resources.h"
#include "tools/table.h"

#include "base/buf.h"
#include "base/jsonio.h"

#define DESCRIPTION_MAX 4096 /* bytes */
#define NOTE_MAX        (ARGS_IGNORED_MAX + 512)

/* What a registered tool needs in a call. It lives as long as the struct tools. */
struct bound_tool {
	struct list node;
	struct tools *tools;
	const struct tool_row *row;
};

const struct tool_row *tool_row_at(size_t i)
{
	static const struct tool_row *const tables[] = {code_rows, classic_rows, full_rows};

	for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
		for (const struct tool_row *row = tables[t]; row->name; row++)
			if (i-- == 0)
				return row;
	return NULL;
}

void tools_free_bound(struct tools *t)
{
	list_for_each(node, &t->bound)
		free(list_entry(node, struct bound_tool, node));
	list_init(&t->bound);
}

/* ---- calls ---- */

/* Checks ARGUMENTS. False: the call is finished. */
static bool check(struct mcp_call *call, const struct tool_row *row, const json_t *arguments)
{
	_cleanup_free_ char *text = NULL;
	char fault[ARGS_FAULT_SIZE];

	if (!args_check(row->name, row->args, arguments, &text)) {
		const char *shown = text ? text : "invalid arguments";

		if (row->style == TOOL_STYLE_CLASSIC)
			mcp_call_finish(
			    call, mcp_tool_error("Error calling tool '%s': %s", row->name, shown));
		else
			mcp_call_finish(call, mcp_tool_error("%s", shown));
		return false;
	}
	if (row->style != TOOL_STYLE_FULL)
		return true;
	const struct tool_arg *wrong = args_find_fault(row->args, arguments, fault);
	if (wrong)
		extras_fail(call, "invalid_argument", wrong->doc, "%s", fault);
	return !wrong;
}

/* What was taken in another way than it was said. */
static int add_note(struct buf *b, const struct tool_row *row, const json_t *arguments,
		    const struct buf *ignored)
{
	int r = 0;

	for (const struct tool_arg *a = row->args; r == 0 && a->name; a++) {
		const json_t *v = json_object_get(arguments, a->name);

		if ((a->flags & ARG_JSON_TEXT) && (json_is_object(v) || json_is_array(v)))
			r = buf_printf(b,
				       "%s was %s and no text, so its JSON text was taken; to "
				       "choose the text yourself, give a string.",
				       a->name, json_is_array(v) ? "a list" : "an object");
	}
	if (r == 0 && ignored->len > 0)
		r = buf_printf(b, "%s%s does not have these arguments, they were ignored: %s",
			       b->len > 0 ? " " : "", row->name, ignored->data);
	return r;
}

/* The arguments as the tool reads them, borrowed. NULL: the call is finished. */
static json_t *coerce(struct mcp_call *call, const struct tool_row *row, json_t *arguments)
{
	_cleanup_(buf_done) struct buf ignored = BUF_INIT(ARGS_IGNORED_MAX);

	if (row->style != TOOL_STYLE_FULL)
		return arguments;
	json_t *taken = args_coerce(row->args, arguments, &ignored);
	if (!taken) {
		mcp_call_finish(call, NULL);
		return NULL;
	}
	if (json_equal(taken, arguments)) { /* also when the tool is called again */
		json_decref(taken);
		return arguments;
	}
	_cleanup_(buf_done) struct buf note = BUF_INIT(NOTE_MAX);
	if (add_note(&note, row, arguments, &ignored) == 0 && note.len > 0)
		mcp_call_remark(call, "Note: %s", buf_str(&note));
	mcp_call_set_arguments(call, taken);
	return taken;
}

static void on_call(struct mcp_call *call, json_t *arguments, void *user)
{
	const struct bound_tool *b = user;

	arguments = coerce(call, b->row, arguments);
	if (arguments && check(call, b->row, arguments))
		b->row->call(call, arguments, b->tools);
}

/* ---- registration ---- */

/* The text of JSON (owned); NULL if JSON is NULL. */
static char *text_of(json_t *json)
{
	size_t len;
	char *text = jsonio_text(json, JSON_COMPACT, &len);

	json_decref(json);
	return text;
}

/* Writes the operator's maxima where the table has only those of the form, and the names of the levels. Schemas
 * that are contracts have neither. */
static json_t *with_maxima(json_t *schema, const struct manager *m)
{
	json_t *members = json_object_get(schema, "properties");

	if (!manager_option_max(m, SANDBOX_OPTION_ROOT)) {
		(void)json_object_del(members, "root");
		(void)json_object_del(members, "user"); /* of a command */
	}
	for (unsigned x = 0; x < SANDBOX_OPTION_MAX_; x++) {
		const struct sandbox_option_row *row = &sandbox_option_rows[x];
		json_t *member = json_object_get(members, row->member);
		const int64_t max = manager_option_max(m, x);

		/* A null that means "left out" makes it one of two schemas. */
		const json_t *either = json_object_get(member, "anyOf");
		member = either ? json_array_get(either, 0) : member;
		if (x == SANDBOX_OPTION_LEVEL && member) {
			json_t *names = manager_level_names(m);

			/* One level is no choice. */
			if (json_array_size(names) > 1)
				(void)json_object_set(member, "enum", names);
			else
				(void)json_object_del(members, row->member);
			json_decref(names);
			continue;
		}
		if (json_object_get(member, "maximum"))
			(void)json_object_set_new(member, "maximum",
						  row->type == SANDBOX_OPTION_TYPE_NUMBER
						      ? json_real((double)max / 1000)
						      : json_integer(max));
	}
	return schema;
}

static int add(struct mcp_server *server, const struct tool_row *row, struct bound_tool *bound,
	       const char *view, struct err *e)
{
	_cleanup_(buf_done) struct buf description = BUF_INIT(DESCRIPTION_MAX);
	_cleanup_free_ char *input =
	    text_of(with_maxima(tool_input_schema(row), bound->tools->config.manager));
	_cleanup_free_ char *output = row->result ? text_of(tool_output_schema(row)) : NULL;
	_cleanup_free_ char *hints = row->title ? text_of(tool_annotations(row)) : NULL;

	if (!input || (row->result && !output) || (row->title && !hints) ||
	    tool_add_description(&description, row) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the tool '%s'", row->name);
	const struct mcp_tool tool = {
	    .name = row->name,
	    .title = row->title,
	    .description = buf_str(&description),
	    .input_schema = input,
	    .output_schema = output,
	    .annotations = hints,
	    .view = view,
	    .flags = MCP_TOOL_VALIDATES_ITSELF,
	    .call = on_call,
	    .user = bound,
	};
	return mcp_server_add_tool(server, &tool, e);
}

int tools_add(struct tools *t, struct mcp_server *server, enum tools_profile profile, struct err *e)
{
	const unsigned has = (t->config.packages ? TOOL_NEEDS_PACKAGES : 0U) |
			     (t->config.network_ask ? TOOL_NEEDS_ASKING : 0U);
	const struct tool_row *row;

	for (size_t i = 0; (row = tool_row_at(i)); i++) {
		if (!(row->profiles & profile) || (row->needs & ~has))
			continue;
		struct bound_tool *b = calloc(1, sizeof(*b));
		if (!b)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the tools");
		b->tools = t;
		b->row = row;
		list_append(&t->bound, &b->node);
		const bool shown = row->shown && t->config.view && profile == TOOLS_IN_FULL;
		int r = add(server, row, b, shown ? TOOLS_VIEW_URI : NULL, e);
		if (r < 0)
			return r;
	}
	return 0;
}
