/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads, RFC 9112 read strictly: anything that two readers could understand differently is
 * refused.
 *
 * Refused with 400: bare CR, bare LF, NUL and other control characters, folded lines, blanks before
 * a colon, a second header of a name that must be single, Content-Length with Transfer-Encoding,
 * any Transfer-Encoding except exactly `chunked`, a missing or malformed Host, targets that are neither
 * a path nor an absolute http or https URI without user. No allocation, no I/O; fuzzed (tests/fuzz/fuzz_http_head.c). */
#pragma once

#include "http/http.h"

#define HTTP_HEAD_LIMIT 65535u /* offsets are 16 bits */

/* Finds the end of a head that arrives in pieces. Zero-initialise it for each request. */
struct http_scan {
	size_t off;     /* bytes scanned so far */
	unsigned state; /* private */
};

/* BUF has the whole request so far; LEN only grows. Returns the length of the head with its final
 * empty line, 0 if more bytes are needed, or -400 if the bytes can never become a head. Length 2 is
 * an empty line alone, which RFC 9112 §2.2 says to skip once. */
int http_head_scan(struct http_scan *scan, const char *buf, size_t len);

struct http_field {
	uint16_t name; /* offsets into the head; both are NUL-terminated there */
	uint16_t value;
};

enum http_framing {
	HTTP_BODY_NONE,
	HTTP_BODY_LENGTH,
	HTTP_BODY_CHUNKED,
};

struct http_head {
	enum http_method method;
	unsigned minor;  /* HTTP/1.minor: 0 or 1 */
	uint16_t target; /* offset, NUL-terminated: "/path?query" or "*" (OPTIONS only) */
	uint16_t
	    host;   /* offset of the host of an absolute target, else of Host; 0: none (HTTP/1.0) */
	bool https; /* the target is an absolute one of https */
	enum http_framing framing;
	uint64_t content_length; /* with HTTP_BODY_LENGTH */
	bool keep_alive;
	bool expect_continue;
	bool coded; /* the body has another Content-Encoding than identity */
	bool names_coding;
	unsigned n_fields;
	struct http_field fields[HTTP_HEADERS_MAX];
};

/* BUF is a head of LEN bytes that http_head_scan() has found. It is cut into strings in place.
 * Returns 0 or the status to refuse with: 400, 415, 417, 431, 501, 505. */
int http_head_parse(char *buf, size_t len, struct http_head *ret) MUST_CHECK;

/* The value of the first header NAME (any case), or NULL. That of Host is the host of the target if the target has
 * one: the header does not count then (RFC 9112 §3.2.2), so nothing can be checked against the one and made from the
 * other. */
const char *http_head_get(const char *buf, const struct http_head *head, const char *name);

/* Is S a token of RFC 9110 §5.6.2? Also checks the names of headers that we send. */
bool http_is_token(const char *s, size_t len);
/* Is S the value of a header: visible characters, blanks, tabs and bytes above 0x7f? A control character could end its line. */
bool http_is_value(const char *s, size_t len);
