/* SPDX-License-Identifier: Apache-2.0 */
/* The first tool family over the MCP library and the manager, on the fake engine: argument checks,
 * order of checks, message texts, result shapes. */
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

struct world {
	struct manager_world m;
	struct tools *tools;
	struct talk talk;
	unsigned id;
	const char *link_base;
};

static const char *link_base(void *user)
{
	return ((struct world *)user)->link_base;
}

/* One letter each: o; some output. w; writes "ü a.txt". t; time out. Anything else does nothing. */
static void script(struct fake_run *r, const char *workspace, const char *code, size_t len,
		   struct engine_run_result *res)
{
	static const char bytes[] = "ok \xC3\xBC \xFF\xE2\x82 \0 end\n";
	char path[300];

	if (memchr(code, 'o', len)) {
		fake_output(r, ENGINE_STDOUT, bytes, sizeof(bytes) - 1);
		fake_output(r, ENGINE_STDERR, "0123456789012345678901234\xC3\xBC", 27);
	}
	if (memchr(code, 'w', len)) {
		(void)snprintf(path, sizeof(path), "%s/ü a.txt", workspace);
		FILE *f = fopen(path, "w");
		assert_non_null(f);
		assert_int_equal(fwrite("Total sales: 600", 1, 16, f), 16);
		assert_int_equal(fclose(f), 0);
	}
	if (memchr(code, 't', len))
		res->end = ENGINE_END_TIMEOUT;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	assert_non_null(w);
	manager_world_open(&w->m, (struct manager_config){.output_max = 26, .max_sandboxes = 2});
	w->m.fake->script = script;
	w->link_base = "http://localhost:8080";
	struct tools_config tools = {.loop = w->m.loop,
				     .manager = w->m.manager,
				     .max_upload_bytes = 10,
				     .max_read_bytes = 20,
				     .max_code_bytes = 10,
				     .exec_timeout_s = 60,
				     .link_base = link_base,
				     .link_user = w};
	w->tools = tools_new(&tools, &e);
	assert_non_null(w->tools);
	talk_open(&w->talk, MCP_TRANSPORT_STDIO, MCP_OFFER_LOGGING);
	assert_int_equal(tools_add(w->tools, w->talk.server, TOOLS_IN_CODE, &e), 0);
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

	(void)snprintf(
	    message, sizeof(message),
	    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
	    "\"%s\",\"arguments\":%s,\"_meta\":{\"progressToken\":7}}}",
	    ++w->id, tool, arguments);
	talk_say(&w->talk, message);
	manager_world_turn(&w->m);
	assert_int_equal(w->talk.n_finished, 1);
	json_t *result = json_object_get(w->talk.answer, "result");
	assert_non_null(result);
	return result;
}

/* The business object, after checking that text and structured content tell the same. */
static json_t *object(struct world *w, const char *tool, const char *arguments)
{
	json_t *result = call(w, tool, arguments);
	json_t *content = json_object_get(result, "content");
	json_t *wrapped = json_object_get(json_object_get(result, "structuredContent"), "result");

	assert_true(json_is_false(json_object_get(result, "isError")) ||
		    !json_object_get(result, "isError"));
	assert_int_equal(json_array_size(content), 1);
	assert_non_null(wrapped);
	char *text = json_dumps(wrapped, JSON_COMPACT);
	assert_string_equal(json_string_value(json_object_get(json_array_get(content, 0), "text")),
			    text);
	free(text);
	return wrapped;
}

static const char *message_of(const json_t *object)
{
	return json_string_value(json_object_get(object, "message"));
}

/* ---- argument shape ---- */

