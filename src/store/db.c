/* SPDX-License-Identifier: Apache-2.0 */
/* How this room uses a database, of whatever kind: statements, transactions, columns. */
#include "store/db_postgresql.h"
#include "store/db_sqlite.h"
#include "store/replica.h"

#include "base/kill_points.h"

#include <string.h>

enum err_code store_err_of(int errnum)
{
	static const struct {
		int errnum;
		enum err_code code;
	} rows[] = {
	    {ENOSPC, ERR_STORE_FULL},     {EDQUOT, ERR_STORE_FULL},
	    {EROFS, ERR_STORE_READ_ONLY}, {EACCES, ERR_STORE_READ_ONLY},
	    {EPERM, ERR_STORE_READ_ONLY},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].errnum == errnum)
			return rows[i].code;
	return ERR_STORE_FAILED;
}

/* ---- statements ---- */

int db_open(struct db *db, const char *path, const struct store_config *config, struct err *e)
{
	if (!config->address)
		return sqlite_open(db, path, config, e);
#ifdef HAVE_LIBPQ
	return postgresql_open(db, config->address, config, e);
#else
	return err_set(e, ERR_STORE_FAILED, ENOSYS, "this program was built without PostgreSQL");
#endif
}

int store_look(const char *address, unsigned *ret_server, uint64_t *ret_tables, struct err *e)
{
	const struct store_config config = {.address = address};
	struct db db = {0};
	uint64_t there = 0;
	int r = db_open(&db, NULL, &config, e);

	*ret_tables = 0;
	if (r == 0)
		*ret_server = db.kind->server(&db);
	r = r < 0 ? r : db_number(&db, &there, db_begin(&db, Q_VERSION_KNOWN, e, ""), e);
	if (r == 0 && there > 0)
		r = db_number(&db, ret_tables, db_begin(&db, Q_VERSION, e, ""), e);
	db_close(&db);
	return r < 0 ? r : store_check_version(*ret_tables, e);
}

void db_close(struct db *db)
{
	if (db->kind)
		db->kind->close(db);
	db->kind = NULL;
}

struct cursor *db_begin_with(struct db *db, enum statement id, const struct value *values,
			     unsigned n, struct err *e)
{
	struct cursor *c = &db->cursors[id];

	c->db = db;
	c->id = id;
	return db->kind->begin(c, values, n, e) < 0 ? NULL : c;
}

static struct cursor *begin_v(struct db *db, enum statement id, struct err *e, const char *types,
			      va_list ap)
{
	struct value values[VALUES_MAX];
	unsigned n = 0;

	for (; types[n]; n++) {
		struct value *v = &values[n];

		ASSERT(n < VALUES_MAX);
		*v = (struct value){.type = types[n]};
		if (v->type == 'i') {
			v->number = va_arg(ap, int64_t);
			continue;
		}
		v->data = va_arg(ap, const void *);
		if (v->type == 'b')
			v->len = va_arg(ap, size_t);
		else
			v->len = v->data ? strlen(v->data) : 0;
	}
	return db_begin_with(db, id, values, n, e);
}

struct cursor *db_begin(struct db *db, enum statement id, struct err *e, const char *types, ...)
{
	va_list ap;

	va_start(ap, types);
	struct cursor *st = begin_v(db, id, e, types, ap);
	va_end(ap);
	return st;
}

int db_step(struct db *db, struct cursor *st, struct err *e)
{
	return db->kind->step(st, e);
}

void db_end(struct cursor **st)
{
	if (*st)
		(*st)->db->kind->end(*st);
	*st = NULL;
}

static int run_v(struct db *db, enum statement id, int *ret_changes, struct err *e,
		 const char *types, va_list ap)
{
	_cleanup_(db_end) struct cursor *st = begin_v(db, id, e, types, ap);

	if (!st)
		return -e->errnum;
	int r = db_step(db, st, e);
	if (r >= 0 && ret_changes)
		*ret_changes = db->kind->changes(db);
	return MIN(r, 0);
}

