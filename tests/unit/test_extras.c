/* SPDX-License-Identifier: Apache-2.0 */
/* The lean family on the fake engine: text files, pictures, budgets, errors. */
#include "base/base64.h"
#include "base/rand.h"
#include "base/text.h"
#include "manager_world.h"
#include "mcp_talk.h"
#include "tools/tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define MESSAGE_MAX 65536
#define BUDGET      1200

static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 1, 2};

struct world {
	struct manager_world m;
	struct tools *tools;
	struct talk talk;
	unsigned id;
};

static void put(const char *workspace, const char *name, const void *data, size_t len)
{
	char path[400];

	(void)snprintf(path, sizeof(path), "%s/%s", workspace, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* What the program that makes pictures smaller answers. */
enum answer {
	ANSWER_SMALL,
	ANSWER_RUBBISH,
	ANSWER_ENDLESS,
	ANSWER_FAILED,
};

static void shrink_script(struct fake_run *r, enum answer answer, struct engine_run_result *res)
{
	static char block[64 << 10];

	switch (answer) {
	case ANSWER_SMALL:
		fake_output(r, ENGINE_STDOUT, png, 4);
		fake_output(r, ENGINE_STDOUT, png + 4, sizeof(png) - 4);
		break;
	case ANSWER_RUBBISH:
		fake_output(r, ENGINE_STDOUT, "<script>", 8);
		break;
	case ANSWER_ENDLESS:
		memcpy(block, png, sizeof(png));
		for (size_t i = 0; i < (2u << 20) / sizeof(block); i++)
			fake_output(r, ENGINE_STDOUT, block, sizeof(block));
		break;
	case ANSWER_FAILED:
		res->exit_code = 1;
		break;
	}
}

static enum answer next_answer;

/* p: a picture, one that is none, and a drawing; L: large pictures; b: big output; m: out of
 * memory. */
static void script(struct fake_run *r, const char *workspace, const char *code, size_t len,
		   struct engine_run_result *res)
{
	static char big[5000];

	if (memmem(code, len, "from PIL import", 15)) {
		assert_non_null(memmem(code, len, "\\x61\\x2f\\x6c\\x27\\x2e", 20));
		shrink_script(r, next_answer, res);
		return;
	}
	if (memchr(code, 'L', len)) {
		_cleanup_free_ char *large = calloc(1, 2u << 20);
		assert_non_null(large);
		put(workspace, "l'.png", large, 2u << 20);
	}
	if (memchr(code, 'R', len)) {
		_cleanup_free_ char *data = calloc(1, 4u << 20);
		assert_non_null(data);
		put(workspace, "long.bin", data, 4u << 20);
		put(workspace, "short.bin", data, 3u << 20);
	}
	if (memchr(code, 'p', len)) {
		put(workspace, "a.png", png, sizeof(png));
		put(workspace, "b.png", "no", 2);
		put(workspace, "c.svg", "<svg/>", 6);
	}
	if (memchr(code, 'b', len)) {
		memset(big, 'x', sizeof(big));
		fake_output(r, ENGINE_STDOUT, "begin ", 6);
		fake_output(r, ENGINE_STDOUT, big, sizeof(big));
		fake_output(r, ENGINE_STDOUT, " end", 4);
	}
	if (memchr(code, 'u', len)) {
		for (size_t i = 0; i < sizeof(big); i += 2)
			memcpy(big + i, "\xC3\xBC", 2);
		fake_output(r, ENGINE_STDOUT, " ", memchr(code, ' ', len) ? 1 : 0);
		fake_output(r, ENGINE_STDOUT, big, sizeof(big));
	}
	if (memchr(code, 'm', len))
		res->end = ENGINE_END_OOM;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	assert_non_null(w);
	manager_world_open(&w->m,
			   (struct manager_config){.output_max = 100000, .max_sandboxes = 2});
	w->m.fake->script = script;
	struct tools_config tools = {.loop = w->m.loop,
				     .manager = w->m.manager,
				     .max_upload_bytes = 100000,
				     .max_read_bytes = 10u << 20,
				     .max_line_bytes = 10420224,
				     .has_extras = true,
				     .max_code_bytes = 100,
				     .exec_timeout_s = 60,
				     .result_chars = BUDGET};
	w->tools = tools_new(&tools, &e);
	assert_non_null(w->tools);
	talk_open(&w->talk, MCP_TRANSPORT_STDIO,
		  MCP_OFFER_RESOURCES_LIST_CHANGED | MCP_OFFER_RESOURCES_SUBSCRIBE |
		      MCP_OFFER_COMPLETIONS);
	assert_int_equal(tools_add(w->tools, w->talk.server, TOOLS_IN_ALL, &e), 0);
	assert_int_equal(tools_add_resources(w->tools, w->talk.server, &e), 0);
	assert_int_equal(tools_add_prompts(w->tools, w->talk.server, &e), 0);
	talk_handshake(&w->talk, "2025-11-25", "{}");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	manager_world_close(&w->m);
	talk_close(&w->talk);
	w->tools = tools_free(w->tools);
	free(w);
	return 0;
}

/* The result of the tool; borrowed until the next call. */
static json_t *call(struct world *w, const char *tool, const char *arguments)
{
	static char message[MESSAGE_MAX];

	(void)snprintf(message, sizeof(message),
		       "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{"
		       "\"name\":\"%s\",\"arguments\":%s}}",
		       ++w->id, tool, arguments);
	talk_say(&w->talk, message);
	manager_world_turn(&w->m);
	assert_int_equal(w->talk.n_finished, 1);
	json_t *result = json_object_get(w->talk.answer, "result");
	assert_non_null(result);
	return result;
}

static const char *text_of(const json_t *result)
{
	return json_string_value(
	    json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
}

/* The object of a good answer. */
static json_t *object(struct world *w, const char *tool, const char *arguments)
{
	json_t *result = call(w, tool, arguments);
	json_t *o = json_object_get(json_object_get(result, "structuredContent"), "result");

	assert_false(json_is_true(json_object_get(result, "isError")));
	assert_non_null(o);
	return o;
}

/* The call fails with CODE, and with a message and a hint. */
static void fails(struct world *w, const char *tool, const char *arguments, const char *code)
{
	json_t *result = call(w, tool, arguments);
	const json_t *o = json_object_get(result, "structuredContent");

	assert_true(json_is_true(json_object_get(result, "isError")));
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "error")), code);
	assert_true(json_string_length(json_object_get(o, "message")) > 0);
	assert_true(json_string_length(json_object_get(o, "hint")) > 0);
	assert_true(text_starts_with(text_of(result), code));
}

