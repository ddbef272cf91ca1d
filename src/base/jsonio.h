/* SPDX-License-Identifier: Apache-2.0 */
/* JSON texts in and out, whatever happens to memory.
 *
 * jansson 2.14 goes on where it must not when an allocation fails: its reader loses a byte and then
 * stops the program by an assertion, its writer leaves out a key. So everybody reads and writes by
 * these functions. One thread at a time. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <jansson.h>

/* As json_loadb(), and as it is meant: *RET is a new reference with 0; -ENOMEM; -EBADMSG with the
 * reason in E (may be NULL). */
int jsonio_read(const char *text, size_t len, size_t flags, json_t **ret,
		json_error_t *e) MUST_CHECK;
/* Appends the text of VALUE (json_dumps()'s FLAGS); -ENOMEM, or -ENOBUFS past the buffer's maximum.
 */
int jsonio_add(struct buf *b, const json_t *value, size_t flags) MUST_CHECK;
/* The text of VALUE, free(3), or NULL: no memory, or VALUE is NULL. */
char *jsonio_text(const json_t *value, size_t flags, size_t *ret_len);
