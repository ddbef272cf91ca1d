/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/fleet/router: lists that all workers have a part of, merged row by row. No I/O.
 *
 * Each worker's rows stay in its own order, and of two workers the row with the later time comes first. A list with pages tells in
 * `next` how far each worker's rows were taken: "ab3.120_zz9.e" is before the row 120 of worker ab3, and worker zz9 has no more. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "fleet/ids.h"

#include <jansson.h>

#define MERGE_LIMIT_DEFAULT 100u /* as a worker has it: api/rest */
#define MERGE_LIMIT_MAX     1000u
#define MERGE_CURSOR_MAX    (8u << 10)
#define MERGE_BYTES_MAX     (4u << 20) /* of all rows */

struct merge_kind {
	const char *pattern;  /* of its route */
	const char *member;   /* that has the rows */
	const char *at;       /* member of a row: its time. NULL: rows have no order */
	unsigned page;        /* most rows of a page; 0: there are no pages */
	size_t bytes, values; /* most that one worker tells */
};
/* NULL: PATTERN is the route of no list. */
const struct merge_kind *merge_kind_of(const char *pattern);

struct merge_part {
	struct list node; /* of merge_rows.parts */
	void *asked;      /* the owner's, until the worker has told its part */
	void *owner;
	char worker[FLEET_WORKER_SIZE];
	uint64_t before; /* where its rows go on; 0: at the first one */
	bool ended;      /* it has no more rows */
	bool told;
	uint64_t next; /* what it says of its next page; 0: there is none */
	size_t n, taken;
	uint64_t last; /* row that was taken */
};

struct merge_rows {
	const struct merge_kind *kind;
	struct list parts; /* struct merge_part, owned: of the workers that are there */
	size_t limit;      /* 0: none */
	struct merge_row *rows;
	size_t n, bytes;
	struct list
	    before; /* struct merge_part, owned: what the cursor says of workers not in `parts` */
};

void merge_rows_init(struct merge_rows *r, const struct merge_kind *kind);
void merge_rows_done(struct merge_rows *r);
/* Reads `next` of the page before. -EINVAL: it is none; -ENOMEM. */
int merge_read_cursor(struct merge_rows *r, const char *text) MUST_CHECK;
/* The part of WORKER, which begins where the cursor says. NULL: no memory. */
struct merge_part *merge_part_new(struct merge_rows *r, const char worker[FLEET_WORKER_SIZE]);
/* Bytes of each row of ANSWER, free(3); NULL: no memory. Milliseconds for megabytes; any thread. */
size_t *merge_measure(const struct merge_kind *kind, const json_t *answer) MUST_CHECK;
/* Takes what the worker of P says, whose rows have SIZES. -EBADMSG: that is no such list, and counts as not told; -ENOBUFS: too
 * much; -ENOMEM. */
int merge_take(struct merge_rows *r, struct merge_part *p, const json_t *answer,
	       const size_t *sizes) MUST_CHECK;
/* Appends the answer, and frees the rows. MISSING: names of workers. Any thread, if nobody else uses R meanwhile. */
int merge_write(struct merge_rows *r, const json_t *missing, struct buf *ret) MUST_CHECK;
