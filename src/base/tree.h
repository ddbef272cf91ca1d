/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of files whose contents may be hostile: so deep that no path of them is short enough, with folders that nobody may
 * enter, with links that lead elsewhere. Takes as long as the disk does, so not for an event loop. */
#pragma once

#include "base/attr.h"

/* Removes NAME in DIR (or AT_FDCWD) and everything in it; 0 also when there is none. It follows no link and enters no mount
 * (-EXDEV), and needs few descriptors however deep the tree is. It stops with -ESTALE if a folder was moved out of the tree
 * meanwhile. Or -errno of the first thing that could not be removed; the rest is still there then. */
int tree_remove(int dir, const char *name) MUST_CHECK;
