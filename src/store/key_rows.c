/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: a prefix that scanners for leaked secrets can recognise, and 256 bits, random or derived. The file has
 * only a keyed digest of each. The key of the digest is in the same file: it protects no secret, but
 * a list of digests that was made for another installation is useless here. */
#include "store/db.h"

#include "base/rand.h"

#include <sodium.h>
#include <string.h>

#define KEY_PREFIX   "csn_"
#define KEY_RANDOM   32
#define HINT_CHARS   10
#define USED_STEP_MS UINT64_C(60000)

_Static_assert(sizeof(KEY_PREFIX) + (KEY_RANDOM * 4 + 2) / 3 <= STORE_KEY_SIZE, "room for a key");
_Static_assert(HINT_CHARS < STORE_HINT_SIZE, "room for its beginning");

static const char *const scopes[STORE_SCOPE_MAX_] = {
    [STORE_SCOPE_FULL] = "full",
    [STORE_SCOPE_READ] = "read",
    [STORE_SCOPE_ADMIN] = "admin",
};

const char *store_scope_name(enum store_scope scope)
{
	return scope < STORE_SCOPE_MAX_ ? scopes[scope] : scopes[STORE_SCOPE_READ];
}

int store_scope_parse(const char *word, enum store_scope *ret)
{
	for (size_t i = 0; i < STORE_SCOPE_MAX_; i++)
		if (streq(scopes[i], word)) {
			*ret = (enum store_scope)i;
			return 0;
		}
	return -EINVAL;
}

int store_digest(struct store *s, const char *text, uint8_t ret[STORE_SECRET_BYTES], struct err *e)
{
	if (!s->has_pepper) {
		int r = store_secret(s, "keys", s->pepper, e);
		if (r < 0)
			return r;
		s->has_pepper = true;
	}
	(void)crypto_generichash(ret, STORE_SECRET_BYTES, (const uint8_t *)text, strlen(text),
				 s->pepper, sizeof(s->pepper));
	return 0;
}