static void test_argument_shape(void **state)
{
	struct world *w = *state;
	static const struct {
		const char *tool;
		const char *arguments;
		const char *text;
	} rows[] = {
	    {"sandbox_run_python", "{}",
	     "1 validation error for call[sandbox_run_python]\ncode\n  Missing required argument "
	     "[type=missing_argument, input_value={}, input_type=dict]"},
	    {"sandbox_run_python", "{\"code\":5}",
	     "1 validation error for call[sandbox_run_python]\ncode\n  Input should be a valid "
	     "string "
	     "[type=string_type, input_value=5, input_type=int]"},
	    {"sandbox_run_python", "{\"code\":\"x\",\"session_id\":1.5}",
	     "1 validation error for call[sandbox_run_python]\nsession_id\n  Input should be a "
	     "valid "
	     "string [type=string_type, input_value=1.5, input_type=float]"},
	    {"sandbox_run_python", "{\"code\":\"x\",\"stdin\":\"it's\"}",
	     "1 validation error for call[sandbox_run_python]\nstdin\n  Unexpected keyword "
	     "argument "
	     "[type=unexpected_keyword_argument, input_value=\"it's\", input_type=str]"},
	    {"sandbox_run_python", "{\"code\":null,\"a\":[true,{}]}",
	     "2 validation errors for call[sandbox_run_python]\ncode\n  Input should be a valid "
	     "string "
	     "[type=string_type, input_value=None, input_type=NoneType]\na\n  Unexpected keyword "
	     "argument [type=unexpected_keyword_argument, input_value=[True, {}], "
	     "input_type=list]"},
	    {"sandbox_upload_file",
	     "{\"filename\":\"a\",\"content_base64\":\"\",\"overwrite\":\"perhaps\"}",
	     "1 validation error for call[sandbox_upload_file]\noverwrite\n  Input should be a "
	     "valid "
	     "boolean, unable to interpret input [type=bool_parsing, input_value='perhaps', "
	     "input_type=str]"},
	    {"sandbox_list_artifacts", "{\"session_id\":null}",
	     "1 validation error for call[sandbox_list_artifacts]\nsession_id\n  Input should be a "
	     "valid string [type=string_type, input_value=None, input_type=NoneType]"},
	    {"sandbox_close_session", "{\"session_id\":[]}",
	     "1 validation error for call[sandbox_close_session]\nsession_id\n  Input should be a "
	     "valid string [type=string_type, input_value=[], input_type=list]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *result = call(w, rows[i].tool, rows[i].arguments);
		assert_true(json_is_true(json_object_get(result, "isError")));
		assert_null(json_object_get(result, "structuredContent"));
		assert_string_equal(
		    json_string_value(json_object_get(
			json_array_get(json_object_get(result, "content"), 0), "text")),
		    rows[i].text);
	}
	assert_int_equal(w->m.fake->n_created, 0);
}

static void test_long_values_are_shortened(void **state)
{
	struct world *w = *state;
	char arguments[2200];

	(void)snprintf(arguments, sizeof(arguments), "{\"code\":[\"%01000d\"]}", 7);
	json_t *result = call(w, "sandbox_run_python", arguments);
	const char *text = json_string_value(
	    json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
	assert_non_null(strstr(text, "input_value=['00000000000000000000000..."
				     "0000000000000000000007'], input_type=list"));
}

/* ---- A01-A06 ---- */

#define A64  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A255 A64 A64 A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_session_ids(void **state)
{
	struct world *w = *state;
	static const char *const good[] = {
	    "abc", "sess_a1b2c3d4e5f6", "my-session", "my_session", A64, "0"};
	static const char *const bad[] = {"",    A64 "a", "a b",      "a/b",      "a@b",  "a!b",
					  "a;b", "a\\n",  "a\\u0000", "\xC3\xBC", "../x", "."};
	char arguments[512], want[512];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		(void)snprintf(arguments, sizeof(arguments), "{\"session_id\":\"%s\"}", good[i]);
		(void)snprintf(want, sizeof(want), "No active session with id %s", good[i]);
		json_t *o = object(w, "sandbox_list_artifacts", arguments);
		assert_has(
		    o,
		    "{\"error\":\"session_not_found\",\"size_bytes\":null,\"download_url\":null}");
		assert_string_equal(message_of(o), want);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		(void)snprintf(arguments, sizeof(arguments),
			       "{\"code\":\"x\",\"session_id\":\"%s\"}", bad[i]);
		assert_has(object(w, "sandbox_run_python", arguments),
			   "{\"error\":\"invalid_session_id\"}");
	}
	assert_string_equal(
	    message_of(object(w, "sandbox_close_session", "{\"session_id\":\"bad id\"}")),
	    "Invalid session_id 'bad id'. Must be 1-64 characters: letters, numbers, hyphens, "
	    "underscores.");
	assert_int_equal(w->m.fake->n_created, 0);
}

static void test_filenames(void **state)
{
	struct world *w = *state;
	static const struct {
		const char *name;
		const char *error; /* NULL = good */
	} rows[] = {
	    {"data.csv", NULL},
	    {"report.pdf", NULL},
	    {"chart-v2.png", NULL},
	    {"my_file.txt", NULL},
	    {"a", NULL},
	    {A255, NULL},
	    {".hidden", NULL},
	    {"", "invalid_filename"},
	    {A255 "a", "invalid_filename"},
	    {"a b", "invalid_filename"},
	    {"a/b", "invalid_filename"},
	    {"a@b", "invalid_filename"},
	    {"../x/y", "invalid_filename"},
	    {"a\\n", "invalid_filename"},
	    {"a\\u0000", "invalid_filename"},
	    {"..hidden", "invalid_path"},
	    {"foo..bar", "invalid_path"},
	    {"..", "invalid_path"},
	    {".", "invalid_path"},
	};
	char arguments[1024];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		/* Good names fail at the next check, so that nothing is made. */
		(void)snprintf(arguments, sizeof(arguments),
			       "{\"filename\":\"%s\",\"content_base64\":\"%%%%%%%%\"}",
			       rows[i].name);
		json_t *o = object(w, "sandbox_upload_file", arguments);
		assert_string_equal(json_string_value(json_object_get(o, "error")),
				    rows[i].error ? rows[i].error : "invalid_content");
	}
	assert_string_equal(message_of(object(w, "sandbox_upload_file",
					      "{\"filename\":\"a b\",\"content_base64\":\"\"}")),
			    "Invalid filename 'a b'. Only letters, numbers, dots, hyphens, and "
			    "underscores allowed.");
	assert_string_equal(message_of(object(w, "sandbox_upload_file",
					      "{\"filename\":\"a..b\",\"content_base64\":\"\"}")),
			    "Path traversal not allowed");
	assert_int_equal(w->m.fake->n_created, 0);
}

