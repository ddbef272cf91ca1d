/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tools: what is made from it is what the contracts and docs/tools.md say. */
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/text.h"
#include "tools/common.h"
#include "tools/table.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define FILE_MAX_BYTES (1u << 20)
#define PAGE_BEGIN     "<!-- made from the table of tools: begin -->\n"
#define PAGE_END       "<!-- made from the table of tools: end -->\n"

static void read_file(const char *path, struct buf *b)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_read_file(fd, b), 0);
}

/* The tool as tools/list shows it to clients of the newest revision. */
static char *listed(const struct tool_row *row)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4096);
	size_t len;

	assert_int_equal(tool_add_description(&text, row), 0);
	json_t *doc = json_pack("{s:s}", "name", row->name);
	if (row->title)
		assert_int_equal(json_object_set_new(doc, "title", json_string(row->title)), 0);
	assert_int_equal(json_object_set_new(doc, "description", json_string(buf_str(&text))), 0);
	assert_int_equal(json_object_set_new(doc, "inputSchema", tool_input_schema(row)), 0);
	if (row->result)
		assert_int_equal(json_object_set_new(doc, "outputSchema", tool_output_schema(row)),
				 0);
	if (row->title)
		assert_int_equal(json_object_set_new(doc, "annotations", tool_annotations(row)), 0);
	char *made = jsonio_text(doc, JSON_COMPACT, &len);
	json_decref(doc);
	assert_non_null(made);
	return made;
}

/* The tools of PROFILE, one a line, are exactly those of the file. */
static void check_contract(enum tools_profile profile, const char *path)
{
	_cleanup_(buf_done) struct buf want = BUF_INIT(FILE_MAX_BYTES);
	_cleanup_(buf_done) struct buf got = BUF_INIT(FILE_MAX_BYTES);
	const struct tool_row *row;

	read_file(path, &want);
	for (size_t i = 0; (row = tool_row_at(i)); i++) {
		if (!(row->profiles & profile))
			continue;
		_cleanup_free_ char *line = listed(row);
		assert_int_equal(buf_printf(&got, "%s\n", line), 0);
	}
	assert_string_equal(buf_str(&got), buf_str(&want));
}

static void test_contracts(void **state UNUSED)
{
	check_contract(TOOLS_IN_CODE, CONTRACTS "/tools-code.jsonl");
	check_contract(TOOLS_IN_CLASSIC, CONTRACTS "/tools-classic.jsonl");
}

/* Tools whose schemas are contracts have no page of results: it would change what their clients read. */
static void test_pages_of_results(void **state UNUSED)
{
	const struct tool_row *row;
	unsigned n = 0;

	for (size_t i = 0; (row = tool_row_at(i)); i++) {
		if (!row->shown)
			continue;
		assert_true(row->profiles & TOOLS_IN_FULL);
		assert_int_equal(row->style, TOOL_STYLE_FULL);
		n++;
	}
	assert_true(n > 0);
}

static void test_both_is_the_two_together(void **state UNUSED)
{
	const struct tool_row *row;
	const unsigned exact = TOOLS_IN_CODE | TOOLS_IN_CLASSIC;

	for (size_t i = 0; (row = tool_row_at(i)); i++)
		assert_int_equal((row->profiles & exact) != 0,
				 (row->profiles & TOOLS_IN_BOTH) != 0);
}

static void check_docs(const struct tool_row *row, const struct tool_arg *args)
{
	for (const struct tool_arg *a = args; a->name; a++) {
		if (!a->doc || !*a->doc)
			fail_msg("%s: nothing explains '%s'", row->name, a->name);
		if (a->fields)
			check_docs(row, a->fields);
	}
}

static void test_full_rows_explain_themselves(void **state UNUSED)
{
	const struct tool_row *row;

	for (size_t i = 0; (row = tool_row_at(i)); i++) {
		if (row->style != TOOL_STYLE_FULL)
			continue;
		assert_non_null(row->title);
		check_docs(row, row->args);
		assert_false((row->hints & TOOL_READS) && (row->hints & TOOL_DESTROYS));
	}
}

static void test_names_are_distinct(void **state UNUSED)
{
	const struct tool_row *a, *b;

	for (size_t i = 0; (a = tool_row_at(i)); i++)
		for (size_t j = 0; j < i && (b = tool_row_at(j)); j++)
			assert_false(streq(a->name, b->name) && (a->profiles & b->profiles));
}

