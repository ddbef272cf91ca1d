/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/language.h"

#include "base/text.h"

static const struct {
	const char *name, *brief;
} languages[] = {
    [LANGUAGE_PYTHON] = {"python", "py"},
    [LANGUAGE_JAVASCRIPT] = {"javascript", "js"},
    [LANGUAGE_TYPESCRIPT] = {"typescript", "ts"},
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

int language_code(struct buf *b, enum run_language l, const char *code, size_t len)
{
	const int r = buf_printf(b, "%%%%caisson %s\n", language_name(l));

	return r < 0 ? r : buf_add(b, code, len);
}
