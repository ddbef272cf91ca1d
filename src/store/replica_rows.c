/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the loop's copy: how their rows are read from PostgreSQL and written into the copy. */
#include "store/replica_rows.h"

#include "store/db_postgresql.h"
#include "store/db_sqlite.h"

#include <string.h>

#define COPY_PAGES "131072" /* of 4 KiB: what the copy takes at most */

static const struct table {
	const char *name;
	const char *
	    types; /* letters of the columns of `all` and `get`, which `put` takes; the first ones are the key */
	unsigned keys;
	enum statement all, get, put, drop;
} tables[] = {
    /* users before what refers to them */
    {"users", "ttttiiiiiii", 1, Q_COPY_USERS, Q_COPY_USER, Q_COPY_USER_PUT, Q_USER_REMOVE},
    {"keys", "ttttbitiii", 1, Q_COPY_KEYS, Q_COPY_KEY, Q_COPY_KEY_PUT, Q_KEY_REVOKE},
    {"invitations", "tbitii", 1, Q_COPY_INVITATIONS, Q_COPY_INVITATION, Q_COPY_INVITATION_PUT,
     Q_INVITATION_REMOVE},
    {"signins", "tbttii", 1, Q_COPY_SIGNINS, Q_COPY_SIGNIN, Q_COPY_SIGNIN_PUT, Q_SIGNIN_REMOVE},
    {"meta", "tb", 1, Q_COPY_METAS, Q_COPY_META, Q_META_SET, Q_COPY_META_DROP},
};

/* Borrowed from ST until its next step. A row has at most one value of bytes: the next one would take its place. */
static void read_row(const struct table *t, const struct cursor *st, struct value *ret)
{
	for (int i = 0; t->types[i]; i++) {
		struct value *v = &ret[i];

		*v = (struct value){.type = t->types[i]};
		if (v->type == 'i') {
			v->number = column_i64(st, i);
		} else if (v->type == 'b') {
			v->data = column_blob(st, i, &v->len);
		} else {
			v->data = column_borrow(st, i);
			v->len = v->data ? strlen(v->data) : 0;
		}
	}
}

/* ---- a new copy ---- */

static int fill_table(struct db *from, const struct table *t, struct db *to, struct err *e)
{
	_cleanup_(db_end) struct cursor *st = db_begin(from, t->all, e, "");
	const unsigned n = (unsigned)strlen(t->types);
	struct value values[VALUES_MAX];
	int r = st ? 1 : -e->errnum;

	while (r > 0) {
		r = db_step(from, st, e);
		if (r <= 0)
			break;
		read_row(t, st, values);
		struct cursor *put = db_begin_with(to, t->put, values, n, e);
		r = put ? db_step(to, put, e) : -e->errnum;
		db_end(&put);
		r = r < 0 ? r : 1;
	}
	return r;
}

static int open_copy(const struct store_config *config, struct db *ret, struct err *e)
{
	const int rc = sqlite_open_file(":memory:", ret,
					SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
					    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE);

	if (rc != SQLITE_OK)
		return sqlite_fail(ret, rc, "its copy", e);
	int r = ret->kind->script(ret,
				  "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
				  "PRAGMA max_page_count = " COPY_PAGES,
				  "its copy", e);
	return r < 0 ? r : store_migrate(ret, NULL, config, e);
}

int replica_rows_copy(struct db *from, struct db *to, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables) && r == 0; i++)
		r = fill_table(from, &tables[i], to, e);
	return r;
}

/* Each row changes sums of its class, and a transaction has to walk past all versions of a row that it made: they are counted
 * at the end. */
int replica_rows_copy_audit(struct db *from, struct db *to, struct err *e)
{
	static const struct table audit = {"audit",     "iittttttiti", 1,          Q_AUDIT_ALL,
					   Q_AUDIT_ALL, Q_AUDIT_COPY,  Q_AUDIT_ALL};
	int r = to->kind->script(to, "ALTER TABLE audit DISABLE TRIGGER audit_added", "its log", e);

	r = r < 0 ? r : fill_table(from, &audit, to, e);
	return r < 0 ? r
		     : to->kind->script(
			   to,
			   "ALTER TABLE audit ENABLE TRIGGER audit_added;"
			   "INSERT INTO audit_classes SELECT class, count(*), 1000000 FROM audit"
			   " GROUP BY class ON CONFLICT(class) DO UPDATE SET n = excluded.n;"
			   "INSERT INTO audit_actors SELECT class, who, count(*) FROM audit"
			   " GROUP BY class, who;"
			   "SELECT setval(pg_get_serial_sequence('audit', 'id'),"
			   " (SELECT coalesce(max(id), 0) + 1 FROM audit), false)",
			   "its log", e);
}

int replica_rows_fill(struct db *from, const struct store_config *config, struct db *ret,
		      struct err *e)
{
	int r = open_copy(config, ret, e);

	r = r < 0 ? r : postgresql_snapshot(from, e);
	if (r < 0) {
		db_close(ret);
		return r;
	}
	r = db_transaction(ret, false, e);
	r = r < 0 ? r : replica_rows_copy(from, ret, e);
	r = db_finish(ret, false, r, e);
	from->kind->rollback(from);
	if (r < 0)
		db_close(ret);
	return r;
}

/* ---- one row ---- */

/* Cuts CHANGED, of which the first word is the table, into the key. The last part takes what is left. */
static unsigned cut_key(char *at, unsigned keys, struct value *ret)
{
	unsigned n = 0;

	while (at && n < keys) {
		char *next = n + 1 < keys ? strchr(at, ' ') : NULL;

		if (next)
			*next++ = '\0';
		ret[n++] = (struct value){.type = 't', .data = at, .len = strlen(at)};
		at = next;
	}
	return n;
}

int replica_rows_fetch(struct db *from, const char *changed, struct call **ret, struct err *e)
{
	char text[CHANGED_SIZE];
	struct value key[VALUES_MAX], values[VALUES_MAX];
	const struct table *t = NULL;

	copy_text(text, sizeof(text), changed);
	char *rest = strchr(text, ' ');
	if (rest)
		*rest++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		t = streq(tables[i].name, text) ? &tables[i] : t;
	*ret = NULL;
	if (!t || cut_key(rest, t->keys, key) < t->keys)
		return 0;
	_cleanup_(db_end) struct cursor *st = db_begin_with(from, t->get, key, t->keys, e);
	int r = st ? db_step(from, st, e) : -e->errnum;
	if (r > 0) {
		read_row(t, st, values);
		*ret = replica_call_new(t->put, values, (unsigned)strlen(t->types));
	} else if (r == 0) {
		*ret = replica_call_new(t->drop, key, t->keys);
	}
	if (r >= 0 && !*ret)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the copy of the database");
	return MIN(r, 0);
}
