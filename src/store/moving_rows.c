/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker knows of its stored sandboxes for their moves. Triggers make these rows and their tombstones (migrations.tbl.h). */
#include "store/store_moves.h"

#include "store/db.h"

#include <string.h>

#define BOOT "boot" /* of `meta` */

static void read_moving(struct cursor *st, struct store_moving *m)
{
	column_text(st, 0, m->incarnation, sizeof(m->incarnation));
	column_text(st, 1, m->id, sizeof(m->id));
	column_text(st, 2, m->owner, sizeof(m->owner));
	m->epoch = (uint32_t)column_u64(st, 3);
	m->change = column_u64(st, 4);
	m->saved = column_u64(st, 5);
	m->removed = column_u64(st, 6) != 0;
	m->disk_bytes = column_u64(st, 7);
	column_text(st, 8, m->proof, sizeof(m->proof));
}

static int get(struct store *s, enum statement q, const char *key, struct store_moving *ret,
	       struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, q, e, "t", key);
	const int r = st ? db_step(&s->db, st, e) : -e->errnum;

	if (r == 1)
		read_moving(st, ret);
	return r;
}

int store_moving_find(struct store *s, const char *incarnation, struct store_moving *ret,
		      struct err *e)
{
	return get(s, Q_MOVING_FIND, incarnation, ret, e);
}

int store_moving_opened(struct store *s, const char *id, struct err *e)
{
	const int r = db_transaction(&s->db, false, e);

	return db_finish(&s->db, false,
			 r < 0 ? r : db_run(&s->db, Q_MOVING_OPENED, NULL, e, "t", id), e);
}

int store_moving_saved(struct store *s, const char *incarnation, uint32_t epoch, uint64_t change,
		       struct err *e)
{
	return db_change(&s->db, Q_MOVING_SAVED, e, "tii", incarnation, (int64_t)epoch,
			 (int64_t)change);
}

int store_moving_prove(struct store *s, const char *incarnation, uint32_t epoch, const char *proof,
		       struct err *e)
{
	return db_change(&s->db, Q_MOVING_PROVE, e, "tit", incarnation, (int64_t)epoch, proof);
}

int store_moving_forget(struct store *s, const char *incarnation, struct err *e)
{
	return db_change(&s->db, Q_MOVING_FORGET, e, "t", incarnation);
}

static int same_boot(struct store *s, const char *boot, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, Q_META_GET, e, "t", BOOT);
	int r = st ? db_step(&s->db, st, e) : -e->errnum;
	size_t len = 0;

	if (r <= 0)
		return r;
	const void *was = column_blob(st, 0, &len);
	return was && boot[0] && len == strlen(boot) && memcmp(was, boot, len) == 0;
}

int store_moving_boot(struct store *s, const char *boot, struct err *e)
{
	int r = same_boot(s, boot, e);

	if (r != 0)
		return MIN(r, 0);
	r = db_transaction(&s->db, true, e);
	r = r < 0 ? r : db_run(&s->db, Q_MOVING_ALL_CHANGED, NULL, e, "");
	r = r < 0 ? r : db_run(&s->db, Q_META_SET, NULL, e, "tb", BOOT, boot, strlen(boot));
	return db_finish(&s->db, true, r, e);
}

int store_moving_each(struct store *s, bool unsaved, uint64_t *after, unsigned max,
		      store_moving_fn fn, void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(
	    &s->db, Q_MOVING_LIST, e, "iii", (int64_t)*after, (int64_t)unsaved, (int64_t)max);
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_moving m;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_moving(st, &m);
		if (!fn(&m, user))
			return 0;
		*after = column_u64(st, 9);
	}
	return r;
}

int store_moving_add(struct store *s, struct store_sandbox *b, const char *env,
		     const char *incarnation, uint32_t epoch, const struct store_room *room,
		     struct err *e)
{
	struct store_sandbox added = *b;
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : sandbox_insert(s, &added, env, room, e);
	r = r < 0 ? r
		  : db_run(&s->db, Q_MOVING_ARRIVED, NULL, e, "tti", added.id, incarnation,
			   (int64_t)epoch);
	r = db_finish(&s->db, true, r, e);
	if (r == 0)
		*b = added;
	return r;
}

int store_moving_leave(struct store *s, const char *id, struct err *e)
{
	struct store_moving m;
	int n = 0;
	int r = get(s, Q_MOVING_GET, id, &m, e);

	if (r <= 0)
		return r;
	r = db_transaction(&s->db, true, e);
	r = r < 0 ? r : db_run(&s->db, Q_SANDBOX_REMOVE, &n, e, "t", id);
	r = r < 0 ? r : db_run(&s->db, Q_MOVING_FORGET, NULL, e, "t", m.incarnation);
	r = db_finish(&s->db, true, r, e);
	return r < 0 ? r : n > 0;
}
