/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of installed images: <state-dir>/images.
 *
 *   NAME/root/           the file system
 *   NAME/manifest.json   what is in it (manifest.h)
 *   NAME/preload         modules to import ahead of need, one a line
 *   .build-NAME-XXXXXX/  being made; its maker holds a lock (flock) on it
 *   .old-NAME-XXXXXX/    replaced or removed, still in use by somebody
 *   .lock                held for the moments in which the folder is changed
 *
 * Whoever runs sandboxes on an image holds flock(LOCK_SH) on an open descriptor of NAME/root; the
 * files of a replaced image stay until the last of them is gone. Locks, not pids or dates, tell
 * the living from the dead: what nobody holds is removed when the next image is made. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <limits.h>

struct image_store {
	char path[PATH_MAX]; /* <state-dir>/images */
	int dir;             /* owned */
};

/* A folder in the making. Owned by the caller until image_draft_commit() or image_draft_drop(). */
struct image_draft {
	char name[NAME_MAX + 1]; /* .build-NAME-XXXXXX */
	int dir;                 /* owned; carries the lock */
	int root;                /* owned: its `root`, empty at first */
};

#define IMAGE_DRAFT_INIT ((struct image_draft){.dir = -1, .root = -1})

/* Makes the folder when CREATE. -ENOENT: there are no images at all. */
int image_store_open(struct image_store *s, const char *state_dir, bool create,
		     struct err *e) MUST_CHECK;
void image_store_done(struct image_store *s);

/* Removes what dead builders left behind and what is no longer used. Best effort. */
void image_store_clean(const struct image_store *s);

int image_draft_new(const struct image_store *s, const char *image, struct image_draft *ret,
		    struct err *e) MUST_CHECK;
/* Puts the draft in the place of IMAGE in one step; what was there is removed, or put aside while
 * it is used. The draft is spent when this succeeds. */
int image_draft_commit(const struct image_store *s, struct image_draft *d, const char *image,
		       struct err *e) MUST_CHECK;
/* Removes the draft with all that is in it. Fine on a spent or initial one. */
void image_draft_drop(const struct image_store *s, struct image_draft *d);

/* -ENOENT: no such image; -EBUSY: somebody holds it. */
int image_store_remove(const struct image_store *s, const char *image, struct err *e) MUST_CHECK;

/* Removes NAME beneath DIR with everything in it, following no link. */
int image_tree_remove(int dir, const char *name) MUST_CHECK;
