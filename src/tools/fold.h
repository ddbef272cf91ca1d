/* SPDX-License-Identifier: Apache-2.0 */
/* Output as a model reads it: what repeats is said once, with its number. Private to this folder. */
#pragma once

#include "sandbox/sandbox.h"

#define FOLD_FROM  1000u        /* in a shorter output, what repeats stays */
#define FOLD_BYTES (256u << 10) /* of the beginning, and of the end, that are looked at */
#define FOLD_LINES 8192u        /* of each; further lines stay as they are */

/* Writes O into B with these left out: lines that repeat, alone or as blocks; Python warnings that were said before; the
 * middle of what libraries did in a traceback; states of a progress bar that a terminal would overwrite. A line in brackets
 * has the number. *RET is what is left, borrowed from B and O. Without memory, or if an answer has room for MAX > FOLD_BYTES
 * bytes, it is O. */
void fold_output(const struct run_output *o, size_t max, struct buf *b, struct run_output *ret);

/* As many characters of plain text have as many tokens of a model as O, which is for an answer with room for ROOM of them;
 * four characters are about one token. Numbers, punctuation and other scripts than the Latin one take more tokens. From
 * O->len to FOLD_WEIGHT_MAX times that. */
#define FOLD_WEIGHT_MAX 3
size_t fold_weight(const struct run_output *o, size_t room);
/* How many bytes of O go into ROOM such characters. */
size_t fold_room(const struct run_output *o, size_t room);