static void test_write_read_edit(void **state)
{
	struct world *w = *state;

	assert_has(
	    object(w, "sandbox_write_file",
		   "{\"path\":\"a.txt\",\"content\":\"one\\ntwo\\nthree\\ntwo\",\"session_id\":"
		   "\"s\"}"),
	    "{\"session_id\":\"s\",\"path\":\"/mnt/data/a.txt\",\"size_bytes\":17,"
	    "\"download_url\":null}");
	static const struct {
		const char *more;
		const char *text;
	} rows[] = {
	    {"", "/mnt/data/a.txt: lines 1-4 of 4, 17 bytes\none\ntwo\nthree\ntwo"},
	    {",\"start_line\":2,\"end_line\":3",
	     "/mnt/data/a.txt: lines 2-3 of 4, 17 bytes\ntwo\nthree\n"},
	    {",\"start_line\":4", "/mnt/data/a.txt: lines 4-4 of 4, 17 bytes\ntwo"},
	    {",\"end_line\":1", "/mnt/data/a.txt: lines 1-1 of 4, 17 bytes\none\n"},
	    {",\"start_line\":9", "/mnt/data/a.txt: it has no line 9, only 4, 17 bytes\n"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char arguments[200];
		(void)snprintf(arguments, sizeof(arguments),
			       "{\"session_id\":\"s\",\"path\":\"/mnt/data/a.txt\"%s}",
			       rows[i].more);
		assert_string_equal(text_of(call(w, "sandbox_read_file", arguments)), rows[i].text);
	}
	fails(w, "sandbox_edit_file",
	      "{\"session_id\":\"s\",\"path\":\"a.txt\",\"old_text\":\"two\",\"new_text\":\"2\"}",
	      "ambiguous_match");
	fails(w, "sandbox_edit_file",
	      "{\"session_id\":\"s\",\"path\":\"a.txt\",\"old_text\":\"four\",\"new_text\":\"2\"}",
	      "no_match");
	fails(w, "sandbox_edit_file",
	      "{\"session_id\":\"s\",\"path\":\"a.txt\",\"old_text\":\"\",\"new_text\":\"2\"}",
	      "invalid_argument");
	assert_has(
	    object(w, "sandbox_edit_file",
		   "{\"session_id\":\"s\",\"path\":\"a.txt\",\"old_text\":\"two\",\"new_text\":"
		   "\"\",\"replace_all\":true}"),
	    "{\"replaced\":2,\"size_bytes\":11}");
	assert_string_equal(
	    text_of(call(w, "sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"a.txt\"}")),
	    "/mnt/data/a.txt: lines 1-3 of 3, 11 bytes\none\n\nthree\n");
}

static void test_overwriting(void **state)
{
	struct world *w = *state;

	(void)object(w, "sandbox_write_file",
		     "{\"path\":\"a\",\"content\":\"x\",\"session_id\":\"s\"}");
	(void)object(w, "sandbox_write_file",
		     "{\"path\":\"a\",\"content\":\"y\",\"session_id\":\"s\"}");
	fails(w, "sandbox_write_file",
	      "{\"path\":\"a\",\"content\":\"z\",\"session_id\":\"s\",\"overwrite\":false}",
	      "file_exists");
}

static void test_failures_have_hints(void **state)
{
	struct world *w = *state;

	(void)call(w, "sandbox_run_python", "{\"code\":\"p\",\"session_id\":\"s\"}");
	static const struct {
		const char *tool;
		const char *arguments;
		const char *code;
	} rows[] = {
	    {"sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"none\"}", "not_found"},
	    {"sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"../x\"}", "invalid_path"},
	    {"sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"/etc/passwd\"}",
	     "invalid_path"},
	    {"sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"\"}", "invalid_path"},
	    {"sandbox_read_file", "{\"session_id\":\"no\",\"path\":\"a\"}", "session_not_found"},
	    {"sandbox_read_file", "{\"session_id\":\"n o\",\"path\":\"a\"}", "invalid_session_id"},
	    {"sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"b.png\",\"start_line\":0}",
	     "invalid_argument"},
	    {"sandbox_read_file",
	     "{\"session_id\":\"s\",\"path\":\"b.png\",\"start_line\":3,\"end_line\":2}",
	     "invalid_argument"},
	    {"sandbox_view_image", "{\"session_id\":\"s\",\"path\":\"b.png\"}", "not_an_image"},
	    {"sandbox_view_image", "{\"session_id\":\"s\",\"path\":\"none.png\"}", "not_found"},
	    {"sandbox_run_python", "{\"code\":\"\",\"timeout_s\":0}", "invalid_argument"},
	    {"sandbox_run_python", "{\"code\":\"a\\u0000b\"}", "invalid_argument"},
	    {"sandbox_run_shell", "{\"command\":\"ls\",\"session_id\":\" \"}",
	     "invalid_session_id"},
	    {"sandbox_info", "{\"session_id\":\"no\"}", "session_not_found"},
	    {"sandbox_delete", "{\"session_id\":\"no\"}", "session_not_found"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		fails(w, rows[i].tool, rows[i].arguments, rows[i].code);
	char arguments[300];
	(void)snprintf(arguments, sizeof(arguments), "{\"code\":\"%0101d\"}", 0);
	fails(w, "sandbox_run_python", arguments, "code_too_large");
	assert_int_equal(w->m.fake->n_created, 1);
}

static void test_binary_is_not_text(void **state)
{
	struct world *w = *state;
	char path[200];

	(void)object(w, "sandbox_run_python", "{\"code\":\"\",\"session_id\":\"s\"}");
	(void)snprintf(path, sizeof(path), "%s/1", w->m.fake->root);
	put(path, "x.bin", "a\0b", 3);
	put(path, "latin", "caf\xE9\n", 5);
	assert_has(object(w, "sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"x.bin\"}"),
		   "{\"path\":\"/mnt/data/x.bin\",\"size_bytes\":3,\"mime_type\":\"*\"}");
	assert_has(object(w, "sandbox_read_file",
			  "{\"session_id\":\"s\",\"path\":\"x.bin\",\"base64\":true}"),
		   "{\"content_base64\":\"YQBi\"}");
	fails(w, "sandbox_edit_file",
	      "{\"session_id\":\"s\",\"path\":\"x.bin\",\"old_text\":\"a\",\"new_text\":\"2\"}",
	      "not_text");
	assert_string_equal(
	    text_of(call(w, "sandbox_read_file", "{\"session_id\":\"s\",\"path\":\"latin\"}")),
	    "/mnt/data/latin: lines 1-1 of 1, 5 bytes\n"
	    "The file is not UTF-8, and its encoding is not known. Bytes that could not be decoded "
	    "are shown as \xEF\xBF\xBD.\ncaf\xEF\xBF\xBD\n");
}

/* Pictures come as pictures, and then without structured content. */
static void test_pictures(void **state)
{
	struct world *w = *state;
	json_t *result = call(w, "sandbox_run_python", "{\"code\":\"p\",\"session_id\":\"s\"}");
	json_t *content = json_object_get(result, "content");
	char base64[BASE64_ENCODED_LEN(sizeof(png)) + 1] = "";

	base64_encode(png, sizeof(png), base64);
	assert_null(json_object_get(result, "structuredContent"));
	assert_int_equal(json_array_size(content), 2);
	assert_has(json_array_get(content, 1), "{\"type\":\"image\",\"mimeType\":\"image/png\"}");
	assert_string_equal(json_string_value(json_object_get(json_array_get(content, 1), "data")),
			    base64);
	/* The text has every file. */
	assert_non_null(strstr(text_of(result), "a.png"));
	assert_non_null(strstr(text_of(result), "b.png"));
	assert_non_null(strstr(text_of(result), "c.svg"));
	result = call(w, "sandbox_view_image", "{\"session_id\":\"s\",\"path\":\"a.png\"}");
	assert_int_equal(json_array_size(json_object_get(result, "content")), 1);
	assert_null(json_object_get(result, "structuredContent"));
}

/* What is too large for an answer is made smaller by code of the sandbox, which may lie. */
static void test_large_pictures(void **state)
{
	static const struct {
		enum answer answer;
		bool pictured;
	} rows[] = {{ANSWER_SMALL, true},
		    {ANSWER_RUBBISH, false},
		    {ANSWER_ENDLESS, false},
		    {ANSWER_FAILED, false}};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		next_answer = rows[i].answer;
		json_t *result =
		    call(w, "sandbox_run_python", "{\"code\":\"L\",\"session_id\":\"s\"}");
		const json_t *content = json_object_get(result, "content");
		assert_int_equal(json_array_size(content), 2);
		assert_has(json_array_get(content, 1), rows[i].pictured
							   ? "{\"type\":\"image\"}"
							   : "{\"type\":\"resource_link\"}");
		assert_int_equal(json_object_get(result, "structuredContent") == NULL,
				 rows[i].pictured);
		assert_non_null(strstr(text_of(result), "l'.png"));
		assert_int_equal(strstr(text_of(result), "shown smaller") != NULL,
				 rows[i].pictured);
		result =
		    call(w, "sandbox_view_image", "{\"session_id\":\"s\",\"path\":\"l'.png\"}");
		assert_int_equal(json_is_true(json_object_get(result, "isError")),
				 !rows[i].pictured);
		if (!rows[i].pictured)
			assert_non_null(strstr(text_of(result), "artifact_too_large"));
	}
}

/* Over stdio a client ends the connection at a longer line. */
static void test_answers_fit_into_a_line(void **state)
{
	struct world *w = *state;

	call(w, "sandbox_run_python", "{\"code\":\"R\",\"session_id\":\"s\"}");
	assert_has(object(w, "sandbox_read_artifact",
			  "{\"session_id\":\"s\",\"path\":\"/mnt/data/long.bin\"}"),
		   "{\"error\":\"artifact_too_large\",\"size_bytes\":4194304}");
	assert_has(object(w, "sandbox_read_artifact",
			  "{\"session_id\":\"s\",\"path\":\"/mnt/data/short.bin\"}"),
		   "{\"filename\":\"short.bin\",\"size_bytes\":3145728}");
}

static void test_long_output_is_cut_in_the_middle(void **state)
{
	struct world *w = *state;
	json_t *o = object(w, "sandbox_run_python", "{\"code\":\"b\"}");
	const char *out = json_string_value(json_object_get(o, "stdout"));

	assert_true(text_starts_with(out, "begin xxx"));
	assert_true(text_ends_with(out, "xxx end"));
	assert_non_null(strstr(out, "[... 3810 bytes left out; "));
	assert_true(strlen(out) < BUDGET + 200);
}

/* Wherever the cut falls, no character is cut in two. */
static void test_cut_output_has_whole_characters(void **state)
{
	static const char *const calls[] = {"{\"code\":\"u\"}", "{\"code\":\"u \"}"};

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		json_t *o = object(*state, "sandbox_run_python", calls[i]);
		const char *out = json_string_value(json_object_get(o, "stdout"));

		assert_non_null(strstr(out, " bytes left out; "));
		assert_null(strstr(out, "\xEF\xBF\xBD"));
	}
}

static void test_out_of_memory_has_a_hint(void **state)
{
	struct world *w = *state;

	assert_has(object(w, "sandbox_run_python", "{\"code\":\"m\"}"),
		   "{\"exit_code\":137,\"reason\":\"oom\",\"hint\":\"*\"}");
}

static void test_delete(void **state)
{
	struct world *w = *state;

	(void)object(w, "sandbox_run_shell", "{\"command\":\"ls\",\"session_id\":\"s\"}");
	assert_has(object(w, "sandbox_info", "{\"session_id\":\"s\"}"),
		   "{\"session_id\":\"s\",\"status\":\"idle\",\"network\":\"none\"}");
	assert_has(object(w, "sandbox_delete", "{\"session_id\":\"s\"}"),
		   "{\"status\":\"deleted\"}");
	assert_int_equal(w->m.fake->n_alive, 0);
}

/* ---- resources, prompts, completion ---- */

/* The answer to any request: its result or its error. */
static json_t *ask(struct world *w, const char *method, const char *params)
{
	char message[1024];

	(void)snprintf(message, sizeof(message),
		       "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":%s}", ++w->id,
		       method, params);
	talk_say(&w->talk, message);
	manager_world_turn(&w->m);
	assert_int_equal(w->talk.n_finished, 1);
	json_t *result = json_object_get(w->talk.answer, "result");
	return result ? result : json_object_get(w->talk.answer, "error");
}

