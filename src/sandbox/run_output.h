/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of one stream of a run, and how it becomes text. Part of sandbox.h. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* States of a line that are not kept, because the line was written over: they stood before the byte AT of the data. */
struct run_states {
	size_t at;
	uint64_t n, bytes;
};

struct run_output { /* the kept part of one stream: any bytes */
	const char *data;
	size_t len, head;     /* HEAD bytes are the stream's beginning; the others are its end */
	bool truncated;       /* bytes between the two parts are missing */
	bool cleared;         /* the screen of a terminal was cleared */
	uint64_t total;       /* bytes that were written */
	uint64_t over, shown; /* lost to a \r; of all lines in their last states */
	const struct run_states *states; /* by their places; borrowed, as DATA is */
	size_t n_states;
	const char *file; /* has more of it (request.whole_over); NULL = there is none */
	uint64_t file_bytes;
	const char *file_lacks; /* why the file is not whole, or why there is none; NULL = it is */
};

/* Appends O as valid UTF-8, at most MAX bytes of it. If bytes are left out, a line between beginning and end
 * has their number and the file with the whole output. WHERE (may be NULL) is added to that line and tells the
 * reader what to do. *RET_CUT: whether there is such a line. */
#define RUN_OUTPUT_MARK 480 /* bytes of that line without WHERE */
int run_output_add(struct buf *b, const struct run_output *o, size_t max, const char *where,
		   bool *ret_cut) MUST_CHECK;
