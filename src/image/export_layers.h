/* SPDX-License-Identifier: Apache-2.0 */
/* Packs a root file system as layers of a container image. There are several, so that who pulls the image unpacks the first ones while
 * the others come. The same tree gives the same layers: entries are sorted, nothing of the time or the user is in them, and where
 * a layer ends depends on the sizes of files alone. Each has the folders that its files are in, and no hard link to another
 * layer. */
#pragma once

#include "image/image.h"
#include "image/oci.h"

#include <sodium.h>

/* Bytes of the files of one layer; a larger file has a layer of its own. It is about a third when it is packed. */
#define EXPORT_LAYER_BYTES (UINT64_C(128) << 20)
/* The last one takes all that is left. Container engines have at most 127, and images are built on ours. */
#define EXPORT_LAYERS_MAX 64

struct export_layer {
	int fd; /* owned: the compressed file, without a name */
	struct oci_blob blob;
	char diff_id[OCI_DIGEST_LEN + 1]; /* digest of the bytes before compression */
};

struct export_layers {
	struct export_layer v[EXPORT_LAYERS_MAX];
	size_t n;
};

/* ROOT: the tree; borrowed. BESIDE: path of a file; the layers are made in its folder. Call export_layers_done() also after a failure. */
int export_layers_write(struct export_layers *ret, int root, bool zstd, const char *beside,
			const struct image_watch *w, struct err *e) MUST_CHECK;
void export_layers_done(struct export_layers *l);