/* ---- bounds ---- */

static const struct tool_arg branch_fields[] = {
    {"name", ARG_STRING, ARG_NULL, ""}, {"code", ARG_STRING, ARG_REQUIRED, ""}, {.name = NULL}};
static const struct tool_arg bounded[] = {
    {"seconds", ARG_INT, ARG_NULL, "", .min = 1, .max = 60},
    {"line", ARG_INT, ARG_NULL, "", .min = 1},
    {"hosts", ARG_STRINGS, 0, "", .max = 2},
    {"branches", ARG_OBJECTS, 0, "", .min = 1, .max = 2, .fields = branch_fields},
    {.name = NULL},
};

static const struct {
	const char *arguments;
	const char *fault; /* NULL: none */
} bound_rows[] = {
    {"{}", NULL},
    {"{\"seconds\":null}", NULL},
    {"{\"seconds\":1}", NULL},
    {"{\"seconds\":60}", NULL},
    {"{\"seconds\":0}", "seconds must be from 1 to 60"},
    {"{\"seconds\":61}", "seconds must be from 1 to 60"},
    {"{\"seconds\":-9223372036854775808}", "seconds must be from 1 to 60"},
    {"{\"line\":9223372036854775807}", NULL},
    {"{\"line\":0}", "line must be at least 1"},
    {"{\"hosts\":[]}", NULL},
    {"{\"hosts\":[\"a\",\"b\",\"c\"]}", "hosts must have from 0 to 2 items"},
    {"{\"branches\":[]}", "branches must have from 1 to 2 items"},
    {"{\"branches\":[{\"code\":\"1\"},{\"name\":null,\"code\":\"\"}]}", NULL},
    {"{\"branches\":[{\"code\":\"1\"},{\"name\":\"x\"}]}",
     "branches[1] must be an object of name (optional) and code"},
    {"{\"branches\":[{\"code\":\"1\",\"cod\":\"1\"}]}",
     "branches[0] must be an object of name (optional) and code"},
    {"{\"branches\":[\"1\"]}", "branches[0] must be an object of name (optional) and code"},
    {"{\"branches\":[{\"code\":1}]}", "branches[0] must be an object of name (optional) and code"},
};

static void test_bounds(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(bound_rows); i++) {
		char fault[ARGS_FAULT_SIZE] = "";
		json_t *arguments =
		    json_loads(bound_rows[i].arguments, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(arguments);
		const struct tool_arg *wrong = args_find_fault(bounded, arguments, fault);
		json_decref(arguments);
		assert_string_equal(fault, bound_rows[i].fault ? bound_rows[i].fault : "");
		assert_int_equal(wrong != NULL, bound_rows[i].fault != NULL);
	}
}

/* ---- the page ---- */

/* With CAISSON_WRITE_PAGE=1 the page is written instead of compared. */
static void test_page(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf page = BUF_INIT(FILE_MAX_BYTES);
	_cleanup_(buf_done) struct buf want = BUF_INIT(FILE_MAX_BYTES);

	read_file(TOOLS_PAGE, &page);
	const char *begin = strstr(buf_str(&page), PAGE_BEGIN);
	const char *end = strstr(buf_str(&page), PAGE_END);
	assert_true(begin && end && begin < end);
	begin += strlen(PAGE_BEGIN);
	assert_int_equal(buf_add(&want, buf_str(&page), (size_t)(begin - buf_str(&page))), 0);
	assert_int_equal(tools_add_page(&want), 0);
	assert_int_equal(buf_add_str(&want, end), 0);
	if (streq(buf_str(&page), buf_str(&want)))
		return;
	if (!getenv("CAISSON_WRITE_PAGE"))
		fail_msg("make it anew: CAISSON_WRITE_PAGE=1 build/tests/unit/test_tool_table");
	FILE *f = fopen(TOOLS_PAGE, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(buf_str(&want), 1, want.len, f), want.len);
	assert_int_equal(fclose(f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_contracts),
	    cmocka_unit_test(test_pages_of_results),
	    cmocka_unit_test(test_both_is_the_two_together),
	    cmocka_unit_test(test_full_rows_explain_themselves),
	    cmocka_unit_test(test_names_are_distinct),
	    cmocka_unit_test(test_bounds),
	    cmocka_unit_test(test_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
