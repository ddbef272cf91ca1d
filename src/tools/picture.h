/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures that are too large for an answer, made smaller. Whoever made a picture chose its bytes,
 * so it is decoded where it was made: by a run in its own sandbox, with the image's own Pillow,
 * bounded in time, pixels and output. Of what comes back the first bytes are looked at and the
 * size, no more. Where there is no Pillow, or it refuses, there is no small picture. For this
 * folder alone. */
#pragma once

#include "mcp/content.h"
#include "sandbox/sandbox.h"

#define PICTURE_SIDE_MAX   1568        /* pixels of the longer side of what comes back */
#define PICTURE_PIXELS_MAX 64000000    /* of a picture that is decoded at all */
#define PICTURE_FILE_MAX   (64u << 20) /* bytes of its file */
#define PICTURE_TIMEOUT_NS (10 * NS_PER_S)

/* BLOCK: image content (owned by the callee), or NULL. */
typedef void (*picture_fn)(json_t *block, void *user);

/* PATH relative to the workspace, any bytes. CB is called once, later, when this is 0. The sandbox
 * is busy until then. */
int picture_shrink(struct sandbox *s, const char *path, picture_fn cb, void *user,
		   struct err *e) MUST_CHECK;
