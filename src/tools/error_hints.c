/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/error_hints.h"

#include "base/attr.h"

#include <string.h>

static const struct {
	const char *sign, *also, *hint;
} rows[] = {
#define ROW(sign, also, hint) {sign, also, hint},
#include "tools/error_hints.tbl.h"
#undef ROW
};

const char *error_hint_of(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strstr(text, rows[i].sign) && strstr(text, rows[i].also))
			return rows[i].hint;
	return NULL;
}
