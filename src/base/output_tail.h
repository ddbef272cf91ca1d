/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a run shares with whoever reads its standard output, so that printing a line costs no
 * system call and a run that is killed loses nothing.
 *
 * It is a sealed memfd of OUTPUT_TAIL_BYTES that the reader makes for each run of Python code. The
 * run's process collects output in it; the pipe stays the way for everything else.
 *
 *   CLOSED  holds nothing. The run opens it and then writes to the pipe, which wakes the reader.
 *   OPEN    the run appends. When the tail is full it writes what is in it to the pipe.
 *   BUSY    one of the two changes it.
 *
 * The reader looks some milliseconds after the pipe had something. It first empties the pipe, whose
 * bytes are older, and then takes what is here; when there was nothing it closes the tail. At the
 * end of the run it takes what is left whatever the state says. The run may write anything into
 * this memory: the reader checks both numbers and copies the bytes once. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_TAIL_BYTES ((size_t)64 << 10)
#define OUTPUT_TAIL_ROOM  (OUTPUT_TAIL_BYTES - 16)

enum output_tail_state { OUTPUT_TAIL_CLOSED, OUTPUT_TAIL_OPEN, OUTPUT_TAIL_BUSY };

struct output_tail {
	_Atomic uint32_t state; /* enum output_tail_state */
	_Atomic uint32_t at;    /* bytes that the run has written to the pipe already */
	_Atomic uint32_t len;   /* bytes in all */
	uint32_t unused;
	char bytes[OUTPUT_TAIL_ROOM];
};

_Static_assert(sizeof(struct output_tail) == OUTPUT_TAIL_BYTES, "one memfd");
