/* SPDX-License-Identifier: Apache-2.0 */
/* Changes one value of a JSON text that may have comments, trailing commas and a byte order mark, and leaves every
 * other byte as it was. New lines get the indentation and the line ends of the text.
 *
 * PATH is a list of keys from the root, which must be an object; its last element is NULL. If an object has a key
 * twice, the last one counts, as it does for most readers. */
#pragma once

#include "base/buf.h"

#include <jansson.h>

/* 0: *RET is a new reference to the whole value, or NULL if the text has none (empty, or comments alone). -EBADMSG: no
 * such text. -ENOMEM. */
int jsonc_read(const char *text, size_t len, json_t **ret) MUST_CHECK;
/* The text with VALUE at PATH, appended to OUT. Objects on the way that are missing are made. -EBADMSG: no such text,
 * or something on the way is no object. */
int jsonc_set(const char *text, size_t len, const char *const *path, const json_t *value,
	      struct buf *out) MUST_CHECK;
/* The text without the member at PATH. -ENOENT: there is none. */
int jsonc_remove(const char *text, size_t len, const char *const *path, struct buf *out) MUST_CHECK;