static void test_code_size(void **state)
{
	struct world *w = *state;

	assert_has(object(w, "sandbox_run_python", "{\"code\":\"0123456789\"}"),
		   "{\"exit_code\":0}");
	json_t *o = object(w, "sandbox_run_python", "{\"code\":\"0123456789A\"}");
	assert_has(o, "{\"error\":\"code_too_large\"}");
	assert_string_equal(message_of(o), "Code is 11 bytes, exceeds 10 byte limit.");
	assert_has(object(w, "sandbox_run_python",
			  "{\"code\":\"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80\"}"),
		   "{\"error\":\"code_too_large\",\"message\":\"Code is 12 bytes, exceeds 10 byte "
		   "limit.\"}");
	assert_int_equal(w->m.fake->n_created, 1);
}

static void test_upload_size(void **state)
{
	struct world *w = *state;
	char arguments[256];

	(void)snprintf(arguments, sizeof(arguments),
		       "{\"filename\":\"a b\",\"content_base64\":\"%0100d\"}", 0);
	assert_has(object(w, "sandbox_upload_file", arguments),
		   "{\"error\":\"upload_too_large\",\"message\":\"Upload exceeds 0MB limit.\"}");
	/* floor(10 * 4 / 3) + 4 = 17 characters pass this check */
	assert_has(object(w, "sandbox_upload_file",
			  "{\"filename\":\"a\",\"content_base64\":\"MDEyMzQ1Njc4OQ==\"}"),
		   "{\"path\":\"/mnt/data/a\"}");
	assert_has(object(w, "sandbox_upload_file",
			  "{\"filename\":\"a\",\"content_base64\":\"MDEyMzQ1Njc4OTAxMjM0\"}"),
		   "{\"error\":\"upload_too_large\"}");
}

/* ---- order and effect ---- */

