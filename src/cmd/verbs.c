/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/verbs.h"

#include "cmd/cmd.h"

#include "base/suggest.h"
#include "base/text.h"
#include "config/settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 64

static const struct verb_option stdio_options[] = {
    {"--no-bridge", NULL, "do not share a running server"},
    {0},
};

static const struct verb_option run_options[] = {
    {"-c", "CODE", "run this code instead of a file"},
    {"--language", "NAME", "python, javascript or typescript; else the end of FILE's name says it"},
    {"-i", NULL, "a Python prompt, after FILE if there is one"},
    {"--no-history", NULL, "neither read nor keep what is typed at the prompt"},
    {"--in", "PATH", "copy a file or folder into /mnt/data first; may be repeated"},
    {"--out", "DIR", "save the files that the run makes in DIR"},
    {"--with", "PACKAGE", "install a package first (httpx, 'httpx<1'); may be repeated"},
    {"--env", "NAME[=VALUE]", "set a variable, or pass yours on; may be repeated"},
    {"--memory", "SIZE", "the memory that it may use (512m, 2g)"},
    {"--cpus", "N", "the cores that it may use (0.5, 4)"},
    {"--timeout", "SECONDS", "end the run after this time"},
    {"--network", "POLICY", "none, packages, allowlist or open"},
    {0},
};

static const struct verb_option ps_options[] = {
    {"--health", NULL, "only ask whether the server can make sandboxes: status 0 if so, else 1"},
    {"--json", NULL, "print JSON"},
    {0},
};

static const struct verb_option exec_options[] = {
    {"-d", NULL, "in the background, beside runs"},
    {"--name", "NAME", "what people call it"},
    {"--user", "USER", "user, or root in a sandbox that was made with a root user"},
    {"--json", NULL, "print JSON"},
    {0},
};

static const struct verb_option shell_options[] = {
    {"--name", "NAME", "what people call it"},
    {"--user", "USER", "user, or root in a sandbox that was made with a root user"},
    {0},
};

static const struct verb_option kill_options[] = {
    {"-s", "SIGNAL", "HUP, INT, QUIT, KILL, TERM, USR1, USR2, CONT or STOP; without it TERM"},
    {0},
};

static const struct verb_option doctor_options[] = {
    {"--json", NULL, "print JSON"},
    {0},
};

static const struct verb_option config_options[] = {
    {"--markdown", NULL, "print the page of all settings"},
    {0},
};

static const struct verb_option connect_options[] = {
    {"--yes", NULL, "write without a question"},
    {"--dry-run", NULL, "only show the change"},
    {"--undo", NULL, "take the entry out again, or put back what it replaced"},
    {"--url", "URL", "connect to this server instead of starting one"},
    {"--key-from-env", "NAME", "the variable that has the key of that server"},
    {"--name", "NAME", "what the client calls the server (caisson)"},
    {"--replace", NULL, "with --yes: also where another server has the name"},
    {0},
};

static const struct verb_option upgrade_options[] = {
    {"--check", NULL, "say whether a newer release is there; changes nothing"},
    {"--json", NULL, "print JSON"},
    {0},
};

static const struct verb_option help_options[] = {
    {"--man", NULL, "print the manual page, for man(1)"},
    {0},
};

