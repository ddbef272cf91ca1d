/* SPDX-License-Identifier: Apache-2.0 */
/* Where the files of the front's questions are, and what the files that answer them share: workspace_files.c,
 * file_listing.c and file_names.c.
 *
 * A path leads to one of a few places, each a descriptor that init holds open since before the first run. It is opened
 * beneath that place: no link is followed and no other mount is entered, so /proc, /sys and /dev cannot be reached. */
#pragma once

#include "init.h"

struct file_place {
	int dir; /* O_PATH, borrowed */
	const char
	    *top; /* the name that the path begins with, with a slash at its end; "" = none */
	const char *below; /* the rest of the path, from DIR on; "." = DIR itself */
	bool writable;
};

/* Opens the places; the mounts are complete. 0 or -errno. */
int places_open(struct init *in);
/* PATH is as proto_path_ok() wants it, and outlives RET. */
struct file_place place_of(const struct init *in, const char *path);
/* Opens the folder of what P names, whose last part goes to RET_NAME. MAKE = make missing folders. P is no place itself. */
int place_open_parent(const struct file_place *p, bool make, const char **ret_name);
/* The same to change something there. -EROFS: it may only be read. -EISDIR: PATH is a place itself. */
int files_open_parent(const struct init *in, const char *path, bool make, const char **ret_name);

/* Answers. R = 0 or -errno; FD is borrowed. */
void files_answer(struct init *in, uint32_t seq, int r);
void files_answer_fd(struct init *in, uint32_t seq, int fd);

/* file_listing.c: the operations LIST and STAT. FILE: as of files_handle(). */
void files_list(struct init *in, const struct proto_init_file *f, int file);
void files_stat(struct init *in, const struct proto_init_file *f, int file);

/* file_names.c: the operation MAKE, and INIT_MOVE. -1 = not a possible request. */
void files_make(struct init *in, const struct proto_init_file *f, int file);
int files_move(struct init *in, const struct proto_init_move *m);

/* file_attributes.c: INIT_SET (-1 = not a possible request), whether NAME in DIR has attributes, and which: their bytes. */
int files_set(struct init *in, const struct proto_init_set *m);
bool attributes_are_there(int dir, const char *name);
size_t attributes_read(int dir, const char *name, char ret[PROTO_ATTRIBUTES_MAX]);