static void test_order_of_checks(void **state)
{
	struct world *w = *state;

	/* session id, base64 length, filename, base64, session */
	assert_has(object(w, "sandbox_upload_file",
			  "{\"session_id\":\"\",\"filename\":\"a b\",\"content_base64\":"
			  "\"%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%\"}"),
		   "{\"error\":\"invalid_session_id\"}");
	assert_has(object(w, "sandbox_upload_file",
			  "{\"filename\":\"a b\",\"content_base64\":\"%%%%%%%%%%%%%%%%%%%%%%%%\"}"),
		   "{\"error\":\"upload_too_large\"}");
	assert_has(
	    object(w, "sandbox_upload_file", "{\"filename\":\"a b\",\"content_base64\":\"%%%%\"}"),
	    "{\"error\":\"invalid_filename\"}");
	static const char *const bad[] = {"%%%%",    "YQ",   "YQ=",  "YQ===",    "Y Q=",
					  "YQ==\\n", "Y-Q_", "=YQ=", "YQ==YQ==", "YQ==\\u0000"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char arguments[200];
		(void)snprintf(arguments, sizeof(arguments),
			       "{\"filename\":\"a\",\"content_base64\":\"%s\"}", bad[i]);
		assert_has(
		    object(w, "sandbox_upload_file", arguments),
		    "{\"error\":\"invalid_content\",\"message\":\"content_base64 is not valid "
		    "base64\"}");
	}
	assert_int_equal(w->m.fake->n_created, 0);
	/* An unknown session beats a bad path. */
	assert_has(
	    object(w, "sandbox_read_artifact", "{\"session_id\":\"x\",\"path\":\"nowhere\"}"),
	    "{\"error\":\"session_not_found\"}");
}

static void test_upload_and_read(void **state)
{
	struct world *w = *state;
	json_t *o =
	    object(w, "sandbox_upload_file",
		   "{\"filename\":\"sales.csv\",\"content_base64\":\"YSxi\",\"session_id\":\"s\"}");

	assert_int_equal(json_object_size(o), 2);
	assert_has(o, "{\"session_id\":\"s\",\"path\":\"/mnt/data/sales.csv\"}");
	assert_has(
	    object(w, "sandbox_upload_file",
		   "{\"filename\":\"sales.csv\",\"content_base64\":\"YSxi\",\"session_id\":\"s\"}"),
	    "{\"error\":\"file_exists\",\"message\":\"sales.csv already exists. Set "
	    "overwrite=true to replace.\"}");
	assert_has(
	    object(w, "sandbox_upload_file",
		   "{\"filename\":\"sales.csv\",\"content_base64\":\"eHl6\",\"session_id\":\"s\","
		   "\"overwrite\":true}"),
	    "{\"path\":\"/mnt/data/sales.csv\"}");
	o = object(w, "sandbox_read_artifact",
		   "{\"session_id\":\"s\",\"path\":\"/mnt/data//./sales.csv/\"}");
	assert_int_equal(json_object_size(o), 5);
	assert_has(o, "{\"path\":\"/mnt/data/sales.csv\",\"filename\":\"sales.csv\",\"mime_type\":"
		      "\"text/csv\",\"size_bytes\":3,\"content_base64\":\"eHl6\"}");
	static const struct {
		const char *path;
		const char *error;
		const char *message;
	} rows[] = {
	    {"/mnt/data/none", "not_found", "No artifact at /mnt/data/none"},
	    {"sales.csv", "invalid_path", "Path must be absolute and within /mnt/data/"},
	    {"/etc/passwd", "invalid_path", "Path outside /mnt/data/"},
	    {"/mnt/data/", "invalid_path", "Path must point to a file in /mnt/data/"},
	    {"/mnt/data/../x", "invalid_path", "Path traversal not allowed"},
	    {"/mnt/data/nul\\u0000", "not_found", "No artifact at /mnt/data/nul"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char arguments[200];
		(void)snprintf(arguments, sizeof(arguments),
			       "{\"session_id\":\"s\",\"path\":\"%s\"}", rows[i].path);
		o = object(w, "sandbox_read_artifact", arguments);
		assert_string_equal(json_string_value(json_object_get(o, "error")), rows[i].error);
		assert_string_equal(message_of(o), rows[i].message);
	}
}

static void test_too_large_to_read(void **state)
{
	struct world *w = *state;

	assert_has(object(w, "sandbox_run_python", "{\"code\":\"w\",\"session_id\":\"s\"}"),
		   "{\"exit_code\":0}");
	assert_has(object(w, "sandbox_read_artifact",
			  "{\"session_id\":\"s\",\"path\":\"/mnt/data/\xC3\xBC a.txt\"}"),
		   "{\"size_bytes\":16,\"content_base64\":\"VG90YWwgc2FsZXM6IDYwMA==\"}");
	char path[200];
	(void)snprintf(path, sizeof(path), "%s/1/big", w->m.fake->root);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fprintf(f, "%021d", 0), 21);
	assert_int_equal(fclose(f), 0);
	assert_has(
	    object(w, "sandbox_read_artifact", "{\"session_id\":\"s\",\"path\":\"/mnt/data/big\"}"),
	    "{\"error\":\"artifact_too_large\",\"message\":\"big is 0MB, exceeds 0MB limit.\","
	    "\"size_bytes\":21,\"download_url\":null}");
}

