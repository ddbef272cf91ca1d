/* SPDX-License-Identifier: Apache-2.0 */
/* The answer about a run: the object for programs, which has the keys of the first family and some
 * more, and the text that a model reads. */
#include "tools/extras.h"
#include "tools/fold.h"

#include "base/rand.h"
#include "base/text.h"
#include "sandbox/run_session.h"

#include <string.h>

#define HINT_MAX    2048u  /* bytes */
#define FILES_SHOWN 20     /* files that the text lists; programs get all of them */
#define FILES_BYTES 2000u  /* bytes of that list, by which its last line may be longer */
#define FOLD_NOTES  16384u /* bytes by which folding may make an output longer */
#define S_PER_HOUR  3600
static const char hint_head[] = "Hint: ";

/* At most MAX bytes of what is left of an output. */
static json_t *json_folded(const struct run_output *folded, size_t max, bool *ret_cut)
{
	return tools_json_output(folded, max,
				 folded->file ? "read parts with sandbox_read_file"
					      : "save long output to a file and read parts of it "
						"with sandbox_read_file",
				 "", ret_cut);
}

json_t *extras_output(const struct run_output *output, size_t max, bool *ret_cut)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(output->len + FOLD_NOTES);
	struct run_output folded;

	fold_output(output, max, &text, &folded);
	return json_folded(&folded, fold_room(&folded, max), ret_cut);
}

/* ---- the object ---- */

/* The streams as the answer has them, and the most bytes of each. */
struct streams {
	struct run_output output[ENGINE_RESULT + 1]; /* by enum engine_stream */
	struct buf text[ENGINE_RESULT + 1];
	size_t shares[ENGINE_RESULT + 1];
	size_t budget;
};

static void fold_streams(const struct run_result *result, size_t budget, struct streams *s)
{
	const struct run_output *from[] = {[ENGINE_STDOUT] = &result->out,
					   [ENGINE_STDERR] = &result->err,
					   [ENGINE_RESULT] = &result->value};

	s->budget = budget;
	for (size_t i = ENGINE_STDOUT; i <= ENGINE_RESULT; i++) {
		buf_init(&s->text[i], from[i]->len + FOLD_NOTES);
		fold_output(from[i], budget, &s->text[i], &s->output[i]);
	}
	const struct run_result sizes = {.out.len = fold_weight(&s->output[ENGINE_STDOUT], budget),
					 .err.len = fold_weight(&s->output[ENGINE_STDERR], budget),
					 .value.len =
					     fold_weight(&s->output[ENGINE_RESULT], budget)};
	run_result_share(&sizes, budget, s->shares);
	for (size_t i = ENGINE_STDOUT; i <= ENGINE_RESULT; i++)
		s->shares[i] = fold_room(&s->output[i], s->shares[i]);
}

static void streams_done(struct streams *s)
{
	for (size_t i = ENGINE_STDOUT; i <= ENGINE_RESULT; i++)
		buf_done(&s->text[i]);
}

/* Adds what the session has lost. */
static int add_gone(json_t *object, const struct run_result *result)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(1024);
	const int r = run_gone_text(&text, result);

	if (r < 0 || text.len == 0)
		return r;
	return json_object_set_new(object, "gone", json_loads(buf_str(&text), 0, NULL));
}

/* Adds the value of the last expression, and what has become of a session. */
static int add_state(json_t *object, struct run_call *c, const struct run_result *result,
		     const struct streams *s)
{
	bool cut = false;
	if (result->value.len > 0 &&
	    json_object_set_new(
		object, "result",
		json_folded(&s->output[ENGINE_RESULT], s->shares[ENGINE_RESULT], &cut)) < 0)
		return -ENOMEM;
	if (cut && json_object_set_new(object, "result_truncated", json_true()) < 0)
		return -ENOMEM;
	if (c->request.kind != ENGINE_RUN_STATEFUL)
		return 0;
	if (add_gone(object, result) < 0)
		return -ENOMEM;
	return json_object_set_new(object, "state", json_string(run_session_state(result)));
}

