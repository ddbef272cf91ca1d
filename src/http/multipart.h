/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data (RFC 7578, RFC 2046) as its bytes come: an incremental parser without
 * allocations. What it says does not depend on how the bytes were split.
 *
 * Strict where others disagree, so that nobody can hide a file from who looked at it before: a line
 * that begins with the boundary is the boundary or an error, every part has one
 * Content-Disposition: form-data with one `name`, parameters are there once, heads have neither
 * bare line ends nor folded lines nor control characters and are UTF-8, and the body ends with its
 * last boundary. What stands before the first boundary and after the last is skipped.
 *
 * Who calls it gives a limit to the whole of the body; memory is the struct and nothing else. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define MULTIPART_BOUNDARY_MAX 70   /* bytes (RFC 2046) */
#define MULTIPART_HEAD_MAX     8192 /* bytes of the head of one part, its blank line included */
#define MULTIPART_PARTS_MAX    100  /* parts of one body */
#define MULTIPART_PADDING_MAX  64   /* blanks behind a boundary */

/* Both are valid during the call. */
struct multipart_part {
	const char *name; /* UTF-8 without NUL */
	/* NULL: a field that is no file. As sent, but for what forms escape: \" and \\ of quoted
	 * strings and %22, %0D, %0A. May be "", may hold '/' and "..": the caller checks. */
	const char *filename;
};

/* Return 0, or a negative errno with E set: multipart_feed() then returns it, and the parser is not
 * touched again (a callback may have freed it). on_part may also return MULTIPART_STOP: then
 * multipart_feed() returns at once, before the data of the part. */
#define MULTIPART_STOP 1
struct multipart_ops {
	int (*on_part)(const struct multipart_part *part, void *user, struct err *e);
	int (*on_data)(const void *data, size_t len, void *user, struct err *e); /* LEN > 0 */
	int (*on_part_end)(void *user, struct err *e);
};

enum multipart_state {
	MULTIPART_DATA,     /* of a part, or what is before the first one */
	MULTIPART_BOUNDARY, /* just behind one */
	MULTIPART_DASH,     /* its first '-', if it is the last one */
	MULTIPART_PADDING,
	MULTIPART_LINE_END, /* its CR was there */
	MULTIPART_HEAD,
	MULTIPART_EPILOGUE,
};

/* Private but for its size. */
struct multipart {
	const struct multipart_ops *ops; /* borrowed */
	void *user;
	enum multipart_state state;
	bool in_part;
	bool stop;                                      /* on_part has asked for it */
	char delimiter[4 + MULTIPART_BOUNDARY_MAX + 1]; /* CR LF - - boundary */
	size_t delimiter_len;
	size_t matched; /* bytes of it that were seen */
	size_t virtual; /* of those, bytes that were not data: a line end that is not its own */
	size_t padding;
	unsigned n_parts;
	size_t head_len;
	char head[MULTIPART_HEAD_MAX + 1];
};

/* CONTENT_TYPE is the request's (NULL is refused). All failures here and below are
 * ERR_INVALID_ARGUMENT (-EINVAL) with a text for the client; too many parts are
 * ERR_UPLOAD_TOO_LARGE (-E2BIG). */
int multipart_init(struct multipart *m, const char *content_type, const struct multipart_ops *ops,
		   void *user, struct err *e) MUST_CHECK;
/* *RET_TAKEN: bytes that were used up, LEN unless on_part has stopped it. */
int multipart_feed(struct multipart *m, const void *data, size_t len, size_t *ret_taken,
		   struct err *e) MUST_CHECK;
/* The body has ended: was its last boundary there? */
int multipart_end(const struct multipart *m, struct err *e) MUST_CHECK;

/* ---- parts of it, for the parser (multipart_head.c) ---- */

/* The boundary of CONTENT_TYPE, NUL-terminated; RET has MULTIPART_BOUNDARY_MAX + 1 bytes. */
int multipart_boundary(const char *content_type, char *ret, struct err *e) MUST_CHECK;
/* HEAD: LEN bytes of lines, each ending with CR LF, and a NUL behind them. It is changed: RET
 * points into it. */
int multipart_head_parse(char *head, size_t len, struct multipart_part *ret,
			 struct err *e) MUST_CHECK;
