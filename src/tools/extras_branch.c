/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_branch: several continuations of one session in one call. */
#include "base/rand.h"
#include "sandbox/checkpoints.h"

#include "tools/extras_checkpoints.h"

#include <string.h>

#define NEW_FILES_MAX 50 /* new files that the answer names for each branch */

struct branch_call {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox; /* reference */
	size_t n;
	char names[BRANCHES_MAX][CHECKPOINT_NAME_MAX + 1];
	char *codes[BRANCHES_MAX]; /* owned */
	struct branch_item items[BRANCHES_MAX];
	uint64_t timeout_ns;
	struct branch *branch;
	json_t *list; /* owned: results of the branches so far */
};

static void branch_call_free(struct branch_call *c)
{
	for (size_t i = 0; i < BRANCHES_MAX; i++)
		free(c->codes[i]);
	json_decref(c->list);
	(void)sandbox_unref(c->sandbox);
	free(c);
}

/* ---- the answer ---- */

static json_t *new_files(const struct run_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < MIN(result->n_artifacts, (size_t)NEW_FILES_MAX); i++) {
		const char *name = result->artifacts[i].name;
		(void)!json_array_append_new(list, tools_json_bytes(name, strlen(name)));
	}
	return list;
}

static json_t *error_object(const struct err *e)
{
	return json_pack("{s:s, s:o}", "error", err_code_name(e->code), "message",
			 tools_json_bytes(e->text, strlen(e->text)));
}

