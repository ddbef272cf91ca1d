/* SPDX-License-Identifier: Apache-2.0 */
/* Invitations. As with keys, the file has only a keyed digest of each. */
#include "store/db.h"

#include "base/text.h"

#include <string.h>

#define PREFIX "csi_"

static void read_invitation(struct cursor *st, struct store_invitation *i)
{
	column_text(st, 0, i->id, sizeof(i->id));
	i->role = column_i64(st, 1) == STORE_ROLE_ADMIN ? STORE_ROLE_ADMIN : STORE_ROLE_USER;
	column_text(st, 2, i->note, sizeof(i->note));
	i->created_ms = column_u64(st, 3);
	i->expires_ms = column_u64(st, 4);
}

/* Removes expired invitations, and fails if as many as the limit are left. */
static int make_room(struct store *s, struct err *e)
{
	uint64_t n = 0;
	int r = db_run(&s->db, Q_INVITATION_PRUNE, NULL, e, "i", (int64_t)store_now_ms());

	if (r == 0)
		r = db_count_below(&s->db, STORE_INVITATIONS_MAX, &n,
				   db_begin(&s->db, Q_INVITATION_COUNT, e, ""), e);
	if (r == 0 && n >= STORE_INVITATIONS_MAX)
		return err_set(e, ERR_QUOTA_EXCEEDED, 0,
			       "there are %d open invitations; withdraw some",
			       STORE_INVITATIONS_MAX);
	return r;
}

int store_invitation_add(struct store *s, struct store_invitation *i, char *ret, struct err *e)
{
	struct store_invitation added = *i;
	uint8_t hash[STORE_SECRET_BYTES];
	char text[STORE_KEY_SIZE];

	store_random_text(PREFIX, text);
	store_uuid(added.id);
	added.created_ms = store_now_ms();
	int r = store_digest(s, text, hash, e);
	if (r < 0)
		return r;
	r = db_transaction(&s->db, true, e);
	r = r < 0 ? r : make_room(s, e);
	if (r == 0)
		r = db_run(&s->db, Q_INVITATION_ADD, NULL, e, "tbitii", added.id, hash,
			   sizeof(hash), (int64_t)added.role, added.note, (int64_t)added.created_ms,
			   (int64_t)added.expires_ms);
	r = db_finish(&s->db, true, r, e);
	if (r < 0)
		return r;
	*i = added;
	memcpy(ret, text, sizeof(text));
	return 0;
}

int store_invitation_find(struct store *s, const char *text, struct store_invitation *ret,
			  struct err *e)
{
	uint8_t hash[STORE_SECRET_BYTES];

	if (!text_starts_with(text, PREFIX) || strlen(text) >= STORE_KEY_SIZE)
		return 0;
	int r = store_digest(s, text, hash, e);
	if (r < 0)
		return r;
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, Q_INVITATION_FIND, e, "bi", hash,
						       sizeof(hash), (int64_t)store_now_ms());
	if (!st)
		return -e->errnum;
	r = db_step(&s->db, st, e);
	if (r == 1)
		read_invitation(st, ret);
	return r;
}

int store_invitation_each(struct store *s, struct store_mark *mark, store_invitation_fn fn,
			  void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_INVITATION_LIST, e, "iii", (int64_t)store_now_ms(), mark_ms(mark),
		     mark_row(mark));
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_invitation i;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_invitation(st, &i);
		if (!fn(&i, user))
			return 0;
		mark_set(mark, i.created_ms, st);
	}
	return r;
}

int store_invitation_remove(struct store *s, const char *id, struct err *e)
{
	return db_change(&s->db, Q_INVITATION_REMOVE, e, "t", id);
}

/* Runs inside the transaction: of two clients with the same invitation only one can use it. */
static int use(struct store *s, struct store_user *u, const char *text, struct err *e)
{
	struct store_invitation i;
	int r = store_invitation_find(s, text, &i, e);

	if (r == 0)
		return err_set(e, ERR_FORBIDDEN, 0, "this invitation is not valid any more");
	if (r > 0)
		r = db_run(&s->db, Q_INVITATION_REMOVE, NULL, e, "t", i.id);
	if (r < 0)
		return r;
	u->role = i.role;
	return user_insert(s, u, e);
}

int store_user_join(struct store *s, struct store_user *u, const char *text, struct err *e)
{
	struct store_user added = *u;
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : use(s, &added, text, e);
	r = db_finish(&s->db, true, r, e);
	if (r == 0)
		*u = added;
	return r;
}
