/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: what a run of the history showed besides text, for its exports. On a thread, as history_text.h. */
#pragma once

#include "base/json_text.h"
#include "store/store.h"

#define HISTORY_NAME_SIZE 1280u

struct history_results {
	struct buf text;       /* the file with them */
	struct json_walk walk; /* through that */
	bool any;
};
struct history_shown {
	bool is_result; /* the value of the last expression */
	bool clears;    /* nothing before it is shown */
	size_t offset, end;
	char file[HISTORY_NAME_SIZE]; /* "": its data are here */
	struct json_piece data;
};

/* Reads those of CELL; without any, history_results_next() finds none. */
void history_results_begin(struct history_results *h, struct store *reading,
			   const struct store_cell *cell);
/* TEXT_LEN: of stdout, which OFFSET and END do not pass; both only grow. */
bool history_results_next(struct history_results *h, size_t text_len, struct history_shown *ret);
void history_results_done(struct history_results *h);
bool history_results_have_file(const struct history_results *h, const char *name);

/* Members of a bundle of Jupyter. PLAIN NULL, or the text/plain that comes first. */
int history_shown_bundle(struct buf *b, const struct history_shown *s,
			 const char *plain) MUST_CHECK;
/* As HTML that needs nothing else: a picture or a table. 0: neither, 1: added. */
int history_shown_page(struct buf *b, const struct history_shown *s) MUST_CHECK;
