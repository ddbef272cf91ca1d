/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by scanner.c (structure, numbers, literals), scanner_string.c and scanner_id.c only.
 *
 * A function that returns bool returns false if the text is wrong; the scanner then stops. */
#pragma once

#include "mcp/scanner.h"

enum scan_state {
	ST_VALUE,       /* a value must come */
	ST_FIRST_VALUE, /* a value or ] */
	ST_FIRST_KEY,   /* a key or } */
	ST_KEY,         /* a key must come */
	ST_COLON,
	ST_AFTER, /* , or the end of the container */
	ST_END,   /* only blanks may come */
	ST_STRING,
	ST_ESCAPE,  /* after the backslash */
	ST_HEX,     /* digits of \u */
	ST_UTF8,    /* inside a multi-byte character */
	ST_LITERAL, /* inside true, false, null */
	ST_MINUS,
	ST_ZERO,
	ST_DIGITS,
	ST_POINT,
	ST_FRACTION,
	ST_E,
	ST_E_SIGN,
	ST_EXPONENT,
	ST_DEEP, /* inside a container beyond the largest depth */
};

/* What the next bytes are, for the search of the id. */
enum scan_catching {
	CATCH_NOTHING,
	CATCH_KEY, /* of the outermost object */
	CATCH_ID,
};

/* scanner.c */
/* The text is wrong. Returns false; the first fault is kept. */
bool scan_fail(struct scanner *s, enum scan_fault fault);
/* A limit is exceeded: from here on nothing is kept except the id. Returns true. */
bool scan_discard(struct scanner *s, enum scan_fault fault);
/* Adds bytes to the rest of the message, and to the id while that is being read. */
bool scan_keep(struct scanner *s, const char *data, size_t len);
bool scan_keep_char(struct scanner *s, unsigned char c);

/* scanner_string.c: one call for each state of a string. */
bool scan_begin_string(struct scanner *s, bool is_key);
/* In ST_STRING. Returns how many bytes were used: at least one, unless there is a fault. */
size_t scan_on_string(struct scanner *s, const unsigned char *p, size_t len);
bool scan_on_escape(struct scanner *s, unsigned char c);
bool scan_on_hex(struct scanner *s, unsigned char c);
bool scan_on_utf8(struct scanner *s, unsigned char c);

/* scanner_id.c */
void scan_id_begin(struct scanner *s, enum scan_catching what);
/* More bytes of the key or id that is being read. */
void scan_id_more(struct scan_id *id, const char *data, size_t len);
/* After the colon of a key in the outermost object. */
void scan_id_on_key(struct scanner *s);
/* After the value of a key in the outermost object. */
void scan_id_on_value(struct scan_id *id);
