/* SPDX-License-Identifier: Apache-2.0 */
/* What routers know of the stored sandboxes of all workers, and of their objects. Every change of a row gives it the next number of
 * `snapshot_clock`, in the transaction of the change; there is one writer at a time, so numbers become visible in their order. */
#include "store/store_moves.h"

#include "store/db.h"

#include <string.h>

static const uint8_t no_bits[STORE_OBJECTS_BYTES];

static void read_snapshot(struct cursor *st, struct store_snapshot *x)
{
	column_text(st, 0, x->incarnation, sizeof(x->incarnation));
	column_text(st, 1, x->id, sizeof(x->id));
	column_text(st, 2, x->owner, sizeof(x->owner));
	column_text(st, 3, x->worker, sizeof(x->worker));
	x->loading = column_u64(st, 4) != 0;
	x->epoch = (uint32_t)column_u64(st, 5);
	x->generation = (uint32_t)column_u64(st, 6);
	x->snap_epoch = (uint32_t)column_u64(st, 7);
	x->snap_generation = (uint32_t)column_u64(st, 8);
	column_text(st, 9, x->hash, sizeof(x->hash));
	x->disk_bytes = column_u64(st, 10);
	x->bytes = column_u64(st, 11);
	x->saved_ms = column_u64(st, 12);
	x->removed_ms = column_u64(st, 13);
	x->version = column_u64(st, 14);
}

static int get(struct store *s, enum statement q, const char *key, struct store_snapshot *ret,
	       struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, q, e, "t", key);
	const int r = st ? db_step(&s->db, st, e) : -e->errnum;

	if (r == 1)
		read_snapshot(st, ret);
	return r;
}

int store_snapshot_get(struct store *s, const char *incarnation, struct store_snapshot *ret,
		       struct err *e)
{
	return get(s, Q_SNAPSHOT_GET, incarnation, ret, e);
}

int store_snapshot_find(struct store *s, const char *id, struct store_snapshot *ret, struct err *e)
{
	return get(s, Q_SNAPSHOT_FIND, id, ret, e);
}

static int each(struct store *s, struct cursor *st, store_snapshot_fn fn, void *user, struct err *e)
{
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_snapshot x;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_snapshot(st, &x);
		if (!fn(&x, user))
			return 0;
	}
	return r;
}

int store_snapshot_since(struct store *s, uint64_t version, unsigned max, store_snapshot_fn fn,
			 void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_SNAPSHOT_SINCE, e, "ii", (int64_t)version, (int64_t)max);

	return each(s, st, fn, user, e);
}

int store_snapshot_of_worker(struct store *s, const char *worker, const char *after, unsigned max,
			     store_snapshot_fn fn, void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_SNAPSHOT_OF_WORKER, e, "tti", worker, after, (int64_t)max);

	return each(s, st, fn, user, e);
}

/* ---- objects ---- */

struct objects {                             /* a row of snapshot_objects */
	uint8_t stored[STORE_OBJECTS_BYTES]; /* there may be these */
	uint8_t live[STORE_OBJECTS_BYTES];   /* the manifest of the sandbox names these */
	uint8_t dead[STORE_OBJECTS_BYTES];   /* these wait since DEAD_MS to be deleted */
	uint64_t dead_ms;                    /* 0: none wait */
};

static void read_bits(const struct cursor *st, int column, uint8_t ret[STORE_OBJECTS_BYTES])
{
	size_t len = 0;
	const void *bits = column_blob(st, column, &len);

	memset(ret, 0, STORE_OBJECTS_BYTES);
	if (bits && len <= STORE_OBJECTS_BYTES)
		memcpy(ret, bits, len);
}

static bool any_bits(const uint8_t bits[STORE_OBJECTS_BYTES])
{
	return memcmp(bits, no_bits, sizeof(no_bits)) != 0;
}

