/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the commands of the second tool family. Most are a program and its arguments; some need
 * a shell. */
#include "tools/classic.h"

#include "base/text.h"

#include <string.h>

#define BLANKS " \t\r\n"

/* Words that only a shell can carry out. */
static const char *const builtins[] = {
    ".",    "alias", "cd",     "eval",  "exec",  "export", "read",    "set",   "shopt", "source",
    "trap", "type",  "ulimit", "umask", "unset", "wait",   "command", "pushd", "popd"};

enum place { PLAIN, SINGLE, DOUBLE };

/* Takes the next character of a command, with the quotes and backslashes around it. Returns 0:
 * *RET is a character of a word; 1: only the quoting has changed; -1: a blank between words;
 * -EINVAL: the end is missing. The rules are those of Python's shlex in POSIX mode, which
 * clients are used to. */
static int take(const char **at, enum place *place, char *ret)
{
	char c = *(*at)++;

	*ret = c;
	if (*place == SINGLE) {
		if (c != '\'')
			return 0;
		*place = PLAIN;
		return 1;
	}
	if (c == '\\' && (*place == PLAIN || **at == '"' || **at == '\\')) {
		if (!**at)
			return -EINVAL;
		*ret = *(*at)++;
		return 0;
	}
	if (c == '"') {
		*place = *place == DOUBLE ? PLAIN : DOUBLE;
		return 1;
	}
	if (*place == DOUBLE)
		return 0;
	if (c == '\'') {
		*place = SINGLE;
		return 1;
	}
	return strchr(BLANKS, c) ? -1 : 0;
}

int classic_split(const char *command, char ***ret, const char **ret_why)
{
	size_t len = strlen(command);
	/* Every word takes at least one character of the command and one more to separate it. */
	char **words = malloc((len / 2 + 2) * sizeof(*words) + len + 2);
	enum place place = PLAIN;
	bool open = false;
	size_t n = 0;
	char c;

	if (!words)
		return -ENOMEM;
	char *out = (char *)(words + len / 2 + 2);
	for (const char *at = command; *at;) {
		int r = take(&at, &place, &c);
		if (r == -EINVAL) {
			*ret_why = "No escaped character";
			free(words);
			return r;
		}
		if (r == -1) {
			if (open)
				*out++ = '\0';
			open = false;
			continue;
		}
		if (!open)
			words[n++] = out;
		open = true;
		if (r == 0)
			*out++ = c;
	}
	*out = '\0';
	words[n] = NULL;
	if (place != PLAIN) {
		*ret_why = "No closing quotation";
		free(words);
		return -EINVAL;
	}
	*ret = words;
	return 0;
}

static bool is_builtin(const char *command)
{
	command += strspn(command, BLANKS);
	size_t len = strcspn(command, BLANKS);

	for (size_t i = 0; i < ARRAY_SIZE(builtins); i++)
		if (strlen(builtins[i]) == len && memcmp(command, builtins[i], len) == 0)
			return true;
	/* NAME=value before a command */
	return memchr(command, '=', len) != NULL;
}

bool classic_needs_shell(const char *command)
{
	enum place place = PLAIN;
	char c;

	for (const char *at = command; *at;) {
		enum place before = place;
		bool escaped = *at == '\\';
		int r = take(&at, &place, &c);
		if (r == -EINVAL)
			return false; /* splitting it reports the error */
		if (r == 1 || escaped || before == SINGLE)
			continue;
		if (c == '$' || c == '`' || (before == PLAIN && strchr("|&;<>()*?[{~#!\n", c)))
			return true;
	}
	return is_builtin(command);
}
