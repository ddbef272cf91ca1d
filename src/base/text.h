/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, hex, percent-encoding and small string helpers. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* Is the character at S a C1 control character (ECMA-48) in UTF-8? Terminals obey those, too. */
static inline bool text_is_c1(const char *s)
{
	return (uint8_t)s[0] == 0xc2 && (uint8_t)s[1] >= 0x80 && (uint8_t)s[1] < 0xa0;
}

/* Strict UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). */
bool text_is_utf8(const void *data, size_t len);
/* Appends DATA with each maximal invalid sequence replaced by U+FFFD, as Python's
 * bytes.decode('utf-8', 'replace') does (Unicode standard 3.9, "substitution of maximal subparts").
 */
int text_add_utf8_lossy(struct buf *b, const void *data, size_t len) MUST_CHECK;
/* Appends a name, which is valid UTF-8, so that it stays within its line and moves no cursor: one with control
 * characters or line separators is quoted and escaped as JSON is. */
int text_add_name(struct buf *b, const char *s, size_t len) MUST_CHECK;
/* The same without the quotes, for a sentence that may have such a name. */
int text_add_line(struct buf *b, const char *s, size_t len) MUST_CHECK;
/* Longest prefix of at most MAX bytes that does not cut a UTF-8 sequence. */
size_t text_utf8_cut(const char *s, size_t len, size_t max);
#define TEXT_UTF8_OPEN_MAX 3u
/* How many bytes at the end of DATA begin an incomplete UTF-8 sequence. */
size_t text_utf8_open(const char *data, size_t len);

void text_hex(const uint8_t *data, size_t len, char *ret); /* writes 2*len+1 bytes */
/* The value of a hexadecimal digit of either case, or -1. */
int text_hex_digit(char c);
/* Appends S percent-encoded (RFC 3986 unreserved stay; '/' stays when KEEP_SLASH). */
int text_add_percent(struct buf *b, const char *s, size_t len, bool keep_slash) MUST_CHECK;
/* Appends S with the characters escaped that mean something in HTML, as Python's html.escape() does. QUOTES: also those that end
 * an attribute; without it S is fit for the text of an element only. */
int text_add_html(struct buf *b, const char *s, size_t len, bool quotes) MUST_CHECK;
/* Decodes %XX; -EINVAL on a broken escape or an encoded or literal NUL. RET gets at most LEN bytes
 * + NUL. */
int text_percent_decode(const char *s, size_t len, char *ret, size_t *ret_len) MUST_CHECK;
/* Copies S whole into DST of SIZE bytes; -ERANGE (and an empty DST) when it does not fit. */
int text_copy(char *dst, size_t size, const char *s) MUST_CHECK;
/* The end of a noun behind the number N: "" for one, else "s". */
static inline const char *text_s(uintmax_t n)
{
	return n == 1 ? "" : "s";
}
/* Goes through words that '|' separates: the length of the one at *AT, 0 at the end. */
size_t text_next_word(const char *words, size_t *at, const char **ret);
/* Is TEXT one of WORDS? */
bool text_is_word(const char *words, const char *text);
bool text_starts_with(const char *s, const char *prefix);
bool text_ends_with(const char *s, const char *suffix);
