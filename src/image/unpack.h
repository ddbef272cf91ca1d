/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks a tar stream into an empty folder so that nothing in it can do harm.
 *
 * Names are split here and opened beneath the folder without following any link. Folders, files,
 * symbolic links and hard links are made; devices, FIFOs and sockets are skipped and counted.
 * Everything belongs to the caller, is readable by everybody, and has no set-uid or set-gid bit, no
 * extended attribute and no file capability. Modification times of files are kept, because Python's
 * compiled files depend on them. */
#pragma once

#include "image/image.h"

#include <archive.h>

#define UNPACK_BYTES_MAX   (UINT64_C(16) << 30)
#define UNPACK_ENTRIES_MAX UINT64_C(1000000)
#define UNPACK_DEPTH_MAX   64
/* Bytes of an archive unpacked for each byte of its file, once it gave more than UNPACK_RATIO_FREE. */
#define UNPACK_RATIO_MAX  UINT64_C(200)
#define UNPACK_RATIO_FREE (UINT64_C(256) << 20)

struct unpack_stats {
	uint64_t entries;
	uint64_t
	    bytes; /* of file contents; with MAX also the disk's blocks beyond them, and folders */
	uint64_t setid;   /* entries that lost a set-uid or set-gid bit */
	uint64_t skipped; /* devices, FIFOs, sockets */
	uint64_t removed; /* names that a layer took away */
	uint64_t max;     /* set by the caller: of BYTES; 0 = UNPACK_BYTES_MAX */
};

/* Bytes that may still come. */
static inline uint64_t unpack_room(const struct unpack_stats *s)
{
	const uint64_t max = s->max ? MIN(s->max, UNPACK_BYTES_MAX) : UNPACK_BYTES_MAX;

	return max - MIN(s->bytes, max);
}

/* A is open for reading; borrowed. What is unpacked is added to *RET, so that several archives share
 * one limit. */
int image_unpack(struct archive *a, int root, const struct image_watch *w, struct unpack_stats *ret,
		 struct err *e) MUST_CHECK;
/* The same, and what the entries say of owners and permissions goes to the file NOTES (notes.h), so that somebody who
 * may can set them. */
int image_unpack_noted(struct archive *a, int root, int notes, const struct image_watch *w,
		       struct unpack_stats *ret, struct err *e) MUST_CHECK;

/* The same for a layer of a container image: it changes the tree of the layers below. `.wh.NAME`
 * removes NAME of the lower layers, `.wh..wh..opq` everything in its folder that is of the lower
 * layers; an entry may replace one of another kind; a folder that a lower layer made a link is
 * found through that link, never outside of the root. */
int image_unpack_layer(struct archive *a, int root, const struct image_watch *w,
		       struct unpack_stats *ret, struct err *e) MUST_CHECK;

/* Copies a folder: DISK is libarchive's reader of disks, whose names begin with TOP. */
int image_unpack_folder(struct archive *disk, const char *top, int root,
			const struct image_watch *w, struct unpack_stats *ret,
			struct err *e) MUST_CHECK;

/* Copies NAME without a leading "./" and a trailing '/' to RET, which has SIZE bytes. -EINVAL: the
 * name is absolute, too long or too deep, or has `..` or an empty part. An empty result is the top
 * folder itself. */
int unpack_clean_name(const char *name, char *ret, size_t size) MUST_CHECK;
