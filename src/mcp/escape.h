/* SPDX-License-Identifier: Apache-2.0 */
/* The escapes of JSON strings (RFC 8259, section 7). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The character that \C stands for, or 0 if it is not an escape of one letter. */
char escape_value(unsigned char c);
/* The value of four hexadecimal digits. The caller has checked them. */
unsigned escape_hex4(const char *s);
/* Is CP the first half of a surrogate pair? */
bool escape_is_high(unsigned cp);
unsigned escape_join(unsigned high, unsigned low);
/* Writes the code point CP as UTF-8 and returns its length. */
size_t escape_encode_utf8(unsigned cp, char ret[4]);
