/* SPDX-License-Identifier: Apache-2.0 */
/* Scales down pictures that are too large for an answer. Untrusted code made the picture, so it
 * is decoded in its own sandbox, by a run of the image's Pillow with limits on time, pixels and
 * output. Of the result only the size and the first bytes are checked. If there is no Pillow, or
 * it fails, there is no small picture. Private to this folder. */
#pragma once

#include "mcp/content.h"
#include "sandbox/sandbox.h"

#define PICTURE_SIDE_MAX   1568        /* pixels of the longer side of the result */
#define PICTURE_PIXELS_MAX 64000000    /* largest picture that is decoded, in pixels */
#define PICTURE_FILE_MAX   (64u << 20) /* largest file that is decoded, in bytes */
#define PICTURE_TIMEOUT_NS (10 * NS_PER_S)

/* BLOCK: image content (owned by the callee), or NULL. */
typedef void (*picture_fn)(json_t *block, void *user);

/* PATH is relative to the workspace and may have any bytes. If the answer is 0, CB is called
 * once, later; until then the sandbox is busy. */
int picture_shrink(struct sandbox *s, const char *path, picture_fn cb, void *user,
		   struct err *e) MUST_CHECK;
