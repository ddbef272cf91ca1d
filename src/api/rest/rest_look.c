/* SPDX-License-Identifier: Apache-2.0 */
/* REST: what the page looks up inside a sandbox: a part of a table, names of the live session.
 *
 * Tables and names are read by fixed Python programs inside the sandbox, never by this process. They are no runs of the
 * user: no cell and no event shows them. What they write is not trusted: only the members below are passed on, of
 * the right types and within bounds. A busy sandbox is SESSION_BUSY, so nothing waits behind a long run. */
#include "api/rest/rest.h"

#include "api_scripts.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define OUT_MAX      (2u << 20)
#define PROGRAM_MAX  (64u << 10)
#define PREVIEW_NS   (20 * NS_PER_S)
#define COMPLETE_NS  (2 * NS_PER_S)
#define ROWS_DEFAULT 100
#define ITEMS_MAX    200u
#define ROWS_MAX     1000u
#define COLUMNS_MAX  200u

struct look {
	struct rest_call *call;
	struct buf out;
	size_t other; /* bytes of the other streams */
	bool full;
	void (*answer)(struct rest_call *c, const json_t *found);
};

/* Names are read in the session, whose code may write without end. */
static void on_output(struct run *r, enum engine_stream stream, const void *data, size_t len,
		      void *user)
{
	struct look *k = user;

	if (k->full)
		return;
	k->other += stream == ENGINE_STDOUT ? 0 : len;
	k->full =
	    k->other > OUT_MAX || (stream == ENGINE_STDOUT && buf_add(&k->out, data, len) < 0);
	if (k->full)
		run_cancel(r);
}

static void on_done(struct run *r UNUSED, const struct run_result *result, const struct err *e,
		    void *user)
{
	struct look *k = user;
	struct rest_call *c = k->call;
	json_t *found = NULL;

	if (e)
		rest_fail(c, e);
	else if (!k->full && result->reason != RUN_EXITED)
		rest_refuse(c, ERR_TIMEOUT,
			    "looking into the sandbox took too long or too much memory");
	else if (k->full || jsonio_read(buf_str(&k->out), k->out.len, 0, &found, NULL) < 0 ||
		 !json_is_object(found))
		rest_refuse(c, ERR_INVALID_ARGUMENT, "the sandbox gave no usable answer");
	else
		k->answer(c, found);
	json_decref(found);
	buf_done(&k->out);
	free(k);
}

/* Runs PROGRAM. For names it runs in the session, with the sandbox's own environment, so that nothing changes there. */
static void look(struct rest_call *c, const struct buf *program, bool session, uint64_t timeout_ns,
		 void (*answer)(struct rest_call *c, const json_t *found))
{
	struct look *k = calloc(1, sizeof(*k));
	struct err e = ERR_INIT;
	struct run *run;

	if (!k) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	k->call = c;
	k->answer = answer;
	buf_init(&k->out, OUT_MAX);
	const struct run_request request = {
	    .kind = session ? ENGINE_RUN_STATEFUL : ENGINE_RUN_PYTHON,
	    .code = buf_str(program),
	    .code_len = program->len,
	    .timeout_ns = timeout_ns,
	    .own = !session,
	    .hidden = true,
	    .unbounded = true,
	    .no_artifacts = true,
	    .on_output = on_output,
	    .on_done = on_done,
	    .user = k,
	};
	if (sandbox_run(c->sandbox, &request, &run, &e) < 0) {
		buf_done(&k->out);
		free(k);
		rest_fail(c, &e);
	}
}

/* Appends DATA as a bytes literal, so that no byte of it can become code. */
static int add_literal(struct buf *b, const char *data)
{
	int r = buf_add_str(b, "b'");

	for (const char *p = data; *p && r == 0; p++)
		r = buf_printf(b, "\\x%02x", (unsigned)(unsigned char)*p);
	return r < 0 ? r : buf_add_str(b, "'");
}

/* ---- tables ---- */

static bool is_cell(const json_t *v)
{
	return json_is_null(v) || json_is_boolean(v) || json_is_number(v) || json_is_string(v);
}

static json_t *rows_of(const json_t *found)
{
	json_t *rows = json_array(), *row, *v;
	size_t i, j;

	json_array_foreach(json_object_get(found, "rows"), i, row) {
		json_t *out = i < ROWS_MAX ? json_array() : NULL;

		if (!out)
			break;
		json_array_foreach(row, j, v) {
			if (j < COLUMNS_MAX)
				(void)json_array_append_new(out, is_cell(v) ? json_incref(v)
									    : json_null());
		}
		(void)json_array_append_new(rows, out);
	}
	return rows;
}

static json_t *columns_of(const json_t *found)
{
	json_t *columns = json_array(), *v;
	size_t i;

	json_array_foreach(json_object_get(found, "columns"), i, v) {
		const char *name = json_string_value(json_object_get(v, "name"));
		const char *type = json_string_value(json_object_get(v, "type"));

		if (i < COLUMNS_MAX)
			(void)json_array_append_new(columns, json_pack("{s:s, s:s}", "name",
								       name ? name : "", "type",
								       type ? type : ""));
	}
	return columns;
}

static json_t *texts_of(const json_t *list)
{
	json_t *out = json_array(), *v;
	size_t i;

	json_array_foreach(list, i, v) {
		if (i < COLUMNS_MAX && json_is_string(v))
			(void)json_array_append(out, v);
	}
	return out;
}

