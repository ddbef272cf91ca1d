/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: makes an archive as bytes that come out piece by piece. It opens no files:
 * the caller gives names and contents, which are hostile. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <sys/types.h>

/* The end of a zip has all names once more, and they wait for it in memory. With more bytes of them no entry is added
 * (-E2BIG). A tar has no such end. */
#define ARCHIVER_NAMES_MAX (32u << 20)
#define ARCHIVER_END_MAX   (ARCHIVER_NAMES_MAX + (64u << 10))

struct archiver;

enum archive_form {
	ARCHIVE_FORM_TAR, /* GNU tar: names of any length */
	ARCHIVE_FORM_ZIP, /* deflated */
};

const char *archive_form_type(enum archive_form form);   /* media type */
const char *archive_form_suffix(enum archive_form form); /* "tar" */

/* Output is appended to OUT (borrowed); the caller empties it between calls. A call makes little
 * more output than it gets input. Returns NULL if memory is short. */
struct archiver *archiver_new(enum archive_form form, struct buf *out);
struct archiver *archiver_free(struct archiver *a); /* A may be NULL; returns NULL */

/* In both forms a name is UTF-8: invalid bytes become U+FFFD; control characters, \ and : become _.
 * NAME is relative; its parts are joined by '/' and none is "." or "..". Owners, special bits and
 * the write permission of others are left out. All functions below return 0 or a negative errno. */
int archiver_add_folder(struct archiver *a, const char *name, int64_t mtime_ns) MUST_CHECK;
/* The caller must then add SIZE bytes with archiver_add_data(). */
int archiver_add_file(struct archiver *a, const char *name, uint64_t size, mode_t mode,
		      int64_t mtime_ns) MUST_CHECK;
int archiver_add_data(struct archiver *a, const void *data, size_t len) MUST_CHECK;
/* Writes the end of the archive. */
int archiver_end(struct archiver *a) MUST_CHECK;
