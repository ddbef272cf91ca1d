/* SPDX-License-Identifier: Apache-2.0 */
/* What runs did: code, output, small files. The helper thread writes the rows; readers see what it wrote. */
#include "store/db.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_COST  256 /* of a row, besides its texts */
#define DROPS_MAX 256 /* rows that one new row may displace */

/* ---- write ---- */

void store_cell_free(struct store_cell *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_files; i++) {
		free(c->files[i].name);
		free(c->files[i].data);
	}
	free(c->code);
	free(c->out);
	free(c->err);
	free(c->value);
	free(c->meta);
	free(c);
}

static const char *text_of(const char *text)
{
	return text ? text : "";
}

static uint64_t cost_of(const struct store_cell *c)
{
	const char *const texts[] = {c->code, c->out, c->err, c->value, c->meta};
	uint64_t n = ROW_COST;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		n += strlen(text_of(texts[i]));
	for (size_t i = 0; i < c->n_files; i++)
		n += strlen(c->files[i].name) + c->files[i].len;
	return n;
}

void cell_charge(struct store_cell *c)
{
	c->bytes = cost_of(c);
}

void store_note_cell(struct store *s, struct store_cell *cell)
{
	struct note n = {.kind = NOTE_CELL, .cell = cell};

	if (!s) {
		store_cell_free(cell);
		return;
	}
	cell->bytes = cost_of(cell);
	note_push(s, &n);
}

bool store_note_draft(struct store *s, struct store_cell *cell)
{
	struct note n = {.kind = NOTE_DRAFT, .cell = cell};

	/* Without a region nobody could tell later that this server is dead. */
	if (!s || s->running.fd < 0) {
		store_cell_free(cell);
		return true;
	}
	cell->bytes = cost_of(cell);
	return note_push(s, &n);
}

void store_note_name(struct store *s, const char *owner, const char *sandbox, const char *name)
{
	struct note n = {.kind = NOTE_NAME};

	copy_text(n.notebook.owner, sizeof(n.notebook.owner), owner);
	copy_text(n.notebook.sandbox, sizeof(n.notebook.sandbox), sandbox);
	copy_text(n.notebook.name, sizeof(n.notebook.name), name);
	note_push(s, &n);
}

/* Drops the oldest rows while the owner, or all together, have too many. */
static int make_room(struct db *db, const struct store_config *config, const char *owner,
		     struct err *e)
{
	for (int i = 0; i < DROPS_MAX; i++) {
		uint64_t over = 0, all_over = 0;
		int r =
		    db_number(db, &over,
			      db_begin(db, Q_CELL_OVER, e, "tii", owner,
				       (int64_t)config->cells_keep, (int64_t)config->cells_bytes),
			      e);

		r = r < 0 || over ? r
				  : db_number(db, &all_over,
					      db_begin(db, Q_CELL_ALL_OVER, e, "i",
						       (int64_t)config->cells_total),
					      e);
		if (r < 0 || (!over && !all_over))
			return r;
		r = over ? db_run(db, Q_CELL_DROP_OLDEST, NULL, e, "t", owner)
			 : db_run(db, Q_CELL_DROP_OF_LARGEST, NULL, e, "");
		if (r < 0)
			return r;
	}
	return 0;
}

int cell_write(struct db *db, const struct store_config *config, const struct store_cell *c,
	       struct err *e)
{
	uint64_t seq = 0;
	int r = db_run(db, Q_CELL_ADD, NULL, e, "tttiitttttt", c->run, c->owner, c->sandbox,
		       (int64_t)c->started_ms, (int64_t)c->bytes, text_of(c->code), text_of(c->out),
		       text_of(c->err), text_of(c->value), text_of(c->meta), c->place);

	r = r < 0 ? r : db_run(db, Q_DRAFT_DROP, NULL, e, "ttt", c->owner, c->sandbox, c->run);
	r = r < 0 ? r : db_number(db, &seq, db_begin(db, Q_CELL_LAST, e, ""), e);
	for (size_t i = 0; i < c->n_files && r == 0; i++)
		r = db_run(db, Q_CELL_FILE_PUT, NULL, e, "itb", (int64_t)seq, c->files[i].name,
			   (const void *)c->files[i].data, c->files[i].len);
	return r < 0 ? r : make_room(db, config, c->owner, e);
}

int draft_write(struct db *db, unsigned region, const struct store_cell *c, struct err *e)
{
	return db_run(db, Q_DRAFT_PUT, NULL, e, "tttiittttti", c->run, c->owner, c->sandbox,
		      (int64_t)c->started_ms, (int64_t)c->bytes, text_of(c->code), text_of(c->out),
		      text_of(c->err), text_of(c->value), text_of(c->meta), (int64_t)region);
}

int drafts_recover(struct db *db, unsigned region, struct err *e)
{
	int r = db_transaction(db, false, e);

	if (r < 0)
		return r;
	r = db_run(db, Q_DRAFT_KEEP, NULL, e, "i", (int64_t)region);
	r = r < 0 ? r : db_run(db, Q_DRAFT_DROP_ALL, NULL, e, "i", (int64_t)region);
	return db_finish(db, false, r, e);
}

/* ---- read ---- */

/* The texts are borrowed from ST until its next step. */
static char *borrow(const struct cursor *st, int column)
{
	return (char *)(uintptr_t)column_borrow(st, column);
}

