/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files in a sandbox, and their extended attributes, xattr(7): names that begin with `user.`, and values, in turn, each with a NUL at its
 * end. engine_stat_file() tells those of a file. */
#pragma once

#include "engine/engine.h"

/* Makes a folder, with those above it. HOW: ENGINE_FILE_USERS, or 0. ALREADY_EXISTS: something has the name. INVALID_ARGUMENT: a part is no folder. */
int engine_make_folder(struct engine_sandbox *s, const char *path, unsigned how, engine_done_fn cb,
		       void *user, struct err *e) MUST_CHECK;
/* Gives FROM, a file, folder or link, the name TO, and makes the folders above that. ALREADY_EXISTS: something has the name,
 * and HOW has not ENGINE_FILE_OVERWRITE or it cannot take its place: only a file (or link) replaces a file, and a folder an empty one.
 * INVALID_ARGUMENT: into itself, or a part of TO is no folder. NOT_IMPLEMENTED: from one place (the workspace, /tmp,
 * /home/sandbox) to another. */
int engine_move_file(struct engine_sandbox *s, const char *from, const char *to, unsigned how,
		     engine_done_fn cb, void *user, struct err *e) MUST_CHECK;

/* engine_list_files(), and which files have attributes: each file is opened for that. */
int engine_list_attributes(struct engine_sandbox *s, const char *path, engine_list_fn cb,
			   void *user, struct err *e) MUST_CHECK;

/* Sets those of file PATH. ATTRIBUTES has LEN bytes. Others that it has stay. NOT_IMPLEMENTED: its file system has none. */
int engine_set_attributes(struct engine_sandbox *s, const char *path, const char *attributes,
			  size_t len, engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
