/* SPDX-License-Identifier: Apache-2.0 */
/* Changes whose caller does not wait for the disk. The helper thread syncs the WAL, once for all who wait. What may remove
 * many rows happens here altogether: a slice of each removal, then it is the turn of the rows that wait. */
#include "store/replica.h"

#include "base/fdio.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEYS_SLICE  64
#define CELLS_SLICE 8 /* each may have megabytes */

struct settling {
	struct list node; /* in helper.settling or helper.settled */
	store_settled_fn fn;
	store_removed_fn removed; /* in place of FN */
	store_wrote_fn wrote;     /* so is this */
	void *user;
	int r;
	/* A removal, or a cell that is written; the helper alone uses it until it is settled. */
	int (*slice)(struct db *db, struct settling *w); /* 1: there may be more */
	char owner[STORE_OWNER_SIZE], *sandbox;          /* SANDBOX: owned */
	uint64_t last;                                   /* number of the newest cell that goes */
	char run[STORE_WORD_SIZE];                       /* whose cell goes */
	struct store_cell *cell;                         /* owned */
	const struct store_config *config;
	enum store_cell_write how;
	struct store_beside beside; /* `run` "": none */
	bool found;
	uint64_t seq; /* of the cell that was written */
	struct err err;
};

static void settling_free(struct settling *w)
{
	store_cell_free(w->cell);
	free(w->sandbox);
	free(w);
}

bool store_later(struct store *s, bool on)
{
	const bool was = s->db.later;

	s->db.later = on;
	return was;
}

void store_changes_by(struct store *s, const char *principal)
{
	if (s)
		s->db.by = principal;
}

bool store_owes(const struct store *s)
{
	return s->replica ? replica_owes(s) : s->db.owes;
}

void store_owes_nothing(struct store *s)
{
	if (s && s->replica)
		s->db.owes = false;
}

static int sync_wal(const struct helper *h)
{
	return !h->db.waits && fdatasync(h->wal) < 0 ? -errno : 0;
}

static int fail(int r, struct err *e)
{
	return err_set(e, store_err_of(-r), -r, "the change may be lost if the machine stops");
}

/* Hands W to the helper; it is the caller's if there is no helper. */
static int enqueue(struct store *s, struct settling *w)
{
	struct helper *h = &s->helper;

	(void)pthread_mutex_lock(&h->lock);
	const int r = helper_start(s);
	if (r == 0) {
		list_append(&h->settling, &w->node);
		(void)pthread_cond_signal(&h->work);
	}
	(void)pthread_mutex_unlock(&h->lock);
	return r;
}

int store_settle(struct store *s, store_settled_fn fn, void *user, struct err *e)
{
	if (s->replica)
		return replica_settle(s, fn, user, e);
	struct settling *w = malloc(sizeof(*w));

	s->db.owes = false;
	if (w) {
		*w = (struct settling){.fn = fn, .user = user};
		if (enqueue(s, w) == 0)
			return 0;
	}
	free(w); /* nobody can do it for us */
	const int r = sync_wal(&s->helper);
	return r < 0 ? fail(r, e) : 1;
}

/* ---- removals ---- */

static int slice_of_cells(struct db *db, struct settling *w)
{
	int n = 0, r = 0;

	if (w->last == 0) {
		r = db_number(db, &w->last, db_begin(db, Q_CELL_LAST, &w->err, ""), &w->err);
		w->last++; /* not 0, even if there are no cells */
	}
	r = r < 0 ? r : db_transaction(db, false, &w->err);
	r = r < 0 ? r
		  : db_run(db, Q_CELL_REMOVE, &n, &w->err, "ttii", w->owner, w->sandbox,
			   (int64_t)w->last - 1, (int64_t)CELLS_SLICE);
	r = db_finish(db, false, r, &w->err);
	w->found = w->found || n > 0;
	return r < 0 ? r : n == CELLS_SLICE;
}

static int slice_of_cell(struct db *db, struct settling *w)
{
	int n = 0;
	int r = db_run(db, Q_CELL_REMOVE_ONE, &n, &w->err, "ttt", w->owner, w->sandbox, w->run);

	w->found = n > 0;
	return r;
}