static void read_objects(struct cursor *st, struct objects *ret)
{
	read_bits(st, 0, ret->stored);
	read_bits(st, 1, ret->live);
	read_bits(st, 2, ret->dead);
	ret->dead_ms = column_u64(st, 3);
}

static int objects_get(struct store *s, const char *incarnation, uint32_t epoch,
		       uint32_t generation, struct objects *ret, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, Q_OBJECTS_GET, e, "tii", incarnation,
						       (int64_t)epoch, (int64_t)generation);
	const int r = st ? db_step(&s->db, st, e) : -e->errnum;

	*ret = (struct objects){0};
	if (r == 1)
		read_objects(st, ret);
	return r;
}

/* The generation after AT, which becomes it. 1 or 0. */
static int objects_next(struct store *s, const char *incarnation, struct store_objects *at,
			struct objects *ret, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_OBJECTS_NEXT, e, "tii", incarnation, (int64_t)at->epoch,
		     (int64_t)at->generation);
	const int r = st ? db_step(&s->db, st, e) : -e->errnum;

	if (r != 1)
		return r;
	read_objects(st, ret);
	at->epoch = (uint32_t)column_u64(st, 4);
	at->generation = (uint32_t)column_u64(st, 5);
	return 1;
}

/* An object that no manifest names waits from now on, unless it waits already. One that is named after all, because the order that
 * stored it has ended, waits no more. What becomes dead while others wait comes after these, for it has not waited as long. */
static void settle(struct objects *o)
{
	for (size_t i = 0; i < STORE_OBJECTS_BYTES; i++)
		o->dead[i] &= o->stored[i] & (uint8_t)~o->live[i];
	if (any_bits(o->dead))
		return;
	for (size_t i = 0; i < STORE_OBJECTS_BYTES; i++)
		o->dead[i] = o->stored[i] & (uint8_t)~o->live[i];
	o->dead_ms = any_bits(o->dead) ? store_now_ms() : 0;
}

/* All of its dead objects wait from now on. */
static void wait_anew(struct objects *o)
{
	memset(o->dead, 0, sizeof(o->dead));
	settle(o);
}

static int objects_set(struct store *s, const char *incarnation, uint32_t epoch,
		       uint32_t generation, const struct objects *o, struct err *e)
{
	if (!any_bits(o->stored))
		return db_run(&s->db, Q_OBJECTS_REMOVE, NULL, e, "tii", incarnation, (int64_t)epoch,
			      (int64_t)generation);
	return db_run(&s->db, Q_OBJECTS_SET, NULL, e, "tiibbbi", incarnation, (int64_t)epoch,
		      (int64_t)generation, o->stored, sizeof(o->stored), o->live, sizeof(o->live),
		      o->dead, sizeof(o->dead), (int64_t)o->dead_ms);
}

static int refuse_order(struct err *e)
{
	return err_set(e, ERR_STORE_BUSY, EBUSY,
		       "another worker has this sandbox, or it was removed");
}

/* What is noted after its sandbox was removed, or was given away, would never be looked at again. */
static int check_under_way(struct store *s, const char *incarnation, const struct store_objects *o,
			   struct err *e)
{
	struct store_snapshot row = {0};
	const int r = store_snapshot_get(s, incarnation, &row, e);

	if (r < 0 || (r > 0 && row.removed_ms == 0 && row.epoch == o->epoch &&
		      o->generation <= row.generation))
		return MIN(r, 0);
	return refuse_order(e);
}

int store_snapshot_stored(struct store *s, const char *incarnation, const struct store_objects *o,
			  struct err *e)
{
	struct objects row;
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : check_under_way(s, incarnation, o, e);
	r = r < 0 ? r : objects_get(s, incarnation, o->epoch, o->generation, &row, e);
	if (r >= 0) {
		for (size_t i = 0; i < STORE_OBJECTS_BYTES; i++)
			row.stored[i] |= o->bits[i];
		/* If the order never ends, they are deleted. While it goes on, none of them is. */
		wait_anew(&row);
		r = objects_set(s, incarnation, o->epoch, o->generation, &row, e);
	}
	return db_finish(&s->db, true, r, e);
}

