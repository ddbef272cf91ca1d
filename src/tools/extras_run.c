/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_run_python and sandbox_run_shell of the profile `full`: the result of the first
 * family, with a budget of text and with the pictures that the run has made.
 *
 * An answer with pictures has no structuredContent: if that is there, a widespread client shows
 * its model nothing else. The text then has all facts. */
#include "tools/extras.h"
#include "tools/picture.h"

#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define HINT_MAX  2048u   /* bytes */
#define SHELL_MAX 120000u /* bytes of a command: the kernel allows 128 KiB in one argument */

/* A run that has ended and whose pictures are being read. */
struct pictures {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox; /* reference */
	json_t *object;          /* owned: the object that becomes the text */
	json_t *blocks;          /* owned: image blocks so far */
	char names[EXTRAS_IMAGES_MAX][256];
	bool large[EXTRAS_IMAGES_MAX]; /* too large for an answer: must be scaled down */
	size_t n, next;
	json_t *others; /* owned, or NULL: names of pictures beyond the limit */
	bool scaled;
};

/* ---- the answer ---- */

static void finish_object(struct mcp_call *call, json_t *object, json_t *pictures)
{
	size_t len = 0;
	_cleanup_free_ char *text = jsonio_text(object, JSON_COMPACT, &len);
	bool pictured = json_array_size(pictures) > 0;
	json_t *content = text ? mcp_blocks(1, mcp_text(text, len)) : NULL;

	if (content && pictures && json_array_extend(content, pictures) < 0) {
		json_decref(content);
		content = NULL;
	}
	json_decref(pictures);
	mcp_call_finish(call, mcp_tool_result(content,
					      pictured ? (json_decref(object), NULL)
						       : json_pack("{s:o}", "result", object),
					      false));
}

json_t *extras_output(const struct run_output *output, size_t max, const char *note, bool *ret_cut)
{
	return tools_json_output(output, max,
				 "save long output to a file and read parts of it with "
				 "sandbox_read_file",
				 note, ret_cut);
}

/* What has become of the variables of the session. */
static const char *state_of(const struct run_result *result)
{
	if (result->state_lost)
		return "lost";
	return result->state_kept ? "kept" : "unchanged";
}

/* Adds the members of stateful runs. */
static int add_state(json_t *object, struct run_call *c, const struct run_result *result)
{
	if (c->request.kind != ENGINE_RUN_STATEFUL)
		return 0;
	bool cut = false;
	if (result->value.len > 0 &&
	    json_object_set_new(
		object, "result",
		extras_output(&result->value, c->tools->config.result_chars / 3, "", &cut)) < 0)
		return -ENOMEM;
	if (cut && json_object_set_new(object, "result_truncated", json_true()) < 0)
		return -ENOMEM;
	return json_object_set_new(object, "state", json_string(state_of(result)));
}

static json_t *result_object(struct run_call *c, const struct run_result *result)
{
	/* stdout gets the larger part of the budget, and what stderr does not use. */
	size_t budget = c->tools->config.result_chars;
	size_t err_max = MIN(result->err.len, budget / 3);
	char note[64] = "";

	if (result->reason == RUN_TIMEOUT)
		(void)snprintf(note, sizeof(note), "\nExecution timed out after %jus",
			       (uintmax_t)(extras_timeout_of(c) / NS_PER_S));
	bool out_cut = false, err_cut = false;
	json_t *out = extras_output(&result->out, budget - err_max, "", &out_cut);
	json_t *err = extras_output(&result->err, MAX(err_max, budget / 3), note, &err_cut);
	_cleanup_(buf_done) struct buf hint = BUF_INIT(HINT_MAX);
	json_t *object = json_pack("{s:s, s:s, s:i}", "session_id", sandbox_id(c->sandbox),
				   "run_id", result->id, "exit_code", result->exit_code);
	json_t *rest =
	    json_pack("{s:o, s:o, s:b, s:b, s:o, s:I, s:s}", "stdout", out, "stderr", err,
		      "stdout_truncated", out_cut, "stderr_truncated", err_cut, "artifacts",
		      tools_json_artifacts(c->tools, c->sandbox, result), "duration_ms",
		      (json_int_t)result->duration_ms, "reason", run_reason_name(result->reason));
	/* Before the traceback, where a model reads it first. */
	bool failed =
	    extras_add_hint(&hint, c, result) < 0 ||
	    (hint.len > 0 &&
	     json_object_set_new(object, "hint", json_stringn(buf_str(&hint), hint.len)) < 0);
	failed = failed || json_object_update(object, rest) < 0 || add_state(object, c, result) < 0;
	json_decref(rest);
	if (failed) {
		json_decref(object);
		return NULL;
	}
	return object;
}

/* ---- pictures ---- */

static void read_next(struct pictures *p);

/* Without memory the answer has no hint. */
static void append_hint(json_t *object, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(HINT_MAX);
	const char *before = json_string_value(json_object_get(object, "hint"));

	if (buf_printf(&b, "%s%s%s", before ? before : "", before ? " " : "", text) == 0)
		(void)json_object_set_new(object, "hint", json_stringn(buf_str(&b), b.len));
}

