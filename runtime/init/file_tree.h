/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of files: copied, set aside and removed, with the rights of whoever calls and nothing but
 * descriptors and single names, so that no name leads anywhere else. Used by the copier of
 * checkpoints.c, a process of its own that may take its time; no run is on meanwhile.
 *
 * Copied: regular files with their holes, folders, symbolic links (as they are, never followed),
 * FIFOs, permissions, times, and the links among at most TREE_LINKS_MAX files with several names
 * (the others are copied apart). Left out and counted: sockets, devices. Not copied: extended
 * attributes, owners (there is one). */
#pragma once

#include <stdint.h>

#define TREE_DEPTH_MAX 256
#define TREE_LINKS_MAX 4096

struct tree_count {
	uint64_t files;   /* regular ones, each name */
	uint64_t bytes;   /* of data, holes left out, each file once */
	uint32_t skipped; /* what cannot be copied */
	uint32_t pad;
};

/* What stands in folder FROM into folder TO. -ELOOP = nested too deep; -ENOSPC and the like leave
 * half of it. C is counted up also then. */
int tree_copy(int from, int to, struct tree_count *c);

/* Removes NAME in PARENT, whatever it is and however deep. No error when it is not there. */
int tree_remove(int parent, const char *name);

/* Removes everything in DIR but BUT (NULL: everything). */
int tree_clear(int dir, const char *but);

/* Moves all of DIR into its folder NAME. */
int tree_set_aside(int dir, const char *name);

/* The opposite: removes all of DIR but NAME, moves out what is in NAME, and removes NAME. Does
 * nothing when there is no NAME. */
int tree_put_back(int dir, const char *name);
