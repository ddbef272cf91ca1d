/* SPDX-License-Identifier: Apache-2.0 */
/* The names of one layer of an image, and the removal of what a whiteout hides: everything of the
 * lower layers, nothing of the layer itself, in whichever order its entries come.
 *
 * The set keeps a keyed hash of 64 bits for each name, so an archive cannot make two names look
 * alike. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

struct layer_set;

int layer_set_new(struct layer_set **ret) MUST_CHECK;
void layer_set_free(struct layer_set *s);
int layer_set_add(struct layer_set *s, const char *path) MUST_CHECK;
bool layer_set_has(const struct layer_set *s, const char *path);

/* Removes PATH, whose folder is DIR, and what is beneath, except for names of the set. Follows no
 * link. *REMOVED counts. Nothing there: 0. Each folder is looked into once for each set, so a layer of many whiteouts
 * takes no longer than its names: afterwards the folder has only what the layer itself put there. */
int layer_prune(struct layer_set *s, int dir, const char *path, uint64_t *removed) MUST_CHECK;
/* The same for all that is in DIR. PREFIX: the path of DIR with a '/' at its end, or "". */
int layer_prune_children(struct layer_set *s, int dir, const char *prefix,
			 uint64_t *removed) MUST_CHECK;
