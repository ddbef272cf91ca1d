/* SPDX-License-Identifier: Apache-2.0 */
/* Range and conditional requests, RFC 9110 §13 and §14. No allocation, no I/O; fuzzed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

enum http_range {
	HTTP_RANGE_WHOLE,         /* no range, several, or one that we do not understand: send
				   * everything (200) */
	HTTP_RANGE_PART,          /* 206 */
	HTTP_RANGE_UNSATISFIABLE, /* 416 */
};

/* Parses VALUE of a Range header (NULL: none) for a file of SIZE bytes. FIRST and LAST are
 * inclusive. */
enum http_range http_range_parse(const char *value, uint64_t size, uint64_t *ret_first,
				 uint64_t *ret_last);

/* Does LIST ("*", or a list of entity tags) name ETAG, which is quoted? WEAK: W/ prefixes are
 * ignored. */
bool http_etag_in_list(const char *list, const char *etag, bool weak);

/* "Sun, 06 Nov 1994 08:49:37 GMT", the only form that is still in use. 30 bytes with the NUL. */
#define HTTP_DATE_SIZE 30
void http_date_format(int64_t unix_s, char ret[HTTP_DATE_SIZE]);
/* -EINVAL for every other form. */
int http_date_parse(const char *s, int64_t *ret) MUST_CHECK;
