/* SPDX-License-Identifier: Apache-2.0 */
#include "web/accepts.h"

#include <string.h>
#include <strings.h>

/* "gzip ; q=0.000": is the weight zero? */
static bool is_refused(const char *params, size_t len)
{
	const char *q = memchr(params, 'q', len);

	if (!q)
		q = memchr(params, 'Q', len);
	if (!q || (size_t)(q - params) + 2 >= len || q[1] != '=')
		return false;
	for (const char *p = q + 2; p < params + len && *p != ' ' && *p != '\t'; p++)
		if (*p != '0' && *p != '.')
			return false;
	return true;
}

bool accepts_coding(const char *header, const char *coding)
{
	const size_t coding_len = strlen(coding);
	bool other = false;

	for (const char *p = header; p && *p;) {
		p += strspn(p, ", \t");
		const size_t len = strcspn(p, ","), name = strcspn(p, ",; \t");
		const char *semi = memchr(p, ';', len);
		bool welcome = !semi || !is_refused(semi, len - (size_t)(semi - p));

		if (name == coding_len && strncasecmp(p, coding, name) == 0)
			return welcome;
		if (name == 1 && *p == '*')
			other = welcome;
		p += len;
	}
	return other;
}
