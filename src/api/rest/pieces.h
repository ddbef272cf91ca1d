/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: answers that may be long, made in pieces while the client reads them. No turn of the loop grows with
 * the answer, and neither does memory: REST_LARGE takes the room of a piece before the first one is made.
 *
 * A maker appends text to `out`, a bounded step at a time, and says what its next step is: on a thread with a connection of
 * the database, or on the loop, which has well below a millisecond for it. The steps before PIECES_BYTES are the first
 * piece. If that is the whole answer, it is sent with its length; a failure until then is a problem document. What
 * follows is made when the client has taken what was before; if it fails, the connection is cut.
 *
 *	struct pieces *p = pieces_new(c, &ops, maker);      ends the call C if there is no memory, and frees the maker
 *	if (p)
 *		pieces_begin(p, PIECES_READ); */
#pragma once

#include "api/rest/rest.h"
#include "base/buf.h"

#define PIECES_BYTES   (128u << 10)
#define PIECES_MAX     (64u << 20)            /* one row may be longer than a piece */
#define PIECES_STEP_NS (500 * UINT64_C(1000)) /* after which a step on the loop ends */

enum pieces_next {
	PIECES_HERE, /* add() */
	PIECES_READ, /* read() */
	PIECES_WORK, /* read() without a database: READING is NULL */
	PIECES_WAIT, /* the maker calls pieces_go_on(); only from add() */
	PIECES_END,  /* all is there */
};

struct pieces;

struct pieces_ops {
	/* On the loop. A negative errno fails the answer, here and in read(); E says why, or it is want of memory. */
	int (*add)(void *maker, struct pieces *p, struct buf *out, struct err *e);
	/* On a thread; READING: see store_read(). NULL where nothing is read. Nothing of the loop may be used. */
	int (*read)(void *maker, struct store *reading, struct buf *out, struct err *e);
	/* Before the answer begins: adds headers, returns the media type. NULL: JSON without any. */
	const char *(*begin)(void *maker, struct http_request *req);
	void (*free)(void *maker);
};

/* The maker is taken. NULL: the call has ended. */
struct pieces *pieces_new(struct rest_call *c, const struct pieces_ops *ops, void *maker);
/* Takes the first step. P and the maker may be gone when this returns. */
void pieces_begin(struct pieces *p, enum pieces_next next);
/* After PIECES_WAIT, from the loop, once; the same holds. */
void pieces_go_on(struct pieces *p, enum pieces_next next);
/* After PIECES_WAIT: what was waited for has failed. */
void pieces_fail(struct pieces *p, const struct err *e);
/* Is there enough for a piece? A step ends then. */
bool pieces_is_full(const struct buf *out);
