/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/levels.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"
#define SHOWN 64 /* bytes of a wrong text that an error repeats */

static bool is_level(const char *name)
{
	const size_t len = strlen(name);

	return len > 0 && len <= ENGINE_LEVEL_MAX && name[0] >= 'a' && name[0] <= 'z' &&
	       strspn(name, LOWER DIGIT "-") == len;
}

static bool is_runtime(const char *name)
{
	const size_t len = strlen(name);

	return len > 0 && len < ENGINE_RUNTIME_SIZE && strspn(name, LOWER UPPER DIGIT "._-") == len;
}

static const struct engine_level *find(const struct engine_levels *l, const char *name)
{
	for (unsigned i = 0; i < l->n; i++)
		if (streq(l->at[i].name, name))
			return &l->at[i];
	return NULL;
}

/* Reads one word of the setting, LEN bytes at TEXT, as another level. */
static int add(struct engine_levels *l, const char *text, size_t len, const char *runtime,
	       struct err *e)
{
	char word[ENGINE_LEVEL_MAX + 1 + ENGINE_RUNTIME_SIZE];

	if (l->n == ENGINE_LEVELS_MAX)
		return err_set(e, ERR_SETTING_INVALID, 0, "SANDBOX_LEVELS has more than %d levels",
			       ENGINE_LEVELS_MAX);
	struct engine_level *at = &l->at[l->n];
	(void)snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word) - 1), text);
	char *equals = strchr(word, '=');
	if (equals)
		*equals = '\0';
	if (len >= sizeof(word) || !is_level(word) || (equals && !is_runtime(equals + 1)))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_LEVELS: '%.*s' is no level; write NAME=RUNTIME, such as "
			       "strict=runsc, and commas between several. A name has at most %d "
			       "small letters, digits and '-'",
			       (int)MIN(len, (size_t)SHOWN), text, ENGINE_LEVEL_MAX);
	if (find(l, word))
		return err_set(e, ERR_SETTING_INVALID, 0, "SANDBOX_LEVELS has the level %s twice",
			       word);
	(void)!text_copy(at->name, sizeof(at->name), word);
	(void)!text_copy(at->runtime, sizeof(at->runtime), equals ? equals + 1 : runtime);
	l->n++;
	return 0;
}

/* Writes the names of the levels that can be had, with ", " between them. */
static void list_names(const struct engine_levels *l, char *ret, size_t size)
{
	size_t len = 0;

	ret[0] = '\0';
	for (unsigned i = 0; i < l->n; i++)
		if (l->possible >> i & 1 && len < size) {
			(void)snprintf(ret + len, size - len, "%s%s", len > 0 ? ", " : "",
				       l->at[i].name);
			len = strlen(ret);
		}
}

int engine_levels_read(const char *text, const char *usual, const char *runtime,
		       struct engine_levels *ret, struct err *e)
{
	struct engine_levels l = {0};
	int r = 0;

	if (*runtime && !is_runtime(runtime))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_RUNTIME is no name of a runtime: it has letters, digits, "
			       "'.', '_' and '-'");
	if (!*text)
		text = ENGINE_LEVEL_NAME;
	for (const char *at = text; r == 0 && at;) {
		const size_t len = strcspn(at, ",");

		r = add(&l, at, len, runtime, e);
		at = at[len] ? at + len + 1 : NULL;
	}
	if (r < 0)
		return r;
	l.possible = (UINT32_C(1) << l.n) - 1;
	const struct engine_level *chosen = *usual ? find(&l, usual) : l.at;
	if (!chosen) {
		char names[ENGINE_LEVELS_MAX * (ENGINE_LEVEL_MAX + 2)];
		list_names(&l, names, sizeof(names));
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_LEVEL: there is no level '%.*s'; there is: %s "
			       "(SANDBOX_LEVELS)",
			       SHOWN, usual, names);
	}
	l.usual = (unsigned)(chosen - l.at);
	*ret = l;
	return 0;
}

int engine_levels_find(const struct engine_levels *l, const char *name, unsigned *ret,
		       struct err *e)
{
	const struct engine_level *at = *name ? find(l, name) : &l->at[l->usual];
	char names[ENGINE_LEVELS_MAX * (ENGINE_LEVEL_MAX + 2)];

	list_names(l, names, sizeof(names));
	if (!at) {
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "'level' is not valid: this server has no level '%.*s'; it has: %s",
			      SHOWN, name, names);
		return err_set_member(e, "level");
	}
	const unsigned i = (unsigned)(at - l->at);
	if (!(l->possible >> i & 1)) {
		(void)err_set(e, ERR_LEVEL_UNAVAILABLE, 0,
			      "the level %s is not available: its runtime %s cannot be used with "
			      "the container daemon of this server; it has the levels: %s",
			      at->name, at->runtime, names);
		return err_set_member(e, "level");
	}
	*ret = i;
	return 0;
}
