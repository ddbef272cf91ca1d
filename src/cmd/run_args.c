/* SPDX-License-Identifier: Apache-2.0 */
/* The words after FILE belong to FILE, as with other programs that start programs. Only --out, -i and
 * settings may stand right after FILE, because earlier versions took them there. */
#include "cmd/run_args.h"

#include "cmd/cmd.h"

#include "base/text.h"
#include "config/settings.h"

#include <stdio.h>
#include <string.h>

enum option {
	OPTION_CODE,
	OPTION_PROMPT,
	OPTION_NO_HISTORY,
	OPTION_LANGUAGE,
	OPTION_IN,
	OPTION_OUT,
	OPTION_WITH,
	OPTION_ENV,
	OPTION_NONE,
};

static const struct {
	const char *name;
	bool valued;
	bool after_file; /* may stand right after FILE */
} options[OPTION_NONE] = {
    [OPTION_CODE] = {"-c", true, false},
    [OPTION_PROMPT] = {"-i", false, true},
    [OPTION_NO_HISTORY] = {"--no-history", false, true},
    [OPTION_LANGUAGE] = {"--language", true, false},
    [OPTION_IN] = {"--in", true, false},
    [OPTION_OUT] = {"--out", true, true},
    [OPTION_WITH] = {"--with", true, false},
    [OPTION_ENV] = {"--env", true, false},
};

/* The option that WORD is. *RET_VALUE: what follows '=', or NULL. */
static enum option option_of(const char *word, const char **ret_value)
{
	size_t len = strcspn(word, "=");
	enum option o = 0;

	*ret_value = word[len] ? word + len + 1 : NULL;
	while (o < OPTION_NONE &&
	       (strlen(options[o].name) != len || memcmp(options[o].name, word, len) != 0 ||
		(word[len] && !text_starts_with(word, "--"))))
		o++;
	return o;
}

static bool is_setting(const char *word)
{
	char flag[SETTING_FLAG_SIZE];
	size_t len = strcspn(word, "=");

	if (strncmp(word, "--config", MAX(len, strlen("--config"))) == 0)
		return true;
	for (enum setting_id id = 0; id < SETTING_ID_MAX_; id++) {
		settings_flag(id, flag);
		if (strlen(flag) == len && memcmp(flag, word, len) == 0)
			return true;
	}
	return false;
}

/* Short names of settings, as other programs have them. */
static const struct {
	const char *name;
	const char *setting;
} short_names[] = {
    {"--memory", "--memory-limit"},
    {"--cpus", "--cpu-limit"},
    {"--timeout", "--exec-timeout-s"},
};

/* Replaces a short name by that of the setting. The new text lives as long as the program. */
static void lengthen(char **word)
{
	size_t len = strcspn(*word, "=");
	char *longer;

	for (size_t i = 0; i < ARRAY_SIZE(short_names); i++)
		if (strlen(short_names[i].name) == len &&
		    memcmp(short_names[i].name, *word, len) == 0 &&
		    asprintf(&longer, "%s%s", short_names[i].setting, *word + len) >= 0) {
			*word = longer;
			return;
		}
}

int run_args_ours(int argc, char **argv)
{
	bool named = false; /* FILE or -c came */

	for (int i = 1; i < argc; i++) {
		const char *value;

		if (!named)
			lengthen(&argv[i]);
		enum option o = option_of(argv[i], &value);
		bool setting = is_setting(argv[i]);
		bool known = o != OPTION_NONE || setting;

		if (streq(argv[i], "--"))
			return i + 1;
		if (known && named && !setting && !options[o].after_file)
			return i;
		if (known) {
			i += (setting || options[o].valued) && !strchr(argv[i], '=');
			named = named || o == OPTION_CODE;
		} else if (named) {
			return i;
		} else if (argv[i][0] != '-' || argv[i][1] == '\0') {
			named = true;
		}
	}
	return argc;
}

static int add(const char *list[RUN_ARGS_MANY + 1], const char *name, const char *value,
	       struct err *e)
{
	for (size_t i = 0; i < RUN_ARGS_MANY; i++)
		if (!list[i]) {
			list[i] = value;
			return 0;
		}
	return err_set(e, ERR_USAGE, 0, "%s: more than %d", name, RUN_ARGS_MANY);
}

static int take(struct run_args *a, enum option o, const char *value, struct err *e)
{
	switch (o) {
	case OPTION_CODE:
		a->code = value;
		return 0;
	case OPTION_PROMPT:
		a->interactive = true;
		return 0;
	case OPTION_NO_HISTORY:
		a->no_history = true;
		return 0;
	case OPTION_LANGUAGE:
		a->has_language = true;
		return language_read(value, &a->language)
			   ? 0
			   : err_set(e, ERR_USAGE, 0,
				     "--language: python, javascript or typescript, not '%.40s'",
				     value);
	case OPTION_IN:
		return add(a->in, "--in", value, e);
	case OPTION_OUT:
		a->out = value;
		return 0;
	case OPTION_WITH:
		return add(a->with, "--with", value, e);
	case OPTION_ENV:
		return add(a->env, "--env", value, e);
	case OPTION_NONE:
		break;
	}
	return 0;
}

/* What may not be given together, or is missing. */
static int check(const struct run_args *a, struct err *e)
{
	if (a->interactive && a->file && streq(a->file, "-"))
		return err_set(e, ERR_USAGE, 0, "with -i, standard input is the prompt's");
	if (a->interactive && (a->code || a->n_rest > 0))
		return err_set(e, ERR_USAGE, 0, "-i takes a FILE, but no -c and no arguments");
	if (a->interactive && a->language != LANGUAGE_PYTHON)
		return err_set(e, ERR_USAGE, 0,
			       "-i is a Python prompt; give JavaScript and TypeScript as a file, "
			       "or with -c");
	if (a->has_language && !a->file && !a->code && !a->interactive)
		return err_set(e, ERR_USAGE, 0, "--language is for a FILE or for -c");
	if (!a->file && !a->code && !a->interactive && a->n_rest == 0)
		return err_set(e, ERR_USAGE, 0, "no file (see 'caisson run --help')");
	return 0;
}

int run_args_read(int argc, char **argv, int n_rest, char **rest, struct run_args *ret,
		  struct err *e)
{
	*ret = (struct run_args){.rest = rest, .n_rest = n_rest};
	for (int i = 1; i < argc && !streq(argv[i], "--"); i++) {
		const char *value;
		enum option o = option_of(argv[i], &value);

		if (o != OPTION_NONE) {
			if (!value && options[o].valued)
				value = i + 1 < argc ? argv[++i] : NULL;
			if (!value && options[o].valued)
				return err_set(e, ERR_USAGE, 0, "%s: a value is missing",
					       options[o].name);
			int r = take(ret, o, value, e);
			if (r < 0)
				return r;
		} else if (argv[i][0] == '-' && argv[i][1] != '\0') {
			return cmd_unknown("run", argv[i], e);
		} else {
			ret->file = argv[i];
		}
	}
	if (ret->file && !ret->has_language)
		ret->language = language_of_file(ret->file);
	return check(ret, e);
}