static void make_files(struct world *w, const char *id, unsigned n)
{
	char arguments[200];

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(arguments, sizeof(arguments),
			       "{\"path\":\"%s%u x.txt\",\"content\":\"0123456789\","
			       "\"session_id\":\"%s\"}",
			       id, i, id);
		(void)object(w, "sandbox_write_file", arguments);
	}
}

/* Every file once, whatever the pages. */
static void test_resources_are_listed_in_pages(void **state)
{
	struct world *w = *state;
	char seen[4096] = "", params[512] = "{}";
	unsigned pages = 0;

	make_files(w, "a", 6);
	make_files(w, "b", 3);
	do {
		json_t *result = ask(w, "resources/list", params), *item;
		size_t i;
		json_array_foreach(json_object_get(result, "resources"), i, item) {
			const char *uri = json_string_value(json_object_get(item, "uri"));
			if (!text_starts_with(uri, "sandbox://"))
				continue;
			assert_null(strstr(seen, uri));
			size_t used = strlen(seen);
			(void)snprintf(seen + used, sizeof(seen) - used, "%s ", uri);
		}
		const char *next = json_string_value(json_object_get(result, "nextCursor"));
		params[0] = '\0';
		if (next)
			(void)snprintf(params, sizeof(params), "{\"cursor\":\"%.400s\"}", next);
		assert_true(++pages < 10);
	} while (params[0]);
	assert_true(pages > 2);
	assert_string_equal(
	    seen, "sandbox://a/a0%20x.txt sandbox://a/a1%20x.txt sandbox://a/a2%20x.txt "
		  "sandbox://a/a3%20x.txt sandbox://a/a4%20x.txt sandbox://a/a5%20x.txt "
		  "sandbox://b/b0%20x.txt sandbox://b/b1%20x.txt sandbox://b/b2%20x.txt ");
}

