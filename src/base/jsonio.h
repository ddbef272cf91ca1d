/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing JSON texts, correct also when memory runs out.
 *
 * When an allocation fails, jansson 2.14 continues wrongly: its reader loses a byte and then fails
 * an assertion, which ends the program; its writer leaves out a key. So all JSON texts are read and
 * written with these functions. Any thread writes a value that nobody changes
 * meanwhile (references of jansson are atomic). */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <jansson.h>

/* Like json_loadb(). 0: *RET is a new reference. -ENOMEM, or -EBADMSG with the reason in E, which
 * may be NULL. */
int jsonio_read(const char *text, size_t len, size_t flags, json_t **ret,
		json_error_t *e) MUST_CHECK;
/* The same for a job of base/workers.h; jsonio_read() is for the loop alone. */
int jsonio_read_on_thread(const char *text, size_t len, size_t flags, json_t **ret) MUST_CHECK;
/* How many values the text has at most, as far as it is JSON: about 100 bytes of memory and 100 ns each, when it is read. More than
 * MAX: it stops at MAX + 1. 0: arrays and objects are nested deeper than DEPTH_MAX. */
size_t jsonio_count(const char *text, size_t len, size_t max, size_t depth_max);
#define JSONIO_DEPTH_MAX 512u /* nesting of a value in compact form */

/* Appends the text of VALUE (json_dumps()'s FLAGS); -ENOMEM, -ENOBUFS past the buffer's maximum, -EBADMSG: a string is
 * not UTF-8. JSON_COMPACT and JSON_INDENT(n) are written here, about 1 GB/s of plain text. */
int jsonio_add(struct buf *b, const json_t *value, size_t flags) MUST_CHECK;
/* The text of VALUE, free(3), or NULL: no memory, or VALUE is NULL. */
char *jsonio_text(const json_t *value, size_t flags, size_t *ret_len);
/* About how many bytes the compact text has, which costs a quarter of writing it: strings exactly, numbers as 24
 * bytes. It stops counting when the size is over MAX. */
size_t jsonio_size(const json_t *value, size_t max);