static int add_cell(struct db *db, struct settling *w)
{
	struct store_cell *c = w->cell;
	uint64_t known = w->how == STORE_CELL_ADD;
	int r = known ? 0
		      : db_number(db, &known,
				  db_begin(db, Q_CELL_KNOWN, &w->err, "tt", c->owner, c->sandbox),
				  &w->err);

	w->found = known > 0;
	if (r < 0 || !w->found)
		return r;
	r = *w->beside.run ? place_beside(db, &w->beside, c, &w->err) : 0;
	r = r < 0 ? r : cell_write(db, w->config, c, &w->err);
	r = r < 0 ? r : db_number(db, &w->seq, db_begin(db, Q_CELL_LAST, &w->err, ""), &w->err);
	if (r == 0 && !*c->place)
		r = db_text(db,
			    db_begin(db, Q_PLACE_OF_SEQ, &w->err, "tti", c->owner, c->sandbox,
				     (int64_t)w->seq),
			    c->place, sizeof(c->place), &w->err);
	return MIN(r, 0);
}

static int change_cell(struct db *db, struct settling *w)
{
	const struct store_cell *c = w->cell;
	int r = db_number(
	    db, &w->seq, db_begin(db, Q_CELL_WRITTEN, &w->err, "ttt", c->owner, c->sandbox, c->run),
	    &w->err);

	w->found = r == 0 && w->seq > 0;
	return r < 0 || !w->found ? r
				  : db_run(db, Q_CELL_CHANGE, NULL, &w->err, "iti", (int64_t)w->seq,
					   c->code, (int64_t)strlen(c->code));
}

static int slice_of_written(struct db *db, struct settling *w)
{
	int r = db_transaction(db, false, &w->err);

	r = r < 0 ? r : w->how == STORE_CELL_CHANGE ? change_cell(db, w) : add_cell(db, w);
	return db_finish(db, false, r, &w->err);
}

/* First the keys, so that the last transaction is short. */
static int slice_of_user(struct db *db, struct settling *w)
{
	int n = 0, gone = 0;
	int r = db_transaction(db, false, &w->err);

	r = r < 0
		? r
		: db_run(db, Q_USER_KEYS_REMOVE, &n, &w->err, "ti", w->owner, (int64_t)KEYS_SLICE);
	if (r >= 0 && n < KEYS_SLICE)
		r = db_run(db, Q_USER_REMOVE, &gone, &w->err, "t", w->owner);
	r = db_finish(db, false, r, &w->err);
	w->found = w->found || gone > 0;
	return r < 0 ? r : n == KEYS_SLICE;
}

static int begin_removal(struct store *s, const struct settling *what, const char *owner,
			 const char *sandbox, struct err *e)
{
	struct settling *w = malloc(sizeof(*w));
	char *copy = strdup(sandbox);
	int r = w && copy ? 0 : -ENOMEM;

	if (r == 0) {
		*w = *what;
		w->sandbox = copy;
		(void)snprintf(w->owner, sizeof(w->owner), "%s", owner);
		r = enqueue(s, w);
	}
	if (r == 0)
		return 0;
	free(copy);
	free(w);
	return err_set(e, ERR_OUT_OF_MEMORY, -r, "a change of the store");
}

int store_cells_remove(struct store *s, const char *owner, const char *sandbox, const char *run,
		       store_removed_fn fn, void *user, struct err *e)
{
	struct settling what = {
	    .removed = fn, .user = user, .slice = run ? slice_of_cell : slice_of_cells};

	copy_text(what.run, sizeof(what.run), run ? run : "");
	return begin_removal(s, &what, owner, sandbox, e);
}

int store_cell_write(struct store *s, struct store_cell *cell, enum store_cell_write how,
		     const struct store_beside *beside, store_wrote_fn fn, void *user,
		     struct err *e)
{
	struct settling *w = malloc(sizeof(*w));

	cell_charge(cell);
	if (w) {
		*w = (struct settling){.wrote = fn,
				       .user = user,
				       .slice = slice_of_written,
				       .cell = cell,
				       .config = &s->config,
				       .how = how};
		if (beside)
			w->beside = *beside;
		if (enqueue(s, w) == 0)
			return 0;
	}
	free(w);
	store_cell_free(cell);
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a change of the store");
}