/* The branches share the budget of text. */
static json_t *run_object(const struct branch_call *c, const struct run_result *result)
{
	size_t budget = c->tools->config.result_chars / c->n;
	size_t err_max = MIN(result->err.len, budget / 3);
	bool cut; /* the text says so */
	json_t *object =
	    json_pack("{s:i, s:s, s:o, s:o, s:I, s:o, s:s}", "exit_code", result->exit_code,
		      "reason", run_reason_name(result->reason), "stdout",
		      extras_output(&result->out, budget - err_max, &cut), "stderr",
		      extras_output(&result->err, MAX(err_max, budget / 3), &cut), "duration_ms",
		      (json_int_t)result->duration_ms, "new_files", new_files(result), "state",
		      result->state_lost ? "lost" : "unchanged");

	if (object && result->value.len > 0 &&
	    json_object_set_new(object, "result", extras_output(&result->value, budget / 3, &cut)) <
		0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static void on_run(size_t i, const struct run_result *result, const struct err *e, void *user)
{
	struct branch_call *c = user;
	json_t *object = json_pack("{s:s}", "name", c->names[i]);
	json_t *rest = e ? error_object(e) : run_object(c, result);

	if (object && rest && json_object_update(object, rest) == 0)
		(void)!json_array_append(c->list, object);
	json_decref(rest);
	json_decref(object);
	mcp_call_progress(c->call, (double)(i + 1), (double)(c->n + 1), c->names[i]);
}

static void on_kept(size_t i UNUSED, const struct checkpoint *k, const struct err *e, void *user)
{
	struct branch_call *c = user;
	json_t *object = json_array_get(c->list, json_array_size(c->list) - 1);

	if (k) {
		json_t *kept = extras_json_checkpoint(k);
		(void)!json_object_del(kept, "age_s");
		(void)!json_object_update(object, kept);
		json_decref(kept);
	} else if (e) {
		json_t *why = error_object(e);
		(void)!json_object_update(object, why);
		json_decref(why);
	}
}

static int add_hint(struct buf *b, uint32_t kinds)
{
	int r = buf_add_str(b, "The session is what it was before. Choose a branch whose state is "
			       "kept with sandbox_restore.");

	if (r < 0 || kinds == 0)
		return r;
	r = buf_add_str(b, " Its ");
	r = r < 0 ? r : extras_add_kinds(b, kinds);
	return r < 0 ? r : buf_add_str(b, " rested meanwhile; no branch had them.");
}

static void on_done(uint32_t kinds, const struct err *e, void *user)
{
	struct branch_call *c = user;
	_cleanup_(buf_done) struct buf hint = BUF_INIT(512);

	mcp_call_on_cancel(c->call, NULL, NULL);
	if (e)
		extras_fail_err(c->call, e);
	else
		extras_finish(c->call, add_hint(&hint, kinds) < 0
					   ? NULL
					   : json_pack("{s:s, s:O, s:s}", "session_id",
						       sandbox_id(c->sandbox), "branches", c->list,
						       "hint", buf_str(&hint)));
	branch_call_free(c);
}

static void on_cancel(struct mcp_call *call UNUSED, void *user)
{
	struct branch_call *c = user;

	branch_cancel(c->branch);
}

/* ---- the call ---- */

static void fail_item(struct mcp_call *call, size_t i, const char *what)
{
	extras_fail(call, "invalid_argument", "Give branches as [{\"name\": ..., \"code\": ...}].",
		    "branches[%zu]: %s", i, what);
}

static bool take_name(struct branch_call *c, size_t i, const json_t *item)
{
	const json_t *name = json_object_get(item, "name");

	if (name && !json_is_null(name))
		return extras_checkpoint_name(c->call, mcp_text_arg(c->call, item, "name"),
					      c->names[i]);
	(void)snprintf(c->names[i], sizeof(c->names[i]), "branch-%zu", i + 1);
	return true;
}

static bool take_item(struct branch_call *c, size_t i, const json_t *item)
{
	struct mcp_text_ref code;

	if (mcp_call_text(c->call, json_object_get(item, "code"), &code) < 0) {
		fail_item(c->call, i, "the code cannot be read");
		return false;
	}
	if (code.len > c->tools->config.max_code_bytes) {
		fail_item(c->call, i, "the code is too long");
		return false;
	}
	if (!take_name(c, i, item))
		return false;
	c->codes[i] = tools_text_take(&code);
	if (!c->codes[i]) {
		mcp_call_finish_error(c->call, MCP_ERR_INTERNAL, "no memory for the code", NULL);
		return false;
	}
	if (strlen(c->codes[i]) != code.len) {
		fail_item(c->call, i, "the code holds a NUL byte");
		return false;
	}
	c->items[i] =
	    (struct branch_item){.name = c->names[i], .code = c->codes[i], .code_len = code.len};
	return true;
}

static bool take_items(struct branch_call *c, const json_t *list)
{
	c->n = json_array_size(list);
	for (size_t i = 0; i < c->n; i++)
		if (!take_item(c, i, json_array_get(list, i)))
			return false;
	return true;
}

static void begin(struct branch_call *c)
{
	const struct branch_request request = {
	    .items = c->items,
	    .n = c->n,
	    .timeout_ns = c->timeout_ns,
	    .on_run = on_run,
	    .on_kept = on_kept,
	    .on_done = on_done,
	    .user = c,
	};
	struct err e = ERR_INIT;

	if (sandbox_branch(c->sandbox, &request, &c->branch, &e) < 0) {
		extras_fail_err(c->call, &e);
		branch_call_free(c);
		return;
	}
	mcp_call_on_cancel(c->call, on_cancel, c);
}

void extras_branch(struct mcp_call *call, json_t *arguments, void *user)
{
	struct sandbox *s = extras_session(user, call, arguments);
	if (!s)
		return;
	struct branch_call *c = calloc(1, sizeof(*c));
	if (!c || !(c->list = json_array())) {
		free(c);
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return;
	}
	c->tools = user;
	c->call = call;
	c->sandbox = sandbox_ref(s);
	if (extras_timeout(c->tools, call, arguments, &c->timeout_ns) &&
	    take_items(c, json_object_get(arguments, "branches")))
		begin(c);
	else
		branch_call_free(c);
}
