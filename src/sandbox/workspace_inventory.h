/* SPDX-License-Identifier: Apache-2.0 */
/* The files and folders directly in a workspace at one moment, and their changes between two
 * moments. */
#pragma once

#include "engine/engine.h"

struct inventory {
	struct engine_file *files; /* owned, sorted by name */
	size_t n;
	bool more; /* the listing was cut at ENGINE_FILES_MAX entries */
};

void inventory_done(struct inventory *inv);
/* Keeps the regular files and the folders of a listing. -ENOMEM. */
int inventory_set(struct inventory *inv, const struct engine_file *files, size_t n,
		  bool more) MUST_CHECK;
/* Calls FN for every entry of AFTER that BEFORE does not have, or has with another size, time or
 * inode. */
void inventory_diff(const struct inventory *before, const struct inventory *after,
		    void (*fn)(const struct engine_file *file, void *user), void *user);
/* For qsort(3): orders by name, byte by byte. */
int engine_file_compare(const void *a, const void *b);
