/* SPDX-License-Identifier: Apache-2.0 */
/* Stored workspaces as files and folders of the host: their locks, and their removal; and the lock of a maker.
 *
 * A workspace disappears at once: it gets another name in the same folder, beginning with FOLDER_DEAD, and a
 * process removes it later (remover.h). What is not complete yet has a name that begins with FOLDER_NEW. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>

#define FOLDER_NAME_MAX 128 /* of such a name, with its NUL */
#define FOLDER_NEW      ".new-"
#define FOLDER_DEAD     ".dead-"

/* Opens NAME in DIR with FLAGS of openat(2) and takes its flock(2), without waiting. The lock is of the file
 * that has the name now: one that was removed between both steps is not taken. Returns the descriptor,
 * -EBUSY: somebody else has the lock, or -errno: it cannot be opened. Its owner has a right to it afterwards. */
int folder_lock(int dir, const char *name, int flags) MUST_CHECK;
/* Whether the errno R of folder_lock() says that something stands there that no sandbox has ever locked: a link, a
 * folder, a socket, or what belongs to somebody else. */
bool folder_is_foreign(int r) MUST_CHECK;

/* Makes the file PATH, by whose lock others see that its maker lives, and takes it. Between open(2) and flock(2) the
 * sweep of another maker may take the new file for one of a dead maker and remove it; then the result is -EAGAIN, and
 * the caller tries another name. A descriptor, or -errno. */
int folder_new_lock(const char *path) MUST_CHECK;

/* Makes a folder (mode 0700) or a file (0600) in DIR whose name is of the new, and takes its lock. What a sweep takes for
 * left by a dead maker before it is locked is made again under another name. A descriptor, or -errno. */
int folder_new(int dir, char ret_name[FOLDER_NAME_MAX], bool folder) MUST_CHECK;

/* Gives NAME in DIR a name of the dead. 0 also when there is no NAME. */
int folder_set_aside(int dir, const char *name) MUST_CHECK;

/* Removes everything in DIR that has a name of the dead or of the new and that nobody has locked. Takes as long as
 * the disk does: for a process of its own. */
void folder_sweep(int dir);
