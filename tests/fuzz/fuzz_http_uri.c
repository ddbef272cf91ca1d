/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, queries, ranges, dates, entity tags. Properties: no decoded segment can climb; one with
 * slashes is a relative path; a range that is satisfiable lies inside the file; a date that was read prints as it was.
 */
#include "fuzz.h"

#include "http/http.h"
#include "http/range.h"
#include "http/uri.h"

#include <stdio.h>
#include <string.h>

static void path(const char *text, size_t len)
{
	_cleanup_free_ char *out = malloc(len + 2);
	char *segs[HTTP_SEGMENTS_MAX];
	int n;

	ASSERT(out);
	if (text[0] != '/')
		return;
	n = http_uri_segments(text, len, out, segs, HTTP_SEGMENTS_MAX);
	ASSERT(n <= HTTP_SEGMENTS_MAX);
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *framed = NULL;

		ASSERT(asprintf(&framed, "/%s/", segs[i]) >= 0);
		ASSERT(!strstr(framed, "//") || *segs[i] == '\0');
		ASSERT(!strstr(framed, "/./") && !strstr(framed, "/../"));
		ASSERT(strlen(segs[i]) <= len);
	}
}

static void query(const char *text, size_t len)
{
	_cleanup_free_ char *out = malloc(len + 2);
	struct http_pair pairs[HTTP_QUERY_MAX];
	int n;

	ASSERT(out);
	n = http_uri_query(text, out, pairs, HTTP_QUERY_MAX);
	ASSERT(n <= HTTP_QUERY_MAX);
	for (int i = 0; i < n; i++)
		ASSERT(strlen(pairs[i].name) + strlen(pairs[i].value) <= len);
}

static void range(const char *text)
{
	static const uint64_t sizes[] = {0, 1, 10, UINT64_C(1) << 40, UINT64_MAX >> 1};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t first = 0;
		uint64_t last = 0;

		if (http_range_parse(text, sizes[i], &first, &last) == HTTP_RANGE_PART)
			ASSERT(first <= last && last < sizes[i]);
	}
	(void)http_etag_in_list(text, "\"abc\"", true);
	(void)http_etag_in_list(text, "\"abc\"", false);
}

static void date(const char *text)
{
	char back[HTTP_DATE_SIZE];
	int64_t when;

	if (http_date_parse(text, &when) < 0)
		return;
	http_date_format(when, back);
	ASSERT(strcmp(text, back) == 0);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);

	ASSERT(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	size = strlen(text);
	path(text, size);
	query(text, size);
	range(text);
	date(text);
	return 0;
}
