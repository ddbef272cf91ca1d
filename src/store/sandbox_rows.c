/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"
#include "store/store_moves.h"

#include <string.h>

static void read_sandbox(struct cursor *st, struct store_sandbox *b)
{
	column_text(st, 0, b->id, sizeof(b->id));
	column_text(st, 1, b->owner, sizeof(b->owner));
	column_text(st, 2, b->name, sizeof(b->name));
	column_text(st, 3, b->image, sizeof(b->image));
	column_text(st, 4, b->persist, sizeof(b->persist));
	b->disk_bytes = column_u64(st, 5);
	b->created_ms = column_u64(st, 6);
	b->used_ms = column_u64(st, 7);
	column_text(st, 8, b->network, sizeof(b->network));
	column_text(st, 9, b->place, sizeof(b->place));
	column_text(st, 10, b->options, sizeof(b->options));
	b->runs = column_u64(st, 11);
}

static bool is_over(uint64_t there, uint64_t more, uint64_t max)
{
	return max > 0 && (more > max || there > max - more);
}

int store_sandbox_bytes(struct store *s, uint64_t *ret, struct err *e)
{
	return db_number(&s->db, ret, db_begin(&s->db, Q_SANDBOX_BYTES, e, ""), e);
}

int store_sandbox_sums(struct store *s, const char *owner, uint64_t *ret_n, uint64_t *ret_bytes,
		       struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, Q_SANDBOX_SUMS, e, "t", owner);

	if (!st)
		return -e->errnum;
	const int r = db_step(&s->db, st, e);
	if (r < 0)
		return r;
	*ret_n = column_u64(st, 0);
	*ret_bytes = column_u64(st, 1);
	return 0;
}

static int check_all(struct store *s, const struct store_sandbox *b, const struct store_room *room,
		     struct err *e)
{
	uint64_t there = 0;
	int r = room->all_bytes > 0 ? store_sandbox_bytes(s, &there, e) : 0;

	if (r < 0 || !is_over(there, b->disk_bytes, room->all_bytes))
		return r;
	return err_set(
	    e, ERR_QUOTA_EXCEEDED, 0,
	    "The stored sandboxes of this server may hold %ju bytes of files in all "
	    "(SANDBOX_TOTAL_DISK), and those that are there may hold %ju. Delete one that is "
	    "not needed.",
	    (uintmax_t)room->all_bytes, (uintmax_t)there);
}

static int check_room(struct store *s, const struct store_sandbox *b, const struct store_room *room,
		      uint64_t *ret_n, struct err *e)
{
	uint64_t n = 0, disk = 0;
	int r = store_sandbox_sums(s, b->owner, &n, &disk, e);

	if (r < 0)
		return r;
	if (room->owner_count > 0 && n + room->elsewhere_count >= room->owner_count)
		return err_set(e, ERR_QUOTA_EXCEEDED, 0,
			       "You have reached the maximum limit of %ju sandboxes",
			       (uintmax_t)room->owner_count);
	if (is_over(disk + room->elsewhere_bytes, b->disk_bytes, room->owner_bytes))
		return err_set(e, ERR_QUOTA_EXCEEDED, 0,
			       "Your sandboxes may hold %ju bytes of files in all",
			       (uintmax_t)room->owner_bytes);
	*ret_n = n;
	return check_all(s, b, room, e);
}

int store_sandbox_check(struct store *s, const struct store_sandbox *b,
			const struct store_room *room, struct err *e)
{
	uint64_t n = 0;

	return check_room(s, b, room, &n, e);
}

