/* SPDX-License-Identifier: Apache-2.0 */
#include "http/range.h"

#include "base/parse.h"
#include "base/text.h"

#include <string.h>
#include <strings.h>
#include <time.h>

/* Parses LEN digits. A number that is too large becomes the largest. */
static bool parse_pos(const char *s, size_t len, uint64_t *ret)
{
	if (len == 0 || strspn(s, "0123456789") < len)
		return false;
	if (parse_u64_n(s, len, 0, UINT64_MAX, ret) < 0)
		*ret = UINT64_MAX;
	return true;
}

enum http_range http_range_parse(const char *value, uint64_t size, uint64_t *ret_first,
				 uint64_t *ret_last)
{
	const char *spec, *dash;
	uint64_t first = 0, last = UINT64_MAX;
	size_t n_first, n_last;

	if (!value || strncasecmp(value, "bytes=", 6) != 0)
		return HTTP_RANGE_WHOLE;
	spec = value + 6 + strspn(value + 6, " \t");
	dash = strchr(spec, '-');
	if (!dash || strchr(spec, ','))
		return HTTP_RANGE_WHOLE;
	n_first = (size_t)(dash - spec);
	n_last = strlen(dash + 1);
	if (n_first > 0 && !parse_pos(spec, n_first, &first))
		return HTTP_RANGE_WHOLE;
	if (n_last > 0 && !parse_pos(dash + 1, n_last, &last))
		return HTTP_RANGE_WHOLE;
	if ((n_first == 0 && n_last == 0) || (n_first > 0 && last < first))
		return HTTP_RANGE_WHOLE;
	if (n_first == 0) { /* "-N": the last N bytes */
		if (last == 0 || size == 0)
			return HTTP_RANGE_UNSATISFIABLE;
		first = last < size ? size - last : 0;
		last = size - 1;
	}
	if (first >= size)
		return HTTP_RANGE_UNSATISFIABLE;
	*ret_first = first;
	*ret_last = MIN(last, size - 1);
	return HTTP_RANGE_PART;
}

bool http_etag_in_list(const char *list, const char *etag, bool weak)
{
	const char *p = list + strspn(list, " \t,");
	const size_t want = strlen(etag);

	if (streq(p, "*"))
		return true;
	while (*p) {
		const bool is_weak = p[0] == 'W' && p[1] == '/';
		const char *tag = is_weak ? p + 2 : p;
		const char *end = tag[0] == '"' ? strchr(tag + 1, '"') : NULL;

		if (!end)
			return false;
		end++;
		if ((!is_weak || weak) && (size_t)(end - tag) == want &&
		    memcmp(tag, etag, want) == 0)
			return true;
		p = end + strspn(end, " \t,");
	}
	return false;
}

void http_date_format(int64_t unix_s, char ret[HTTP_DATE_SIZE])
{
	const time_t t = (time_t)unix_s;
	struct tm tm;

	/* The locale is always "C", so names are English. Fails only for years that do not fit in
	 * an int. */
	if (!gmtime_r(&t, &tm) ||
	    strftime(ret, HTTP_DATE_SIZE, "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
		memcpy(ret, "Thu, 01 Jan 1970 00:00:00 GMT", HTTP_DATE_SIZE);
}

int http_date_parse(const char *s, int64_t *ret)
{
	struct tm tm = {0};
	const char *end = strptime(s, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	char back[HTTP_DATE_SIZE];
	int64_t when;

	if (!end || *end)
		return -EINVAL;
	when = (int64_t)timegm(&tm);
	http_date_format(when, back);
	if (strcmp(s, back) != 0) /* strptime(3) accepts blanks, short numbers and wrong weekdays,
				   * so the result is compared */
		return -EINVAL;
	*ret = when;
	return 0;
}