static void test_resources_are_read(void **state)
{
	struct world *w = *state;
	static const struct {
		const char *uri;
		const char *want; /* of the answer */
	} rows[] = {
	    {"sandbox://a/a0%20x.txt",
	     "{\"contents\":[{\"uri\":\"sandbox://a/a0%20x.txt\",\"mimeType\":\"text/plain\","
	     "\"text\":\"0123456789\"}]}"},
	    {"sandbox://a/a0%20x.txt?offset=3&length=2", "{\"contents\":[{\"text\":\"34\"}]}"},
	    {"sandbox://a/a0%20x.txt?length=2", "{\"contents\":[{\"text\":\"01\"}]}"},
	    {"sandbox://a/a0%20x.txt?offset=30", "{\"contents\":[{\"text\":\"\"}]}"},
	    {"sandbox://a/none", "{\"code\":-32002}"},
	    {"sandbox://a/%2e%2e/x", "{\"code\":-32002}"},
	    {"sandbox://a/../x", "{\"code\":-32002}"},
	    {"sandbox://a//a0%20x.txt", "{\"code\":-32002}"},
	    {"sandbox://a/a0%00x.txt", "{\"code\":-32002}"},
	    {"sandbox://a/a0%2", "{\"code\":-32002}"},
	    {"sandbox://a/", "{\"code\":-32002}"},
	    {"sandbox://a", "{\"code\":-32002}"},
	    {"sandbox://no/a", "{\"code\":-32002}"},
	    {"sandbox://a%20b/a", "{\"code\":-32002}"},
	    {"sandbox://a/a0%20x.txt?offset=-1", "{\"code\":-32002}"},
	    {"sandbox://a/a0%20x.txt?where=1", "{\"code\":-32002}"},
	};

	make_files(w, "a", 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char params[200];
		(void)snprintf(params, sizeof(params), "{\"uri\":\"%s\"}", rows[i].uri);
		assert_has(ask(w, "resources/read", params), rows[i].want);
	}
}

