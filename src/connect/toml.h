/* SPDX-License-Identifier: Apache-2.0 */
/* Changes one table `[PARENT.NAME]` of a TOML text and leaves every other byte as it was. The text is cut into
 * headers and pairs; values are only skipped. A text in which the table is written in another way (`PARENT = {…}`,
 * `NAME.key = …`, twice, behind a table inside it) is refused with -EBADMSG, as is one that cannot be cut. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

/* Is KEY, of the table or the last part of the name of a table inside it, one that toml_set() replaces? */
typedef bool (*toml_owned_fn)(const char *key, size_t len, const void *user);

/* The text with LINES as first lines of the table, without the keys and tables in it that OWNED names, appended to OUT. The
 * table is made at the end if it is missing. LINES ends with \n. */
int toml_set(const char *text, size_t len, const char *parent, const char *name, const char *lines,
	     toml_owned_fn owned, const void *user, struct buf *out) MUST_CHECK;
/* The text without the table and the tables in it. -ENOENT: there is none. */
int toml_remove(const char *text, size_t len, const char *parent, const char *name,
		struct buf *out) MUST_CHECK;
/* Appends the lines directly behind the header of the table whose keys OWNED names, as toml_set() wrote them, to OUT. */
int toml_first(const char *text, size_t len, const char *parent, const char *name,
	       toml_owned_fn owned, const void *user, struct buf *out) MUST_CHECK;
/* Appends the table and the tables in it, as they are written, to OUT. -ENOENT: there is none. */
int toml_get(const char *text, size_t len, const char *parent, const char *name,
	     struct buf *out) MUST_CHECK;
