/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rest/run_request.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>

static void add_command(struct run_request *q, const char *command, struct run_words *w)
{
	const char *const argv[] = {"sh", "-c", command, NULL};

	q->kind = ENGINE_RUN_ARGV;
	q->code = NULL;
	q->code_len = 0;
	memcpy(w->argv, argv, sizeof(argv));
	q->argv = w->argv;
}

/* A command that begins in a chosen folder says over descriptor 3 where it ends. The caller can give that folder to
 * the next one, without words of his own in the command, in its output and in the history. */
static void add_folder(struct run_request *q, const struct sandbox *s, const char *cwd,
		       struct run_words *w)
{
	static const char tell[] = "trap '{ pwd -P >&3; } 2>/dev/null' EXIT; "
				   "__command=$1; shift; eval \"$__command\"";
	const char *const argv[] = {"sh", "-c", tell, "sh", w->argv[2], NULL};
	const char *own = sandbox_workdir(s);

	memcpy(w->argv, argv, sizeof(argv));
	(void)snprintf(w->place, sizeof(w->place), "%s%s", cwd[0] == '/' ? "" : WORKSPACE "/", cwd);
	q->asked = 4;
	q->asked_cwd = w->place;
	/* The sandbox's own folder is made if it is missing. */
	q->cwd = own && streq(own, w->place) ? NULL : w->place;
	q->report = true;
}

void run_request_fill(struct rest_call *c, const char *text, struct run_request *q,
		      struct run_words *w)
{
	const char *command = rest_text(c, "command", NULL);
	const char *cwd = rest_text(c, "cwd", NULL), *input = rest_text(c, "stdin", "");
	const bool keeps =
	    rest_bool(c, "stateful") || rest_bool(c, "restart") || rest_has(c, "context");
	*q = (struct run_request){
	    .context = rest_text(c, "context", NULL),
	    .kind = keeps ? ENGINE_RUN_STATEFUL : ENGINE_RUN_PYTHON,
	    .restarts = rest_bool(c, "restart"),
	    .beside = rest_bool(c, "parallel"),
	    .code = text,
	    .code_len = strlen(text),
	    .input = input,
	    .input_len = strlen(input),
	    .timeout_ns = (uint64_t)rest_int(c, "timeout_s", 0) * NS_PER_S,
	    .queued = sandbox_is_stored(c->sandbox),
	    .display = c->api->config.save_figures,
	    .whole_over = SIZE_MAX,
	    .notebook = true,
	    .asked_how = rest_is_page(c) ? "page" : "rest",
	    .asked_by = c->who->name,
	};
	q->root = streq(rest_text(c, "user", ""), "root");
	(void)!language_read(rest_text(c, "language", "python"), &q->language);
	if (command)
		add_command(q, text, w);
	if (cwd)
		add_folder(q, c->sandbox, cwd, w);
}

bool run_request_check(struct rest_call *c)
{
	const char *code = rest_text(c, "code", ""), *input = rest_text(c, "stdin", "");
	const uint64_t max = c->api->config.max_code_bytes;

	if (rest_has(c, "code") == rest_has(c, "command"))
		rest_refuse(c, ERR_INVALID_ARGUMENT, "give code or command, one of them");
	else if (rest_has(c, "context") && rest_has(c, "command"))
		rest_refuse(c, ERR_INVALID_ARGUMENT, "context goes with code");
	else if (rest_has(c, "language") && rest_has(c, "command"))
		rest_refuse(c, ERR_INVALID_ARGUMENT, "language goes with code");
	else if (rest_has(c, "user") && !rest_has(c, "command"))
		rest_refuse(c, ERR_INVALID_ARGUMENT, "user goes with command");
	else if (rest_has(c, "cwd") && !rest_has(c, "command"))
		rest_refuse(c, ERR_INVALID_ARGUMENT,
			    "cwd goes with command; Python code calls os.chdir()");
	else if (strlen(code) > max)
		rest_refuse(c, ERR_CODE_TOO_LARGE, "Code is %zu bytes, exceeds %ju byte limit.",
			    strlen(code), (uintmax_t)max);
	else if (strlen(input) > max)
		rest_refuse(c, ERR_STDIN_TOO_LARGE, "stdin is %zu bytes, the limit is %ju.",
			    strlen(input), (uintmax_t)max);
	else
		return true;
	return false;
}
