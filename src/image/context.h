/* SPDX-License-Identifier: Apache-2.0 */
/* The build context: the files of a folder that COPY and ADD may name. The builder gets a copy of it, so that it sees nothing that
 * .dockerignore leaves out and nothing outside the folder, whatever links the folder has, and so that the limits hold.
 *
 * No link is followed. Sockets are left out; devices and pipes are refused. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/ignore.h"
#include "image/image.h"

#include <archive.h>
#include <sys/types.h>

#define CONTEXT_ENTRIES_MAX UINT64_C(500000)
#define CONTEXT_DEPTH_MAX   64

struct context {
	int from; /* folder; borrowed */
	int to;   /* folder; borrowed; -1: the files are not copied there */
	/* Gets them, as files of root; borrowed. NULL, and no folder: they are counted. */
	struct archive *tar;
	uid_t owner; /* of the copy; (uid_t)-1: the caller */
	struct ignore *ignore;
	uint64_t bytes_max;
	const struct image_watch *watch;
	uint64_t entries, bytes, sockets; /* so far */
	uint64_t packed;                  /* entries of `tar` */
};

int context_take(struct context *c, struct err *e) MUST_CHECK;
