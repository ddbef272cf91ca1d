/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of clients that may name any file of a sandbox, not only of its workspace (workspace_path() in sandbox.h). */
#pragma once

#include "sandbox/sandbox.h"

/* Converts PATH, any bytes, absolute or relative to the absolute BASE, into the engine's form (engine.h): "." and ".." are
 * resolved by the text alone, as a shell does before it asks the kernel. What lies in the workspace, by any of its names
 * /mnt/data, /app/results and /home/user, is relative, "" = the workspace itself; everything else is absolute. RET has
 * ENGINE_PATH_MAX bytes. INVALID_PATH: a NUL, or it is too long. */
int sandbox_path(const char *path, size_t len, const char *base, char *ret,
		 struct err *e) MUST_CHECK;

/* Whether PATH, in the engine's form, is outside of the workspace: nobody keeps a list of such files. */
static inline bool sandbox_path_is_outside(const char *path)
{
	return path[0] == '/';
}