static const struct store_objects *kept_of(const struct store_objects *keeps, size_t n,
					   const struct store_objects *at)
{
	for (size_t i = 0; i < n; i++)
		if (keeps[i].epoch == at->epoch && keeps[i].generation == at->generation)
			return &keeps[i];
	return NULL;
}

static bool are_stored(const struct objects *row, const uint8_t bits[STORE_OBJECTS_BYTES])
{
	for (size_t i = 0; i < STORE_OBJECTS_BYTES; i++)
		if (bits[i] & ~row->stored[i])
			return false;
	return true;
}

/* The objects KEEPS are needed, and no others of the sandbox. */
static int keep(struct store *s, const char *incarnation, const struct store_objects *keeps,
		size_t n, struct err *e)
{
	struct store_objects at = {0}; /* before the first generation */
	struct objects row = {0};
	size_t found = 0, named = 0;
	int r;

	while ((r = objects_next(s, incarnation, &at, &row, e)) > 0) {
		const struct store_objects *kept = kept_of(keeps, n, &at);
		const struct objects was = row;

		found += kept && any_bits(kept->bits) && are_stored(&row, kept->bits);
		memcpy(row.live, kept ? kept->bits : no_bits, sizeof(row.live));
		settle(&row);
		if (memcmp(&was, &row, sizeof(row)) != 0)
			r = objects_set(s, incarnation, at.epoch, at.generation, &row, e);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++)
		named += any_bits(keeps[i].bits);
	return r < 0 || found == named
		   ? r
		   : err_set(e, ERR_SNAPSHOT_INVALID, 0,
			     "the manifest names objects that nobody has stored");
}

/* ---- saving ---- */

static int tick(struct store *s, struct err *e)
{
	return db_run(&s->db, Q_SNAPSHOT_TICK, NULL, e, "");
}

static int check_row(const struct store_snapshot *row, const struct store_snapshot *x,
		     struct err *e)
{
	return row->removed_ms > 0 || row->epoch != x->epoch || row->loading ||
		       strcmp(row->worker, x->worker) != 0
		   ? refuse_order(e)
		   : 0;
}

static int begin(struct store *s, const struct store_snapshot *x, struct store_snapshot *ret,
		 struct err *e)
{
	struct store_snapshot row = {0};
	int r = store_snapshot_get(s, x->incarnation, &row, e);

	if (r == 0) {
		r = store_snapshot_find(s, x->id, &row, e);
		if (r > 0 || (r == 0 && x->epoch > 0))
			return refuse_order(e); /* another incarnation, or a row that was removed */
		r = r < 0 ? r
			  : db_run(&s->db, Q_SNAPSHOT_ADD, NULL, e, "ttttii", x->incarnation, x->id,
				   x->owner, x->worker, (int64_t)x->epoch, (int64_t)x->disk_bytes);
	} else if (r > 0) {
		r = check_row(&row, x, e);
	}
	r = r < 0 ? r
		  : db_run(&s->db, Q_SNAPSHOT_GENERATION, NULL, e, "ti", x->incarnation,
			   (int64_t)x->disk_bytes);
	r = r < 0 ? r : store_snapshot_get(s, x->incarnation, ret, e);
	return MIN(r, 0);
}

int store_snapshot_begin(struct store *s, const struct store_snapshot *x,
			 struct store_snapshot *ret, struct err *e)
{
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : tick(s, e);
	r = r < 0 ? r : begin(s, x, ret, e);
	return db_finish(&s->db, true, r, e);
}

static int check_sum(uint64_t there, uint64_t more, uint64_t max, const char *whose, struct err *e)
{
	if (max == 0 || (there <= max && more <= max - there))
		return 0;
	return err_set(e, ERR_QUOTA_EXCEEDED, 0,
		       "saved sandboxes %s may have %ju bytes, and this one needs %ju beside %ju",
		       whose, (uintmax_t)max, (uintmax_t)more, (uintmax_t)there);
}

