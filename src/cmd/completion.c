/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson completion SHELL`: completions for bash, zsh and fish, made from the tables of verbs and of
 * settings. bash and zsh share one function: zsh has bash's `complete` with bashcompinit. */
#include "cmd/cmd.h"
#include "cmd/verbs.h"

#include "base/suggest.h"
#include "base/text.h"
#include "config/settings.h"

#include <stdlib.h>
#include <string.h>

#define DOC_MAX 70 /* characters of a description in fish's list */

static void each_command(const struct verb *v, verb_word_fn fn, void *user)
{
	char name[SUGGEST_NAME_MAX] = "";
	const char *line;

	for (size_t i = 0; v->command && (line = v->command(i)); i++) {
		const size_t len = strcspn(line, " ");

		if (strlen(name) == len && strncmp(name, line, len) == 0)
			continue; /* another form of the same */
		(void)snprintf(name, sizeof(name), "%.*s", (int)len, line);
		fn(name, NULL, line, user);
	}
	if (streq(v->name, "completion"))
		for (const char *s = "bash\0zsh\0fish\0"; *s; s += strlen(s) + 1)
			fn(s, NULL, "", user);
}

static void print_word(const char *word, const char *value UNUSED, const char *help UNUSED,
		       void *user)
{
	(void)fprintf(user, " %s", word);
}

/* The values of a setting that has few: of a choice, or of a truth value. "" for any other. */
static void print_values(FILE *f, const struct setting_row *row)
{
	for (const char *p = row->type == SETTING_CHOICE ? row->allowed : ""; *p; p++)
		(void)fputc(*p == '|' ? ' ' : *p, f);
	if (row->type == SETTING_BOOL)
		(void)fputs("on off", f);
}

/* ---- bash and zsh ---- */

static void write_bash(FILE *f)
{
	char flag[SETTING_FLAG_SIZE];

	(void)fputs(
	    "# caisson, for bash and zsh: made by 'caisson completion'\n"
	    "_caisson() {\n"
	    "\tlocal cur=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} words=\n"
	    "\tlocal settings='--config",
	    f);
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		settings_flag(id, flag);
		(void)fprintf(f, " %s", flag);
	}
	(void)fputs("'\n\tCOMPREPLY=()\n\tcase $last in\n", f);
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		const struct setting_row *row = &setting_rows[id];

		settings_flag(id, flag);
		if (row->type != SETTING_CHOICE && row->type != SETTING_BOOL)
			continue;
		(void)fprintf(f, "\t%s) words='", flag);
		print_values(f, row);
		(void)fputs("' ;;\n", f);
	}
	(void)fputs("\tesac\n"
		    "\tif [ -n \"$words\" ]; then\n"
		    "\t\t:\n"
		    "\telif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		    "\t\twords='",
		    f);
	for (const struct verb *v = verbs; v->name; v++)
		if (v->help)
			(void)fprintf(f, "%s ", v->name);
	(void)fputs("'\n\telse\n\t\tcase ${COMP_WORDS[1]} in\n", f);
	for (const struct verb *v = verbs; v->name; v++) {
		if (!v->help)
			continue;
		(void)fprintf(f, "\t\t%s) case $cur in -*) words=\"", v->name);
		verb_each_option(v, print_word, f);
		(void)fputs(" $settings\" ;; *) words=\"", f);
		each_command(v, print_word, f);
		(void)fputs("\" ;; esac ;;\n", f);
	}
	(void)fputs("\t\tesac\n"
		    "\tfi\n"
		    "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
		    "}\n"
		    "complete -o bashdefault -o default -F _caisson caisson\n",
		    f);
}

static void write_zsh(FILE *f)
{
	(void)fputs("#compdef caisson\nautoload -U +X bashcompinit && bashcompinit\n", f);
	write_bash(f);
}

/* ---- fish ---- */

/* TEXT in single quotes, as fish reads them; its first sentence, without `code` marks. */
static void print_quoted(FILE *f, const char *text)
{
	(void)fputc('\'', f);
	for (size_t i = 0; i < DOC_MAX && text[i] && !(text[i] == '.' && text[i + 1] == ' '); i++)
		if (text[i] == '\'' || text[i] == '\\')
			(void)fprintf(f, "\\%c", text[i]);
		else if (text[i] != '`')
			(void)fputc(text[i], f);
	(void)fputc('\'', f);
}

struct fish {
	FILE *f;
	const char *verb;
};

static void fish_option(const char *name, const char *value, const char *help, void *user)
{
	const struct fish *x = user;
	bool is_long = text_starts_with(name, "--");

	(void)fprintf(x->f, "complete -c caisson -n '__fish_seen_subcommand_from %s' -%c %s%s -d ",
		      x->verb, is_long ? 'l' : 's', name + (is_long ? 2 : 1), value ? " -r" : "");
	print_quoted(x->f, help);
	(void)fputc('\n', x->f);
}

static void fish_command(const char *name, const char *value UNUSED, const char *help, void *user)
{
	const struct fish *x = user;

	(void)fprintf(x->f, "complete -c caisson -n '__fish_seen_subcommand_from %s' -a %s -d ",
		      x->verb, name);
	print_quoted(x->f, help);
	(void)fputc('\n', x->f);
}

static void write_fish(FILE *f)
{
	(void)fputs("# caisson, for fish: made by 'caisson completion fish'\n", f);
	for (const struct verb *v = verbs; v->name; v++) {
		struct fish x = {.f = f, .verb = v->name};

		if (!v->help)
			continue;
		(void)fprintf(f, "complete -c caisson -n __fish_use_subcommand -f -a %s -d ",
			      v->name);
		print_quoted(f, v->help);
		(void)fputc('\n', f);
		verb_each_option(v, fish_option, &x);
		each_command(v, fish_command, &x);
	}
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		char flag[SETTING_FLAG_SIZE];

		settings_flag(id, flag);
		(void)fprintf(f, "complete -c caisson -n 'not __fish_use_subcommand' -l %s -r -a '",
			      flag + 2);
		print_values(f, &setting_rows[id]);
		(void)fputs("' -d ", f);
		print_quoted(f, setting_rows[id].doc);
		(void)fputc('\n', f);
	}
}

/* ---- the verb ---- */

static const struct {
	const char *name;
	void (*write)(FILE *f);
} shells[] = {
    {"bash", write_bash},
    {"zsh", write_zsh},
    {"fish", write_fish},
};

int cmd_completion(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(shells); i++) {
		if (!streq(shells[i].name, argv[1]))
			continue;
		shells[i].write(stdout);
		return fflush(stdout) == 0 && !ferror(stdout) ? 0 : EXIT_FAILURE;
	}
	return cmd_usage("completion", "give one shell: bash, zsh or fish");
}