int sandbox_insert(struct store *s, struct store_sandbox *b, const char *env,
		   const struct store_room *room, struct err *e)
{
	uint64_t n = 0;

	if (!b->id[0])
		store_uuid(b->id);
	b->created_ms = b->created_ms ? b->created_ms : store_now_ms();
	b->used_ms = b->used_ms ? b->used_ms : b->created_ms;
	const int r = check_room(s, b, room, &n, e);
	if (r < 0)
		return r;
	if (!b->name[0])
		(void)snprintf(b->name, sizeof(b->name), "Sandbox %ju", (uintmax_t)n + 1);
	return db_run(&s->db, Q_SANDBOX_ADD, NULL, e, "tttttiiitttti", b->id, b->owner, b->name,
		      b->image, b->persist, (int64_t)b->disk_bytes, (int64_t)b->created_ms,
		      (int64_t)b->used_ms, b->network, b->place, b->options, env, (int64_t)b->runs);
}

int store_sandbox_add(struct store *s, struct store_sandbox *b, const char *env,
		      const struct store_room *room, struct err *e)
{
	struct store_sandbox added = *b;
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : sandbox_insert(s, &added, env, room, e);
	r = db_finish(&s->db, true, r, e);
	if (r == 0)
		*b = added;
	return r;
}

int store_sandbox_get(struct store *s, const char *owner, const char *id, struct store_sandbox *ret,
		      struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    owner ? db_begin(&s->db, Q_SANDBOX_GET_OWN, e, "tt", id, owner)
		  : db_begin(&s->db, Q_SANDBOX_GET, e, "t", id);

	if (!st)
		return -e->errnum;
	int r = db_step(&s->db, st, e);
	if (r == 1)
		read_sandbox(st, ret);
	return r;
}

int store_sandbox_set_place(struct store *s, const char *id, const char *place, struct err *e)
{
	int r = db_transaction(&s->db, false, e);

	r = r < 0 ? r : db_run(&s->db, Q_SANDBOX_PLACE, NULL, e, "tt", id, place);
	return db_finish(&s->db, false, r, e);
}

int store_sandbox_env(struct store *s, const char *id, struct buf *ret, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, Q_SANDBOX_ENV, e, "t", id);

	if (!st)
		return -e->errnum;
	int r = db_step(&s->db, st, e);
	if (r <= 0)
		return r;
	const char *text = column_borrow(st, 0);
	r = text ? buf_add_str(ret, text) : 0;
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "the environment of a sandbox") : 0;
}

int store_sandbox_change(struct store *s, const char *id, const char *name, const char *options,
			 const char *env, struct err *e)
{
	return db_change(&s->db, Q_SANDBOX_CHANGE, e, "tttt", id, name, options, env);
}

int store_sandbox_remove(struct store *s, const char *id, struct err *e)
{
	return db_change(&s->db, Q_SANDBOX_REMOVE, e, "t", id);
}

int store_sandbox_each(struct store *s, const char *owner, struct store_mark *mark,
		       store_sandbox_fn fn, void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    owner ? db_begin(&s->db, Q_SANDBOX_LIST_OWN, e, "iit", mark_ms(mark), mark_row(mark),
			     owner)
		  : db_begin(&s->db, Q_SANDBOX_LIST, e, "ii", mark_ms(mark), mark_row(mark));
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_sandbox b;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_sandbox(st, &b);
		if (!fn(&b, user))
			return 0;
		mark_set(mark, b.created_ms, st);
	}
	return r;
}

int store_sandbox_count(struct store *s, const char *owner, uint64_t *ret, struct err *e)
{
	return db_number(&s->db, ret,
			 owner ? db_begin(&s->db, Q_SANDBOX_SUMS, e, "t", owner)
			       : db_begin(&s->db, Q_SANDBOX_COUNT, e, ""),
			 e);
}

static void note_sandbox(struct store *s, enum note_kind kind, const char *sandbox)
{
	struct note n = {.kind = kind, .at_ms = store_now_ms()};

	copy_text(n.id, sizeof(n.id), sandbox);
	note_push(s, &n);
}

void store_note_use(struct store *s, const char *sandbox)
{
	note_sandbox(s, NOTE_SANDBOX_USED, sandbox);
}

void store_note_sandbox_run(struct store *s, const char *sandbox)
{
	note_sandbox(s, NOTE_SANDBOX_RUN, sandbox);
}
