/* SPDX-License-Identifier: Apache-2.0 */
/* What clients read about a tool, made from its row: schemas, annotations, description. The order
 * of the members is part of the contract of the first two families. */
#include "base/text.h"
#include "tools/common.h"
#include "tools/table.h"

#include <ctype.h>
#include <string.h>

#define TITLE_MAX 64

/* Puts VALUE (owned) into *OBJECT. If that fails, *OBJECT is freed and becomes NULL. */
static void put(json_t **object, const char *key, json_t *value)
{
	if (*object && json_object_set_new(*object, key, value) == 0)
		return;
	if (!*object)
		json_decref(value);
	json_decref(*object);
	*object = NULL;
}

static json_t *members_schema(const struct tool_arg *members, enum tool_style style);

/* ---- one argument ---- */

static json_t *words_list(const struct tool_arg *arg)
{
	json_t *list = json_array();
	const char *word;
	size_t at = 0, len;

	while ((len = text_next_word(arg->words, &at, &word)) > 0)
		if (json_array_append_new(list, json_stringn(word, len)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/* The names of bounds depend on the type. */
static void put_bounds(json_t **schema, const struct tool_arg *arg, enum tool_style style)
{
	bool is_int = arg->type == ARG_INT;

	if (arg->min == 0 && arg->max == 0)
		return;
	const bool counts = style == TOOL_STYLE_FULL && arg->min <= 1;
	if (arg->type == ARG_NUMBER) {
		put(schema, "minimum", json_real((double)arg->min / 1000));
		put(schema, "maximum", json_real((double)arg->max / 1000));
		return;
	}
	/* What is counted from 1 on, or may be none, says so by its meaning. */
	if (!counts)
		put(schema, is_int ? "minimum" : "minItems", json_integer(arg->min));
	if (arg->max > 0)
		put(schema, is_int ? "maximum" : "maxItems", json_integer(arg->max));
}

static json_t *list_schema(const struct tool_arg *arg, json_t *items, enum tool_style style)
{
	json_t *schema = json_pack("{s:s, s:o}", "type", "array", "items", items);

	put_bounds(&schema, arg, style);
	return schema;
}

/* The schema of the type alone. */
static json_t *type_schema(const struct tool_arg *arg, enum tool_style style)
{
	json_t *schema = NULL;

	switch (arg->type) {
	case ARG_STRING:
		schema = json_pack("{s:s}", "type", "string");
		if (arg->words)
			put(&schema, "enum", words_list(arg));
		return schema;
	case ARG_BOOL:
		return json_pack("{s:s}", "type", "boolean");
	case ARG_INT:
		schema = json_pack("{s:s}", "type", "integer");
		put_bounds(&schema, arg, style);
		return schema;
	case ARG_NUMBER:
		schema = json_pack("{s:s}", "type", "number");
		put_bounds(&schema, arg, style);
		return schema;
	case ARG_PAIRS:
		return json_pack("{s:s, s:{s:s}}", "type", "object", "additionalProperties", "type",
				 "string");
	case ARG_STRINGS:
		return list_schema(arg, json_pack("{s:s}", "type", "string"), style);
	case ARG_OBJECTS:
		return list_schema(arg, members_schema(arg->fields, style), style);
	case ARG_ARTIFACTS:
		return list_schema(arg, json_pack("{s:s}", "$ref", "#/$defs/ArtifactInfo"), style);
	}
	return NULL;
}

static json_t *default_of(const struct tool_arg *arg)
{
	if (!arg->otherwise)
		return json_null();
	if (arg->type == ARG_BOOL)
		return json_boolean(streq(arg->otherwise, "true"));
	return arg->type == ARG_ARTIFACTS ? json_array() : json_string(arg->otherwise);
}

/* The title of "local_file_path" is "Local File Path". */
static json_t *title_of(const char *name)
{
	char title[TITLE_MAX];
	size_t n = 0;

	for (bool first = true; n < sizeof(title) - 1 && name[n]; n++) {
		title[n] = (char)(name[n] == '_' ? ' ' : first ? toupper(name[n]) : name[n]);
		first = name[n] == '_';
	}
	return json_stringn(title, n);
}

/* In the profile `full` a schema has descriptions, and null is accepted but not mentioned:
 * models leave out what they do not need. */
static json_t *arg_schema(const struct tool_arg *arg, enum tool_style style)
{
	json_t *schema = type_schema(arg, style);

	if (style == TOOL_STYLE_FULL) {
		/* A flag that is left out is false, as everybody expects. */
		if (arg->otherwise && !streq(arg->otherwise, "false"))
			put(&schema, "default", default_of(arg));
		put(&schema, "description", json_string(arg->doc));
		return schema;
	}
	if (arg->flags & ARG_NULL)
		schema = json_pack("{s:[o, {s:s}]}", "anyOf", schema, "type", "null");
	if (arg->otherwise || (arg->flags & ARG_NULL))
		put(&schema, "default", default_of(arg));
	if (style == TOOL_STYLE_CLASSIC)
		put(&schema, "title", title_of(arg->name));
	return schema;
}

/* ---- all arguments ---- */

static json_t *members_schema(const struct tool_arg *members, enum tool_style style)
{
	json_t *properties = json_object(), *required = json_array();

	for (const struct tool_arg *m = members; m && m->name; m++) {
		if (m->flags & ARG_UNLISTED)
			continue;
		put(&properties, m->name, arg_schema(m, style));
		if ((m->flags & ARG_REQUIRED) &&
		    json_array_append_new(required, json_string(m->name)) < 0) {
			json_decref(required);
			required = NULL;
		}
	}
	bool none = required && json_array_size(required) == 0;
	json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);
	if (none)
		json_decref(required);
	else
		put(&schema, "required", required);
	return schema;
}

json_t *tool_input_schema(const struct tool_row *row)
{
	return members_schema(row->args, row->style);
}

/* ---- the result ---- */

static const struct tool_arg error_members[] = {
    {"error", ARG_STRING, ARG_REQUIRED, NULL},
    {"message", ARG_STRING, ARG_REQUIRED, NULL},
    {"size_bytes", ARG_INT, ARG_NULL, NULL},
    {"download_url", ARG_STRING, ARG_NULL, NULL},
    {NULL},
};

static const struct tool_arg artifact_members[] = {
    {"path", ARG_STRING, ARG_REQUIRED, NULL},     {"filename", ARG_STRING, ARG_REQUIRED, NULL},
    {"size_bytes", ARG_INT, ARG_REQUIRED, NULL},  {"mime_type", ARG_STRING, ARG_REQUIRED, NULL},
    {"download_url", ARG_STRING, ARG_NULL, NULL}, {NULL},
};

/* Success or error under one key: clients of the first family expect this wrapping. */
json_t *tool_output_schema(const struct tool_row *row)
{
	const struct tool_result *result = row->result;
	json_t *defs = json_object();
	bool has_artifacts = false;
	char ref[TITLE_MAX];

	put(&defs, result->name, members_schema(result->members, TOOL_STYLE_CODE));
	put(&defs, "ErrorResponse", members_schema(error_members, TOOL_STYLE_CODE));
	for (const struct tool_arg *m = result->members; m->name; m++)
		has_artifacts = has_artifacts || m->type == ARG_ARTIFACTS;
	if (has_artifacts)
		put(&defs, "ArtifactInfo", members_schema(artifact_members, TOOL_STYLE_CODE));
	(void)snprintf(ref, sizeof(ref), "#/$defs/%s", result->name);
	return json_pack("{s:s, s:{s:{s:[{s:s}, {s:s}]}}, s:[s], s:o, s:b}", "type", "object",
			 "properties", "result", "anyOf", "$ref", ref, "$ref",
			 "#/$defs/ErrorResponse", "required", "result", "$defs", defs,
			 "x-fastmcp-wrap-result", 1);
}

/* ---- annotations and description ---- */

json_t *tool_annotations(const struct tool_row *row)
{
	return json_pack("{s:s, s:b, s:b, s:b, s:b}", "title", row->title, "readOnlyHint",
			 (row->hints & TOOL_READS) != 0, "destructiveHint",
			 (row->hints & TOOL_DESTROYS) != 0, "idempotentHint",
			 (row->hints & TOOL_IDEMPOTENT) != 0, "openWorldHint",
			 (row->hints & TOOL_OPEN_WORLD) != 0);
}

static int add_args(struct buf *b, const struct tool_arg *args)
{
	int r = buf_add_str(b, "\n\nArgs:");

	for (const struct tool_arg *a = args; a->name && r == 0; a++)
		r = buf_printf(b, "\n%s: %s", a->name, a->doc);
	return r;
}

int tool_add_description(struct buf *b, const struct tool_row *row)
{
	int r = buf_add_str(b, row->summary);

	if (r == 0 && row->style != TOOL_STYLE_FULL && row->args->name)
		r = add_args(b, row->args);
	return r == 0 && row->returns ? buf_printf(b, "\n\n%s", row->returns) : r;
}
