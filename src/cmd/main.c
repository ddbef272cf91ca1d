/* SPDX-License-Identifier: Apache-2.0 */
/* Entry point: finds the verb. If the program is called mcp-code-sandbox or mcp-sandbox (links to it),
 * the name selects the verb and the profile, as users of those servers expect. */
#include "cmd/cmd.h"

#include "base/kill_points.h"
#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verb {
	const char *name;
	int (*fn)(int argc, char **argv);
	const char *help;      /* NULL: not shown */
	const char *arguments; /* without settings; for --help, unless there is usage() */
	void (*usage)(FILE *f);
};

static const struct verb verbs[] = {
    {"stdio", cmd_stdio, "serve one MCP client on standard input and output", "[--no-bridge]"},
    {"serve", cmd_serve, "serve MCP, links and the page over HTTP", "[--listen HOST:PORT]"},
    {"run", cmd_run, "run a Python file in a new sandbox, or a prompt with -i",
     "[-i] [FILE] [--out DIR]"},
    {"ps", cmd_ps, "list the sandboxes of a running server", ""},
    {"image", cmd_image, "build, list, import, export and remove images", NULL, cmd_image_usage},
    {"user", cmd_user, "add, list and remove users, set passwords and roles", NULL, cmd_user_usage},
    {"key", cmd_key, "make, list and revoke API keys of users", NULL, cmd_key_usage},
    {"doctor", cmd_doctor, "check what this machine can enforce, and what is missing", "[--json]"},
    {"config", cmd_config, "print the settings in force and where each came from", "[--markdown]"},
    {"version", cmd_version, "print the version"},
    {"help", cmd_help, "print this help"},
    {"monitor", cmd_monitor, NULL},
};

static const char settings_note[] =
    "\nEvery setting is an option too (--memory-limit 1g, --profile code); "
    "'caisson config' lists them.\n"
    "The same settings are environment variables (SANDBOX_MEMORY_LIMIT=1g) and keys of a file:\n"
    "--config FILE, else ./config.toml (stdio and run do not read that one).";

static const struct {
	const char *program;
	const char *verb;
	const char *profile;
} aliases[] = {
    {"mcp-code-sandbox", "stdio", "code"},
    {"mcp-sandbox", "serve", "classic"},
};

static const struct {
	const char *option;
	const char *verb;
} option_verbs[] = {
    {"--help", "help"},
    {"-h", "help"},
    {"--version", "version"},
    {"-V", "version"},
};

int cmd_fail(const char *verb, const struct err *e)
{
	const char *hint = err_code_hint(e->code);

	(void)fprintf(stderr, "caisson %s: %s%s%s\n", verb, e->text, *hint ? ". " : "", hint);
	return err_code_exit(e->code);
}

int cmd_usage(const char *verb, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "caisson %s: %s (see 'caisson %s --help')\n", verb, text, verb);
	return err_code_exit(ERR_USAGE);
}

int cmd_help(int argc UNUSED, char **argv UNUSED)
{
	(void)puts("usage: caisson VERB [OPTIONS]\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (verbs[i].help)
			(void)printf("  %-8s  %s\n", verbs[i].name, verbs[i].help);
	(void)puts("\n'caisson VERB --help' has the options of a verb.");
	(void)puts(settings_note);
	return 0;
}

void cmd_usage_line(FILE *f, bool first, const char *verb, const char *rest)
{
	(void)fprintf(f, "%s caisson %s%s%s\n", first ? "usage:" : "      ", verb,
		      rest[0] ? " " : "", rest);
}

static bool wants_help(const struct verb *verb, int argc, char **argv)
{
	for (int i = 1; (verb->arguments || verb->usage) && i < argc && !streq(argv[i], "--"); i++)
		if (streq(argv[i], "--help") || streq(argv[i], "-h"))
			return true;
	return false;
}

static int help_verb(const struct verb *verb)
{
	if (verb->usage)
		verb->usage(stdout);
	else
		cmd_usage_line(stdout, true, verb->name, verb->arguments);
	(void)printf("\n%c%s.\n", toupper((unsigned char)verb->help[0]), verb->help + 1);
	(void)puts(settings_note);
	return fflush(stdout) == 0 ? 0 : EXIT_FAILURE;
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (streq(verbs[i].name, name))
			return &verbs[i];
	return NULL;
}

static int run_verb(const char *name, int argc, char **argv)
{
	const struct verb *verb = find_verb(name);

	if (!verb) {
		(void)fprintf(stderr,
			      name[0] == '-'
				  ? "caisson: '%s' comes after a verb, such as serve "
				    "(see 'caisson help')\n"
				  : "caisson: there is no verb '%s' (see 'caisson help')\n",
			      name);
		return err_code_exit(ERR_USAGE);
	}
	return wants_help(verb, argc, argv) ? help_verb(verb) : verb->fn(argc, argv);
}

/* The user's arguments come after the profile of the alias, so a `--profile` among them takes
 * precedence. */
static int run_alias(size_t alias, int argc, char **argv)
{
	_cleanup_free_ char **args = calloc((size_t)argc + 3, sizeof(*args));
	_cleanup_free_ char *verb = strdup(aliases[alias].verb);
	_cleanup_free_ char *flag = strdup("--profile");
	_cleanup_free_ char *profile = strdup(aliases[alias].profile);

	if (!args || !verb || !flag || !profile) {
		(void)fprintf(stderr, "caisson: no memory\n");
		return err_code_exit(ERR_OUT_OF_MEMORY);
	}
	args[0] = verb;
	args[1] = flag;
	args[2] = profile;
	for (int i = 1; i < argc; i++)
		args[i + 2] = argv[i];
	return run_verb(verb, argc + 2, args);
}

int main(int argc, char **argv)
{
	static char *no_args[] = {NULL};

	kill_points_open();
	if (argc < 1)
		return run_verb("help", 0, no_args);
	const char *slash = strrchr(argv[0], '/');
	const char *program = slash ? slash + 1 : argv[0];

	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (streq(aliases[i].program, program))
			return run_alias(i, argc, argv);
	if (argc < 2) {
		(void)cmd_help(0, no_args);
		return err_code_exit(ERR_USAGE);
	}
	for (size_t i = 0; i < ARRAY_SIZE(option_verbs); i++)
		if (streq(option_verbs[i].option, argv[1]))
			return run_verb(option_verbs[i].verb, argc - 1, argv + 1);
	return run_verb(argv[1], argc - 1, argv + 1);
}
