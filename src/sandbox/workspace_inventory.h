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
/* Keeps the regular files and the folders of a listing, which need not be sorted. -ENOMEM. */
int inventory_set(struct inventory *inv, const struct engine_file *files, size_t n,
		  bool more) MUST_CHECK;
/* Appends path_hash() of every entry of BEFORE whose name AFTER does not have; RET has room for all. */
void inventory_gone(const struct inventory *before, const struct inventory *after, uint64_t *ret,
		    size_t *ret_n);
/* Calls FN for every entry of AFTER that BEFORE does not have, or has with another size, time or
 * inode. Entries of which only the permissions or the number of names differ are left out. */
void inventory_diff(const struct inventory *before, const struct inventory *after,
		    void (*fn)(const struct engine_file *file, void *user), void *user);
/* For qsort(3): orders by name, byte by byte. */
int engine_file_compare(const void *a, const void *b);

/* What is remembered of files in folders. A path that is not known is not an error. */
#define FILE_MARKS_MAX 4096u

struct file_mark {
	uint64_t path; /* path_hash() */
	uint64_t size;
	int64_t mtime_ns;
	int64_t ctime_ns;
	uint64_t inode;
	mode_t mode;
	uint32_t nlink;
};

struct file_marks {
	struct file_mark *marks; /* owned, in no order until file_marks_sort() */
	size_t n;
};

uint64_t path_hash(const char *path);
void file_marks_done(struct file_marks *m);
/* Forgets FILE if there are FILE_MARKS_MAX already, or no memory. */
void file_marks_add(struct file_marks *m, const char *path, const struct engine_file *file);
void file_marks_sort(struct file_marks *m);
/* Whether PATH is known, and FILE as it was then. */
bool file_marks_have(const struct file_marks *m, const char *path, const struct engine_file *file);
/* Adds PATH in order, without the size and times of the file, if it is not there. */
void file_marks_name(struct file_marks *m, const char *path);
/* The same as inventory_gone(). Both are sorted. */
void file_marks_gone(const struct file_marks *before, const struct file_marks *after, uint64_t *ret,
		     size_t *ret_n);

/* Files that clients have uploaded: no run has made them. */
#define UPLOADS_MAX 4096u

struct upload_row {
	uint64_t path;   /* path_hash() */
	uint64_t folder; /* path_hash() of the folder of the workspace that it is in; 0 = in none */
	uint64_t size;
	int64_t at_ns; /* since 1970 */
};

struct uploads {
	struct upload_row *rows; /* owned, sorted by path */
	size_t n;
};

/* Forgets it if there are UPLOADS_MAX already, or no memory. */
void uploads_add(struct uploads *u, const char *path, uint64_t size, int64_t at_ns);
/* Forgets those before BEFORE_NS. */
void uploads_prune(struct uploads *u, int64_t before_ns);
/* Copies those since FROM_NS. -ENOMEM. */
int uploads_copy(const struct uploads *u, int64_t from_ns, struct uploads *ret) MUST_CHECK;
/* Whether FILE, a file or a folder, is as an upload left it. A folder is one of the workspace. */
bool uploads_have(const struct uploads *u, const char *path, const struct engine_file *file);
