/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_process: background processes of a sandbox (sandbox/process.h), one tool with a word for what to do
 * (docs/decisions/0035-background-processes.md). */
#include "tools/extras_process.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

void process_call_free(struct process_call *c)
{
	sandbox_options_done(&c->env);
	free(c->command);
	(void)process_unref(c->process);
	tool_call_free(&c->base);
}

/* ---- errors ---- */

static void answer_failure(void *user)
{
	static const struct {
		enum err_code code;
		const char *hint;
	} hints[] = {
	    {ERR_SERVER_BUSY, "It does not read what it was given before: look at its output."},
	    {ERR_QUOTA_EXCEEDED, "End processes with action remove; action list shows all."},
	    {ERR_SESSION_BUSY, "Try again when the checkpoint is done."},
	};
	struct process_call *c = user;

	const char *hint = NULL;

	if (c->error.code == ERR_INVALID_ARGUMENT)
		hint = c->action->hint;
	for (size_t i = 0; i < ARRAY_SIZE(hints) && c->base.sandbox; i++)
		if (hints[i].code == c->error.code)
			hint = hints[i].hint;
	if (hint)
		extras_fail(c->base.call, err_code_name(c->error.code), hint, "%s", c->error.text);
	else
		extras_fail_open(c->base.tools, c->base.call, &c->error);
	process_call_free(c);
}

/* A session that was made for nothing is ended before the answer, so that nobody sees it. */
static void fail(struct process_call *c, const struct err *e)
{
	c->error = *e;
	if (c->made && c->base.sandbox)
		sandbox_undo(c->base.sandbox, answer_failure, c);
	else
		answer_failure(c);
}

static void refuse(struct mcp_call *call, const char *hint, const char *text)
{
	extras_fail(call, "invalid_argument", hint, "%s", text);
}

/* ---- waits ---- */

static void on_waited(struct process *p UNUSED, void *user)
{
	struct process_call *c = user;

	c->wait = NULL;
	mcp_call_on_cancel(c->base.call, NULL, NULL);
	process_call_answer(c);
}

/* Whoever asked has left: only the wait ends. */
static void on_cancel(struct mcp_call *call UNUSED, void *user)
{
	struct process_call *c = user;

	process_wait_cancel(TAKE_PTR(c->wait));
	process_call_answer_now(c);
}

/* Answers, after a wait for what the action is about. */
static void wait_and_answer(struct process_call *c)
{
	struct process_facts f;
	struct err e = ERR_INIT;

	process_look(c->process, &f);
	const struct process_wait_request q = {
	    .owner = mcp_call_principal(c->base.call),
	    .timeout_ns = c->wait_ns,
	    .output = c->action->waits_output,
	    .from = {c->follows ? c->since[0] : f.total[0], c->follows ? c->since[1] : f.total[1]},
	    .fn = on_waited,
	    .user = c,
	};
	/* Where too many wait already, the answer comes at once. */
	if (process_wait(c->process, &q, &c->wait, &e) < 0 || !c->wait) {
		process_call_answer(c);
		return;
	}
	mcp_call_on_cancel(c->base.call, on_cancel, c);
}

/* ---- the actions ---- */

static int start(struct process_call *c, const json_t *arguments, struct err *e)
{
	const char *argv[EXTRAS_SHELL_ARGV];
	int64_t timeout_s = 0;
	struct process *p;

	extras_shell_argv(c->command, argv);
	(void)args_int(arguments, "timeout_s", &timeout_s);
	const struct process_request q = {
	    .command = c->command,
	    .name = mcp_text_arg(c->base.call, arguments, "name"),
	    .argv = argv,
	    .cwd = mcp_text_arg(c->base.call, arguments, "cwd"),
	    .env = (const char *const *)c->env.env.list,
	    .root = args_is(arguments, "user", "root"),
	    .input = args_bool(arguments, "input", false),
	    .timeout_ns = (uint64_t)timeout_s * NS_PER_S,
	    .credential = mcp_call_principal_data(c->base.call),
	};
	const int r = sandbox_start_process(c->base.sandbox, &q, &p, e);
	if (r == 0)
		c->process = process_ref(p);
	return r;
}

static int look(struct process_call *c UNUSED, const json_t *arguments UNUSED, struct err *e UNUSED)
{
	return 0;
}

