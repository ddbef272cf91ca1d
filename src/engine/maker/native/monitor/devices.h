/* SPDX-License-Identifier: Apache-2.0 */
/* /dev of a sandbox: six device nodes, the usual links, folders for pts and shm.
 *
 * When the server was started by root, every sandbox gets its own nodes. A node that is bound from the
 * host shares the inode with the host, so inotify(7) on it would report every open of /dev/null on the
 * machine. A plain user cannot make nodes, so the host's are bound there; SECURITY.md says what that
 * reveals. */
#pragma once

#include "base/attr.h"

/* Makes a read-only tmpfs that is not mounted yet. Returns its descriptor, or -errno. */
int devices_make(void) MUST_CHECK;
/* Fills the folder `dev` of the working folder in the same way, with the host's nodes bound. */
int devices_bind(void) MUST_CHECK;
