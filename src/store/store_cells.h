/* SPDX-License-Identifier: Apache-2.0 */
/* A part of store.h, which includes it: what runs did, for people. */
#pragma once

#include "store/store.h"

/* A run with its code, output and small files. Bounds: store_config.cells_*; beyond them the oldest of the owner
 * goes, and of all together the oldest of the owner who has most. */
#define STORE_CELL_FILES 9u
struct store_cell_file {
	char *name;
	char *data;
	size_t len;
};
/* Where a cell stands in its notebook: its cells are in the order of these texts. "": before all of them. */
#define STORE_CELL_PLACE_SIZE 128u
#define STORE_CELL_PLACE_END  "~" /* behind all of them */
struct store_cell {
	uint64_t seq;                      /* growing number, given by the store */
	char place[STORE_CELL_PLACE_SIZE]; /* given by the store */
	char run[STORE_WORD_SIZE];
	char owner[STORE_OWNER_SIZE];
	char sandbox[STORE_OWNER_SIZE + 1];
	uint64_t started_ms;
	uint64_t bytes;                        /* what it costs; given by the store */
	char *code, *out, *err, *value, *meta; /* UTF-8 without NUL; NULL means "" */
	const char *name; /* in a listing: its sandbox was renamed to this; or NULL */
	struct store_cell_file files[STORE_CELL_FILES];
	size_t n_files;
};
/* Queues CELL, which is allocated with all its texts by malloc() and taken. S may be NULL. */
void store_note_cell(struct store *s, struct store_cell *cell);
/* The same for a run that has not ended: CELL is the row that the history gets if this server dies before
 * store_note_cell() for that run. It takes the place of an earlier draft; readers do not see it. Bounded in the queue, so
 * that drafts displace no other rows. False: there is no room, try again later. Without store_watch_runs() nothing is
 * written. */
bool store_note_draft(struct store *s, struct store_cell *cell);
void store_cell_free(struct store_cell *cell); /* NULL is fine */
/* Queues: the cells of the sandbox that there are have NAME from now on, or the sandbox has none. store_sandbox_change() does so
 * itself. S may be NULL. */
void store_note_name(struct store *s, const char *owner, const char *sandbox, const char *name);

/* CELL and its texts are valid during the call; it has no files. False ends the listing. */
typedef bool (*store_cell_fn)(const struct store_cell *cell, void *user);
/* The cells of one sandbox of OWNER behind the place AFTER, in their order. */
int store_cells_after(struct store *s, const char *owner, const char *sandbox, const char *after,
		      store_cell_fn fn, void *user, struct err *e) MUST_CHECK;
/* Those at the place FROM and behind it. */
int store_cells_from(struct store *s, const char *owner, const char *sandbox, const char *from,
		     store_cell_fn fn, void *user, struct err *e) MUST_CHECK;
/* Those before the place BEFORE, the last one first. */
int store_cells_before(struct store *s, const char *owner, const char *sandbox, const char *before,
		       store_cell_fn fn, void *user, struct err *e) MUST_CHECK;
/* Those that were written before the cell BEFORE (0 = all), newest first. SANDBOX NULL: of all sandboxes. */
int store_cells_newest(struct store *s, const char *owner, const char *sandbox, uint64_t before,
		       store_cell_fn fn, void *user, struct err *e) MUST_CHECK;
/* The place of the cell SEQ; if it is gone, the one of a cell that was written then. */
int store_cell_place(struct store *s, const char *owner, const char *sandbox, uint64_t seq,
		     char ret[static STORE_CELL_PLACE_SIZE], struct err *e) MUST_CHECK;
/* Calls FN for the cell of that run. 1, or 0 if there is none. */
int store_cell_get(struct store *s, const char *owner, const char *sandbox, const char *run,
		   store_cell_fn fn, void *user, struct err *e) MUST_CHECK;
/* Appends the file NAME of the cell SEQ. 1, or 0 if it is not kept. */
int store_cell_file(struct store *s, uint64_t seq, const char *name, struct buf *ret,
		    struct err *e) MUST_CHECK;
/* Removes the cell of RUN, or with NULL all that the sandbox has now; see store_removed_fn. */
int store_cells_remove(struct store *s, const char *owner, const char *sandbox, const char *run,
		       store_removed_fn fn, void *user, struct err *e) MUST_CHECK;

/* A cell that somebody wrote; its `meta` says "kind":"markdown". CELL is taken in any case. The helper thread writes it; FN is
 * called as a store_removed_fn, with the number and the place of the cell, or 0: there is no such cell (CHANGE), or neither
 * a stored sandbox of that id nor a cell of it (ADD_IF_KNOWN). BESIDE: where a new one is put; ERR_NOT_FOUND: its run is not in the
 * history. NULL: at the end. */
enum store_cell_write {
	STORE_CELL_ADD,
	STORE_CELL_ADD_IF_KNOWN,
	STORE_CELL_CHANGE, /* of the cell with its `run`, the code alone */
};
struct store_beside {
	char run[STORE_WORD_SIZE];
	bool behind; /* the cell of RUN; else before it */
};
typedef void (*store_wrote_fn)(uint64_t seq, const char *place, const struct err *e, void *user);
int store_cell_write(struct store *s, struct store_cell *cell, enum store_cell_write how,
		     const struct store_beside *beside, store_wrote_fn fn, void *user,
		     struct err *e) MUST_CHECK;

struct store_notebook { /* the cells of one sandbox */
	char sandbox[STORE_OWNER_SIZE + 1];
	uint64_t first_ms, last_ms;
	uint64_t cells, bytes;
	uint64_t last_seq;
};
/* LAST: the newest cell; NULL if it was removed meanwhile. */
typedef bool (*store_notebook_fn)(const struct store_notebook *n, const struct store_cell *last,
				  void *user);
/* Those whose last cell is older than the cell BEFORE (0 = all), newest first. */
int store_notebook_each(struct store *s, const char *owner, uint64_t before, unsigned limit,
			store_notebook_fn fn, void *user, struct err *e) MUST_CHECK;
