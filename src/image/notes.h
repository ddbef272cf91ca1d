/* SPDX-License-Identifier: Apache-2.0 */
/* Owners and permissions of files in a layer. The worker that unpacks it has no right to set them, and what it reads is
 * hostile; so it notes them in a file, and the process that started it sets them: on files that were made with the draft alone,
 * because all others have a second name in the image below.
 *
 * On disk, other ids than 0 are foreign ones (base/foreign_ids.h).
 * Accounts of the host can see images, so nobody but owner and group may write: that right of others is dropped. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/foreign_ids.h"

#include <stdint.h>
#include <sys/stat.h>

#define NOTES_PIECE  (64u << 10)
#define NOTE_MODES   01775u
#define NOTE_NO_MODE UINT32_MAX /* of a link */
#define NOTE_ID_MAX  65534      /* larger ones become 0: no sandbox has them */

struct note {
	int64_t uid, gid;
	uint32_t mode;
};

struct notes {
	int fd; /* borrowed */
	struct buf text;
};

/* NAME: in the tree, without a leading slash. 0 or -errno. */
int notes_add(struct notes *n, const struct note *note, const char *name) MUST_CHECK;
int notes_end(struct notes *n) MUST_CHECK; /* writes what is left */

/* Sets what the file FD says in ROOT, of files that are not older than OLDEST, which is in ROOT's file system (btime of
 * statx(2)). Names are found beneath ROOT, and no link is followed. ERR_IMAGE_INVALID: no worker of ours wrote that. */
int notes_apply(int fd, int root, const struct statx_timestamp *oldest, struct err *e) MUST_CHECK;
