/* SPDX-License-Identifier: Apache-2.0 */
/* Does a URI match an RFC 6570 template? Supports simple expansion {x} (one or more characters
 * except '/') and reserved expansion {+x} (one or more of any). Each expansion ends at the literal
 * that follows it. */
#include "mcp/objects.h"

#define TEMPLATE_VARS_MAX 16 /* no sensible template has more; limits the search */

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
	/* Tries the shortest match first. Sensible templates never have two adjacent expressions,
	 * so the search is short; DEPTH limits it for the others. */
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
