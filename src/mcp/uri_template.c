/* SPDX-License-Identifier: Apache-2.0 */
/* Does a URI match an RFC 6570 template? Simple expansion {x} (one or more characters but '/') and
 * reserved expansion {+x} (one or more of any), each ending at the literal that follows. */
#include "mcp/objects.h"

#define TEMPLATE_VARS_MAX 16 /* more is nobody's template; bounds the search */

static bool matches(const char *t, const char *uri, unsigned depth)
{
	const char *end;
	bool reserved;

	while (*t && *t != '{') {
		if (*t++ != *uri++)
			return false;
	}
	if (!*t)
		return !*uri;
	end = strchr(t, '}');
	if (!end || depth == 0)
		return false;
	reserved = t[1] == '+';
	/* Shortest first; what follows decides. Expressions are never adjacent in sane templates,
	 * so the search stays small; DEPTH bounds it for others. */
	while (*uri && (reserved || *uri != '/')) {
		uri++;
		if (matches(end + 1, uri, depth - 1))
			return true;
	}
	return false;
}

bool template_matches(const char *tmpl, const char *uri)
{
	return matches(tmpl, uri, TEMPLATE_VARS_MAX);
}