const struct verb verbs[] = {
    {"stdio", cmd_stdio, "serve one MCP client on standard input and output", "[--no-bridge]", NULL,
     stdio_options, .heavy = true, .talks = true},
    {"serve", cmd_serve, "serve MCP, links and the page over HTTP", "[--listen HOST:PORT]",
     .heavy = true, .talks = true},
    {"run", cmd_run,
     "run a file of Python, JavaScript or TypeScript, code, a command or a prompt in a new sandbox",
     "[OPTION...] FILE [ARGUMENT...]\n[OPTION...] -c CODE [ARGUMENT...]\n"
     "[OPTION...] -- COMMAND [ARGUMENT...]\n[OPTION...] -i [FILE]",
     NULL, run_options, .heavy = true, .talks = true},
    {"ps", cmd_ps, "list the sandboxes of a running server, or the background processes of one",
     "[--health | --json] [SANDBOX]", NULL, ps_options},
    {"exec", cmd_exec, "start a background process in a sandbox of a running server",
     "-d [--name NAME] [--user USER] [--json] SANDBOX -- COMMAND [ARGUMENT...]", NULL,
     exec_options},
    {"kill", cmd_kill, "send a signal to a background process", "[-s SIGNAL] SANDBOX PROCESS", NULL,
     kill_options},
    {"shell", cmd_shell, "open a terminal in a sandbox of a running server, or come back to one",
     "[--name NAME] [--user USER] SANDBOX [-- COMMAND [ARGUMENT...]]\nSANDBOX TERMINAL", NULL,
     shell_options},
    {"image", cmd_image, "build, list, pull, import, export and remove images", NULL,
     cmd_image_command, .heavy = true},
    {"user", cmd_user, "add, list and remove users, set passwords, roles and limits", NULL,
     cmd_user_command},
    {"key", cmd_key, "make, list and revoke API keys of users", NULL, cmd_key_command},
    {"backup", cmd_backup, "write the state folder into one file, while a server runs or not",
     "FILE"},
    {"restore", cmd_restore, "unpack a backup into a new state folder", "FILE"},
    {"move-users", cmd_move_users,
     "copy users, keys and audit log into the empty PostgreSQL database of SANDBOX_DATABASE", ""},
    {"connect", cmd_connect, "write the configuration of MCP clients on this machine, after asking",
     "[OPTION...] [CLIENT... | all]", NULL, connect_options},
    {"doctor", cmd_doctor, "check what this machine can enforce, and what is missing", "[--json]",
     NULL, doctor_options},
    {"config", cmd_config, "print the settings in force and where each came from", "[--markdown]",
     NULL, config_options},
    {"upgrade", cmd_upgrade, "ask whether there is a newer release", "--check [--json]", NULL,
     upgrade_options},
    {"completion", cmd_completion, "print completions for a shell", "bash|zsh|fish"},
    {"version", cmd_version, "print the version", ""},
    {"help", cmd_help, "print this help, or that of a verb", "[--man | VERB]", NULL, help_options},
    {"monitor", cmd_monitor, NULL, .talks = true},
    {"keeper", cmd_keeper, NULL, .talks = true},
    {0},
};

static const char settings_note[] =
    "\nEvery setting is an option too (--memory-limit 1g, --profile code); "
    "'caisson config' lists them.\n"
    "The same settings are environment variables (SANDBOX_MEMORY_LIMIT=1g) and keys of a file:\n"
    "--config FILE, else ./config.toml (stdio and run do not read that one).";

const struct verb *verb_find(const char *name)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (streq(v->name, name))
			return v;
	return NULL;
}

void verb_usage(FILE *f, const struct verb *v)
{
	const char *line;

	for (size_t i = 0; v->command && (line = v->command(i)); i++)
		(void)fprintf(f, "%s caisson %s %s\n", i == 0 ? "usage:" : "      ", v->name, line);
	if (v->command)
		return;
	for (const char *at = v->arguments, *first = at; at;) {
		size_t len = strcspn(at, "\n");

		(void)fprintf(f, "%s caisson %s%s%.*s\n", at == first ? "usage:" : "      ",
			      v->name, len ? " " : "", (int)len, at);
		at = at[len] ? at + len + 1 : NULL;
	}
}

int verb_help(const struct verb *v)
{
	verb_usage(stdout, v);
	(void)printf("\n%c%s.\n", toupper((unsigned char)v->help[0]), v->help + 1);
	for (const struct verb_option *o = v->options; o && o->name; o++) {
		char left[WORD_MAX];

		(void)snprintf(left, sizeof(left), "%s%s%s", o->name, o->value ? " " : "",
			       o->value ? o->value : "");
		(void)printf("%s  %-20s  %s\n", o == v->options ? "\n" : "", left, o->help);
	}
	(void)puts(settings_note);
	return fflush(stdout) == 0 ? 0 : EXIT_FAILURE;
}

