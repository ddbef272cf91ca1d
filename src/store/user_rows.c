/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db.h"

#include <string.h>

static const char *const roles[STORE_ROLE_MAX_] = {
    [STORE_ROLE_USER] = "user",
    [STORE_ROLE_ADMIN] = "admin",
};

const char *store_role_name(enum store_role role)
{
	return role < STORE_ROLE_MAX_ ? roles[role] : roles[STORE_ROLE_USER];
}

int store_role_parse(const char *word, enum store_role *ret)
{
	for (size_t i = 0; i < STORE_ROLE_MAX_; i++)
		if (streq(roles[i], word)) {
			*ret = (enum store_role)i;
			return 0;
		}
	return -EINVAL;
}

static void read_user(struct cursor *st, struct store_user *u)
{
	column_text(st, 0, u->id, sizeof(u->id));
	column_text(st, 1, u->name, sizeof(u->name));
	column_text(st, 2, u->email, sizeof(u->email));
	column_text(st, 3, u->hash, sizeof(u->hash));
	u->role = column_i64(st, 4) == STORE_ROLE_ADMIN ? STORE_ROLE_ADMIN : STORE_ROLE_USER;
	u->active = column_i64(st, 5) != 0;
	u->created_ms = column_u64(st, 6);
	u->quota = (struct store_quota){
	    .sandboxes = column_i64(st, 7),
	    .cpu_s_per_day = column_i64(st, 8),
	    .disk_bytes = column_i64(st, 9),
	    .runs_per_minute = column_i64(st, 10),
	};
}

static int get_one(struct store *s, enum statement id, const char *key, struct store_user *ret,
		   struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, id, e, "t", key);

	if (!st)
		return -e->errnum;
	int r = db_step(&s->db, st, e);
	if (r == 1)
		read_user(st, ret);
	return r;
}

int store_user_get(struct store *s, const char *id, struct store_user *ret, struct err *e)
{
	return get_one(s, Q_USER_GET, id, ret, e);
}

int store_user_find(struct store *s, const char *name, struct store_user *ret, struct err *e)
{
	int r = get_one(s, Q_USER_BY_NAME, name, ret, e);

	return r != 0 ? r : get_one(s, Q_USER_BY_EMAIL, name, ret, e);
}

/* Checked before the insert, so that the error can say whether the name or the e-mail is taken. */
static int check_free(struct store *s, const struct store_user *u, struct err *e)
{
	struct store_user other;
	int r = get_one(s, Q_USER_BY_NAME, u->name, &other, e);

	if (r > 0) {
		(void)err_set(e, ERR_ALREADY_EXISTS, 0, "there is a user '%s' already", u->name);
		e->errnum = EEXIST;
		return -EEXIST;
	}
	if (r == 0 && u->email[0])
		r = get_one(s, Q_USER_BY_EMAIL, u->email, &other, e);
	if (r > 0) {
		(void)err_set(e, ERR_ALREADY_EXISTS, 0, "there is a user with the e-mail '%s'",
			      u->email);
		e->errnum = EALREADY;
		return -EALREADY;
	}
	return r;
}

static int add_row(struct store *s, const struct store_user *u, struct err *e)
{
	return db_run(&s->db, Q_USER_ADD, NULL, e, "ttttiiiiiii", u->id, u->name, u->email, u->hash,
		      (int64_t)u->role, (int64_t)u->active, (int64_t)u->created_ms,
		      u->quota.sandboxes, u->quota.cpu_s_per_day, u->quota.disk_bytes,
		      u->quota.runs_per_minute);
}

int user_insert(struct store *s, struct store_user *u, struct err *e)
{
	struct store_user added = *u;

	store_uuid(added.id);
	added.created_ms = store_now_ms();
	int r = check_free(s, &added, e);
	r = r < 0 ? r : add_row(s, &added, e);
	if (r == 0)
		*u = added;
	return r;
}

int store_user_add(struct store *s, struct store_user *u, struct err *e)
{
	int r = db_transaction(&s->db, true, e);

	r = r < 0 ? r : user_insert(s, u, e);
	return db_finish(&s->db, true, r, e);
}

int store_user_update(struct store *s, const struct store_user *u, struct err *e)
{
	struct store_user before;
	int changes = 0;
	int r = db_transaction(&s->db, true, e);

	/* In a copy of another database: whoever has changed the row meanwhile is not overwritten (replica.h). */
	r = r < 0 ? r : get_one(s, Q_USER_GET, u->id, &before, e);
	r = r < 0 ? r
		  : db_run(&s->db, Q_USER_UPDATE, &changes, e, "tttiiiiii", u->id, u->email,
			   u->hash, (int64_t)u->role, (int64_t)u->active, u->quota.sandboxes,
			   u->quota.cpu_s_per_day, u->quota.disk_bytes, u->quota.runs_per_minute);
	r = db_finish(&s->db, true, r, e);
	return r < 0 ? r : changes > 0;
}

static int add_mirror(struct store *s, const struct store_user *u, struct err *e)
{
	struct store_user added = *u, other;
	int r = get_one(s, Q_USER_BY_NAME, u->name, &other, e);

	added.email[0] = added.hash[0] = '\0';
	added.created_ms = store_now_ms();
	if (r > 0)
		memcpy(added.name, added.id, sizeof(added.id));
	return r < 0 ? r : add_row(s, &added, e);
}

int store_user_mirror(struct store *s, const struct store_user *u, struct err *e)
{
	int changes = 0;
	int r = db_transaction(&s->db, false, e);

	r = r < 0 ? r
		  : db_run(&s->db, Q_USER_MIRROR, &changes, e, "tiiiii", u->id, (int64_t)u->active,
			   u->quota.sandboxes, u->quota.cpu_s_per_day, u->quota.disk_bytes,
			   u->quota.runs_per_minute);
	if (r >= 0 && changes == 0)
		r = add_mirror(s, u, e);
	return db_finish(&s->db, false, r, e);
}

int store_user_remove(struct store *s, const char *id, struct err *e)
{
	int r = db_change(&s->db, Q_USER_REMOVE, e, "t", id);

	if (r > 0)
		departed_wake(s);
	return r;
}

int store_user_each(struct store *s, struct store_mark *mark, store_user_fn fn, void *user,
		    struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_USER_LIST, e, "ii", mark_ms(mark), mark_row(mark));
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_user u;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_user(st, &u);
		if (!fn(&u, user))
			return 0;
		mark_set(mark, u.created_ms, st);
	}
	return r;
}

int store_user_each_idle(struct store *s, unsigned max, store_id_fn fn, void *user, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(&s->db, Q_USER_IDLE, e, "i", (int64_t)max);
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		char id[STORE_ID_SIZE];

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		column_text(st, 0, id, sizeof(id));
		if (!fn(id, user))
			return 0;
	}
	return r;
}

int store_user_has_left(struct store *s, const char *id, bool *ret, struct err *e)
{
	uint64_t n = 0;
	const int r = db_number(&s->db, &n, db_begin(&s->db, Q_DEPARTED_HAS, e, "t", id), e);

	*ret = n > 0;
	return r;
}

int store_user_count(struct store *s, uint64_t *ret, struct err *e)
{
	return db_number(&s->db, ret, db_begin(&s->db, Q_USER_COUNT, e, ""), e);
}
