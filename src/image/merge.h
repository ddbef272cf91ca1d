/* SPDX-License-Identifier: Apache-2.0 */
/* An image and a layer over it become one tree. */
#pragma once

#include "image/image.h"

/* The last entry of a layer that a sandbox has written (runtime/init/layer.c), because a tar that ends too early looks like
 * one that is complete. Other programs skip names of this kind. */
#define MERGE_END ".wh..wh..end"

#define MERGE_ENTRY_BYTES 4096 /* that an entry takes at least, without its content */

/* Disk space; an empty file or folder takes some, too. */
struct merge_size {
	uint64_t
	    files; /* that were moved or copied; one with a second name in BASE costs nothing */
	uint64_t folders; /* all of them: each tree has its own */
};

/* Makes OUT, an empty folder, from the tree BASE, which stays as it is, and the tree LAYER, whose files are moved. All three are in one
 * file system. Files of BASE get a second name in OUT, so they must never be written again; those that have another owner than root are
 * copied, and get their foreign id (notes.h). In LAYER, `.wh.NAME` says that NAME of BASE is gone, `.wh..wh..opq` that all of that folder
 * is; OCI image specification 1.1. Follows no link. ERR_IMAGE_INVALID: MERGE_END is not there.
 * RET: what OUT has that BASE has not. */
int image_merge(int base, int layer, int out, const struct image_watch *w, struct merge_size *ret,
		struct err *e) MUST_CHECK;