/* ---- A08: shapes ---- */

static void test_run_result(void **state)
{
	struct world *w = *state;
	static const char *const keys[] = {
	    "session_id",       "run_id",           "exit_code", "stdout",      "stderr",
	    "stdout_truncated", "stderr_truncated", "artifacts", "duration_ms", "reason"};
	json_t *o = object(w, "sandbox_run_python", "{\"code\":\"ow\"}");
	size_t i = 0;

	for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it))
		assert_string_equal(json_object_iter_key(it), keys[i++]);
	assert_int_equal(i, ARRAY_SIZE(keys));
	const char *run_id = json_string_value(json_object_get(o, "run_id"));
	assert_int_equal(strlen(run_id), 25);
	assert_true(text_starts_with(run_id, "run_20"));
	assert_int_equal(run_id[12], 'T');
	assert_int_equal(run_id[19], 'Z');
	const json_t *out = json_object_get(o, "stdout");
	static const char want[] = "ok \xC3\xBC \xEF\xBF\xBD\xEF\xBF\xBD \0 end\n";
	assert_int_equal(json_string_length(out), sizeof(want) - 1);
	assert_memory_equal(json_string_value(out), want, sizeof(want) - 1);
	/* Cut inside a character. */
	assert_has(o, "{\"exit_code\":0,\"stderr\":\"0123456789012345678901234\xEF\xBF\xBD\","
		      "\"stdout_truncated\":false,\"stderr_truncated\":true,\"duration_ms\":5,"
		      "\"reason\":\"exited\"}");
	json_t *artifact = json_array_get(json_object_get(o, "artifacts"), 0);
	assert_has(artifact,
		   "{\"path\":\"/mnt/data/\xC3\xBC a.txt\",\"filename\":\"\xC3\xBC a.txt\","
		   "\"size_bytes\":16,\"mime_type\":\"text/plain\"}");
	char url[200];
	(void)snprintf(url, sizeof(url), "http://localhost:8080/files/%s/%%C3%%BC%%20a.txt",
		       json_string_value(json_object_get(o, "session_id")));
	assert_string_equal(json_string_value(json_object_get(artifact, "download_url")), url);
}

static void test_links_off(void **state)
{
	struct world *w = *state;

	w->link_base = NULL;
	assert_has(object(w, "sandbox_run_python", "{\"code\":\"w\"}"),
		   "{\"artifacts\":[{\"filename\":\"*\",\"download_url\":null}]}");
}

static void test_timeout(void **state)
{
	struct world *w = *state;

	assert_has(
	    object(w, "sandbox_run_python", "{\"code\":\"ot\"}"),
	    "{\"exit_code\":-1,\"reason\":\"timeout\",\"artifacts\":[],\"stderr_truncated\":true,"
	    "\"stderr\":\"0123456789012345678901234\xEF\xBF\xBD\\nExecution timed out after "
	    "60s\"}");
}

