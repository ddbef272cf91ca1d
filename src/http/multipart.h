/* SPDX-License-Identifier: Apache-2.0 */
/* An incremental parser for multipart/form-data (RFC 7578, RFC 2046). It allocates nothing, and its
 * result does not depend on how the bytes were split.
 *
 * It is strict where other parsers differ, so that a file cannot be hidden from a filter in front
 * of us. A line that begins with the boundary is the boundary or an error. Every part has one
 * Content-Disposition: form-data with one `name`; each parameter is there once. Heads have no bare
 * line ends, folded lines or control characters, and are UTF-8. The body ends with its last
 * boundary. Text before the first boundary and after the last one is skipped.
 *
 * The caller limits the size of the whole body. The struct is all the memory that is used. */
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
	/* NULL: a field that is not a file. Decoded are only the escapes of forms: \" and \\ in
	 * quoted strings, and %22, %0D, %0A. May be "", and may have '/' and "..": the caller
	 * checks. */
	const char *filename;
};

/* A callback returns 0, or a negative errno with E set. multipart_feed() then returns it and does
 * not touch the parser again (the callback may have freed it). on_part may also return
 * MULTIPART_STOP: then multipart_feed() returns at once, before the data of the part. */
#define MULTIPART_STOP 1
struct multipart_ops {
	int (*on_part)(const struct multipart_part *part, void *user, struct err *e);
	int (*on_data)(const void *data, size_t len, void *user, struct err *e); /* LEN > 0 */
	int (*on_part_end)(void *user, struct err *e);
};

enum multipart_state {
	MULTIPART_DATA,     /* data of a part, or text before the first one */
	MULTIPART_BOUNDARY, /* right behind a boundary */
	MULTIPART_DASH,     /* behind the first '-' of the last boundary */
	MULTIPART_PADDING,
	MULTIPART_LINE_END, /* behind the CR of the boundary's line */
	MULTIPART_HEAD,
	MULTIPART_EPILOGUE,
};

/* Private; it is here only so that callers know its size. */
struct multipart {
	const struct multipart_ops *ops; /* borrowed */
	void *user;
	enum multipart_state state;
	bool in_part;
	bool stop;                                      /* on_part returned MULTIPART_STOP */
	char delimiter[4 + MULTIPART_BOUNDARY_MAX + 1]; /* CR LF - - boundary */
	size_t delimiter_len;
	size_t matched; /* bytes of the delimiter that matched so far */
	size_t virtual; /* of those, bytes that are not data if the match fails: the line end of a
			 * head */
	size_t padding;
	unsigned n_parts;
	size_t head_len;
	char head[MULTIPART_HEAD_MAX + 1];
};

/* CONTENT_TYPE is that of the request; NULL is refused. All failures here and below are
 * ERR_INVALID_ARGUMENT (-EINVAL) with a text for the client, except too many parts:
 * ERR_UPLOAD_TOO_LARGE (-E2BIG). */
int multipart_init(struct multipart *m, const char *content_type, const struct multipart_ops *ops,
		   void *user, struct err *e) MUST_CHECK;
/* *RET_TAKEN: bytes that were used: LEN, unless on_part stopped the parser. */
int multipart_feed(struct multipart *m, const void *data, size_t len, size_t *ret_taken,
		   struct err *e) MUST_CHECK;
/* The body has ended. An error if its last boundary is missing. */
int multipart_end(const struct multipart *m, struct err *e) MUST_CHECK;

/* ---- parts of it, for the parser (multipart_head.c) ---- */

/* The boundary of CONTENT_TYPE, NUL-terminated; RET has MULTIPART_BOUNDARY_MAX + 1 bytes. */
int multipart_boundary(const char *content_type, char *ret, struct err *e) MUST_CHECK;
/* HEAD has LEN bytes: lines that end with CR LF, and a NUL behind them. It is changed, and RET
 * points into it. */
int multipart_head_parse(char *head, size_t len, struct multipart_part *ret,
			 struct err *e) MUST_CHECK;
