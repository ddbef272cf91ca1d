/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the output of a run within a limit and formats it as text.
 *
 * If a stream is too long, its beginning and its end are kept, because the answer and the traceback
 * are in the last lines. The first half of the buffer is filled once; the second half is a ring. */
#pragma once

#include "base/buf.h"
#include "sandbox/sandbox.h"

#define KEPT_LINE_MAX   1024u /* bytes of a state; a longer one is kept as it comes */
#define KEPT_STATES_MAX 64u   /* lines whose states are counted; of more, the last ones */

struct kept_output {
	struct buf data;
	size_t head;    /* bytes that are never overwritten */
	size_t at;      /* the next write position in the ring, once `data` is full */
	uint64_t total; /* bytes that arrived */
	bool lost;      /* out of memory: nothing more is kept */
	/* Behind the head, states of a line that later ones write over (progress bars) are not kept: thousands of them would
	 * drive what was printed before and after out of the ring. Set it before the first byte. */
	bool settles;
	bool again;  /* a \r came: the next text replaces LINE */
	bool joined; /* LINE began among the data: a \r must stand there, too */
	char line[KEPT_LINE_MAX];
	size_t line_len;
	uint64_t over; /* bytes of states that are not kept */
	/* Those of the line that is written now, and of lines before; AT counts the bytes of STORED. */
	struct run_states now, states[KEPT_STATES_MAX];
	size_t n_states;
	uint64_t stored; /* bytes that were given to DATA, also those that later ones replaced */
	/* What all lines have in their last state, whether earlier ones are kept or not, and whether the screen was cleared. */
	uint64_t shown;
	size_t shown_line;
	bool shown_again, cleared;
	unsigned clear_at; /* bytes of the sequence that have come */
};

/* MAX: bytes to keep. HEAD_ONLY: all of them from the beginning. */
void kept_output_init(struct kept_output *k, size_t max, bool head_only);
/* Keeps the last MAX bytes alone. */
void kept_output_init_tail(struct kept_output *k, size_t max);
void kept_output_done(struct kept_output *k);
void kept_output_add(struct kept_output *k, const void *data, size_t len);
/* LEN bytes are missing here: what was kept of the end so far is dropped, so that what is kept stays in one piece. */
void kept_output_skip(struct kept_output *k, uint64_t len);
/* Does a reader who sees the last states alone miss something in an answer with room for MAX bytes? */
bool kept_output_is_long(const struct kept_output *k, size_t max);
/* Puts the ring in order: call once, at the end. The answer is borrowed from K. */
struct run_output kept_output_end(struct kept_output *k);