int store_snapshot_fits(struct store *s, const struct store_snapshot *x, uint64_t bytes,
			uint64_t owner_max, uint64_t all_max, struct err *e)
{
	uint64_t own = 0, all = 0;
	int r = db_number(&s->db, &own,
			  db_begin(&s->db, Q_SNAPSHOT_BYTES, e, "tt", x->owner, x->incarnation), e);

	r = r < 0 ? r
		  : db_number(&s->db, &all,
			      db_begin(&s->db, Q_SNAPSHOT_BYTES_ALL, e, "t", x->incarnation), e);
	r = r < 0 ? r : check_sum(own, bytes, owner_max, "of one user", e);
	return r < 0 ? r : check_sum(all, bytes, all_max, "of all users", e);
}

int store_snapshot_saved(struct store *s, const struct store_snapshot *x,
			 const struct store_objects *keeps, size_t n, struct err *e)
{
	int changed = 0;
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : tick(s, e);
	r = r < 0 ? r
		  : db_run(&s->db, Q_SNAPSHOT_SAVED, &changed, e, "tiitii", x->incarnation,
			   (int64_t)x->epoch, (int64_t)x->generation, x->hash, (int64_t)x->bytes,
			   (int64_t)store_now_ms());
	if (r >= 0 && changed > 0)
		r = keep(s, x->incarnation, keeps, n, e);
	r = db_finish(&s->db, true, r, e);
	return r < 0 ? r : changed > 0;
}

/* ---- where it is ---- */

/* One statement that changes the row. 1 or 0. */
#define CHANGE(s, e, q, ...)                                                                       \
	({                                                                                         \
		int changed_ = 0;                                                                  \
		int r_ = db_transaction(&(s)->db, true, e);                                        \
		r_ = r_ < 0 ? r_ : tick(s, e);                                                     \
		r_ = r_ < 0 ? r_ : db_run(&(s)->db, q, &changed_, e, __VA_ARGS__);                 \
		r_ = db_finish(&(s)->db, true, r_, e);                                             \
		r_<0 ? r_ : changed_> 0;                                                           \
	})

int store_snapshot_take(struct store *s, const char *incarnation, uint32_t epoch,
			const char *worker, struct store_snapshot *ret, struct err *e)
{
	if (epoch >= STORE_EPOCH_MAX)
		return err_set(e, ERR_INTERNAL, 0, "a sandbox has moved too often");
	const int taken = CHANGE(s, e, Q_SNAPSHOT_TAKE, "tit", incarnation, (int64_t)epoch, worker);
	const int r = taken < 0 ? taken : store_snapshot_get(s, incarnation, ret, e);

	return r < 0 ? r : r > 0 && taken > 0;
}

int store_snapshot_here(struct store *s, const char *incarnation, uint32_t epoch, struct err *e)
{
	return CHANGE(s, e, Q_SNAPSHOT_HERE, "ti", incarnation, (int64_t)epoch);
}

int store_snapshot_raise(struct store *s, const char *incarnation, uint32_t epoch,
			 const char *worker, struct err *e)
{
	return CHANGE(s, e, Q_SNAPSHOT_RAISE, "tit", incarnation, (int64_t)epoch, worker);
}

int store_snapshot_back(struct store *s, const char *incarnation, uint32_t epoch,
			const char *worker, struct err *e)
{
	return CHANGE(s, e, Q_SNAPSHOT_BACK, "tit", incarnation, (int64_t)epoch, worker);
}

int store_snapshot_nowhere(struct store *s, const char *incarnation, uint32_t epoch, struct err *e)
{
	return CHANGE(s, e, Q_SNAPSHOT_NOWHERE, "ti", incarnation, (int64_t)epoch);
}

/* ---- the end ---- */

