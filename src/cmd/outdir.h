/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files to a folder of the user for a front that gave up its privileges.
 *
 * Before the front does that, it forks a small process that keeps the user's privileges and holds the
 * folder. The process does two things on request: create a file under a temporary name, and rename it
 * to its final name, a path below that folder. Names come from a sandbox: no link is followed,
 * and an existing file is replaced, not written to. */
#pragma once

#include "base/err.h"

struct outdir;

/* Makes DIR and its parents if they are missing. Must be called before there are threads. */
int outdir_open(const char *dir, struct outdir **ret, struct err *e) MUST_CHECK;
/* A descriptor of a new file, owned by the caller. */
int outdir_create(struct outdir *o, int *ret_fd, struct err *e) MUST_CHECK;
/* Gives the file that was created last its final name. */
int outdir_place(struct outdir *o, const char *name, struct err *e) MUST_CHECK;
struct outdir *outdir_close(struct outdir *o); /* NULL is fine */
