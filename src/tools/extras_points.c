/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints and forks of a sandbox, and the table of the tools about kept states. */
#include "base/rand.h"
#include "sandbox/points.h"

#include "tools/extras.h"
#include "tools/extras_points.h"
#include "tools/rows.h"

#include <string.h>

struct point_call {
	struct tool_call base;
	bool restore;
};

static const char *state_of(const struct checkpoint *c)
{
	if (c->state_lost)
		return "lost";
	return c->state_kept ? "kept" : "fresh";
}

json_t *extras_checkpoint(const struct checkpoint *c)
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

static const char *hint_of(const struct point_call *c, const struct checkpoint *k)
{
	if (k->state_lost)
		return "The session's variables were gone already; the files are kept.";
	if (c->restore && !k->state_kept)
		return "The session has no variables now: run the definitions that you need.";
	return NULL;
}

static void point_fail(struct point_call *c, const struct err *e)
{
	extras_fail_err(c->base.call, e);
	tool_call_free(&c->base);
}

static void on_point(const struct checkpoint *k, const struct err *e, void *user)
{
	struct point_call *c = user;

	if (e) {
		point_fail(c, e);
		return;
	}
	json_t *object = extras_checkpoint(k);
	const char *hint = hint_of(c, k);
	if (object && (json_object_set_new(object, "session_id",
					   json_string(sandbox_id(c->base.sandbox))) < 0 ||
		       (hint && json_object_set_new(object, "hint", json_string(hint)) < 0))) {
		json_decref(object);
		object = NULL;
	}
	tools_finish(c->base.call, object);
	tool_call_free(&c->base);
}

bool extras_point_name(struct mcp_call *call, const char *text, char *ret)
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
	struct point_call *c = user;

	if (e)
		extras_fail_err(c->base.call, e);
	else
		tools_finish(c->base.call,
			     json_pack("{s:s, s:s, s:s}", "session_id", sandbox_id(c->base.sandbox),
				       "name", k->name, "status", "deleted"));
	tool_call_free(&c->base);
}

/* What both tools begin with: a session, a name and one FLAG. NULL: the call is finished, or comes
 * again. */
static struct point_call *point_begin(struct mcp_call *call, struct tools *t,
				      const json_t *arguments, const char *tool, const char *flag,
				      char *ret_name)
{
	const struct arg_spec specs[] = {
	    {"session_id", ARG_STRING, true},
	    {"name", ARG_STRING, true},
	    {flag, ARG_BOOL, false},
	};

	if (!tools_check_args(call, tool, specs, ARRAY_SIZE(specs), arguments))
		return NULL;
	struct sandbox *s = extras_session(t, call, arguments);
	if (!s || !extras_point_name(call, mcp_text_arg(call, arguments, "name"), ret_name))
		return NULL;
	return tool_call_new(t, call, s, sizeof(struct point_call));
}

static void checkpoint(struct mcp_call *call, json_t *arguments, void *user)
{
	char name[CHECKPOINT_NAME_MAX + 1];
	struct err e = ERR_INIT;
	struct point_call *c =
	    point_begin(call, user, arguments, "sandbox_checkpoint", "delete", name);

	if (!c)
		return;
	int r = args_bool(arguments, "delete", false)
		    ? sandbox_drop_checkpoint(c->base.sandbox, name, on_deleted, c, &e)
		    : sandbox_checkpoint(c->base.sandbox, name, on_point, c, &e);
	if (r < 0)
		point_fail(c, &e);
}

static void restore(struct mcp_call *call, json_t *arguments, void *user)
{
	char name[CHECKPOINT_NAME_MAX + 1];
	struct err e = ERR_INIT;
	struct point_call *c =
	    point_begin(call, user, arguments, "sandbox_restore", "files_only", name);

	if (!c)
		return;
	c->restore = true;
	if (sandbox_restore(c->base.sandbox, name, args_bool(arguments, "files_only", false),
			    on_point, c, &e) < 0)
		point_fail(c, &e);
}

/* ---- sandbox_fork ---- */

static void on_forked(const struct fork_result *f, const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_err(c->call, e);
	else
		tools_finish(c->call, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "session_id",
						sandbox_id(f->sandbox), "forked_from",
						sandbox_id(c->sandbox), "state", "fresh", "files",
						(json_int_t)f->files, "bytes", (json_int_t)f->bytes,
						"skipped", (json_int_t)f->skipped));
	tool_call_free(c);
}

