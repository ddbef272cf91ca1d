/* SPDX-License-Identifier: Apache-2.0 */
/* A container image on disk: an OCI layout or an unpacked Docker archive, and its layers unpacked
 * into a root file system. Every digest is checked before anything is taken from its file. */
#pragma once

#include "image/oci.h"
#include "image/unpack.h"

enum bundle_kind { BUNDLE_NONE, BUNDLE_OCI, BUNDLE_DOCKER };

/* What the folder looks like; BUNDLE_NONE: an image's root file system, or anything else. */
enum bundle_kind bundle_kind_of(int folder);

struct bundle_facts {
	char digest[OCI_DIGEST_LEN + 1]; /* of the manifest; for a Docker archive of the
					  * configuration, which Docker calls the image's id */
	char path[1024];                 /* PATH of the image's environment; "" = none */
	char created[OCI_TIME_MAX + 1]; /* when the image says that it was made; "" = it does not */
	struct unpack_stats stats;
};

/* A layout whose files are still coming. */
struct bundle_arrival {
	/* Waits until PART is there: BUNDLE_DOCUMENTS or the number of a layer. What is there is checked as always. */
	int (*wait)(void *user, size_t part, struct err *e);
	void *user;
};
#define BUNDLE_DOCUMENTS SIZE_MAX

struct bundle_source {
	int folder; /* borrowed */
	enum bundle_kind kind;
	const char *tag;    /* see oci_parse_index() */
	const char *digest; /* what an OCI layout must begin with; NULL or "" = anything */
	const struct bundle_arrival *arrival; /* of an OCI layout; NULL = all is there */
};

/* ROOT is borrowed. */
int bundle_unpack(const struct bundle_source *source, int root, const struct image_watch *w,
		  struct bundle_facts *ret, struct err *e) MUST_CHECK;

/* Reads a tar file of any compression that images have and unpacks it. DIFF_ID: "sha256:…", which the
 * uncompressed bytes must have; NULL = any. A tar that is not LAYER is unpacked strictly. */
int bundle_unpack_file(int fd, const char *diff_id, bool layer, int root,
		       const struct image_watch *w, struct unpack_stats *stats,
		       struct err *e) MUST_CHECK;
/* A tar that is unpacked strictly, with notes of its owners: see image_unpack_noted(). */
int bundle_unpack_noted(int fd, int root, int notes, const struct image_watch *w,
			struct unpack_stats *stats, struct err *e) MUST_CHECK;
