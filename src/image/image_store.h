/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of installed images: <state-dir>/images.
 *
 *   NAME/root/           the file system
 *   NAME/manifest.json   what is in it (manifest.h)
 *   NAME/preload         modules that the warm interpreter imports, one a line
 *   .build-NAME-XXXXXX/  being made; its maker holds a lock (flock) on it
 *   .old-NAME-XXXXXX/    replaced or removed, and still in use
 *   .fetch/              what an interrupted pull has fetched; a pull that uses it holds a lock on it
 *   .lock                held while the folder is changed
 *
 * A process that runs sandboxes on an image holds flock(LOCK_SH) on an open descriptor of
 * NAME/root. The files of a replaced image stay until the last of these locks is gone. Locks, not
 * pids or dates, say what is in use: folders without a lock are removed when the next image is
 * made. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

#define IMAGE_OWN_PREFIX                                                                           \
	"t." /* begins the names of images that are one user's: SANDBOX_OWN_IMAGE */
enum image_whose { IMAGES_ALL, IMAGES_SHARED, IMAGES_OWN };

struct image_store {
	char path[PATH_MAX]; /* <state-dir>/images */
	int dir;             /* owned */
};

/* A folder that is being made. Owned by the caller until image_draft_commit() or
 * image_draft_drop(). */
struct image_draft {
	char name[NAME_MAX + 1]; /* .build-NAME-XXXXXX */
	int dir;                 /* owned; carries the lock */
	int root;                /* owned: its `root`, empty at first */
};

#define IMAGE_DRAFT_INIT ((struct image_draft){.dir = -1, .root = -1})

/* Makes the folder if CREATE. -ENOENT: the folder does not exist. */
int image_store_open(struct image_store *s, const char *state_dir, bool create,
		     struct err *e) MUST_CHECK;
void image_store_done(struct image_store *s);

/* Removes what failed builds left behind and what is no longer used. Best effort. */
void image_store_clean(const struct image_store *s);

int image_draft_new(const struct image_store *s, const char *image, struct image_draft *ret,
		    struct err *e) MUST_CHECK;
/* Puts the draft in the place of IMAGE in one step. The old image is removed, or kept under another
 * name while it is used. After success the draft is empty. */
int image_draft_commit(const struct image_store *s, struct image_draft *d, const char *image,
		       struct err *e) MUST_CHECK;
/* Removes the draft and everything in it. Also fine for a draft that was committed or never made.
 */
void image_draft_drop(const struct image_store *s, struct image_draft *d);

/* -ENOENT: no such image. -EBUSY: the image is in use. */
int image_store_remove(const struct image_store *s, const char *image, struct err *e) MUST_CHECK;

/* Whether a process runs sandboxes on IMAGE now. */
bool image_store_is_used(const struct image_store *s, const char *image);

/* Takes its name from IMAGE at once; its files go when nobody uses them any more. -ENOENT. */
int image_store_retire(const struct image_store *s, const char *image, struct err *e) MUST_CHECK;
