/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the user's, written to on behalf of a front that has given up its rights.
 *
 * Made before that: a small process that keeps the user's rights, holds the folder, and does two
 * things on request: create a file of a given name under a temporary one, and put it in place.
 * Names come from a sandbox: one component, resolved beneath the folder, no link followed, and what
 * had the name before is replaced, not written to. */
#pragma once

#include "base/err.h"

struct outdir;

/* Makes DIR and its parents where they are missing. Call while single-threaded. */
int outdir_open(const char *dir, struct outdir **ret, struct err *e) MUST_CHECK;
/* A descriptor to write the next file to; owned by the caller. */
int outdir_create(struct outdir *o, int *ret_fd, struct err *e) MUST_CHECK;
/* Names the file that was created last. */
int outdir_place(struct outdir *o, const char *name, struct err *e) MUST_CHECK;
struct outdir *outdir_close(struct outdir *o); /* NULL is fine */
