/* SPDX-License-Identifier: Apache-2.0 */
/* The part of docs/tools.md that is made from the table of tools; a test compares the two. */
#include "base/buf.h"
#include "base/text.h"
#include "tools/common.h"
#include "tools/table.h"

#include <string.h>

static const struct {
	enum tools_profile profile;
	const char *name;
} profiles[] = {
    {TOOLS_IN_CODE, "code"}, {TOOLS_IN_CLASSIC, "classic"}, {TOOLS_IN_BOTH, "both"},
    {TOOLS_IN_FULL, "full"}, {TOOLS_IN_ALL, "all"},
};

static int add_profiles(struct buf *b, const struct tool_row *row)
{
	const char *between = "";
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(profiles) && r == 0; i++) {
		if (!(row->profiles & profiles[i].profile))
			continue;
		r = buf_printf(b, "%s%s", between, profiles[i].name);
		between = ", ";
	}
	return r;
}

/* Adds the first sentence of TEXT. */
static int add_first_sentence(struct buf *b, const char *text)
{
	const char *end = strstr(text, ". ");
	size_t len = end ? (size_t)(end - text) : strlen(text);

	while (len > 0 && (text[len - 1] == '.' || text[len - 1] == ':'))
		len--;
	return buf_add(b, text, len);
}

static const char *type_name(enum arg_type type)
{
	static const char *const names[] = {
	    [ARG_STRING] = "text",           [ARG_BOOL] = "true or false",
	    [ARG_INT] = "whole number",      [ARG_NUMBER] = "number",
	    [ARG_STRINGS] = "list of texts", [ARG_OBJECTS] = "list of objects",
	    [ARG_PAIRS] = "object of texts", [ARG_ARTIFACTS] = "list of files",
	};

	return names[type];
}

static int add_bounds(struct buf *b, const struct tool_arg *arg)
{
	const char *items = arg->type == ARG_INT ? "" : " items";

	if (arg->type == ARG_NUMBER)
		return buf_printf(b, ", %g to %g", (double)arg->min / 1000,
				  (double)arg->max / 1000);
	if (arg->max > 0)
		return buf_printf(b, ", %jd to %jd%s", (intmax_t)arg->min, (intmax_t)arg->max,
				  items);
	return arg->min > 0 ? buf_printf(b, ", from %jd", (intmax_t)arg->min) : 0;
}

static int add_words(struct buf *b, const struct tool_arg *arg)
{
	const char *word;
	size_t at = 0, len;
	int r = 0;

	while (arg->words && r == 0 && (len = text_next_word(arg->words, &at, &word)) > 0)
		r = buf_printf(b, "%s`%.*s`", word == arg->words ? ": " : ", ", (int)len, word);
	return r;
}

static int add_arg(struct buf *b, const struct tool_arg *arg, const char *of)
{
	const char *doc = arg->doc ? arg->doc : "";
	int r = buf_printf(b, "| `%s%s` | %s", of, arg->name, type_name(arg->type));

	r = r < 0 ? r : add_bounds(b, arg);
	r = r < 0 ? r : add_words(b, arg);
	if (r == 0 && (arg->flags & ARG_REQUIRED))
		r = buf_add_str(b, " | required");
	else if (r == 0)
		r = buf_printf(b, " | %s", arg->otherwise ? arg->otherwise : "");
	r = r < 0 ? r : buf_printf(b, " | %s |\n", doc);
	for (const struct tool_arg *f = arg->fields; f && f->name && r == 0; f++)
		r = add_arg(b, f, "…");
	return r;
}

static int add_tool(struct buf *b, const struct tool_row *row)
{
	int r = buf_printf(b, "\n### %s (", row->name);

	r = r < 0 ? r : add_profiles(b, row);
	r = r < 0 ? r : buf_add_str(b, ")\n\n");
	if (r == 0 && !row->args->name)
		return buf_add_str(b, "No arguments.\n");
	r = r < 0 ? r
		  : buf_add_str(b, "| argument | type | default | meaning |\n|---|---|---|---|\n");
	for (const struct tool_arg *a = row->args; a->name && r == 0; a++)
		r = add_arg(b, a, "");
	return r;
}

int tools_add_page(struct buf *b)
{
	const struct tool_row *row;
	int r = buf_add_str(b, "| tool | profiles | what it does |\n|---|---|---|\n");

	for (size_t i = 0; r == 0 && (row = tool_row_at(i)); i++) {
		r = buf_printf(b, "| %s | ", row->name);
		r = r < 0 ? r : add_profiles(b, row);
		r = r < 0 ? r : buf_add_str(b, " | ");
		r = r < 0 ? r : add_first_sentence(b, row->summary);
		r = r < 0 ? r : buf_add_str(b, " |\n");
	}
	for (size_t i = 0; r == 0 && (row = tool_row_at(i)); i++)
		r = add_tool(b, row);
	return r;
}
