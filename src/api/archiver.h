/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: an archive as bytes that come out while it is made. Knows no files: names and
 * contents are given by the caller, and hostile. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <sys/types.h>

struct archiver;

enum archive_form {
	ARCHIVE_FORM_TAR, /* GNU: names of any length, their bytes as they are */
	ARCHIVE_FORM_ZIP, /* deflated; names are UTF-8, what is none or has no business in a name
			   * elsewhere (control characters, \ and :) is replaced */
};

const char *archive_form_type(enum archive_form form);   /* media type */
const char *archive_form_suffix(enum archive_form form); /* "tar" */

/* What is made is appended to OUT (borrowed): the caller empties it between calls, none of which
 * makes much more than it is given. NULL: no memory. */
struct archiver *archiver_new(enum archive_form form, struct buf *out);
struct archiver *archiver_free(struct archiver *a); /* NULL is fine; returns NULL */

/* NAME: relative, parts joined by '/', none of them "." or "..". Owners, special bits and write
 * rights of others are left out. 0 or a negative errno, as all below. */
int archiver_add_folder(struct archiver *a, const char *name, int64_t mtime_ns) MUST_CHECK;
/* SIZE bytes must follow with archiver_add_data(). */
int archiver_add_file(struct archiver *a, const char *name, uint64_t size, mode_t mode,
		      int64_t mtime_ns) MUST_CHECK;
int archiver_add_data(struct archiver *a, const void *data, size_t len) MUST_CHECK;
/* What comes after the last entry. */
int archiver_end(struct archiver *a) MUST_CHECK;
