/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes of files in a sandbox, xattr(7): names that begin with `user.`, and values, in turn, each with a NUL at its
 * end. engine_stat_file() tells those of a file. */
#pragma once

#include "engine/engine.h"

/* engine_list_files(), and which files have attributes: each file is opened for that. */
int engine_list_attributes(struct engine_sandbox *s, const char *path, engine_list_fn cb,
			   void *user, struct err *e) MUST_CHECK;

/* Sets those of file PATH. ATTRIBUTES has LEN bytes. Others that it has stay. NOT_IMPLEMENTED: its file system has none. */
int engine_set_attributes(struct engine_sandbox *s, const char *path, const char *attributes,
			  size_t len, engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