static void answer_table(struct rest_call *c, const json_t *found)
{
	const char *error = json_string_value(json_object_get(found, "error"));
	const json_t *total = json_object_get(found, "total");
	const char *sheet = json_string_value(json_object_get(found, "sheet"));

	if (error) {
		rest_refuse(c, ERR_INVALID_ARGUMENT, "%s", error);
		return;
	}
	const char *encoding = json_string_value(json_object_get(found, "encoding"));
	const json_int_t sure = json_integer_value(json_object_get(found, "sure"));
	rest_reply(c, 200,
		   json_pack("{s:s, s:o, s:o, s:o, s:o, s:s?, s:I, s:s*, s:o*}", "kind", "table",
			     "columns", columns_of(found), "rows", rows_of(found), "total",
			     json_is_integer(total) ? json_integer(json_integer_value(total))
						    : json_null(),
			     "sheets", texts_of(json_object_get(found, "sheets")), "sheet", sheet,
			     "offset", json_integer_value(json_object_get(found, "offset")),
			     "encoding", encoding, "sure",
			     encoding ? json_integer(MAX(MIN(sure, 100), 0)) : NULL));
}

static void preview(struct rest_call *c)
{
	_cleanup_(buf_done) struct buf program = BUF_INIT(PROGRAM_MAX);
	const char *given = http_request_query(c->req, "path");
	const char *sheet = http_request_query(c->req, "sheet");
	char path[ENGINE_PATH_MAX], full[ENGINE_PATH_MAX + 16];
	struct err e = ERR_INIT;

	if (workspace_path(given, strlen(given), true, path, &e) < 0) {
		rest_fail(c, &e);
		return;
	}
	(void)snprintf(full, sizeof(full), "/mnt/data/%s", path);
	int r = buf_add_str(&program, "PATH = ");
	r = r < 0 ? r : add_literal(&program, full);
	r = r < 0 ? r : buf_add_str(&program, "\nSHEET = ");
	r = r < 0 ? r : add_literal(&program, sheet ? sheet : "");
	r = r < 0 ? r
		  : buf_printf(&program, "\nOFFSET = %jd\nLIMIT = %jd\nENCODING = %d\n",
			       (intmax_t)rest_query_int(c, "offset", 0),
			       (intmax_t)rest_query_int(c, "limit", ROWS_DEFAULT),
			       rest_query_bool(c, "encoding"));
	r = r < 0 ? r : buf_add_str(&program, api_charset_text);
	r = r < 0 ? r : buf_add_str(&program, api_preview_text);
	if (r < 0)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		look(c, &program, false, PREVIEW_NS, answer_table);
}

void rest_preview(struct rest_call *c)
{
	rest_sandbox(c, preview);
}

/* ---- names ---- */

static void answer_names(struct rest_call *c, const json_t *found)
{
	json_int_t cursor = rest_int(c, "cursor", 0);
	json_int_t prefix = json_integer_value(json_object_get(found, "prefix"));
	json_t *items = json_array(), *v;
	size_t i;

	json_array_foreach(json_object_get(found, "items"), i, v) {
		const char *label = json_string_value(json_object_get(v, "label"));
		const char *type = json_string_value(json_object_get(v, "type"));

		if (label && type && i < ITEMS_MAX)
			(void)json_array_append_new(
			    items, json_pack("{s:s, s:s}", "label", label, "type", type));
	}
	if (prefix < 0 || prefix > cursor)
		prefix = 0;
	rest_reply(
	    c, 200,
	    json_pack("{s:I, s:I, s:o}", "start", cursor - prefix, "end", cursor, "items", items));
}

static void no_names(struct rest_call *c)
{
	json_int_t cursor = rest_int(c, "cursor", 0);

	rest_reply(c, 200, json_pack("{s:I, s:I, s:[]}", "start", cursor, "end", cursor, "items"));
}

/* The bytes of the last CHARS characters of the line that ends after character CURSOR of CODE. */
static char *before_cursor(const char *code, int64_t cursor)
{
	const char *end = code, *start;

	while (*end && cursor > 0) {
		end++;
		while ((*end & 0xc0) == 0x80)
			end++;
		cursor--;
	}
	for (start = end; start > code && start[-1] != '\n' && end - start < 200;)
		start--;
	return strndup(start, (size_t)(end - start));
}

static void complete(struct rest_call *c)
{
	_cleanup_(buf_done) struct buf program = BUF_INIT(PROGRAM_MAX);
	_cleanup_free_ char *text =
	    before_cursor(rest_text(c, "code", ""), rest_int(c, "cursor", 0));

	/* One expression that binds no name in the session. */
	int r = !text || sandbox_is_busy(c->sandbox) || !sandbox_keeps(c->sandbox) ? -EBUSY : 0;
	r = r < 0 ? r : buf_add_str(&program, "(lambda space, text: (lambda own: (exec(compile(");
	r = r < 0 ? r : add_literal(&program, api_complete_text);
	r = r < 0 ? r
		  : buf_add_str(&program, ", '<complete>', 'exec'), own), own['complete'](space, "
					  "text), None)[2])({}))(globals(), ");
	r = r < 0 ? r : add_literal(&program, text);
	r = r < 0 ? r : buf_add_str(&program, ".decode('utf-8', 'replace'))\n");
	if (r < 0)
		no_names(c);
	else
		look(c, &program, true, COMPLETE_NS, answer_names);
}

void rest_complete(struct rest_call *c)
{
	rest_sandbox(c, complete);
}