/* Names the files that have what the answer has not. */
static int add_whole_files(json_t *object, const struct run_call *c,
			   const struct run_result *result, const struct streams *s)
{
	const struct {
		const char *key;
		const struct run_output *output;
	} streams[] = {[ENGINE_STDOUT] = {"stdout_file", &result->out},
		       [ENGINE_STDERR] = {"stderr_file", &result->err},
		       [ENGINE_RESULT] = {"result_file", &result->value}};

	for (size_t i = ENGINE_STDOUT; i < ARRAY_SIZE(streams); i++) {
		const struct run_output *o = streams[i].output;
		char path[ENGINE_PATH_MAX];

		/* some have a file that would not need one: see request.whole_over */
		const struct run_output *shown = &s->output[i];
		const bool cut = shown->truncated || shown->len > s->shares[i];
		if (!o->file || (!cut && !o->cleared && o->shown <= s->budget))
			continue;
		(void)snprintf(path, sizeof(path), TOOLS_WORKSPACE "%s", o->file);
		if (json_object_set_new(
			object, streams[i].key,
			json_pack("{s:s, s:I, s:b, s:o}", "path", path, "size_bytes",
				  (json_int_t)o->file_bytes, "complete", !o->file_lacks,
				  "download_url",
				  tools_json_link(c->tools, c->call, c->sandbox, o->file))) < 0)
			return -ENOMEM;
	}
	return 0;
}

static json_t *new_files(const struct run_call *c, const struct run_result *result)
{
	struct tools_links links;

	if (result->n_artifacts == 0)
		return json_array();
	tools_links_begin(c->tools, c->call, c->sandbox, TOOLS_LINKS_FILES, &links);
	json_t *files = tools_json_artifacts(&links, result,
					     MIN(result->n_artifacts, (size_t)EXTRAS_FILES_TOLD));
	tools_links_done(&links);
	return files;
}

json_t *extras_run_object(struct run_call *c, const struct run_result *result)
{
	_cleanup_(streams_done) struct streams s;

	fold_streams(result, c->tools->config.result_chars, &s);
	bool out_cut = false, err_cut = false;
	json_t *out = json_folded(&s.output[ENGINE_STDOUT], s.shares[ENGINE_STDOUT], &out_cut);
	json_t *err = json_folded(&s.output[ENGINE_STDERR], s.shares[ENGINE_STDERR], &err_cut);
	_cleanup_(buf_done) struct buf hint = BUF_INIT(HINT_MAX);
	json_t *object = json_pack("{s:s, s:s, s:i}", "session_id", sandbox_id(c->sandbox),
				   "run_id", result->id, "exit_code", result->exit_code);
	json_t *rest = json_pack(
	    "{s:o, s:o, s:b, s:b, s:o, s:I, s:s}", "stdout", out, "stderr", err, "stdout_truncated",
	    out_cut, "stderr_truncated", err_cut, "artifacts", new_files(c, result), "duration_ms",
	    (json_int_t)result->duration_ms, "reason", run_reason_name(result->reason));

	if (rest && result->n_artifacts > EXTRAS_FILES_TOLD)
		(void)json_object_set_new(
		    rest, "artifacts_left_out",
		    json_integer((json_int_t)(result->n_artifacts - EXTRAS_FILES_TOLD)));
	if (rest && result->n_artifacts > 0 && !sandbox_is_stored(c->sandbox) &&
	    sandbox_first_kept(c->sandbox))
		(void)json_object_set_new(
		    rest, "kept_s",
		    json_integer((json_int_t)(sandbox_ttl_ns(c->sandbox) / NS_PER_S)));
	/* Before the traceback, where a model reads it first. */
	bool failed =
	    extras_add_hint(&hint, c, result) < 0 ||
	    (hint.len > 0 &&
	     json_object_set_new(object, "hint", json_stringn(buf_str(&hint), hint.len)) < 0);
	failed = failed || (result->more_files &&
			    json_object_set_new(object, "artifacts_more", json_true()) < 0);
	failed = failed || json_object_update(object, rest) < 0 ||
		 add_state(object, c, result, &s) < 0 || add_whole_files(object, c, result, &s) < 0;
	json_decref(rest);
	if (failed) {
		json_decref(object);
		return NULL;
	}
	return object;
}

/* Without memory the answer has no hint. */
void extras_run_append_hint(json_t *object, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(HINT_MAX);
	const char *before = json_string_value(json_object_get(object, "hint"));

	if (buf_printf(&b, "%s%s%s", before ? before : "", before ? " " : "", text) == 0)
		(void)json_object_set_new(object, "hint", json_stringn(buf_str(&b), b.len));
}

/* ---- the text ---- */

/* Names the file that has the whole of a stream. */
static int add_whole(struct buf *b, const json_t *object, const char *key)
{
	const json_t *file = json_object_get(object, key);
	const char *link = json_string_value(json_object_get(file, "download_url"));

	if (!file)
		return 0;
	int r = buf_printf(b, "[the whole %s of it: %s (",
			   json_is_true(json_object_get(file, "complete")) ? "text" : "beginning",
			   json_string_value(json_object_get(file, "path")));
	r = r < 0 ? r
		  : extras_add_size(
			b, (uint64_t)json_integer_value(json_object_get(file, "size_bytes")));
	return r < 0 ? r : buf_printf(b, ")%s%s]\n", link ? " " : "", link ? link : "");
}