int db_run(struct db *db, enum statement id, int *ret_changes, struct err *e, const char *types,
	   ...)
{
	va_list ap;

	va_start(ap, types);
	int r = run_v(db, id, ret_changes, e, types, ap);
	va_end(ap);
	return r;
}

int db_number(struct db *db, uint64_t *ret, struct cursor *st, struct err *e)
{
	_cleanup_(db_end) struct cursor *own = st;

	if (!own)
		return -e->errnum;
	int r = db_step(db, own, e);
	if (r >= 0)
		*ret = r == 1 ? column_u64(own, 0) : 0;
	return MIN(r, 0);
}

int db_count_below(struct db *db, uint64_t limit, uint64_t *ret, struct cursor *st, struct err *e)
{
	int r = db_number(db, ret, st, e);

	if (r == 0 && *ret < limit)
		replica_looked_below(db, limit);
	return r;
}

int db_text(struct db *db, struct cursor *st, char *ret, size_t size, struct err *e)
{
	_cleanup_(db_end) struct cursor *own = st;

	if (!own)
		return -e->errnum;
	int r = db_step(db, own, e);
	if (r > 0)
		column_text(own, 0, ret, size);
	return r;
}

/* ---- transactions ---- */

int db_transaction(struct db *db, bool durable, struct err *e)
{
	db->durable = durable;
	return db->kind->transaction(db, durable && !db->later, e);
}

int db_finish(struct db *db, bool durable, int r, struct err *e)
{
	if (r >= 0) {
		KILL_POINT(COMMIT_NEXT);
		int committed = db->kind->commit(db, e);
		KILL_POINT(COMMIT_DONE);
		r = committed < 0 ? committed : r;
		db->owes = db->owes ||
			   (durable && db->later && !db->waits && !db->replica && committed >= 0);
	}
	/* On a full disk the database may have rolled back already. */
	if (r < 0 && db->kind->in_transaction(db))
		db->kind->rollback(db);
	if (durable && db->kind->durable_end)
		db->kind->durable_end(db);
	return r;
}

int db_change(struct db *db, enum statement id, struct err *e, const char *types, ...)
{
	int changes = 0;
	va_list ap;
	int r = db_transaction(db, true, e);

	if (r < 0)
		return db_finish(db, true, r, e);
	va_start(ap, types);
	r = run_v(db, id, &changes, e, types, ap);
	va_end(ap);
	r = db_finish(db, true, r, e);
	return r < 0 ? r : changes > 0;
}

/* ---- columns ---- */

void copy_text(char *ret, size_t size, const char *from)
{
	size_t len = from ? strlen(from) : 0;

	if (from && len >= size)
		len = text_utf8_cut(from, len, size - 1);
	if (from)
		memcpy(ret, from, len);
	ret[len] = '\0';
}

int64_t mark_ms(const struct store_mark *mark)
{
	return mark && mark->begun ? (int64_t)mark->created_ms : -1;
}

int64_t mark_row(const struct store_mark *mark)
{
	return mark && mark->begun ? mark->row : 0;
}

void mark_set(struct store_mark *mark, uint64_t created_ms, struct cursor *st)
{
	if (mark)
		*mark = (struct store_mark){true, created_ms,
					    column_i64(st, st->db->kind->columns(st) - 1)};
}

int64_t column_i64(const struct cursor *st, int column)
{
	return st->db->kind->number(st, column);
}

const char *column_borrow(const struct cursor *st, int column)
{
	return st->db->kind->text(st, column);
}

const void *column_blob(const struct cursor *st, int column, size_t *ret_len)
{
	return st->db->kind->blob(st, column, ret_len);
}

void column_text(struct cursor *st, int column, char *ret, size_t size)
{
	copy_text(ret, size, column_borrow(st, column));
}

uint64_t column_u64(struct cursor *st, int column)
{
	int64_t n = column_i64(st, column);

	return n > 0 ? (uint64_t)n : 0;
}