static void test_prompts_and_completion(void **state)
{
	struct world *w = *state;

	make_files(w, "a", 2);
	json_t *result =
	    ask(w, "prompts/get",
		"{\"name\":\"analyse_data_file\",\"arguments\":{\"file\":\"{x}.csv\"}}");
	const char *text = json_string_value(json_object_get(
	    json_object_get(json_array_get(json_object_get(result, "messages"), 0), "content"),
	    "text"));
	assert_non_null(strstr(text, "the data file {x}.csv in the sandbox"));
	assert_non_null(strstr(text, "none yet, a new one"));
	assert_has(ask(w, "completion/complete",
		       "{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"debug_error\"},\"argument\":{"
		       "\"name\":\"session_id\",\"value\":\"\"}}"),
		   "{\"completion\":{\"values\":[\"a\"],\"total\":1,\"hasMore\":false}}");
	assert_has(ask(w, "completion/complete",
		       "{\"ref\":{\"type\":\"ref/resource\",\"uri\":\"sandbox://{id}/{+path}\"},"
		       "\"argument\":{\"name\":\"path\",\"value\":\"a1\"},\"context\":{"
		       "\"arguments\":{\"id\":\"a\"}}}"),
		   "{\"completion\":{\"values\":[\"a1 x.txt\"]}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    T(test_write_read_edit),
	    T(test_overwriting),
	    T(test_failures_have_hints),
	    T(test_binary_is_not_text),
	    T(test_pictures),
	    T(test_large_pictures),
	    T(test_answers_fit_into_a_line),
	    T(test_long_output_is_cut_in_the_middle),
	    T(test_cut_output_has_whole_characters),
	    T(test_out_of_memory_has_a_hint),
	    T(test_delete),
	    T(test_resources_are_listed_in_pages),
	    T(test_resources_are_read),
	    T(test_prompts_and_completion),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
