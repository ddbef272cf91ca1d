/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_checkpoint, sandbox_restore and sandbox_fork of the profile `full`. */
#include "base/rand.h"
#include "sandbox/checkpoints.h"
#include "sandbox/run_session.h"

#include "tools/extras.h"
#include "tools/extras_checkpoints.h"

#include <string.h>

struct checkpoint_tool {
	struct tool_call base;
	bool restore;
};

static const char *state_of(const struct checkpoint *c)
{
	if (c->state_lost)
		return "lost";
	return c->state_kept ? "kept" : "fresh";
}

static json_t *json_kinds(uint32_t kinds)
{
	const char *names[SESSION_KINDS_MAX];
	const size_t n = session_kinds(kinds, names);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, json_string(names[i]));
	return list;
}

int extras_add_kinds(struct buf *b, uint32_t kinds)
{
	const char *names[SESSION_KINDS_MAX];
	const size_t n = session_kinds(kinds, names);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = buf_printf(b, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", names[i]);
	return r;
}

json_t *extras_json_checkpoint(const struct checkpoint *c)
{
	json_t *object =
	    json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", c->name, "state", state_of(c), "files",
		      (json_int_t)c->files, "bytes", (json_int_t)c->bytes, "age_s",
		      (json_int_t)(c->age_ns / NS_PER_S));

	if (object && c->skipped > 0 &&
	    json_object_set_new(object, "skipped", json_integer(c->skipped)) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int add_hint(struct buf *b, const struct checkpoint_tool *c, const struct checkpoint *k)
{
	int r = 0;

	if (k->state_lost)
		return buf_add_str(
		    b, "The session's variables were gone already; the files are kept.");
	if (c->restore && !k->state_kept)
		r = buf_add_str(
		    b, "The session has no variables now: run the definitions that you need.");
	if (r < 0 || k->kinds == 0)
		return r;
	r = buf_add_str(b, b->len > 0 ? " " : "");
	r = r < 0        ? r
	    : c->restore ? buf_add_str(b, "The session had ")
			 : buf_add_str(b, "The session also has ");
	r = r < 0 ? r : extras_add_kinds(b, k->kinds);
	return r < 0 ? r
		     : buf_add_str(
			   b, c->restore
				  ? "; they ended. Open or start again what you need."
				  : "; they go on here, and a restore will not bring them back.");
}

/* What the caller needs to know besides the checkpoint. */
static int add_rest(json_t *object, const struct checkpoint_tool *c, const struct checkpoint *k)
{
	_cleanup_(buf_done) struct buf hint = BUF_INIT(512);
	int r = add_hint(&hint, c, k);

	if (r == 0 && k->kinds != 0)
		r = json_object_set_new(object, c->restore ? "gone" : "not_saved",
					json_kinds(k->kinds));
	if (r == 0 && hint.len > 0)
		r = json_object_set_new(object, "hint", json_string(buf_str(&hint)));
	return r == 0 ? json_object_set_new(object, "session_id",
					    json_string(sandbox_id(c->base.sandbox)))
		      : r;
}

static void checkpoint_fail(struct checkpoint_tool *c, const struct err *e)
{
	extras_fail_err(c->base.call, e);
	tool_call_free(&c->base);
}

static void on_checkpoint(const struct checkpoint *k, const struct err *e, void *user)
{
	struct checkpoint_tool *c = user;

	if (e) {
		checkpoint_fail(c, e);
		return;
	}
	json_t *object = extras_json_checkpoint(k);
	if (object && add_rest(object, c, k) < 0) {
		json_decref(object);
		object = NULL;
	}
	extras_finish(c->base.call, object);
	tool_call_free(&c->base);
}

bool extras_checkpoint_name(struct mcp_call *call, const char *text, char *ret)
{
	if (text && strlen(text) <= CHECKPOINT_NAME_MAX) {
		memcpy(ret, text, strlen(text) + 1);
		return true;
	}
	extras_fail(call, "invalid_argument", "Give a short name such as before-cleaning.",
		    "The name of a checkpoint is 1 to %d letters, digits, - or _",
		    CHECKPOINT_NAME_MAX);
	return false;
}

/* ---- sandbox_checkpoint, sandbox_restore ---- */

static void on_deleted(const struct checkpoint *k, const struct err *e, void *user)
{
	struct checkpoint_tool *c = user;

	if (e)
		extras_fail_err(c->base.call, e);
	else
		extras_finish(c->base.call, json_pack("{s:s, s:s, s:s}", "session_id",
						      sandbox_id(c->base.sandbox), "name", k->name,
						      "status", "deleted"));
	tool_call_free(&c->base);
}

/* What both tools begin with: a session and a name. NULL: the call is finished, or is handled again
 * when the stored sandbox is active. */
static struct checkpoint_tool *checkpoint_begin(struct mcp_call *call, struct tools *t,
						const json_t *arguments, char *ret_name)
{
	struct sandbox *s = extras_session(t, call, arguments);
	if (!s || !extras_checkpoint_name(call, mcp_text_arg(call, arguments, "name"), ret_name))
		return NULL;
	return tool_call_new(t, call, s, sizeof(struct checkpoint_tool));
}

void extras_checkpoint(struct mcp_call *call, json_t *arguments, void *user)
{
	char name[CHECKPOINT_NAME_MAX + 1];
	struct err e = ERR_INIT;
	struct checkpoint_tool *c = checkpoint_begin(call, user, arguments, name);

	if (!c)
		return;
	int r = args_bool(arguments, "delete", false)
		    ? sandbox_drop_checkpoint(c->base.sandbox, name, on_deleted, c, &e)
		    : sandbox_checkpoint(c->base.sandbox, name, on_checkpoint, c, &e);
	if (r < 0)
		checkpoint_fail(c, &e);
}

void extras_restore(struct mcp_call *call, json_t *arguments, void *user)
{
	char name[CHECKPOINT_NAME_MAX + 1];
	struct err e = ERR_INIT;
	struct checkpoint_tool *c = checkpoint_begin(call, user, arguments, name);

	if (!c)
		return;
	c->restore = true;
	if (sandbox_restore(c->base.sandbox, name, args_bool(arguments, "files_only", false),
			    on_checkpoint, c, &e) < 0)
		checkpoint_fail(c, &e);
}

/* ---- sandbox_fork ---- */

static void on_forked(const struct fork_result *f, const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_err(c->call, e);
	else
		extras_finish(c->call,
			      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "session_id",
					sandbox_id(f->sandbox), "forked_from",
					sandbox_id(c->sandbox), "state", "fresh", "files",
					(json_int_t)f->files, "bytes", (json_int_t)f->bytes,
					"skipped", (json_int_t)f->skipped));
	tool_call_free(c);
}

void extras_fork(struct mcp_call *call, json_t *arguments, void *user)
{
	struct err e = ERR_INIT;

	struct sandbox *s = extras_session(user, call, arguments);
	if (!s)
		return;
	const json_t *given = json_object_get(arguments, "new_session_id");
	const char *id = mcp_text_arg(call, arguments, "new_session_id");
	if (json_is_string(given) && !id) {
		extras_fail(call, "invalid_session_id", "", "not a session id");
		return;
	}
	struct tool_call *c = tool_call_new(user, call, s, sizeof(*c));
	if (!c || sandbox_fork(s, id, on_forked, c, &e) == 0)
		return;
	extras_fail_err(call, &e);
	tool_call_free(c);
}
