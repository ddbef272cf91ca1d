/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/language.h"

#include "base/text.h"

static const struct {
	const char *name, *brief;
	const char *ends[3]; /* of names of files */
} languages[] = {
    [LANGUAGE_PYTHON] = {"python", "py", {".py"}},
    [LANGUAGE_JAVASCRIPT] = {"javascript", "js", {".js", ".mjs", ".cjs"}},
    [LANGUAGE_TYPESCRIPT] = {"typescript", "ts", {".ts", ".mts", ".cts"}},
};

const char *language_name(enum run_language l)
{
	return languages[l].name;
}

bool language_read(const char *name, enum run_language *ret)
{
	for (unsigned i = 0; i < ARRAY_SIZE(languages); i++)
		if (streq(name, languages[i].name) || streq(name, languages[i].brief)) {
			*ret = (enum run_language)i;
			return true;
		}
	return false;
}

enum run_language language_of_file(const char *file)
{
	for (unsigned i = 0; i < ARRAY_SIZE(languages); i++)
		for (unsigned k = 0; k < ARRAY_SIZE(languages[i].ends); k++)
			if (languages[i].ends[k] && text_ends_with(file, languages[i].ends[k]))
				return (enum run_language)i;
	return LANGUAGE_PYTHON;
}

int language_code(struct buf *b, enum run_language l, const char *code, size_t len)
{
	const int r = buf_printf(b, "%%%%caisson %s\n", language_name(l));

	return r < 0 ? r : buf_add(b, code, len);
}
