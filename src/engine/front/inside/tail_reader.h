/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's side of base/output_tail.h. */
#pragma once

#include "base/attr.h"
#include "base/output_tail.h"

#include <stdbool.h>
#include <stddef.h>

/* A new tail, mapped at RET. Returns a descriptor for the run, or -errno. */
int tail_make(struct output_tail **ret) MUST_CHECK;
/* True = it is ours until tail_release(). Otherwise RET_AGAIN says whether to try again soon: the
 * run is just changing it. */
bool tail_hold(struct output_tail *t, bool *ret_again);
/* Copies what is there into BYTES (OUTPUT_TAIL_ROOM bytes) and empties it. */
size_t tail_take(struct output_tail *t, char *bytes);
/* OPEN: the run may append. Otherwise its next output goes to the pipe. */
void tail_release(struct output_tail *t, bool open);
void tail_unmap(struct output_tail *t); /* NULL = nothing to do */
