/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a picture that clients can show of a file that is none: a large picture, TIFF, BMP, SVG, a page
 * of a PDF. Untrusted code made the file, so it is decoded in its own sandbox, by a run of the image's
 * programs with limits on time, pixels and output. Of the result only the size and the first bytes are
 * checked. If the image has no program for it, or it fails, there is no picture. Private to this
 * folder. */
#pragma once

#include "mcp/content.h"
#include "sandbox/sandbox.h"

#define PICTURE_SIDE_MAX   1568        /* pixels of the longer side of the result */
#define PICTURE_PIXELS_MAX 64000000    /* largest picture that is decoded, in pixels */
#define PICTURE_FILE_MAX   (64u << 20) /* largest file that is decoded, in bytes */
#define PICTURE_LEAST      4096        /* bytes: a smaller result shows nothing */
#define PICTURE_TIMEOUT_NS (20 * NS_PER_S)

enum picture_form {
	PICTURE_RASTER, /* what Pillow reads */
	PICTURE_SVG,
	PICTURE_PDF,
};

/* BLOCK: image content (owned by the callee), or NULL. PAGES: how many pages the document says that it
 * has; 0 = not known. */
typedef void (*picture_fn)(json_t *block, unsigned pages, void *user);

/* PATH is relative to the workspace and may have any bytes. PAGE, from 1: of a PDF. The picture has at most MOST
 * bytes; with less than PICTURE_LEAST none is made. If the answer is 0,
 * CB is called once, later; until then the sandbox is busy. */
int picture_make(struct sandbox *s, const char *path, enum picture_form form, unsigned page,
		 size_t most, picture_fn cb, void *user, struct err *e) MUST_CHECK;
/* How many bytes the first of N pictures may have if all of them shall fit into ROOM bytes: what smaller ones leave is
 * for the larger ones. */
size_t picture_share(const uint64_t *sizes, size_t n, uint64_t room);
/* A link to the file, for a picture that no answer has room for. NULL: no memory. */
json_t *picture_link(const struct sandbox *s, const char *path, uint64_t size);
