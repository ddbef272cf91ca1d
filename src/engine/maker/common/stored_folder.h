/* SPDX-License-Identifier: Apache-2.0 */
/* A stored workspace that is a folder: KEY in DIR, with the folders that a sandbox sees, and beside it KEY.lock. The
 * caller of all but stored_folder_forget() holds that lock (folder_lock()), so no other process makes or removes the
 * folder. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes it, for sandboxes whose user is UID here. It gets its name when it is complete. DURABLE: it is on the disk
 * then, however long that takes. 0 or -errno. */
int stored_folder_make(int dir, const char *key, uint32_t uid, bool durable) MUST_CHECK;
/* Opens the one that is there, and sets *UID to the user for whom it was made. Returns the descriptor or -errno. */
int stored_folder_open(int dir, const char *key, uint32_t *uid) MUST_CHECK;
/* The errno R of opening it or its lock; -EUCLEAN if only a wrong hand can have put something else in its place. */
int stored_folder_damage(int r) MUST_CHECK;
/* Gives it a name of the dead (folder.h), whatever stands in its place, and removes its lock. 0 also when there is
 * none; -EBUSY: somebody has it open. */
int stored_folder_forget(int dir, const char *key) MUST_CHECK;
