/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of output, of which some are left out. Private to fold*.c. */
#pragma once

#include "tools/fold.h"

#include <string.h>

enum note {
	NOTE_NONE,
	NOTE_SAME_WARNING,
	NOTE_LIKE_WARNING, /* the same but for its numbers */
	NOTE_FRAMES,
};

struct line {
	const char *text; /* with its newline, if it has one */
	size_t len;
	uint64_t hash;
	bool gone;
	enum note note; /* a line in brackets follows */
	unsigned count; /* for the note */
};

struct part {
	struct line *lines;
	size_t n;
};

static inline bool line_begins(const struct line *l, const char *with)
{
	const size_t n = strlen(with);

	return l->len >= n && memcmp(l->text, with, n) == 0;
}

/* fold_terminal.c: is there something in DATA that only a terminal understands? */
bool fold_is_for_terminal(const char *data, size_t len);
/* States of lines that DATA does not have (struct run_states), with places in it. */
struct gone_states {
	struct run_states *list; /* owned by the caller */
	size_t n;
};

/* Adds DATA as a terminal shows it at the end. */
int fold_terminal(struct buf *b, const char *data, size_t len, const struct gone_states *gone);
/* DATA as it is after its backspaces. Percentages and spinners write over themselves with them. The places of GONE become
 * those in what is added. */
int fold_typed(struct buf *b, const char *data, size_t len, struct gone_states *gone);

/* Leaves out of Python's tracebacks what nobody needs to understand them. */
void fold_tracebacks(struct part *p);
