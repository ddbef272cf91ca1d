/* SPDX-License-Identifier: Apache-2.0 */
/* Sign-ins of browsers. As with keys, the file has only a keyed digest of what the cookie has. */
#include "store/db.h"

#include "base/text.h"

#include <string.h>

#define PREFIX "csb_"

int store_signin_add(struct store *s, struct store_signin *i, char *ret, struct err *e)
{
	struct store_signin added = *i;
	uint8_t hash[STORE_SECRET_BYTES];
	char text[STORE_KEY_SIZE];

	store_random_text(PREFIX, text);
	store_uuid(added.id);
	int r = store_digest(s, text, hash, e);
	if (r < 0)
		return r;
	r = db_transaction(&s->db, true, e);
	r = r < 0 ? r : db_run(&s->db, Q_SIGNIN_PRUNE, NULL, e, "i", (int64_t)store_now_ms());
	if (r == 0)
		r = db_run(&s->db, Q_SIGNIN_ADD, NULL, e, "tbttii", added.id, hash, sizeof(hash),
			   added.user, added.key, (int64_t)store_now_ms(),
			   (int64_t)added.expires_ms);
	r = r < 0 ? r
		  : db_run(&s->db, Q_SIGNIN_KEEP, NULL, e, "tti", added.user, added.key,
			   (int64_t)STORE_SIGNINS_MAX);
	r = db_finish(&s->db, true, r, e);
	if (r < 0)
		return r;
	*i = added;
	memcpy(ret, text, sizeof(text));
	return 0;
}

static int read_one(struct store *s, struct cursor *begun, struct store_signin *ret, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = begun;
	int r = st ? db_step(&s->db, st, e) : -e->errnum;

	if (r <= 0)
		return r;
	column_text(st, 0, ret->id, sizeof(ret->id));
	column_text(st, 1, ret->user, sizeof(ret->user));
	column_text(st, 2, ret->key, sizeof(ret->key));
	ret->expires_ms = column_u64(st, 3);
	return 1;
}

int store_signin_find(struct store *s, const char *text, struct store_signin *ret, struct err *e)
{
	uint8_t hash[STORE_SECRET_BYTES];

	if (!text_starts_with(text, PREFIX) || strlen(text) >= STORE_KEY_SIZE)
		return 0;
	int r = store_digest(s, text, hash, e);
	return r < 0 ? r
		     : read_one(s,
				db_begin(&s->db, Q_SIGNIN_FIND, e, "bi", hash, sizeof(hash),
					 (int64_t)store_now_ms()),
				ret, e);
}

int store_signin_get(struct store *s, const char *id, struct store_signin *ret, struct err *e)
{
	return read_one(s, db_begin(&s->db, Q_SIGNIN_GET, e, "ti", id, (int64_t)store_now_ms()),
			ret, e);
}

int store_signin_remove(struct store *s, const struct store_signin *i, bool all, struct err *e)
{
	int r = db_change(&s->db, all ? Q_SIGNIN_REMOVE_ALL : Q_SIGNIN_REMOVE, e, "t",
			  all ? i->user : i->id);

	return MIN(r, 0);
}