static void fork_sandbox(struct mcp_call *call, json_t *arguments, void *user)
{
	static const struct arg_spec specs[] = {
	    {"session_id", ARG_STRING, true},
	    {"new_session_id", ARG_STRING_OR_NULL, false},
	};
	struct err e = ERR_INIT;

	if (!tools_check_args(call, "sandbox_fork", specs, ARRAY_SIZE(specs), arguments))
		return;
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

/* ---- registration ---- */

static const struct tool_row rows[] = {
    {
	.name = "sandbox_checkpoint",
	.title = "Checkpoint Sandbox",
	.description =
	    "Keep the present state of a session under a name: all files of /mnt/data and, when "
	    "stateful runs were made, all variables. Do it before a step that may go wrong.\n\n"
	    "Args:\n"
	    "session_id: the session.\n"
	    "name: letters, digits, - and _; an older checkpoint of that name is replaced.\n"
	    "delete: true deletes the checkpoint of that name instead.\n\n"
	    "Returns session_id, name, state (kept: with variables; fresh: files alone, there were "
	    "no variables; lost: files alone, the variables were gone), files and bytes. A session "
	    "has at most 8 checkpoints; they count as its memory, and end with it. /tmp, the home "
	    "folder and processes are not part of them.",
	.input_schema = OBJ("\"session_id\":" STR_ ",\"name\":" STR_ ",\"delete\":" FALSE_,
			    "\"session_id\",\"name\""),
	.annotations = HINTS("Checkpoint Sandbox", "false", "false", "true"),
	.call = checkpoint,
    },
    {
	.name = "sandbox_restore",
	.title = "Restore Checkpoint",
	.description =
	    "Go back to a checkpoint: files and variables are what they were then, and what was "
	    "done since is gone. The checkpoint stays and can be gone back to again.\n\n"
	    "Args:\n"
	    "session_id: the session.\n"
	    "name: of the checkpoint, or of a branch of sandbox_branch, which is thereby chosen.\n"
	    "files_only: true brings back the files alone; the session then has no variables.\n\n"
	    "Returns session_id, name, state (kept: its variables are back; fresh: there are "
	    "none), "
	    "files and bytes. Fails with checkpoint_lost when a run has killed the kept "
	    "interpreter; its files can still be restored.",
	.input_schema = OBJ("\"session_id\":" STR_ ",\"name\":" STR_ ",\"files_only\":" FALSE_,
			    "\"session_id\",\"name\""),
	.annotations = HINTS("Restore Checkpoint", "false", "true", "true"),
	.call = restore,
    },
    {
	.name = "sandbox_branch",
	.title = "Try Branches",
	.description =
	    "Try several continuations of a live session, each from its present variables and "
	    "files, without changing the session: one call instead of checkpoint, run, restore for "
	    "each. They run one after the other and do not see each other.\n\n"
	    "Args:\n"
	    "session_id: the session.\n"
	    "branches: 1 to 8 of {name, code}; name: letters, digits, - and _ (left out: branch-1, "
	    "branch-2 ...); code: Python that is run as a stateful run.\n"
	    "timeout_s: end each run after that many seconds.\n\n"
	    "Returns session_id and for each branch name, exit_code, stdout, stderr, result, "
	    "reason, duration_ms, new_files and state: kept means that its variables and files are "
	    "a checkpoint of that name now; choose one with sandbox_restore. unchanged means that "
	    "the code did not come to its end, and nothing is kept. Counts towards the 8 "
	    "checkpoints of a session.",
	.input_schema =
	    OBJ("\"session_id\":" STR_
		",\"branches\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":8,\"items\":" OBJ(
		    "\"name\":" STRNULL ",\"code\":" STR_, "\"code\"") "},\"timeout_s\":" INTNULL,
		"\"session_id\",\"branches\""),
	.annotations = HINTS("Try Branches", "false", "false", "false"),
	.call = extras_branch,
    },
    {
	.name = "sandbox_fork",
	.title = "Fork Sandbox",
	.description =
	    "Make a new session with copies of the files of another one. It is a sandbox of its "
	    "own, with its own limits and a fresh session without variables; both can run at the "
	    "same time. To try something with the variables use sandbox_branch.\n\n"
	    "Args:\n"
	    "session_id: the session whose files are copied.\n"
	    "new_session_id: a name for the new session; leave it out for a random one.\n\n"
	    "Returns session_id (the new one), forked_from, state (fresh), files, bytes and "
	    "skipped "
	    "(links and what cannot be read; empty folders and permissions are not copied). At "
	    "most "
	    "10000 files.",
	.input_schema =
	    OBJ("\"session_id\":" STR_ ",\"new_session_id\":" STRNULL, "\"session_id\""),
	.annotations = HINTS("Fork Sandbox", "false", "false", "false"),
	.call = fork_sandbox,
    },
};

int extras_add_points(struct tools *t, struct mcp_server *server, struct err *e)
{
	return tools_add_rows(server, rows, ARRAY_SIZE(rows), t, e);
}