/* Adds the string KEY of OBJECT, after HEAD; nothing if it is empty. */
static int add_stream(struct buf *b, const json_t *object, const char *key, const char *head)
{
	const json_t *v = json_object_get(object, key);
	const char *text = json_string_value(v);
	const size_t len = json_string_length(v);

	if (len == 0)
		return 0;
	int r = buf_add_str(b, head);
	r = r < 0 ? r : buf_add(b, text, len);
	return r < 0 || text[len - 1] == '\n' ? r : buf_add_char(b, '\n');
}

static int add_end(struct buf *b, const json_t *object)
{
	const char *reason = json_string_value(json_object_get(object, "reason"));
	const char *state = json_string_value(json_object_get(object, "state"));
	int r = buf_printf(b, "[session_id: %s, exit_code: %" JSON_INTEGER_FORMAT,
			   json_string_value(json_object_get(object, "session_id")),
			   json_integer_value(json_object_get(object, "exit_code")));

	if (r == 0 && !streq(reason, "exited"))
		r = buf_printf(b, ", %s", reason);
	if (r == 0 && state)
		r = buf_printf(b, ", variables %s", state);
	return r < 0 ? r
		     : buf_printf(b, ", %" JSON_INTEGER_FORMAT " ms]\n",
				  json_integer_value(json_object_get(object, "duration_ms")));
}

static int add_kept(struct buf *b, const json_t *object)
{
	const json_int_t s = json_integer_value(json_object_get(object, "kept_s"));
	const bool hours = s % S_PER_HOUR == 0;

	return s == 0 ? 0
		      : buf_printf(b,
				   "The files of this session are kept until nobody has used it "
				   "for %" JSON_INTEGER_FORMAT " %s.\n",
				   hours ? s / S_PER_HOUR : (s + 59) / 60, hours ? "h" : "min");
}

static int add_files(struct buf *b, const json_t *object)
{
	const json_t *files = json_object_get(object, "artifacts"), *file;
	const json_int_t hidden = json_integer_value(json_object_get(object, "pictures_left_out"));
	const size_t before = b->len;
	const size_t n = json_array_size(files) +
			 (size_t)json_integer_value(json_object_get(object, "artifacts_left_out"));
	size_t i;
	int r = add_kept(b, object);

	r = r == 0 && n > 0 ? buf_add_str(b, "New or changed files:\n") : r;

	json_array_foreach(files, i, file) {
		if (r < 0 || i == FILES_SHOWN || b->len - before > FILES_BYTES)
			break;
		r = extras_add_file_line(b, file);
	}
	if (r == 0 && n > i)
		r = buf_printf(b, "- and %zu more: sandbox_list_files\n", n - i);
	else if (r == 0 && json_is_true(json_object_get(object, "artifacts_more")))
		r = buf_add_str(b, "- and maybe more in folders: sandbox_list_files\n");
	if (r < 0 || hidden == 0)
		return r;
	return buf_printf(b,
			  "Pictures that are not shown: %" JSON_INTEGER_FORMAT
			  "; sandbox_read_file shows one.\n",
			  hidden);
}

/* Without a hint of the server, the one with which stderr begins comes first: there may be much
 * output before it. RET_AFTER: the rest of stderr, owned. */
static int add_hint(struct buf *b, const json_t *object, json_t **ret_after)
{
	const json_t *v = json_object_get(object, "stderr");
	const char *text = json_string_value(v);
	const size_t len = json_string_length(v);
	const char *end =
	    text && text_starts_with(text, hint_head) ? memchr(text, '\n', len) : NULL;

	if (json_object_get(object, "hint"))
		return add_stream(b, object, "hint", hint_head);
	if (!end)
		return 0;
	const size_t line = (size_t)(end + 1 - text);
	*ret_after = json_pack("{s:s%}", "stderr", text + line, len - line);
	return *ret_after ? buf_add(b, text, line) : -ENOMEM;
}

int extras_add_run(struct buf *b, const json_t *object)
{
	json_t *after = NULL; /* owned */
	int r = add_hint(b, object, &after);

	r = r < 0 ? r : add_stream(b, object, "stdout", "");
	r = r < 0 ? r : add_whole(b, object, "stdout_file");
	r = r < 0 ? r : add_stream(b, after ? after : object, "stderr", "stderr:\n");
	json_decref(after);
	r = r < 0 ? r : add_whole(b, object, "stderr_file");
	r = r < 0 ? r : add_stream(b, object, "result", "Value of the last expression:\n");
	r = r < 0 ? r : add_whole(b, object, "result_file");
	if (r == 0 && b->len == 0)
		r = buf_add_str(b, "(no output)\n");
	r = r < 0 ? r : add_end(b, object);
	return r < 0 ? r : add_files(b, object);
}