/* WORKER NULL: whoever has it. */
static int removed(struct store *s, const char *incarnation, uint32_t epoch, const char *worker,
		   bool proven, struct err *e)
{
	const int64_t now_ms = (int64_t)store_now_ms();
	int changed = 0;
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : tick(s, e);
	if (r >= 0 && worker)
		r = db_run(&s->db, Q_SNAPSHOT_REMOVED_BY, &changed, e, "tiiti", incarnation, now_ms,
			   (int64_t)epoch, worker, (int64_t)proven);
	else if (r >= 0)
		r = db_run(&s->db, Q_SNAPSHOT_REMOVED, &changed, e, "ti", incarnation, now_ms);
	r = r < 0 || changed == 0 ? r : keep(s, incarnation, NULL, 0, e);
	r = r < 0 ? r : db_run(&s->db, Q_SNAPSHOT_DELETE, NULL, e, "t", incarnation);
	r = db_finish(&s->db, true, r, e);
	return r < 0 ? r : changed > 0;
}

int store_snapshot_removed(struct store *s, const char *incarnation, uint32_t epoch,
			   const char *worker, bool proven, struct err *e)
{
	return removed(s, incarnation, epoch, worker, proven, e);
}

static int first_of(struct store *s, const char *owner, char ret[STORE_INCARNATION_SIZE],
		    struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_SNAPSHOT_OF_OWNER, e, "ti", owner, (int64_t)1);
	const int r = st ? db_step(&s->db, st, e) : -e->errnum;

	if (r == 1)
		column_text(st, 0, ret, STORE_INCARNATION_SIZE);
	return r;
}

int store_snapshot_removed_of(struct store *s, const char *owner, unsigned max, struct err *e)
{
	char incarnation[STORE_INCARNATION_SIZE];
	unsigned n = 0;
	int r = 1;

	while (r > 0 && n < max) {
		r = first_of(s, owner, incarnation, e);
		if (r <= 0)
			break;
		r = removed(s, incarnation, 0, NULL, true, e);
		n += r > 0;
		r = r < 0 ? r : 1; /* if another router was faster, there may be more */
	}
	return r < 0 ? r : (int)n;
}

int store_snapshot_dead(struct store *s, uint64_t before_ms, unsigned max, store_objects_fn fn,
			void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_OBJECTS_DEAD, e, "ii", (int64_t)before_ms, (int64_t)max);
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		char incarnation[STORE_INCARNATION_SIZE];
		struct store_objects o;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		column_text(st, 0, incarnation, sizeof(incarnation));
		o.epoch = (uint32_t)column_u64(st, 1);
		o.generation = (uint32_t)column_u64(st, 2);
		read_bits(st, 3, o.bits);
		if (!fn(incarnation, &o, user))
			return 0;
	}
	return r;
}

int store_snapshot_deleted(struct store *s, const char *incarnation, const struct store_objects *o,
			   struct err *e)
{
	struct objects row;
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : objects_get(s, incarnation, o->epoch, o->generation, &row, e);
	if (r > 0) {
		for (size_t i = 0; i < STORE_OBJECTS_BYTES; i++)
			row.stored[i] &= (uint8_t)~o->bits[i];
		if (any_bits(o->bits))
			settle(&row);
		else
			wait_anew(&row);
		r = objects_set(s, incarnation, o->epoch, o->generation, &row, e);
	}
	r = r < 0 ? r : db_run(&s->db, Q_SNAPSHOT_DELETE, NULL, e, "t", incarnation);
	return db_finish(&s->db, true, r, e);
}

int store_snapshot_forget(struct store *s, uint64_t before_ms, unsigned max, struct err *e)
{
	int n = 0;
	int r = db_transaction(&s->db, true, e);

	r = r < 0
		? r
		: db_run(&s->db, Q_SNAPSHOT_FORGET, &n, e, "ii", (int64_t)before_ms, (int64_t)max);
	r = db_finish(&s->db, true, r, e);
	return r < 0 ? r : n;
}