int cmd_help(int argc, char **argv)
{
	if (argc == 2 && streq(argv[1], "--man"))
		return manual_write(stdout) < 0 ? EXIT_FAILURE : 0;
	if (argc > 1) {
		const struct verb *v = verb_find(argv[1]);

		if (v && v->help && argc == 2)
			return verb_help(v);
		(void)fprintf(stderr, "caisson help: %s%s%s (see 'caisson help')\n",
			      argc > 2 ? "one verb at a time" : "there is no verb '",
			      argc > 2 ? "" : argv[1], argc > 2 ? "" : "'");
		return err_code_exit(ERR_USAGE);
	}
	(void)puts("usage: caisson VERB [OPTIONS]\n");
	for (const struct verb *v = verbs; v->name; v++)
		if (v->help)
			(void)printf("  %-10s  %s\n", v->name, v->help);
	(void)puts("\n'caisson VERB --help' has the options of a verb.");
	(void)puts(settings_note);
	return 0;
}

/* ---- options ---- */

/* Calls FN for each option in a usage line: "build [NAME] [--mirror URL]" has --mirror. */
static void options_of_line(const char *line, verb_word_fn fn, void *user)
{
	char name[SUGGEST_NAME_MAX];

	for (const char *p = strstr(line, "--"); p; p = strstr(p, "--")) {
		size_t n = 2 + strspn(p + 2, "abcdefghijklmnopqrstuvwxyz-");
		const bool valued = p[n] == ' ' && isalpha((unsigned char)p[n + 1]);

		if (n > 2 && n < sizeof(name)) {
			memcpy(name, p, n);
			name[n] = '\0';
			fn(name, valued ? "VALUE" : NULL, "", user);
		}
		p += n;
	}
}

void verb_each_option(const struct verb *v, verb_word_fn fn, void *user)
{
	const char *line;

	for (const struct verb_option *o = v->options; o && o->name; o++)
		fn(o->name, o->value, o->help, user);
	for (size_t i = 0; v->command && (line = v->command(i)); i++)
		options_of_line(line, fn, user);
}

/* ---- words that nobody knows ---- */

static void offer(const char *word, const char *value UNUSED, const char *help UNUSED, void *user)
{
	suggest_offer(user, word);
}

int cmd_unknown(const char *verb, const char *word, struct err *e)
{
	const struct verb *v = verb_find(verb);
	char shown[WORD_MAX];

	/* `--memroy=1g`: the name alone was mistyped */
	(void)snprintf(shown, sizeof(shown), "%.*s", (int)strcspn(word, "="), word);
	struct suggest near = suggest_for(shown);
	if (word[0] == '-') {
		/* The dashes are right already, so they must not make other words look near. */
		near.edits = suggest_for(shown + strspn(shown, "-")).edits;
		if (v)
			verb_each_option(v, offer, &near);
		suggest_offer(&near, "--config");
		settings_suggest_flag(&near);
	}
	return err_set(e, ERR_USAGE, 0, "unknown %s '%s'%s (see 'caisson %s --help')",
		       word[0] == '-' ? "option" : "argument", shown, suggest_text(&near), verb);
}

int cmd_no_command(const char *verb, const char *word)
{
	const struct verb *v = verb_find(verb);
	const char *line;

	if (word) {
		struct suggest near = suggest_for(word);

		for (size_t i = 0; (line = v->command(i)); i++) {
			char name[WORD_MAX];

			(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, " "), line);
			suggest_offer(&near, name);
		}
		(void)fprintf(stderr, "caisson %s: there is no command '%.64s'%s\n", verb, word,
			      suggest_text(&near));
	}
	verb_usage(stderr, v);
	return err_code_exit(ERR_USAGE);
}
