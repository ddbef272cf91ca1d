/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts paths and queries into pieces and decodes percent escapes. No allocation; fuzzed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cuts PATH, which starts with '/', at its slashes. Decodes each segment into OUT (which has room
 * for strlen(PATH) + 1) and stores pointers to them: "/a//b/" is {"a", "", "b", ""}. Returns their
 * number. A segment may have slashes inside (%2F), but then it is a relative path whose parts are
 * not empty: most routes refuse it. -EBADMSG: a bad escape or a NUL. -ENOENT: nothing can have this
 * path, because a segment, or a part of one, is "." or "..", or there are more than MAX segments. */
int http_uri_segments(const char *path, size_t len, char *out, char **segs,
		      unsigned max) MUST_CHECK;

struct http_pair {
	const char *name;
	const char *value;
};

/* Cuts "a=1&b" into decoded pairs in OUT (which has room for strlen + 2). Returns their number, or
 * -EBADMSG: a bad escape, a NUL, or more than MAX pairs. */
int http_uri_query(const char *query, char *out, struct http_pair *pairs, unsigned max) MUST_CHECK;
