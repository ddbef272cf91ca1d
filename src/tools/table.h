/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all tools. One row holds what a tool is called, which arguments it takes, what it
 * returns and which function serves it. The JSON schemas in tools/list, the check of the arguments,
 * the hints in refusals and docs/tools.md are all made from it. For this folder and its tests. */
#pragma once

#include "mcp/mcp.h"
#include "tools/tools.h"

#include <stdint.h>

enum arg_type {
	ARG_STRING,
	ARG_BOOL, /* also the words and numbers that pydantic takes for one: "yes", 0, "off" ... */
	ARG_INT,
	ARG_NUMBER,    /* min and max in thousandths */
	ARG_STRINGS,   /* a list of strings */
	ARG_OBJECTS,   /* a list of objects with the members `fields` */
	ARG_PAIRS,     /* an object whose values are strings (or null, to remove one) */
	ARG_ARTIFACTS, /* only in results: a list of files */
};

enum arg_flags {
	ARG_REQUIRED = 1 << 0,
	ARG_NULL = 1 << 1, /* null means the same as leaving it out */
	/* Its value is a secret: no refusal of the tool repeats any value. A misspelt name would make
	 * the secret the value of another argument. */
	ARG_SECRET = 1 << 2,
	ARG_WORDS = 1 << 3, /* ARG_STRING: words; a list of strings is taken as well */
	/* ARG_STRING: the text of a file. An object or a list stands for its JSON text: clients parse what a model wrote. */
	ARG_JSON_TEXT = 1 << 5,
	/* Taken, but not in the schema: what a model says in other ways shall not cost it words. */
	ARG_UNLISTED = 1 << 4,
};

/* An argument of a tool, or a member of its result. A table ends with a row without a name. */
struct tool_arg {
	const char *name;
	enum arg_type type;
	unsigned flags;  /* enum arg_flags */
	const char *doc; /* what it is for; members of results have none */
	/* ARG_INT: the range of the value; lists: the range of their length. 0 and 0: any. */
	int64_t min, max;
	const char *words;             /* ARG_STRING: "this|that", the values in the schema */
	const char *otherwise;         /* the value that an absent argument has; NULL: none */
	const struct tool_arg *fields; /* ARG_OBJECTS */
};

/* How a family writes its schemas and refusals. Those of the first two are contracts. */
enum tool_style {
	TOOL_STYLE_CODE,    /* arguments are explained in the tool's description */
	TOOL_STYLE_CLASSIC, /* the same; arguments have titles */
	TOOL_STYLE_FULL,    /* arguments are explained in the schema; bounds are checked */
};

enum tool_hint {
	TOOL_READS = 1 << 0, /* changes nothing */
	TOOL_DESTROYS = 1 << 1,
	TOOL_IDEMPOTENT = 1 << 2,
	TOOL_OPEN_WORLD = 1 << 3, /* touches something outside of the server */
};

/* The good result of a tool whose results have a schema. */
struct tool_result {
	const char *name;
	const struct tool_arg *members;
};

/* What a server must have so that a tool is offered. */
enum tool_need {
	TOOL_NEEDS_PACKAGES = 1 << 0, /* config.packages */
	TOOL_NEEDS_ASKING = 1 << 1,   /* config.network_ask */
};

struct tool_row {
	const char *name;
	const char *title; /* NULL: no title and no annotations */
	unsigned profiles; /* enum tools_profile */
	enum tool_style style;
	unsigned hints; /* enum tool_hint */
	unsigned needs; /* enum tool_need */
	const char *summary;
	const char *returns; /* the last paragraph of the description, or NULL */
	const struct tool_arg *args;
	const struct tool_result *result; /* NULL: no output schema */
	bool shown; /* the page of results (resources.h) shows what it returns to a person */
	/* ARGUMENTS have passed the check; USER is the struct tools. */
	mcp_tool_fn call;
};

/* One table a family; each ends with a row without a name. */
extern const struct tool_row code_rows[];
extern const struct tool_row classic_rows[];
extern const struct tool_row full_rows[];
/* Row I of all tables, one after the other; NULL after the last. */
const struct tool_row *tool_row_at(size_t i);

/* ---- what is made from a row (describe.c) ---- */

/* Owned JSON, or NULL: no memory. */
json_t *tool_input_schema(const struct tool_row *row);
json_t *tool_output_schema(const struct tool_row *row); /* of a row that has a result */
json_t *tool_annotations(const struct tool_row *row);   /* of a row that has a title */
/* Appends the description that a model reads. */
int tool_add_description(struct buf *b, const struct tool_row *row) MUST_CHECK;

/* ---- the page (page.c) ---- */

/* Appends the part of docs/tools.md that is made from the table. */
int tools_add_page(struct buf *b) MUST_CHECK;
