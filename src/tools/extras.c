/* SPDX-License-Identifier: Apache-2.0 */
/* The extras of the profile `full`: their table, and the tools about a sandbox itself. */
#include "tools/extras.h"

#include "base/rand.h"
#include "sandbox/points.h"
#include "tools/rows.h"

#include <string.h>

/* ---- sandbox_delete ---- */

static void on_deleted(const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_err(c->call, e);
	else
		tools_finish(c->call, json_pack("{s:s, s:s}", "session_id", sandbox_id(c->sandbox),
						"status", "deleted"));
	tool_call_free(c);
}

/* Ending somebody's run is a person's decision where the client can ask one. True: go on; false:
 * the call is finished, or the question is on its way and this tool is entered again. */
static bool may_delete(struct mcp_call *call, struct sandbox *s)
{
	static const char key[] = "end_run";
	char message[SANDBOX_ID_MAX + 128];

	if (!mcp_call_input(call, key) && (!sandbox_is_busy(s) || !extras_can_ask(call)))
		return true;
	(void)snprintf(message, sizeof(message),
		       "A run is going on in this sandbox. End it and delete all files of sandbox "
		       "%s",
		       sandbox_id(s));
	enum extras_word word = extras_ask(call, key, message, "End the run and delete");
	if (word == EXTRAS_DECLINED)
		extras_fail(call, "declined", "Wait for the run to end, or ask the person again.",
			    "The person did not agree to end the run in sandbox %s.",
			    sandbox_id(s));
	return word == EXTRAS_AGREED;
}

static void delete_sandbox(struct mcp_call *call, json_t *arguments, void *user)
{
	static const struct arg_spec specs[] = {{"session_id", ARG_STRING, true}};
	struct err e = ERR_INIT;

	if (!tools_check_args(call, "sandbox_delete", specs, ARRAY_SIZE(specs), arguments))
		return;
	struct sandbox *s = extras_session(user, call, arguments);
	if (!s || !may_delete(call, s))
		return;
	struct tool_call *c = tool_call_new(user, call, s, sizeof(*c));
	if (!c || sandbox_close(s, true, on_deleted, c, &e) == 0)
		return;
	extras_fail_err(call, &e);
	tool_call_free(c);
}

/* ---- sandbox_info ---- */

static void add_checkpoint(const struct checkpoint *c, void *user)
{
	(void)!json_array_append_new(user, extras_checkpoint(c));
}

/* Only where there is something to tell. */
static int add_kept(json_t *object, struct tools *t, const struct sandbox *s)
{
	json_t *list = json_array();
	int r = 0;

	sandbox_each_checkpoint(s, add_checkpoint, list);
	if (json_array_size(list) > 0)
		r = json_object_set(object, "checkpoints", list);
	json_decref(list);
	if (r == 0 && sandbox_n_domains(s) > 0)
		r = json_object_set_new(object, "network_allowed", extras_domains(s));
	if (r == 0)
		r = extras_add_network(object, t, s);
	if (r == 0 && sandbox_parent(s)[0])
		r = json_object_set_new(object, "forked_from", json_string(sandbox_parent(s)));
	return r;
}

static json_t *info_object(const struct tool_call *c, const struct engine_usage *usage)
{
	struct sandbox *s = c->sandbox;
	const struct engine_policy *policy = sandbox_policy(s);
	json_t *limits = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "memory_bytes",
				   (json_int_t)policy->limits.memory_bytes, "cpu_milli",
				   (json_int_t)policy->limits.cpu_milli, "processes",
				   (json_int_t)policy->limits.pids, "workspace_bytes",
				   (json_int_t)policy->limits.workspace_bytes, "tmp_bytes",
				   (json_int_t)policy->limits.tmp_bytes, "run_seconds",
				   (json_int_t)c->tools->config.exec_timeout_s);
	json_t *server =
	    json_pack("{s:b, s:s}", "system_call_filter", 1 /* it would not have started */,
		      "files", c->tools->config.has_landlock ? "landlock" : "uid");
	json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "session_id",
				   sandbox_id(s), "status", sandbox_is_busy(s) ? "running" : "idle",
				   "age_s", (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
				   (json_int_t)(sandbox_idle_ns(s) / NS_PER_S), "limits", limits,
				   "enforced", tools_cap_names(policy->enforced), "best_effort",
				   tools_cap_names(policy->best_effort), "server", server);

	if (object && add_kept(object, c->tools, s) < 0) {
		json_decref(object);
		return NULL;
	}
	if (!object || !usage)
		return object;
	json_t *used =
	    json_pack("{s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)usage->memory_bytes,
		      "workspace_bytes", (json_int_t)usage->workspace_bytes, "processes",
		      (json_int_t)usage->pids, "cpu_ms", (json_int_t)(usage->cpu_ns / NS_PER_MS));
	if (json_object_set_new(object, "used", used) < 0) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static void on_usage(const struct engine_usage *usage, const struct err *e, void *user)
{
	struct tool_call *c = user;

	/* What is not known is left out. */
	tools_finish(c->call, info_object(c, e ? NULL : usage));
	tool_call_free(c);
}

