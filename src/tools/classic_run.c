/* SPDX-License-Identifier: Apache-2.0 */
/* execute_python_code and execute_terminal_command of the second tool family. Runs in one
 * sandbox wait for each other: clients of this family know no busy state. */
#include "tools/classic.h"
#include "tools/signs.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define NOTE_MAX        200
#define SHELL_COMMAND   3 /* where a command stands behind our own words in argv */
#define EXIT_NO_PROGRAM 127
#define EXIT_NO_RIGHT   126

/* The line about how a run ended, for stderr; "" if it ended by itself. */
static void note_of(const struct run_result *result, uint64_t timeout_ns, char ret[NOTE_MAX])
{
	ret[0] = '\0';
	if (result->reason == RUN_TIMEOUT)
		(void)snprintf(ret, NOTE_MAX, "\nExecution timed out after %jus",
			       (uintmax_t)(timeout_ns / NS_PER_S));
	else if (result->reason == RUN_OOM)
		(void)snprintf(ret, NOTE_MAX, "\nThe sandbox ran out of memory");
	else if (result->reason == RUN_OUTPUT_LIMIT)
		(void)snprintf(ret, NOTE_MAX, "\nStopped: it wrote %ju bytes",
			       (uintmax_t)MAX(result->out.total, result->err.total));
	else if (result->reason == RUN_DISK_LIMIT)
		(void)snprintf(ret, NOTE_MAX,
			       "\nStopped: its files are more than the sandbox may hold");
	else if (result->reason == RUN_CANCELLED)
		(void)snprintf(ret, NOTE_MAX, "\nCancelled");
}

/* In the original family code could reach every host, and nothing limited its files and processes.
 * So stderr says what has stopped it here. About the network it says so once in each sandbox. */
static void note_limits(const struct run_call *c, const struct run_result *result,
			char ret[NOTE_MAX])
{
	char text[SIGNS_TAIL + 1];
	char limit[NOTE_MAX - 1];

	signs_tail(&result->err, text);
	bool offline = signs_in(text, SIGN_NO_NETWORK);
	if (result->exit_code != 0 && signs_limit(text, c->sandbox, limit, sizeof(limit))) {
		(void)snprintf(ret, NOTE_MAX, "\n%s", limit);
		return;
	}
	signs_tail(&result->out, text);
	if ((offline || signs_in(text, SIGN_NO_NETWORK)) &&
	    streq(sandbox_network(c->sandbox), "none") && sandbox_first_offline(c->sandbox))
		(void)snprintf(
		    ret, NOTE_MAX,
		    "\nSandboxes have no network here. SANDBOX_NETWORK=open together with "
		    "SANDBOX_NETWORK_OPEN=on permits public hosts.");
}

/* The answers of this file are made of this, maybe on a thread. */
struct answer {
	struct run_answer base;
	char note[NOTE_MAX];            /* for stderr */
	char folder[SANDBOX_PLACE_MAX]; /* "" = is not told */
};

static struct answer *answer_new(struct run_call *c, const struct run_result *result,
				 enum tools_link_kind links)
{
	struct answer *a = run_answer_new(c, result, links, sizeof(*a));

	if (!a)
		return NULL;
	note_of(result, sandbox_run_timeout_ns(c->sandbox), a->note);
	if (!a->note[0])
		note_limits(c, result, a->note);
	return a;
}

static json_t *streams(const struct answer *a)
{
	const struct run_result *result = a->base.result;
	bool cut;

	return json_pack("{s:o, s:o, s:i}", "stdout",
			 tools_json_output(&result->out, SIZE_MAX, NULL, "", &cut), "stderr",
			 tools_json_output(&result->err, SIZE_MAX, NULL, a->note, &cut),
			 "exit_code", result->exit_code);
}

/* ---- execute_python_code ---- */

static int add_file(const struct answer *a, const char *name, json_t *files, json_t *links)
{
	char path[sizeof(CLASSIC_FOLDER) + 256];

	if (name[0] == '.')
		return 0;
	(void)snprintf(path, sizeof(path), CLASSIC_FOLDER "/%s", name);
	int r = json_array_append_new(files, tools_json_bytes(path, strlen(path)));
	return r < 0 ? r : json_array_append_new(links, classic_link(&a->base.links, name));
}

