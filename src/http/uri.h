/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and queries: cutting into pieces and percent decoding. No allocation; fuzzed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cuts PATH (starts with '/') at its slashes, decodes every segment into OUT (room for strlen + 1
 * of PATH), and stores pointers to them. "/a//b/" is {"a", "", "b", ""}. Returns their number;
 * -EBADMSG: bad escape or NUL; -ENOENT: a segment that is "." or ".." or has a slash inside, or
 * more than MAX of them: no such thing can exist here. */
int http_uri_segments(const char *path, size_t len, char *out, char **segs,
		      unsigned max) MUST_CHECK;

struct http_pair {
	const char *name;
	const char *value;
};

/* Cuts "a=1&b" into decoded pairs in OUT (room for strlen + 2). Returns their number or -EBADMSG
 * (bad escape, NUL, more than MAX). */
int http_uri_query(const char *query, char *out, struct http_pair *pairs, unsigned max) MUST_CHECK;
