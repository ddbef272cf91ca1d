/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/error_hints.h"

#include "base/attr.h"

#include <string.h>

static const struct {
	const char *sign, *also, *hint;
	bool always;
} rows[] = {
#define ROW(sign, also, hint)        {sign, also, hint, false},
#define ROW_ALWAYS(sign, also, hint) {sign, also, hint, true},
#include "tools/error_hints.tbl.h"
#undef ROW
#undef ROW_ALWAYS
};

const char *error_hint_of(const char *text, bool failed)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((failed || rows[i].always) && strstr(text, rows[i].sign) &&
		    strstr(text, rows[i].also))
			return rows[i].hint;
	return NULL;
}