static int give_input(struct process_call *c, const json_t *arguments, struct err *e)
{
	const struct mcp_text_ref ref = tools_text_arg(c->base.call, arguments, "text");

	if (!ref.text && ref.fd < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "input needs text");
	if (ref.len > PROCESS_INPUT_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "text is %zu bytes, and a process takes at most %u at once", ref.len,
			       PROCESS_INPUT_MAX);
	_cleanup_free_ char *text = tools_text_take(&ref);
	if (!text)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "input of a process");
	(void)snprintf(c->text, sizeof(c->text), "it was given %zu bytes", ref.len);
	if (!c->follows) { /* what it answers, not what it has printed before */
		struct process_facts f;

		process_look(c->process, &f);
		memcpy(c->since, f.total, sizeof(c->since));
		c->follows = true;
	}
	return process_write(c->process, text, ref.len, false, e);
}

static int close_input(struct process_call *c, const json_t *arguments UNUSED, struct err *e)
{
	(void)snprintf(c->text, sizeof(c->text), "its input is closed");
	return process_write(c->process, NULL, 0, true, e);
}

static int send_signal(struct process_call *c, const json_t *arguments, struct err *e)
{
	const bool given = json_is_string(json_object_get(arguments, "signal"));
	const char *name = mcp_text_arg(c->base.call, arguments, "signal");

	if (!given)
		name = "TERM";
	if (name && text_starts_with(name, "SIG"))
		name += strlen("SIG");
	const int number = name ? process_signal_number(name) : 0;
	if (number == 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "signal must be one of %s",
			       PROCESS_SIGNALS);
	(void)snprintf(c->text, sizeof(c->text), "%s was sent", name);
	return process_signal(c->process, number, e);
}

static int remove_it(struct process_call *c, const json_t *arguments UNUSED, struct err *e UNUSED)
{
	process_forget(c->process);
	(void)snprintf(c->text, sizeof(c->text), "it is removed");
	return 0;
}

#define INPUT_HINT                                                                                 \
	"Only a process that lives, was started with input true and whose input is open takes "    \
	"any; action output tells its state."
static const struct process_action actions[] = {
    {"start", "process.start", 1, true, false, start, "Correct the argument, and start it again."},
    {"list", NULL, 0, false, false, NULL, NULL},
    {"output", NULL, 0, false, true, look, NULL},
    {"wait", NULL, 30, false, false, look, NULL},
    {"input", "process.input", 1, false, true, give_input, INPUT_HINT},
    {"close_input", "process.input", 1, false, false, close_input, INPUT_HINT},
    {"signal", "process.signal", 1, false, false, send_signal,
     "Give one of them. Without signal it is TERM."},
    {"remove", "process.remove", 1, false, false, remove_it, NULL},
};

static void audit(const struct process_call *c, const struct err *e)
{
	const struct tools_config *config = &c->base.tools->config;
	char object[SANDBOX_ID_MAX + PROCESS_ID_SIZE + 1];
	struct process_facts f = {.id = ""};

	if (!c->action->audit || !config->audit)
		return;
	if (c->process)
		process_look(c->process, &f);
	(void)snprintf(object, sizeof(object), "%s%s%s", sandbox_id(c->base.sandbox),
		       f.id[0] ? " " : "", f.id);
	config->audit(mcp_call_principal(c->base.call), c->action->audit, object,
		      e->code == ERR_NONE ? "ok" : err_code_name(e->code), config->audit_user);
}

static void act(struct process_call *c)
{
	struct err e = ERR_INIT;
	const int r = c->action->act(c, c->arguments, &e);

	audit(c, &e);
	if (r < 0)
		fail(c, &e);
	else
		wait_and_answer(c);
}

/* ---- the call ---- */

static void on_session(struct sandbox *s, const struct err *e, void *user)
{
	struct process_call *c = user;
	struct err error = ERR_INIT;

	if (e) {
		fail(c, e);
		return;
	}
	c->made = !sandbox_is_stored(s);
	c->base.sandbox = sandbox_ref(s);
	if (mcp_call_is_cancelled(c->base.call)) {
		(void)err_set(&error, ERR_CANCELLED, 0, "cancelled");
		fail(c, &error);
		return;
	}
	act(c);
}

/* "12:0": positions in stdout and stderr. */
static bool take_since(struct process_call *c, const json_t *arguments)
{
	const char *text = mcp_text_arg(c->base.call, arguments, "since");
	const char *colon = text ? strchr(text, ':') : NULL;

	if (!json_is_string(json_object_get(arguments, "since")))
		return true;
	c->follows = true;
	if (colon && parse_u64_n(text, (size_t)(colon - text), 0, INT64_MAX, &c->since[0]) == 0 &&
	    parse_u64_n(colon + 1, strlen(colon + 1), 0, INT64_MAX, &c->since[1]) == 0)
		return true;
	refuse(c->base.call, "Give the next of an earlier answer, such as \"12:0\".",
	       "since is no position");
	return false;
}

