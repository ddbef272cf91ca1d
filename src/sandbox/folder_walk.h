/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the folders of a workspace, one listing after the other. Names come from the sandbox
 * and are not trusted: they are shown, and used as paths inside it. */
#pragma once

#include "sandbox/sandbox.h"

#define WALK_FOLDERS_MAX 200  /* folders that one walk lists */
#define WALK_FILES_MAX   1000 /* files that one walk finds */

struct walk_file {
	char *path; /* owned; relative to the workspace */
	struct engine_file info;
};

struct walk {
	struct walk_file *files; /* owned by the walk; in the order of the folders */
	size_t n;
	size_t n_folders; /* that were listed */
	bool more;        /* a limit ended it early */
};

struct walk_request {
	const char *folder; /* "" = the workspace; copied */
	unsigned depth;     /* levels of folders that are listed; at least 1 */
	bool quiet;         /* leave out names that begin with a dot, and folders of packages */
	bool below;         /* leave out files directly in `folder` */
	/* Whether a file is found, for each regular file that is seen; NULL = all are. USER is that of
	 * the walk. It may be called with more files than the walk finds. */
	bool (*wanted)(const char *path, const struct engine_file *info, void *user);
	size_t max_files;   /* at most WALK_FILES_MAX */
	size_t max_folders; /* at most WALK_FOLDERS_MAX */
};

/* W is valid during the call; NULL with E, if FOLDER cannot be listed. Called once, not before
 * walk_start() has returned. */
typedef void (*walk_fn)(const struct walk *w, const struct err *e, void *user);
int walk_start(struct sandbox *s, const struct walk_request *request, walk_fn cb, void *user,
	       struct err *e) MUST_CHECK;
