/* SPDX-License-Identifier: Apache-2.0 */
#include "http/forwarded.h"

#include "http/connection.h"

#include <string.h>
#include <strings.h>

/* Reads a value that may be a quoted string, and gives what follows it; NULL if it is malformed or too long. */
static const char *read_value(const char *s, char *ret, size_t size)
{
	const bool quoted = *s == '"';
	size_t len = 0;

	s += quoted;
	while (*s && (quoted ? *s != '"' : !strchr("\" \t,;=", *s))) {
		if (quoted && *s == '\\' && *++s == '\0')
			return NULL;
		if (len + 1 == size)
			return NULL;
		ret[len++] = *s++;
	}
	ret[len] = '\0';
	if (quoted)
		return *s == '"' ? s + 1 : NULL;
	return s;
}

bool http_forwarded_find(const char *text, const char *name, char *ret, size_t size)
{
	const char *s = text;

	while (s && *s) {
		s += strspn(s, " \t,;");
		const size_t len = strcspn(s, " \t,;=");
		const bool wanted = len == strlen(name) && strncasecmp(s, name, len) == 0;

		if (len == 0 || s[len] != '=')
			return false;
		s = read_value(s + len + 1, ret, size);
		if (s && *s && !strchr(" \t,;", *s))
			return false;
		if (s && wanted && *ret)
			return true;
	}
	return false;
}

bool http_forwarded_value(const struct http_request *req, const char *name, char *ret, size_t size)
{
	for (unsigned i = 0; i < req->head.n_fields; i++)
		if (strcasecmp(req->text + req->head.fields[i].name, "forwarded") == 0 &&
		    http_forwarded_find(req->text + req->head.fields[i].value, name, ret, size))
			return true;
	return false;
}
