/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson exec -d` and `caisson kill`: background processes in a sandbox of a running server. */
#include "app/read_settings.h"
#include "cmd/cmd.h"
#include "cmd/server_client.h"

#include "base/buf.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES  256u
#define COMMAND_MAX (1u << 20) /* bytes */
#define PROCESS_MAX 15u        /* bytes of a process's id */

static int check_sandbox(const char *id, struct err *e)
{
	return parse_is_session_id(id, strlen(id))
		   ? 0
		   : err_set(e, ERR_USAGE, 0, "'%s' is no id of a sandbox", id);
}

static int start(const struct settings *s, const char *sandbox, const char *name, const char *user,
		 char **words, bool json, struct err *e)
{
	_cleanup_(buf_done) struct buf command = BUF_INIT(COMMAND_MAX);
	char path[PATH_BYTES];
	json_t *said = NULL;
	int r = check_sandbox(sandbox, e);

	if (r < 0)
		return r;
	for (; *words && r == 0; words++)
		r = buf_add_shell_word(&command, *words);
	if (r < 0)
		return err_set(e, ERR_USAGE, -r, "the command is too long");
	json_auto_t *body = json_pack("{s:s, s:s*, s:s*}", "command", buf_str(&command), "name",
				      name, "user", user);
	if (!body)
		return err_set(e, ERR_USAGE, 0, "the command is not valid UTF-8");
	(void)snprintf(path, sizeof(path), "/api/v1/sandboxes/%s/processes", sandbox);
	r = server_ask(s, "POST", path, body, &said, e);
	if (r < 0)
		return r;
	if (json)
		r = server_print_json(said);
	else
		server_print_line(json_string_value(json_object_get(said, "id")));
	json_decref(said);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "standard output") : 0;
}

int cmd_exec(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {0};
	const char *sandbox = NULL, *name = NULL, *user = NULL;
	bool detached = false, json = false;
	struct err e = ERR_INIT;
	int i;

	if (read_settings(&settings, true, &argc, argv, &e) < 0)
		return cmd_fail("exec", &e);
	for (i = 1; i < argc && !streq(argv[i], "--"); i++) {
		if (streq(argv[i], "-d"))
			detached = true;
		else if (streq(argv[i], "--json"))
			json = true;
		else if (streq(argv[i], "--name") && i + 1 < argc)
			name = argv[++i];
		else if (streq(argv[i], "--user") && i + 1 < argc)
			user = argv[++i];
		else if (argv[i][0] != '-' && !sandbox)
			sandbox = argv[i];
		else
			return cmd_unknown("exec", argv[i], &e) < 0 ? cmd_fail("exec", &e) : 0;
	}
	if (!sandbox)
		return cmd_usage("exec", "the id of a sandbox is missing");
	if (i + 1 >= argc)
		return cmd_usage("exec", "the command is missing; it comes after --");
	if (!detached)
		return cmd_usage("exec", "give -d: it starts background processes alone");
	return start(&settings, sandbox, name, user, argv + i + 1, json, &e) < 0
		   ? cmd_fail("exec", &e)
		   : 0;
}

static int send_signal(const struct settings *s, const char *sandbox, const char *process,
		       const char *name, struct err *e)
{
	const size_t len = strlen(process);
	char path[PATH_BYTES];
	json_t *said = NULL;
	int r = check_sandbox(sandbox, e);

	if (r < 0)
		return r;
	if (len > PROCESS_MAX || !parse_is_session_id(process, len))
		return err_set(e, ERR_USAGE, 0, "'%s' is no id of a process", process);
	json_auto_t *body = json_pack("{s:s}", "signal",
				      text_starts_with(name, "SIG") ? name + strlen("SIG") : name);
	if (!body)
		return err_set(e, ERR_USAGE, 0, "the signal is not valid UTF-8");
	(void)snprintf(path, sizeof(path), "/api/v1/sandboxes/%s/processes/%s/signal", sandbox,
		       process);
	r = server_ask(s, "POST", path, body, &said, e);
	json_decref(said);
	return r;
}

int cmd_kill(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {0};
	const char *words[2] = {NULL, NULL}, *name = "TERM";
	struct err e = ERR_INIT;
	size_t n = 0;

	if (read_settings(&settings, true, &argc, argv, &e) < 0)
		return cmd_fail("kill", &e);
	for (int i = 1; i < argc; i++) {
		if (streq(argv[i], "-s") && i + 1 < argc)
			name = argv[++i];
		else if (argv[i][0] != '-' && n < ARRAY_SIZE(words))
			words[n++] = argv[i];
		else
			return cmd_unknown("kill", argv[i], &e) < 0 ? cmd_fail("kill", &e) : 0;
	}
	if (n < ARRAY_SIZE(words))
		return cmd_usage("kill", "give the ids of a sandbox and of a process");
	return send_signal(&settings, words[0], words[1], name, &e) < 0 ? cmd_fail("kill", &e) : 0;
}