static void get_info(struct mcp_call *call, json_t *arguments, void *user)
{
	static const struct arg_spec specs[] = {{"session_id", ARG_STRING, true}};
	struct err e = ERR_INIT;

	if (!tools_check_args(call, "sandbox_info", specs, ARRAY_SIZE(specs), arguments))
		return;
	struct sandbox *s = extras_session(user, call, arguments);
	struct tool_call *c = s ? tool_call_new(user, call, s, sizeof(*c)) : NULL;
	if (!c || sandbox_get_usage(s, on_usage, c, &e) == 0)
		return;
	if (e.code == ERR_ENGINE_NOT_BUILT_IN)
		tools_finish(call, info_object(c, NULL));
	else
		extras_fail_err(call, &e);
	tool_call_free(c);
}

/* ---- registration ---- */

#define RUN_RESULT                                                                                 \
	"Returns session_id, exit_code, stdout, stderr, artifacts (new or changed files with "     \
	"their "                                                                                   \
	"download_url), duration_ms and reason (exited, signaled, timeout, oom). Long output is "  \
	"cut "                                                                                     \
	"in the middle. Pictures that the run saved, and figures that it left open or gave to "    \
	"plt.show(), are shown to you. A failing run is a normal "                                 \
	"result: read stderr, correct, and run again in the same session."

