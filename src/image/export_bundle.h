/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a root file system as a container image: an OCI layout in a tar, which also is a Docker
 * archive if wanted. */
#pragma once

#include "image/image.h"

#include <jansson.h>

struct export_bundle {
	const char *tag;          /* "llm-sandbox:latest" */
	const char *created;      /* RFC 3339, of the image */
	const char *architecture; /* oci.h */
	const char *beside;       /* path of the archive; the layers are made beside it */
	bool docker;              /* `docker load` takes it */
	bool zstd;                /* the layers are compressed with zstd, not gzip */
	const char *preload;      /* modules for the warm interpreter of a container, blanks between
			      * them; "" = none */
	json_t *start; /* borrowed: how its containers start (start.h); NULL = as user 1000 with
			      * python3 */
};

/* FD: the archive, empty; ROOT: the tree; both borrowed. */
int export_bundle(int fd, int root, const struct export_bundle *x, const struct image_watch *w,
		  struct err *e) MUST_CHECK;
