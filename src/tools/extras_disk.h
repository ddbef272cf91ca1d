/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is told when the disk of its sandbox is full. */
#pragma once

#include "sandbox/sandbox.h"

/* CB gets a hint with what is used and the largest files; it is "" if nothing could be found out. False: CB is
 * not called. */
typedef void (*disk_told_fn)(const char *hint, void *user);
bool disk_tell(struct sandbox *s, disk_told_fn cb, void *user);
