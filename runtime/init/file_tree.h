/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, sets aside and removes trees of files. Every step opens one name below a descriptor and
 * follows no link, so nothing outside of the tree is touched. Used by the copier (copier.c), a process
 * of its own, so these functions may block. No run is on meanwhile.
 *
 * Copied: regular files with their holes, folders, symbolic links as links, FIFOs, permissions,
 * times, and hard links. Hard links are remembered for at most TREE_LINKS_MAX files; the names of
 * further ones become separate files. Skipped and counted: sockets, devices. Not copied: extended
 * attributes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TREE_DEPTH_MAX 256
#define TREE_LINKS_MAX 4096

struct tree_count {
	uint64_t files;   /* regular files; each name counts */
	uint64_t bytes;   /* data without holes; a file with several names counts once */
	uint32_t skipped; /* sockets and devices */
	uint32_t pad;
};

/* Copies the content of folder FROM into folder TO. OWNERS: each copy gets the owner of its file; else all belong to the
 * caller. -ELOOP = folders are nested deeper than TREE_DEPTH_MAX. After any error TO has a part of the files, and C counts
 * that part. */
int tree_copy(int from, int to, bool owners, struct tree_count *c);

/* Removes NAME in PARENT: a file, or a folder of any depth. No error if it does not exist. */
int tree_remove(int parent, const char *name);

/* Removes everything in DIR except BUT (NULL = no exception). */
int tree_clear(int dir, const char *but);

/* Moves everything else in DIR into its folder NAME. */
int tree_set_aside(int dir, const char *name);

/* Undoes tree_set_aside(): removes everything in DIR except NAME, moves the content of NAME back to
 * DIR and removes NAME. Does nothing if there is no NAME. */
int tree_put_back(int dir, const char *name);
