/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files in a sandbox: what one is, new folders, other names. Paths are in the engine's form. */
#pragma once

#include "sandbox/sandbox.h"

/* What PATH is: engine_stat_file(). */
int sandbox_stat(struct sandbox *s, const char *path, engine_stat_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* sandbox_list(), and which files have attributes. */
int sandbox_list_attributes(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user,
			    struct err *e) MUST_CHECK;
/* engine_set_attributes() */
int sandbox_set_attributes(struct sandbox *s, const char *path, const char *attributes, size_t len,
			   engine_done_fn cb, void *user, struct err *e) MUST_CHECK;
/* HOW: bits ENGINE_FILE_*. Both also during a run; SESSION_BUSY while a checkpoint, branch or fork is being made. Other errors as of
 * engine_make_folder() and engine_move_file(). */
int sandbox_make_folder(struct sandbox *s, const char *path, unsigned how, sandbox_done_fn cb,
			void *user, struct err *e) MUST_CHECK;
int sandbox_move(struct sandbox *s, const char *from, const char *to, unsigned how,
		 sandbox_done_fn cb, void *user, struct err *e) MUST_CHECK;
