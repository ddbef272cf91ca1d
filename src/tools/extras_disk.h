/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is told when the disk of its sandbox is full. */
#pragma once

#include "sandbox/sandbox.h"

/* Whether RESULT failed for want of space, as far as its end and its last output tell. */
bool disk_was_full(const struct run_result *result);
/* CB gets a hint with what is used and the largest files; it is "" if nothing could be found out. False: CB is
 * not called. */
typedef void (*disk_told_fn)(const char *hint, void *user);
bool disk_tell(struct sandbox *s, disk_told_fn cb, void *user);
