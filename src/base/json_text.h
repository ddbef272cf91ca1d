/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text, without a tree: for much text, since runs of plain characters are copied at once. Any thread. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends S as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
int json_text_add(struct buf *b, const char *s, size_t len) MUST_CHECK;
/* The same for text of which the caller knows that it is UTF-8: the check costs as much as the rest. */
int json_text_add_utf8(struct buf *b, const char *s, size_t len) MUST_CHECK;
/* Appends `"KEY":` and the string S; NULL: null. A comma stands before it unless B is empty or ends with a
 * bracket that opens or with a comma. KEY is plain. */
int json_text_member(struct buf *b, const char *key, const char *s) MUST_CHECK;
/* `"KEY":` alone; a value follows. */
int json_text_key(struct buf *b, const char *key) MUST_CHECK;
/* The same for many: TYPES has a letter for each, and a key and a value follow. s: text (NULL: null), i: int64_t, b: bool,
 * j: JSON (a C string), t: text that is left out if it is NULL.
 *
 *	r = json_text_members(&b, "sib", "name", u->name, "age", (int64_t)u->age, "active", u->active); */
int json_text_members(struct buf *b, const char *types, ...) MUST_CHECK;
/* The bracket of an object, with the same comma; `}` ends it. */
int json_text_open(struct buf *b) MUST_CHECK;
/* A whole object of such members. */
int json_text_object(struct buf *b, const char *types, ...) MUST_CHECK;

/* Walks through a JSON text that this program has written: never reads beyond its end, and stops at what it cannot read. */
struct json_walk {
	const char *p, *end;
	bool has_keys;
};
struct json_piece { /* the text of a value, borrowed */
	const char *data;
	size_t len;
};
/* Enters the object or array TEXT. False: it is neither. */
bool json_walk_begin(struct json_walk *w, const char *text, size_t len);
/* The next member, or element (KEY is empty then). False: there is none. */
bool json_walk_next(struct json_walk *w, struct json_piece *key, struct json_piece *value);
/* The member KEY of the object TEXT; its len is 0: there is none. */
struct json_piece json_find(const char *text, size_t len, const char *key);
bool json_piece_is(const struct json_piece *p, const char *text);
/* Appends what the string P says, without its quotes. -EINVAL: it is no string. */
int json_piece_text(const struct json_piece *p, struct buf *ret) MUST_CHECK;