static const struct tool_row rows[] = {
    {
	.name = "sandbox_run_python",
	.title = "Run Python in Sandbox",
	.description =
	    "Run Python source in an isolated sandbox without network.\n\nArgs:\n"
	    "code: Python source. Print what you want to see. The working folder is /mnt/data; "
	    "files saved there stay for later calls of the session. pandas, numpy, matplotlib, "
	    "seaborn, scipy, openpyxl, pyarrow and reportlab are installed. Each call starts a "
	    "fresh interpreter unless stateful is true.\n"
	    "session_id: an earlier session, or a name for a new one; leave it out for a new one.\n"
	    "timeout_s: end the run after that many seconds.\n"
	    "stateful: true keeps variables, imports and definitions for later stateful calls of "
	    "the "
	    "session, as a notebook does; `result` is then the last expression's value. A run that "
	    "crashes or is ended leaves them as they were before it (`state`: kept, unchanged or "
	    "lost).\n\nReturns:\n" RUN_RESULT,
	.input_schema = OBJ("\"code\":" STR_ ",\"session_id\":" STRNULL ",\"timeout_s\":" INTNULL
			    ",\"stateful\":{\"type\":\"boolean\",\"default\":false}",
			    "\"code\""),
	.annotations = HINTS("Run Python in Sandbox", "false", "false", "false"),
	.call = extras_run_python,
    },
    {
	.name = "sandbox_run_shell",
	.title = "Run Shell Command in Sandbox",
	.description =
	    "Run a shell command (bash where the image has it) in an isolated sandbox without "
	    "network, in /mnt/data.\n\nArgs:\n"
	    "command: one command line or a whole script.\n"
	    "session_id: an earlier session, or a name for a new one; leave it out for a new one.\n"
	    "timeout_s: end the run after that many seconds.\n\nReturns:\n" RUN_RESULT,
	.input_schema =
	    OBJ("\"command\":" STR_ ",\"session_id\":" STRNULL ",\"timeout_s\":" INTNULL,
		"\"command\""),
	.annotations = HINTS("Run Shell Command in Sandbox", "false", "false", "false"),
	.call = extras_run_shell,
    },
    {
	.name = "sandbox_read_file",
	.title = "Read Text File in Sandbox",
	.description =
	    "Read a text file of the sandbox, or some of its lines.\n\nArgs:\n"
	    "session_id: the session that has the file.\n"
	    "path: below /mnt/data, absolute or relative to it.\n"
	    "start_line, end_line: the first and last line to read, counted from 1; up to 2000 "
	    "lines without end_line.\n\n"
	    "Returns one line that names the file and the lines, then the text.",
	.input_schema = OBJ("\"session_id\":" STR_ ",\"path\":" STR_ ",\"start_line\":" INTNULL
			    ",\"end_line\":" INTNULL,
			    "\"session_id\",\"path\""),
	.annotations = HINTS("Read Text File in Sandbox", "true", "false", "true"),
	.call = extras_read_file,
    },
    {
	.name = "sandbox_write_file",
	.title = "Write Text File in Sandbox",
	.description =
	    "Write a text file in the sandbox; folders on the way are made.\n\nArgs:\n"
	    "path: below /mnt/data, absolute or relative to it.\n"
	    "content: the whole text.\n"
	    "session_id: an earlier session, or a name for a new one; leave it out for a new one.\n"
	    "overwrite: replace a file that is there (default true).\n\n"
	    "Returns session_id, path, size_bytes and download_url.",
	.input_schema = OBJ("\"path\":" STR_ ",\"content\":" STR_ ",\"session_id\":" STRNULL
			    ",\"overwrite\":" TRUE_,
			    "\"path\",\"content\""),
	.annotations = HINTS("Write Text File in Sandbox", "false", "true", "true"),
	.call = extras_write_file,
    },
    {
	.name = "sandbox_edit_file",
	.title = "Edit Text File in Sandbox",
	.description =
	    "Replace a piece of a text file in the sandbox.\n\nArgs:\n"
	    "session_id: the session that has the file.\n"
	    "path: below /mnt/data, absolute or relative to it.\n"
	    "old_text: what is there, exactly; it must occur once.\n"
	    "new_text: what takes its place.\n"
	    "replace_all: replace every occurrence (default false).\n\n"
	    "Returns session_id, path, size_bytes, download_url and replaced (how often). Fails "
	    "with no_match or ambiguous_match and changes nothing then.",
	.input_schema = OBJ("\"session_id\":" STR_ ",\"path\":" STR_ ",\"old_text\":" STR_
			    ",\"new_text\":" STR_ ",\"replace_all\":" FALSE_,
			    "\"session_id\",\"path\",\"old_text\",\"new_text\""),
	.annotations = HINTS("Edit Text File in Sandbox", "false", "true", "false"),
	.call = extras_edit_file,
    },
    {
	.name = "sandbox_view_image",
	.title = "View Image in Sandbox",
	.description = "Look at a picture (PNG, JPEG, GIF or WebP) that is in the sandbox.\n\n"
		       "Args:\n"
		       "session_id: the session that has the file.\n"
		       "path: below /mnt/data, absolute or relative to it.\n\n"
		       "Returns the picture itself, scaled down when it has more than 1.5 MiB.",
	.input_schema = OBJ("\"session_id\":" STR_ ",\"path\":" STR_, "\"session_id\",\"path\""),
	.annotations = HINTS("View Image in Sandbox", "true", "false", "true"),
	.call = extras_view_image,
    },
    {
	.name = "sandbox_info",
	.title = "Sandbox Information",
	.description =
	    "Tell the state of a sandbox: whether something runs, its age, its limits and which of "
	    "them hold hard, what it uses now, its checkpoints, and what it may reach (network, "
	    "and "
	    "the domains that it was made with).\n\nArgs:\n"
	    "session_id: the session to look at.",
	.input_schema = OBJ("\"session_id\":" STR_, "\"session_id\""),
	.annotations = HINTS("Sandbox Information", "true", "false", "true"),
	.call = get_info,
    },
    {
	.name = "sandbox_delete",
	.title = "Delete Sandbox",
	.description =
	    "End a session at once: what runs in it is killed and all its files are deleted.\n\n"
	    "Args:\n"
	    "session_id: the session to end.\n\n"
	    "Returns session_id and status (deleted).",
	.input_schema = OBJ("\"session_id\":" STR_, "\"session_id\""),
	.annotations = HINTS("Delete Sandbox", "false", "true", "true"),
	.call = delete_sandbox,
    },
};

int tools_add_extras(struct tools *t, struct mcp_server *server, struct err *e)
{
	int r = tools_add_rows(server, rows, ARRAY_SIZE(rows), t, e);

	return r < 0 ? r : extras_add_points(t, server, e);
}
