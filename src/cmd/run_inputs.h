/* SPDX-License-Identifier: Apache-2.0 */
/* The files that `caisson run` copies into its sandbox: the script, modules beside it that it imports, and
 * what --in names. All are opened at the start, while the user's privileges are there. Symbolic links
 * inside a folder are left out: they could lead to any file of the user. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define RUN_INPUTS_MAX 4000 /* files */

struct run_input {
	char *path; /* below the workspace; owned */
	int fd;     /* owned */
	uint64_t size;
};

struct run_inputs {
	struct run_input *list;
	size_t n, room;
	uint64_t bytes, max_bytes;
	unsigned left_out; /* links and special files */
};

/* Adds a file, or a folder with everything in it. A folder whose name ends with '/', and ".", give their
 * contents without their name. */
int run_inputs_add(struct run_inputs *in, const char *path, struct err *e) MUST_CHECK;
/* Adds the script FILE under its own name, and the modules beside it that CODE, its text, imports:
 * NAME.py, or a folder NAME with __init__.py, and those that these import. *RET_PATH, owned by IN, is
 * the script's path below the workspace; NULL if FILE is no regular file. */
int run_inputs_add_script(struct run_inputs *in, const char *file, const struct buf *code,
			  const char **ret_path, struct err *e) MUST_CHECK;
void run_inputs_done(struct run_inputs *in);