/* The text arguments of a start. */
static bool take_start(struct process_call *c, const json_t *arguments)
{
	const uint64_t max = MIN(c->base.tools->config.max_code_bytes, (uint64_t)EXTRAS_SHELL_MAX);
	struct mcp_call *call = c->base.call;
	const struct mcp_text_ref command = tools_text_arg(call, arguments, "command");
	static const char *const texts[] = {"name", "cwd"};
	json_auto_t *given = json_pack("{s:O*}", "env", json_object_get(arguments, "env"));
	struct err e = ERR_INIT;

	if (command.len == 0) {
		refuse(call, "Give the shell command that shall run.", "start needs command");
		return false;
	}
	if (command.len > max) {
		extras_fail(call, err_code_name(ERR_CODE_TOO_LARGE),
			    "Write it to a file with sandbox_write_file and start that.",
			    "command is %zu bytes, the limit is %ju.", command.len, (uintmax_t)max);
		return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *text = mcp_text_arg(call, arguments, texts[i]);

		if (!json_is_string(json_object_get(arguments, texts[i])))
			continue;
		if (!text || !*text || strlen(text) >= SANDBOX_PLACE_MAX ||
		    (i == 0 && strlen(text) > PROCESS_NAME_MAX)) {
			extras_fail(call, "invalid_argument", "Give a short text, or leave it out.",
				    "%s cannot be used", texts[i]);
			return false;
		}
	}
	int r = extras_check_pairs(call, arguments, "env", &e);
	r = r < 0 ? r : sandbox_options_read(given, false, &c->env, &e);
	if (r < 0) {
		extras_fail(call, err_code_name(e.code),
			    "Give env as an object of short texts: {\"NAME\": \"value\"}.", "%s",
			    e.text);
		return false;
	}
	c->command = tools_text_take(&command);
	if (c->command && strlen(c->command) == command.len)
		return true;
	refuse(call, "Write it in another way.", "command holds a NUL byte");
	return false;
}

/* False: the call is finished. */
static bool take_arguments(struct process_call *c, const json_t *arguments)
{
	int64_t wait_s = c->action->wait_s;

	(void)args_int(arguments, "wait_s", &wait_s);
	c->wait_ns = (uint64_t)wait_s * NS_PER_S;
	if (!take_since(c, arguments))
		return false;
	return !c->action->makes || (extras_session_id(c->base.call, arguments, true, c->id) &&
				     take_start(c, arguments));
}

/* The process that the call is about. False: the call is finished. */
static bool find_process(struct process_call *c, const json_t *arguments)
{
	const char *id = mcp_text_arg(c->base.call, arguments, "process_id");
	struct err ignored = ERR_INIT;

	if (!id || strlen(id) >= PROCESS_ID_SIZE)
		id = json_is_string(json_object_get(arguments, "process_id")) ? "of this name" : "";
	if (!*id) {
		extras_fail(c->base.call, "invalid_argument",
			    "Give the process_id of start's answer; action list shows all.",
			    "%s needs process_id", c->action->name);
		return false;
	}
	struct process *p = sandbox_find_process(c->base.sandbox, id, &ignored);
	if (p)
		c->process = process_ref(p);
	else
		process_call_fail_unknown(c, id);
	return p;
}

static const struct process_action *find_action(struct mcp_call *call, const json_t *arguments)
{
	const char *name = mcp_text_arg(call, arguments, "action");

	for (size_t i = 0; name && i < ARRAY_SIZE(actions); i++)
		if (streq(actions[i].name, name))
			return &actions[i];
	refuse(call, "Give one of " EXTRAS_PROCESS_ACTIONS ".", "There is no such action");
	return NULL;
}

void extras_process(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	const struct process_action *action = find_action(call, arguments);
	struct sandbox *s = NULL;

	if (!action || (!action->makes && !(s = extras_session(t, call, arguments))))
		return;
	struct process_call *c = tool_call_new(t, call, s, sizeof(*c));
	if (!c)
		return;
	c->action = action;
	c->arguments = arguments;
	if (!take_arguments(c, arguments)) {
		process_call_free(c);
		return;
	}
	if (action->makes) {
		s = c->id[0] ? manager_find(t->config.manager, mcp_call_principal(call), c->id)
			     : NULL;
		if (!s) {
			manager_open(t->config.manager, mcp_call_principal(call),
				     c->id[0] ? c->id : NULL, on_session, c);
			return;
		}
		c->base.sandbox = sandbox_ref(s);
		act(c);
	} else if (!action->act) {
		process_call_list(c);
	} else if (find_process(c, arguments)) {
		act(c);
	} else {
		process_call_free(c);
	}
}
