/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces a text in a file, piece by piece: neither the file nor the result is ever in memory as a whole. Runs on any
 * thread and touches nothing but its arguments. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct edit {
	const char *old_text, *new_text; /* borrowed; may have NUL bytes; OLD_LEN > 0 */
	size_t old_len, new_len;
	bool all;      /* else the one match, and nothing is written where there are several */
	uint64_t most; /* bytes of the result */

	uint64_t matches; /* out: those found, from left to right, without overlap */
	uint64_t len;     /* out: bytes of the result */
	bool crlf;        /* out: both texts were taken with the line ends of Windows */
};

/* The most bytes that the result of a file of SIZE bytes can have, and at most E->most. */
uint64_t edit_bound(const struct edit *e, uint64_t size);
/* Reads FROM from its beginning (pread) and appends the result to TO; both stay open and the caller's. 0 also where
 * E->matches says that there was nothing, or too much, to replace: what TO has is of no use then.
 * -EILSEQ = FROM is not text (a NUL byte near its beginning); -EFBIG = the result would have more than E->most bytes. */
int edit_apply(struct edit *e, int from, int to) MUST_CHECK;
/* The same. If there is no match, lines of OLD_TEXT may end as in a file of Windows (CR LF), which a model does not see; then
 * those of NEW_TEXT do, too. */
int edit_apply_lines(struct edit *e, int from, int to) MUST_CHECK;