int store_user_remove_later(struct store *s, const char *id, store_removed_fn fn, void *user,
			    struct err *e)
{
	const struct settling what = {.removed = fn, .user = user, .slice = slice_of_user};

	return begin_removal(s, &what, id, "", e);
}

/* ---- for the helper ---- */

int settle_open(struct helper *h, const char *path, struct err *e)
{
	char wal[PATH_MAX];

	list_init(&h->settling);
	list_init(&h->settled);
	if (!path)
		return 0; /* a database whose commits wait */
	(void)snprintf(wal, sizeof(wal), "%s-wal", path);
	h->wal = open(wal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return h->wal < 0 ? err_set(e, store_err_of(errno), errno, "%s", wal) : 0;
}

/* On the thread, with the lock held. */
void settle_some(struct helper *h)
{
	struct list all = LIST_INIT(all), more = LIST_INIT(more);
	uint64_t one = 1;

	if (list_is_empty(&h->settling))
		return;
	list_splice(&all, &h->settling);
	(void)pthread_mutex_unlock(&h->lock);
	list_for_each(n, &all) {
		struct settling *w = list_entry(n, struct settling, node);

		w->r = w->slice ? w->slice(&h->db, w) : 0;
		if (w->r > 0) {
			list_remove(n);
			list_append(&more, n);
		}
	}
	const int r = list_is_empty(&all) ? 0 : sync_wal(h);
	(void)pthread_mutex_lock(&h->lock);
	list_for_each(n, &all) {
		struct settling *w = list_entry(n, struct settling, node);

		if (w->r == 0)
			w->r = r;
		h->sweep = h->sweep || w->slice == slice_of_user; /* what it left */
	}
	list_splice(&h->settled, &all);
	list_splice(&h->settling, &more);
	/* The loop wants the lock as soon as it is awake. */
	(void)pthread_mutex_unlock(&h->lock);
	(void)!write(h->event_fd, &one, sizeof(one));
	(void)pthread_mutex_lock(&h->lock);
}

static void tell(struct settling *w, const struct err *e)
{
	if (w->removed)
		w->removed(w->found, e, w->user);
	else if (w->wrote)
		w->wrote(w->found ? w->seq : 0, w->cell->place, e, w->user);
	else
		w->fn(e, w->user);
	settling_free(w);
}

#ifdef HAVE_LIBPQ
static void on_copied(const struct err *e, void *user)
{
	tell(user, e);
}

/* Keys of a removed user are not to be found once it is said that the user is gone. */
static bool waits_for_copy(struct store *s, struct settling *w)
{
	struct err e = ERR_INIT;

	if (!s->replica || w->slice != slice_of_user || w->r < 0)
		return false;
	int r = replica_barrier(s, on_copied, w, &e);
	if (r < 0)
		tell(w, &e);
	return r <= 0;
}
#else
static bool waits_for_copy(struct store *s UNUSED, struct settling *w UNUSED)
{
	return false;
}
#endif

void settle_answers(struct store *s)
{
	struct helper *h = &s->helper;
	struct list all = LIST_INIT(all);
	struct settling *w;

	(void)pthread_mutex_lock(&h->lock);
	list_splice(&all, &h->settled);
	(void)pthread_mutex_unlock(&h->lock);
	while ((w = list_pop_first(&all, struct settling, node))) {
		struct err e = ERR_INIT;

		if (w->err.code != ERR_NONE)
			e = w->err;
		if (s->replica && w->r < 0 && e.code == ERR_STORE_UNREACHABLE)
			(void)err_set(&e, e.code, 0, /* for a client: the log has the rest */
				      "the database cannot be reached; it may be done in part");
		if (e.code == ERR_NONE && w->r < 0)
			(void)fail(w->r, &e);
		if (!waits_for_copy(s, w))
			tell(w, w->r < 0 ? &e : NULL);
	}
}

/* For the end of the store, when the helper thread has ended. */
void settle_cancel(struct store *s)
{
	struct helper *h = &s->helper;
	struct settling *w;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	list_splice(&h->settled, &h->settling);
	while ((w = list_pop_first(&h->settled, struct settling, node))) {
		tell(w, &e);
	}
	h->wal = fd_close(h->wal);
}