static void pictures_end(struct pictures *p)
{
	static const char note[] =
	    "Pictures over 1.5 MiB are shown smaller; their files are as the "
	    "run made them.";

	if (p->scaled)
		append_hint(p->object, note);
	/* Without memory the names are missing here; the artifacts still list the files. */
	if (p->others)
		(void)json_object_set_new(p->object, "pictures_not_shown", p->others);
	finish_object(p->call, p->object, p->blocks);
	(void)sandbox_unref(p->sandbox);
	free(p);
}

static void add_picture(struct pictures *p, json_t *block)
{
	/* A file that is not a picture, cannot be scaled down or has gone is only a link in the
	 * text. */
	if (block && json_array_append_new(p->blocks, block) < 0)
		p->next = p->n;
	read_next(p);
}

static void on_shrunk(json_t *block, void *user)
{
	struct pictures *p = user;

	p->scaled = p->scaled || block;
	add_picture(p, block);
}

static void on_picture(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	_cleanup_fd_ int file = fd;
	struct pictures *p = user;

	add_picture(p, e ? NULL : extras_image_block(file, info->size));
}

static void read_next(struct pictures *p)
{
	struct err e = ERR_INIT;

	while (p->next < p->n) {
		const size_t i = p->next++;
		const int r = p->large[i]
				  ? picture_shrink(p->sandbox, p->names[i], on_shrunk, p, &e)
				  : sandbox_open_file(p->sandbox, p->names[i], on_picture, p, &e);

		if (r == 0)
			return;
	}
	pictures_end(p);
}

static size_t collect_pictures(struct pictures *p, const struct run_result *result)
{
	for (size_t i = 0; i < result->n_artifacts; i++) {
		const struct artifact *a = &result->artifacts[i];
		if (a->size > PICTURE_FILE_MAX || !text_starts_with(mime_type(a->name), "image/") ||
		    streq(mime_type(a->name), "image/svg+xml"))
			continue;
		if (p->n == EXTRAS_IMAGES_MAX) {
			p->others = p->others ? p->others : json_array();
			(void)json_array_append_new(p->others,
						    tools_json_bytes(a->name, strlen(a->name)));
			continue;
		}
		p->large[p->n] = a->size > EXTRAS_IMAGE_BYTES_MAX;
		memcpy(p->names[p->n++], a->name, sizeof(p->names[0]));
	}
	return p->n;
}

static void finish(struct run_call *c, const struct run_result *result, const struct err *e)
{
	if (e) {
		extras_fail_err(c->call, e);
		return;
	}
	json_t *object = result_object(c, result);
	struct pictures *p = calloc(1, sizeof(*p));
	if (!object || !p || collect_pictures(p, result) == 0) {
		free(p);
		finish_object(c->call, object, NULL);
		return;
	}
	p->tools = c->tools;
	p->call = c->call;
	p->sandbox = sandbox_ref(c->sandbox);
	p->object = object;
	p->blocks = json_array();
	read_next(p);
}

/* ---- the calls ---- */

/* What both tools begin with: checks, and a call that lacks only what it runs. */
static struct run_call *prepare(struct tools *t, struct mcp_call *call, const json_t *arguments,
				const char *key, uint64_t max)
{
	char id[SANDBOX_ID_MAX + 1];
	uint64_t timeout;

	if (!extras_session_id(call, arguments, true, id) ||
	    !extras_timeout(t, call, arguments, &timeout))
		return NULL;
	struct mcp_text_ref text = tools_text_arg(call, arguments, key);
	if (text.len > max) {
		extras_fail(call, "code_too_large",
			    "Write it to a file with sandbox_write_file and run that.",
			    "%s is %zu bytes, the limit is %ju.", key, text.len, (uintmax_t)max);
		return NULL;
	}
	struct run_call *c = run_call_new(t, call, id, &text);
	if (c && strlen(c->text) != c->text_len) {
		run_call_free(c);
		extras_fail(call, "invalid_argument", "Write it as \\0 in a string literal.",
			    "%s holds a NUL byte", key);
		return NULL;
	}
	if (c) {
		c->request.timeout_ns = timeout;
		c->finish = finish;
		c->live = true;
	}
	return c;
}

void extras_run_python(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;

	struct run_call *c = prepare(t, call, arguments, "code", t->config.max_code_bytes);
	if (!c)
		return;
	c->request.kind =
	    args_bool(arguments, "stateful", false) ? ENGINE_RUN_STATEFUL : ENGINE_RUN_PYTHON;
	c->request.display = t->config.save_figures_extras;
	c->request.code = c->text;
	c->request.code_len = c->text_len;
	run_call_start(c);
}

void extras_run_shell(struct mcp_call *call, json_t *arguments, void *user)
{
	/* Models write bash, but small images have only sh. */
	static const char shell[] = "if command -v bash >/dev/null 2>&1; then exec bash -c \"$0\"; "
				    "else exec sh -c \"$0\"; fi";
	struct tools *t = user;

	struct run_call *c = prepare(t, call, arguments, "command",
				     MIN(t->config.max_code_bytes, (uint64_t)SHELL_MAX));
	if (!c)
		return;
	const char *const argv[] = {"sh", "-c", shell, c->text, NULL};
	c->request.kind = ENGINE_RUN_ARGV;
	memcpy(c->argv, argv, sizeof(argv));
	c->request.argv = c->argv;
	run_call_start(c);
}
