/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/attr.h"

#define FOLDER_FILES_MAX   10000u     /* files of one folder that is uploaded */
#define FOLDER_ENTRIES_MAX 100000u    /* names that are looked at for that */
#define FOLDER_TEXT_MAX    (1u << 20) /* bytes of their names */
#define FOLDER_DEPTH_MAX   16u

/* Returns a memory file with the names of all regular files in the folder FD and below it, relative to
 * it, each with a NUL. Links and special files are left out. -E2BIG: there are too many, or they are
 * too deep. FD is taken. */
int folder_names(int fd) MUST_CHECK;
