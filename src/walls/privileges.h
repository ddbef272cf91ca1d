/* SPDX-License-Identifier: Apache-2.0 */
/* How the front gives up the privileges of whoever started it. */
#pragma once

#include "base/err.h"

#include <sys/types.h>

/* Root becomes UID and GID, without further groups. Everybody loses all capabilities and sets
 * no_new_privs, so that no exec gives anything back. Reads all of it back from the kernel. Call it
 * once, single-threaded. */
int privileges_drop(uid_t uid, gid_t gid, struct err *e) MUST_CHECK;
