/* SPDX-License-Identifier: Apache-2.0 */
/* Places of cells in a notebook. Rows are numbered as they are written, and the oldest number goes first when there are too
 * many, so a number cannot say that a cell stands between older ones. A place is a text, so that between two there is always
 * room for a third one, and no other row changes. A cell that nobody placed has its number in 16 hexadecimal digits. */
#include "store/db.h"

#include <string.h>

/* In the order of their bytes. */
static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
#define BASE (sizeof(digits) - 1)

static size_t value_of(char digit)
{
	const char *at = digit ? strchr(digits, digit) : NULL;

	return at ? (size_t)(at - digits) : 0;
}

/* A place never ends with '0', or there would be no text between "a" and "a0". Numbers may, but none is the beginning of
 * another one. */
int place_between(const char *a, const char *b, char ret[static STORE_CELL_PLACE_SIZE])
{
	bool below = false; /* what RET has so far is less than B already */

	for (size_t n = 0; n < STORE_CELL_PLACE_SIZE - 1; n++) {
		const size_t from = value_of(*a), to = below ? BASE : value_of(*b);

		ret[n] = digits[to > from ? (from + to) / 2 : from];
		ret[n + 1] = '\0';
		if (to > from + 1)
			return 0;
		below = below || to > from;
		a += *a ? 1 : 0;
		b += *b ? 1 : 0;
	}
	return -ENOSPC;
}

int place_beside(struct db *db, const struct store_beside *beside, struct store_cell *c,
		 struct err *e)
{
	char at[STORE_CELL_PLACE_SIZE], other[STORE_CELL_PLACE_SIZE];
	int r =
	    db_text(db, db_begin(db, Q_PLACE_OF_RUN, e, "ttt", c->owner, c->sandbox, beside->run),
		    at, sizeof(at), e);

	if (r == 0)
		return err_set(e, ERR_NOT_FOUND, 0, "The cell %s is not in the history",
			       beside->run);
	r = r < 0 ? r
		  : db_text(db,
			    db_begin(db, beside->behind ? Q_PLACE_NEXT : Q_PLACE_LAST, e, "ttt",
				     c->owner, c->sandbox, at),
			    other, sizeof(other), e);
	if (r < 0 || (r == 0 && beside->behind))
		return r; /* behind the last one: where a new one stands anyhow */
	if (r == 0)
		other[0] = '\0';
	r = beside->behind ? place_between(at, other, c->place)
			   : place_between(other, at, c->place);
	return r < 0 ? err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "Too many cells were put at this place. Put it at another one")
		     : 0;
}
