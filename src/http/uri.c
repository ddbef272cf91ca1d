/* SPDX-License-Identifier: Apache-2.0 */
#include "http/uri.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

/* OUT may not overlap S; has room for LEN + 1. */
static int64_t decode(const char *s, size_t len, char *out, bool plus)
{
	size_t n;

	memcpy(out, s, len);
	for (size_t i = 0; plus && i < len; i++)
		if (out[i] == '+')
			out[i] = ' ';
	/* In place: decoding never makes the text longer. */
	return text_percent_decode(out, len, out, &n) < 0 ? -EBADMSG : (int64_t)n;
}

static bool is_dots(const char *part, size_t len)
{
	return (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.');
}

/* SEG is decoded and has no NUL. One that has slashes must not begin or end with one. */
static bool cannot_exist(const char *seg)
{
	const bool whole = !strchr(seg, '/');

	for (const char *p = seg;; p++) {
		const size_t part = strcspn(p, "/");

		if (is_dots(p, part) || (part == 0 && !whole))
			return true;
		p += part;
		if (*p == '\0')
			return false;
	}
}

int http_uri_segments(const char *path, size_t len, char *out, char **segs, unsigned max)
{
	const char *p = path + 1, *end = path + len;
	unsigned n = 0;
	bool exists = true;

	for (;;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		const size_t part = (size_t)((slash ? slash : end) - p);
		const int64_t got = decode(p, part, out, false);

		if (got < 0)
			return (int)got;
		exists = exists && n < max && !cannot_exist(out);
		if (exists)
			segs[n++] = out;
		out += got + 1;
		if (!slash)
			return exists ? (int)n : -ENOENT;
		p = slash + 1;
	}
}

int http_uri_query(const char *query, char *out, struct http_pair *pairs, unsigned max)
{
	unsigned n = 0;

	for (const char *p = query; *p;) {
		const size_t len = strcspn(p, "&");
		const char *eq = memchr(p, '=', len);
		const size_t name = eq ? (size_t)(eq - p) : len;
		int64_t got;

		if (len > 0) {
			if (n == max)
				return -EBADMSG;
			got = decode(p, name, out, true);
			if (got < 0)
				return (int)got;
			pairs[n].name = out;
			out += got + 1;
			pairs[n].value = out - 1; /* points to a NUL: the value is empty */
			if (eq) {
				got = decode(eq + 1, len - name - 1, out, true);
				if (got < 0)
					return (int)got;
				pairs[n].value = out;
				out += got + 1;
			}
			n++;
		}
		p += len;
		p += *p == '&';
	}
	return (int)n;
}