static void read_cell(struct cursor *st, struct store_cell *c)
{
	*c = (struct store_cell){.seq = column_u64(st, 0)};
	column_text(st, 1, c->run, sizeof(c->run));
	column_text(st, 2, c->owner, sizeof(c->owner));
	column_text(st, 3, c->sandbox, sizeof(c->sandbox));
	c->started_ms = column_u64(st, 4);
	c->bytes = column_u64(st, 5);
	c->code = borrow(st, 6);
	c->out = borrow(st, 7);
	c->err = borrow(st, 8);
	c->value = borrow(st, 9);
	c->meta = borrow(st, 10);
	c->name = borrow(st, 11);
	column_text(st, 12, c->place, sizeof(c->place));
}

/* Returns how many rows FN saw, or what failed. ST is ended. */
static int each(struct store *s, struct cursor *begun, store_cell_fn fn, void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = begun;
	int n = 0, r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_cell c;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_cell(st, &c);
		n++;
		if (!fn(&c, user))
			break;
	}
	return r < 0 ? r : n;
}

static int64_t bound(uint64_t before)
{
	return before && before < INT64_MAX ? (int64_t)before : INT64_MAX;
}

int store_cells_after(struct store *s, const char *owner, const char *sandbox, const char *after,
		      store_cell_fn fn, void *user, struct err *e)
{
	int r = each(s, db_begin(&s->db, Q_CELL_UP, e, "ttt", owner, sandbox, after), fn, user, e);

	return MIN(r, 0);
}

int store_cells_from(struct store *s, const char *owner, const char *sandbox, const char *from,
		     store_cell_fn fn, void *user, struct err *e)
{
	int r =
	    each(s, db_begin(&s->db, Q_CELL_UP_FROM, e, "ttt", owner, sandbox, from), fn, user, e);

	return MIN(r, 0);
}

int store_cells_before(struct store *s, const char *owner, const char *sandbox, const char *before,
		       store_cell_fn fn, void *user, struct err *e)
{
	int r =
	    each(s, db_begin(&s->db, Q_CELL_BACK, e, "ttt", owner, sandbox, before), fn, user, e);

	return MIN(r, 0);
}

int store_cells_newest(struct store *s, const char *owner, const char *sandbox, uint64_t before,
		       store_cell_fn fn, void *user, struct err *e)
{
	struct cursor *st =
	    sandbox ? db_begin(&s->db, Q_CELL_DOWN, e, "tti", owner, sandbox, bound(before))
		    : db_begin(&s->db, Q_CELL_DOWN_ALL, e, "ti", owner, bound(before));

	int r = each(s, st, fn, user, e);

	return MIN(r, 0);
}

int store_cell_place(struct store *s, const char *owner, const char *sandbox, uint64_t seq,
		     char ret[static STORE_CELL_PLACE_SIZE], struct err *e)
{
	int r = db_text(&s->db,
			db_begin(&s->db, Q_PLACE_OF_SEQ, e, "tti", owner, sandbox,
				 (int64_t)MIN(seq, (uint64_t)INT64_MAX)),
			ret, STORE_CELL_PLACE_SIZE, e);

	if (r == 0) /* as the index has it */
		(void)snprintf(ret, STORE_CELL_PLACE_SIZE, "%016" PRIx64, seq);
	return MIN(r, 0);
}

int store_cell_get(struct store *s, const char *owner, const char *sandbox, const char *run,
		   store_cell_fn fn, void *user, struct err *e)
{
	return each(s, db_begin(&s->db, Q_CELL_GET, e, "ttt", owner, sandbox, run), fn, user, e);
}

int store_cell_file(struct store *s, uint64_t seq, const char *name, struct buf *ret, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_CELL_FILE_GET, e, "it", (int64_t)seq, name);
	int r = st ? db_step(&s->db, st, e) : -e->errnum;

	if (r <= 0)
		return r;
	size_t len = 0;
	const void *data = column_blob(st, 0, &len);
	if (len > 0 && buf_add(ret, data, len) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a file of the history");
	return 1;
}

/* ---- notebooks ---- */

struct told {
	store_notebook_fn fn;
	void *user;
	const struct store_notebook *notebook;
	bool done, more;
};

static bool tell_last(const struct store_cell *c, void *user)
{
	struct told *t = user;

	t->more = t->fn(t->notebook, c, t->user);
	t->done = true;
	return false;
}

int store_notebook_each(struct store *s, const char *owner, uint64_t before, unsigned limit,
			store_notebook_fn fn, void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_NOTEBOOK_LIST, e, "tii", owner, bound(before), (int64_t)limit);
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_notebook n;
		struct told t = {.fn = fn, .user = user, .notebook = &n};

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		column_text(st, 0, n.sandbox, sizeof(n.sandbox));
		n.first_ms = column_u64(st, 1);
		n.last_ms = column_u64(st, 2);
		n.cells = column_u64(st, 3);
		n.bytes = column_u64(st, 4);
		n.last_seq = column_u64(st, 5);
		r = each(s, db_begin(&s->db, Q_CELL_AT, e, "i", (int64_t)n.last_seq), tell_last, &t,
			 e);
		if (r >= 0 && !t.done)
			t.more = fn(&n, NULL, user);
		r = r < 0 ? r : t.more;
	}
	return r;
}
