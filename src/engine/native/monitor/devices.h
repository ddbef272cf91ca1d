/* SPDX-License-Identifier: Apache-2.0 */
/* What /dev of a sandbox holds: six device nodes, the usual links, folders for pts and shm.
 *
 * As host root every sandbox gets nodes of its own: nodes that are bound from the host share their
 * inode with it, and inotify(7) on them would tell of every open of /dev/null on the whole machine.
 * A plain user may make no nodes, so there the host's are bound; SECURITY says what that gives
 * away. */
#pragma once

#include "base/attr.h"

/* A read-only tmpfs that is mounted nowhere yet; its descriptor, or -errno. */
int devices_make(void) MUST_CHECK;
/* The same as a folder `dev` of the working folder, with the host's nodes bound. */
int devices_bind(void) MUST_CHECK;