void store_random_text(const char *prefix, char ret[STORE_KEY_SIZE])
{
	uint8_t random[KEY_RANDOM];
	size_t len = strlen(prefix);

	rand_bytes(random, sizeof(random));
	memcpy(ret, prefix, len);
	(void)sodium_bin2base64(ret + len, STORE_KEY_SIZE - len, random, sizeof(random),
				sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(random, sizeof(random));
}

int store_key_count(struct store *s, const char *user, uint64_t *ret, struct err *e)
{
	return db_number(&s->db, ret,
			 db_begin(&s->db, Q_KEY_COUNT, e, "ti", user, (int64_t)store_now_ms()), e);
}

static int count_below(struct store *s, const char *user, uint64_t limit, uint64_t *ret,
		       struct err *e)
{
	return db_count_below(&s->db, limit, ret,
			      db_begin(&s->db, Q_KEY_COUNT, e, "ti", user, (int64_t)store_now_ms()),
			      e);
}

static int check_room(struct store *s, const char *user, struct err *e)
{
	uint64_t own = 0, all = 0;
	int r = count_below(s, user, s->config.keys_each, &own, e);

	r = r < 0 ? r : count_below(s, NULL, s->config.keys_total, &all, e);
	if (r == 0 && own >= s->config.keys_each)
		return err_set(e, ERR_BUDGET_EXCEEDED, 0, "this user has %ju keys; revoke some",
			       (uintmax_t)own);
	if (r == 0 && all >= s->config.keys_total)
		return err_set(e, ERR_BUDGET_EXCEEDED, 0,
			       "the users of this server have %ju "
			       "keys, as many as it keeps",
			       (uintmax_t)all);
	return r;
}

/* The text of the key ID that is derived from LOGIN. */
static void derive_text(const uint8_t *login, const char *id, char ret[STORE_KEY_SIZE])
{
	uint8_t bytes[KEY_RANDOM];

	(void)crypto_generichash(bytes, sizeof(bytes), (const uint8_t *)id, strlen(id), login,
				 STORE_SECRET_BYTES);
	memcpy(ret, KEY_PREFIX, strlen(KEY_PREFIX));
	(void)sodium_bin2base64(ret + strlen(KEY_PREFIX), STORE_KEY_SIZE - strlen(KEY_PREFIX),
				bytes, sizeof(bytes), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(bytes, sizeof(bytes));
}

int store_key_add_shown(struct store *s, struct store_key *k, const uint8_t *login, char *ret,
			struct err *e)
{
	uint8_t hash[STORE_SECRET_BYTES];
	char text[STORE_KEY_SIZE];
	struct store_key added = *k;

	store_uuid(added.id);
	if (login)
		derive_text(login, added.id, text);
	else
		store_random_text(KEY_PREFIX, text);
	(void)snprintf(added.hint, sizeof(added.hint), "%.*s", HINT_CHARS, text);
	added.created_ms = store_now_ms();
	added.used_ms = 0;
	int r = store_digest(s, text, hash, e);
	if (r < 0)
		return r;
	r = db_transaction(&s->db, true, e);
	r = r < 0 ? r : check_room(s, added.user, e);
	r = r < 0 ? r
		  : db_run(&s->db, Q_KEY_ADD, NULL, e, "ttttbitii", added.id, added.user,
			   added.name, added.hint, hash, sizeof(hash), (int64_t)added.scope,
			   added.profile, (int64_t)added.created_ms, (int64_t)added.expires_ms);
	r = db_finish(&s->db, true, r, e);
	if (r == -EEXIST) /* only the reference to the user can fail */
		return err_set(e, ERR_NOT_FOUND, 0, "there is no such user");
	if (r < 0)
		return r;
	*k = added;
	memcpy(ret, text, sizeof(text));
	sodium_memzero(text, sizeof(text));
	return 0;
}

int store_key_add(struct store *s, struct store_key *k, char *ret, struct err *e)
{
	return store_key_add_shown(s, k, NULL, ret, e);
}

static void read_key(struct cursor *st, struct store_key *k)
{
	column_text(st, 0, k->id, sizeof(k->id));
	column_text(st, 1, k->user, sizeof(k->user));
	column_text(st, 2, k->name, sizeof(k->name));
	column_text(st, 3, k->hint, sizeof(k->hint));
	int64_t scope = column_i64(st, 4);
	/* A scope that only a newer program version knows counts as the narrowest one. */
	k->scope =
	    scope >= 0 && scope < STORE_SCOPE_MAX_ ? (enum store_scope)scope : STORE_SCOPE_READ;
	column_text(st, 5, k->profile, sizeof(k->profile));
	k->created_ms = column_u64(st, 6);
	k->expires_ms = column_u64(st, 7);
	k->used_ms = column_u64(st, 8);
}

static int find_key(struct store *s, const uint8_t *hash, uint64_t now, struct store_key *ret,
		    struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_KEY_CHECK, e, "bi", hash, (size_t)STORE_SECRET_BYTES, (int64_t)now);

	if (!st)
		return -e->errnum;
	int r = db_step(&s->db, st, e);
	if (r == 1)
		read_key(st, ret);
	return r;
}

int store_key_check(struct store *s, const char *text, struct store_key *ret_key,
		    struct store_user *ret_user, struct err *e)
{
	uint8_t hash[STORE_SECRET_BYTES];
	struct store_key key = {0};
	struct store_user owner = {0};
	uint64_t now = store_now_ms();

	if (!text_starts_with(text, KEY_PREFIX) || strlen(text) >= STORE_KEY_SIZE)
		return 0;
	int r = store_digest(s, text, hash, e);
	r = r < 0 ? r : find_key(s, hash, now, &key, e);
	if (r > 0)
		r = store_user_get(s, key.user, &owner, e);
	if (r <= 0 || !owner.active)
		return MIN(r, 0);
	if (key.used_ms + USED_STEP_MS <= now) {
		struct note n = {.kind = NOTE_KEY_USED, .at_ms = now};

		copy_text(n.id, sizeof(n.id), key.id);
		note_push(s, &n);
	}
	*ret_key = key;
	*ret_user = owner;
	return 1;
}

int store_key_get(struct store *s, const char *id, struct store_key *ret_key,
		  struct store_user *ret_user, struct err *e)
{
	struct store_user owner = {0};
	struct store_key key = {0};
	struct cursor *st = db_begin(&s->db, Q_KEY_GET, e, "ti", id, (int64_t)store_now_ms());

	if (!st)
		return -e->errnum;
	int r = db_step(&s->db, st, e);
	if (r == 1)
		read_key(st, &key);
	db_end(&st);
	if (r > 0)
		r = store_user_get(s, key.user, &owner, e);
	if (r <= 0 || !owner.active)
		return MIN(r, 0);
	*ret_key = key;
	*ret_user = owner;
	return 1;
}

int store_credentials_epoch(struct store *s, uint64_t *ret, struct err *e)
{
	return db_number(&s->db, ret, db_begin(&s->db, Q_EPOCH, e, ""), e);
}

int store_key_revoke(struct store *s, const char *user, const char *id, struct err *e)
{
	return user ? db_change(&s->db, Q_KEY_REVOKE_OWN, e, "tt", id, user)
		    : db_change(&s->db, Q_KEY_REVOKE, e, "t", id);
}

int store_key_revoke_named(struct store *s, const char *user, const char *name, struct err *e)
{
	int r = db_change(&s->db, Q_KEY_REVOKE_NAMED, e, "tt", user, name);

	return MIN(r, 0);
}

int store_key_each(struct store *s, const char *user, struct store_mark *mark, store_key_fn fn,
		   void *arg, struct err *e)
{
	_cleanup_(db_end) struct cursor *st =
	    db_begin(&s->db, Q_KEY_LIST, e, "tii", user, mark_ms(mark), mark_row(mark));
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		struct store_key k;

		r = db_step(&s->db, st, e);
		if (r <= 0)
			break;
		read_key(st, &k);
		if (!fn(&k, arg))
			return 0;
		mark_set(mark, k.created_ms, st);
	}
	return r;
}

struct key_search {
	const char *name;
	char id[STORE_ID_SIZE]; /* of the newest key of that name; "" = none */
	uint64_t created_ms;
};

static bool note_newest(const struct store_key *k, void *arg)
{
	struct key_search *found = arg;

	if (!streq(k->name, found->name) || (found->id[0] && k->created_ms < found->created_ms))
		return true;
	memcpy(found->id, k->id, sizeof(found->id));
	found->created_ms = k->created_ms;
	return true;
}

int store_key_show(struct store *s, const char *user, const char *name, const uint8_t *login,
		   char *ret, struct err *e)
{
	struct key_search found = {.name = name};
	uint8_t hash[STORE_SECRET_BYTES];
	char text[STORE_KEY_SIZE];
	struct store_key key;
	int r = store_key_each(s, user, NULL, note_newest, &found, e);

	if (r < 0 || !found.id[0])
		return MIN(r, 0);
	derive_text(login, found.id, text);
	r = store_digest(s, text, hash, e);
	r = r < 0 ? r : find_key(s, hash, store_now_ms(), &key, e);
	if (r > 0)
		memcpy(ret, text, sizeof(text));
	sodium_memzero(text, sizeof(text));
	return r;
}