static void test_sessions(void **state)
{
	struct world *w = *state;

	assert_has(object(w, "sandbox_run_python", "{\"code\":\"\",\"session_id\":\"a\"}"),
		   "{\"session_id\":\"a\"}");
	assert_has(object(w, "sandbox_run_python", "{\"code\":\"\",\"session_id\":\"b\"}"),
		   "{\"session_id\":\"b\"}");
	assert_has(
	    object(w, "sandbox_run_python", "{\"code\":\"\"}"),
	    "{\"error\":\"max_sessions\",\"message\":\"Maximum 2 concurrent sessions reached. "
	    "Close an existing session first.\"}");
	assert_has(object(w, "sandbox_run_python", "{\"code\":\"\",\"session_id\":\"a\"}"),
		   "{\"session_id\":\"a\"}");
	assert_has(object(w, "sandbox_close_session", "{\"session_id\":\"a\"}"),
		   "{\"status\":\"closed\"}");
	assert_has(object(w, "sandbox_close_session", "{\"session_id\":\"a\"}"),
		   "{\"error\":\"session_not_found\",\"message\":\"No active session with id a\"}");
	assert_has(object(w, "sandbox_list_artifacts", "{\"session_id\":\"b\"}"),
		   "{\"artifacts\":[]}");
}

static void test_engine_failure(void **state)
{
	struct world *w = *state;

	w->m.fake->fail_create = true;
	assert_has(
	    object(w, "sandbox_run_python", "{\"code\":\"\"}"),
	    "{\"error\":\"execution_failed\",\"message\":\"no engine today. Run 'caisson doctor' "
	    "to see what is missing.\"}");
}

static void test_cancelled_call_kills_its_run(void **state)
{
	struct world *w = *state;

	(void)object(w, "sandbox_run_python", "{\"code\":\"\",\"session_id\":\"s\"}");
	w->m.fake->hold = true;
	talk_say(&w->talk,
		 "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"tools/call\",\"params\":{"
		 "\"name\":\"sandbox_run_python\",\"arguments\":{\"code\":\"\","
		 "\"session_id\":\"s\"}}}");
	manager_world_turn(&w->m);
	assert_true(sandbox_is_busy(manager_find(w->m.manager, "", "s")));
	talk_say(&w->talk,
		 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
		 "\"requestId\":\"r\"}}");
	manager_world_turn(&w->m);
	assert_false(sandbox_is_busy(manager_find(w->m.manager, "", "s")));
}

static void test_descriptions_are_short(void **state)
{
	struct world *w = *state;
	unsigned n = 0;
	char cursor[256] = "";

	do {
		char message[512];
		(void)snprintf(
		    message, sizeof(message),
		    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/list\",\"params\":{%s}}",
		    ++w->id, cursor);
		talk_say(&w->talk, message);
		json_t *result = json_object_get(w->talk.answer, "result");
		size_t i;
		json_t *tool;
		json_array_foreach(json_object_get(result, "tools"), i, tool) {
			const char *name = json_string_value(json_object_get(tool, "name"));
			if (!text_starts_with(name, "sandbox_"))
				continue;
			n++;
			assert_true(json_string_length(json_object_get(tool, "description")) <=
				    2048);
			assert_string_equal(json_string_value(json_object_get(tool, "title")),
					    json_string_value(json_object_get(
						json_object_get(tool, "annotations"), "title")));
			assert_has(tool,
				   "{\"annotations\":{\"openWorldHint\":false},\"outputSchema\":{"
				   "\"x-fastmcp-wrap-result\":true,\"required\":[\"result\"]}}");
		}
		const char *next = json_string_value(json_object_get(result, "nextCursor"));
		cursor[0] = '\0';
		if (next)
			(void)snprintf(cursor, sizeof(cursor), "\"cursor\":\"%.200s\"", next);
	} while (cursor[0]);
	assert_int_equal(n, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    T(test_argument_shape),
	    T(test_long_values_are_shortened),
	    T(test_session_ids),
	    T(test_filenames),
	    T(test_code_size),
	    T(test_upload_size),
	    T(test_order_of_checks),
	    T(test_upload_and_read),
	    T(test_too_large_to_read),
	    T(test_run_result),
	    T(test_links_off),
	    T(test_timeout),
	    T(test_sessions),
	    T(test_engine_failure),
	    T(test_cancelled_call_kills_its_run),
	    T(test_descriptions_are_short),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