/* Adds new and changed files and folders, sorted together by name. */
static int add_files(const struct answer *a, json_t *files, json_t *links)
{
	const struct run_result *result = a->base.result;
	size_t i = 0;
	size_t j = 0;

	while (i < result->n_shallow || j < result->n_folders) {
		bool file = j == result->n_folders ||
			    (i < result->n_shallow &&
			     strcmp(result->artifacts[i].name, result->folders[j].name) < 0);
		const char *name = file ? result->artifacts[i++].name : result->folders[j++].name;
		if (add_file(a, name, files, links) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Shape (c). */
static void execute_failed(struct mcp_call *call, const char *text)
{
	classic_finish(call, json_pack("{s:s, s:s, s:s, s:i, s:[], s:[]}", "error", text, "stdout",
				       "", "stderr", text, "exit_code", 1, "files", "file_links"));
}

static json_t *make_execute(void *user)
{
	const struct answer *a = user;
	json_t *object = streams(a);
	json_t *files = json_array();
	json_t *links = json_array();

	if (!object || add_files(a, files, links) < 0) {
		json_decref(object);
		object = NULL;
	}
	/* Each call takes its reference, even when it fails, so none may be skipped. */
	const int set_files = json_object_set_new(object, "files", files);
	const int set_links = json_object_set_new(object, "file_links", links);
	if (set_files < 0 || set_links < 0) {
		json_decref(object);
		object = NULL;
	}
	return classic_result_of(object);
}

static void execute_end(struct run_call *c, const struct run_result *result, const struct err *e)
{
	if (e && classic_is_denied(e)) {
		classic_finish_denied(c->call);
		return;
	}
	if (e) {
		execute_failed(c->call, e->text);
		return;
	}
	struct answer *a = answer_new(c, result, TOOLS_LINKS_CLASSIC);
	if (a)
		run_answer_send(c->call, &a->base, make_execute);
}

/* The id if the manager can take it, otherwise NULL: such an id belongs to nobody. */
static const char *id_of(const struct mcp_call *call, const json_t *arguments)
{
	const char *id = classic_arg(call, arguments, "sandbox_id");

	return id && strlen(id) <= SANDBOX_ID_MAX && *id ? id : NULL;
}

static struct run_call *prepare(struct tools *t, struct mcp_call *call, const char *id,
				const struct mcp_text_ref *text)
{
	struct run_call *c = run_call_new(t, call, id, text);

	if (c) {
		c->known = true;
		c->request.queued = true;
		c->request.cwd = CLASSIC_FOLDER;
	}
	return c;
}

void classic_execute(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;

	const char *id = id_of(call, arguments);
	if (!id) {
		classic_finish_denied(call);
		return;
	}
	struct mcp_text_ref code = tools_text_arg(call, arguments, "code");
	if (code.len > t->config.max_classic_code) {
		char text[NOTE_MAX];
		(void)snprintf(text, sizeof(text), "Code is %zu bytes, exceeds %ju byte limit.",
			       code.len, (uintmax_t)t->config.max_classic_code);
		execute_failed(call, text);
		return;
	}
	struct run_call *c = prepare(t, call, id, &code);
	if (!c)
		return;
	c->request.kind = ENGINE_RUN_PYTHON;
	c->request.display = t->config.save_figures;
	c->request.code = c->text;
	c->request.code_len = c->text_len;
	c->finish = execute_end;
	run_call_start(c);
}

/* ---- execute_terminal_command ---- */

/* Shape (d) of a command that did not run. */
static void terminal_failed(struct mcp_call *call, const char *text, int exit_code)
{
	classic_finish(call, json_pack("{s:s, s:s, s:i}", "stdout", "", "stderr", text, "exit_code",
				       exit_code));
}

/* The exit code that a shell gives if it cannot start a program. */
static int code_of(const struct err *e)
{
	return e->errnum == ENOENT ? EXIT_NO_PROGRAM : e->errnum == EACCES ? EXIT_NO_RIGHT : -1;
}

static json_t *make_terminal(void *user)
{
	const struct answer *a = user;
	json_t *object = streams(a);

	if (object && a->folder[0] &&
	    json_object_set_new(object, "cwd", json_string(a->folder)) < 0) {
		json_decref(object);
		object = NULL;
	}
	return classic_result_of(object);
}

static void terminal_end(struct run_call *c, const struct run_result *result, const struct err *e)
{
	struct answer *a = e ? NULL : answer_new(c, result, TOOLS_LINKS_NONE);

	if (e)
		terminal_failed(c->call, classic_is_denied(e) ? CLASSIC_DENIED : e->text,
				code_of(e));
	else if (a)
		run_answer_send(c->call, &a->base, make_terminal);
}

/* The same in the profile `full`. If a command reports no folder, or an invalid one, the folder
 * stays as it was. */
static void terminal_end_kept(struct run_call *c, const struct run_result *result,
			      const struct err *e)
{
	char place[SANDBOX_PLACE_MAX];

	if (e) {
		terminal_end(c, result, e);
		return;
	}
	/* Without memory the folder stays as it was, and the answer shows that. */
	if (sandbox_read_place(result->value.data, result->value.len, place))
		(void)!sandbox_set_place(c->sandbox, streq(place, CLASSIC_FOLDER) ? NULL : place);
	const char *now = sandbox_place(c->sandbox);
	struct answer *a = answer_new(c, result, TOOLS_LINKS_NONE);
	if (!a)
		return;
	(void)snprintf(a->folder, sizeof(a->folder), "%s", now ? now : CLASSIC_FOLDER);
	run_answer_send(c->call, &a->base, make_terminal);
}

/* Chooses what to run for the command in C->text. Returns why nothing can be run, or NULL.
 * Models write bash, but small images have only sh. */
static const char *choose(struct run_call *c)
{
	static const char shell[] = "if command -v bash >/dev/null 2>&1; then exec bash -c \"$0\"; "
				    "else exec sh -c \"$0\"; fi";
	const char *why = "no memory";

	if (strlen(c->text) != c->text_len)
		return "The command holds a NUL byte";
	if (classic_split(c->text, &c->words, &why) < 0)
		return why;
	if (!c->words[0])
		return "The command is empty";
	c->request.kind = ENGINE_RUN_ARGV;
	c->request.argv = (const char *const *)c->words;
	if (classic_needs_shell(c->text)) {
		const char *const argv[] = {"sh", "-c", shell, c->text, NULL};
		memcpy(c->argv, argv, sizeof(argv));
		c->request.argv = c->argv;
		c->request.asked = SHELL_COMMAND;
	}
	return NULL;
}

/* Lets the command begin in the folder where the last one ended, and report over descriptor 3
 * where it ends. Both happen inside the sandbox: only there can it be seen that a folder is
 * gone, and a false report affects only the sandbox itself. A command that needs no shell cannot
 * change its folder. */
static void choose_kept(struct run_call *c)
{
	static const char shell[] =
	    "cd -- \"$1\" 2>/dev/null || printf '[%s is gone: this ran in %s]\\n' \"$1\" \"$PWD\" "
	    ">&2; "
	    "if command -v bash >/dev/null 2>&1; then set -- bash; else set -- sh; fi; "
	    "exec \"$1\" -c 'trap \"{ pwd -P >&3; } 2>/dev/null\" EXIT; "
	    "__command=$1; shift; eval \"$__command\"' \"$1\" \"$0\"";

	const char *place = sandbox_place(c->sandbox); /* the run makes a copy */

	if (!place && !classic_needs_shell(c->text))
		return;
	const char *const argv[] = {"sh", "-c", shell, c->text, place ? place : CLASSIC_FOLDER,
				    NULL};
	memcpy(c->argv, argv, sizeof(argv));
	c->request.argv = c->argv;
	c->request.asked = SHELL_COMMAND;
	c->request.asked_cwd = argv[4];
	c->request.report = true;
}

static void terminal(struct mcp_call *call, json_t *arguments, struct tools *t, bool keep)
{
	const char *id = id_of(call, arguments);
	struct mcp_text_ref command = tools_text_arg(call, arguments, "command");
	if (!id || command.len > t->config.max_code_bytes) {
		terminal_failed(call, id ? "The command is too long" : CLASSIC_DENIED, -1);
		return;
	}
	struct run_call *c = prepare(t, call, id, &command);
	if (!c)
		return;
	const char *why = choose(c);
	if (why) {
		run_call_free(c);
		terminal_failed(call, why, -1);
		return;
	}
	c->prepare = keep ? choose_kept : NULL;
	c->finish = keep ? terminal_end_kept : terminal_end;
	run_call_start(c);
}

void classic_terminal(struct mcp_call *call, json_t *arguments, void *user)
{
	terminal(call, arguments, user, false);
}

void classic_terminal_kept(struct mcp_call *call, json_t *arguments, void *user)
{
	terminal(call, arguments, user, true);
}
