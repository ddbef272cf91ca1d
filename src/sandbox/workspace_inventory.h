/* SPDX-License-Identifier: Apache-2.0 */
/* The regular files directly in a workspace at one moment, and what changed between two moments. */
#pragma once

#include "engine/engine.h"

struct inventory {
	struct engine_file *files; /* owned, sorted by name */
	size_t n;
	bool more; /* there were more than a listing can hold */
};

void inventory_done(struct inventory *inv);
/* Keeps the regular files and the folders of a listing. -ENOMEM. */
int inventory_set(struct inventory *inv, const struct engine_file *files, size_t n,
		  bool more) MUST_CHECK;
/* Calls FN for every file of AFTER that is not in BEFORE or differs there in size, times or inode.
 */
void inventory_diff(const struct inventory *before, const struct inventory *after,
		    void (*fn)(const struct engine_file *file, void *user), void *user);
/* By name, as bytes: for qsort(3). */
int engine_file_compare(const void *a, const void *b);
