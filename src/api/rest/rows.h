/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: lists of rows of the database, read and written by threads (pieces.h).
 *
 *	static bool add_key(const struct store_key *k, void *user)
 *	{
 *		struct rows *r = user;
 *		return rows_begin(r) && rows_end(r, key_text(r->out, k));
 *	}
 *	static int each_key(struct rows *r, struct store *reading, struct err *e)
 *	{
 *		return store_key_each(reading, r->owner, &r->mark, add_key, r, e);
 *	}
 *	rows_reply(c, rows_new(c, "keys", each_key)); */
#pragma once

#include "api/rest/pieces.h"

struct rows {
	const char *name; /* of the member that has the rows */
	/* On a thread: rows behind those of the earlier pieces. */
	int (*each)(struct rows *r, struct store *reading, struct err *e);
	char owner[STORE_OWNER_SIZE];
	const char *whose;    /* OWNER; NULL: everybody's, for administrators who asked for that */
	char *text, *sandbox; /* owned: queries `q` and `sandbox`; NULL: none */
	uint64_t before;      /* where the next piece goes on, for lists by numbers */
	struct store_mark mark; /* for the others */
	size_t left;            /* rows that may follow */
	char **
	    live; /* owned, sorted: ids of the owner's sandboxes that live, where they are asked for */
	size_t n_live;
	/* What the client is told about a next page: `next` is before the end of a list that has it. */
	bool has_next, more;
	uint64_t bytes;            /* of what was looked at */
	uint64_t found, found_max; /* bytes of rows that a search has found */
	/* While a piece is made: */
	struct buf *out;
	size_t n;  /* rows until now */
	bool full; /* the piece */
	int failed;
};

/* Reads the queries that lists have: all, q, sandbox, limit. NULL: no memory. */
struct rows *rows_new(struct rest_call *c, const char *name,
		      int (*each)(struct rows *r, struct store *reading, struct err *e));
/* Notes which sandboxes of the owner live now, for rows_is_live(). */
void rows_note_live(struct rows *r, struct manager *m);
bool rows_is_live(const struct rows *r, const char *id);
/* Before and after a row. False: the row is not taken, the list ends here, or goes on in the next piece. */
bool rows_begin(struct rows *r);
bool rows_end(struct rows *r, int failed);
/* Answers. R, which may be NULL, is taken. */
void rows_reply(struct rest_call *c, struct rows *r);
