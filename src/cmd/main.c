/* SPDX-License-Identifier: Apache-2.0 */
/* Entry point: finds the verb. If the program is called mcp-code-sandbox or mcp-sandbox (links to it),
 * the name selects the verb and the profile, as users of those servers expect. */
#include "cmd/cmd.h"
#include "cmd/first_process.h"
#include "cmd/own_limits.h"
#include "cmd/run_args.h"
#include "cmd/verbs.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/suggest.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool wants_help(const struct verb *verb, int argc, char **argv)
{
	if (verb->fn == cmd_run) /* `--help` after FILE is for the file */
		argc = run_args_ours(argc, argv);
	for (int i = 1; (verb->arguments || verb->command) && i < argc && !streq(argv[i], "--");
	     i++)
		if (streq(argv[i], "--help") || streq(argv[i], "-h"))
			return true;
	return false;
}

static int no_verb(const char *name)
{
	struct suggest near = suggest_for(name);

	for (const struct verb *v = verbs; v->name; v++)
		if (v->help)
			suggest_offer(&near, v->name);
	if (name[0] == '-')
		(void)fprintf(stderr,
			      "caisson: '%s' comes after a verb, such as serve (see 'caisson "
			      "help')\n",
			      name);
	else
		(void)fprintf(stderr, "caisson: there is no verb '%s'%s (see 'caisson help')\n",
			      name, suggest_text(&near));
	return err_code_exit(ERR_USAGE);
}

/* What a verb has printed may still be in memory. STATUS, or a failure if standard output does not take all of it. */
static int end_output(const char *name, int status)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno == 0 && fd_stdout_was_closed())
		errno = EBADF;
	(void)fprintf(stderr, "caisson %s: standard output: %s\n", name,
		      errno ? strerror(errno) : "not all of it could be written");
	return status ? status : EXIT_FAILURE;
}

/* Printing shall fail if there is nothing to print to. The descriptor stays taken, so that no file of ours gets its
 * number. */
static void refuse_output(void)
{
	_cleanup_fd_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)dup2(fd, STDOUT_FILENO);
}

static int run_verb(const char *name, int argc, char **argv)
{
	const struct verb *verb = verb_find(name);

	if (!verb)
		return no_verb(name);
	const bool help = wants_help(verb, argc, argv);
	int r = !help && verb->heavy ? own_limits_check(verb->name) : 0;

	if (r != 0)
		return r;
	if (fd_stdout_was_closed() && (help || !verb->talks))
		refuse_output();
	if (help)
		return end_output(name, verb_help(verb));
	r = verb->fn(argc, argv);
	return verb->talks ? r : end_output(name, r);
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

	fd_open_standard();
	first_process_split();
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
