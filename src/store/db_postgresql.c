/* SPDX-License-Identifier: Apache-2.0 */
/* PostgreSQL: statements, transactions, columns. */
#include "store/db_postgresql.h"
#include "store/pg.h"

#include "base/parse.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define VALUE_MAX  (1 << 20) /* bytes of one value, as with SQLite */
#define SQL_SIZE   4096
#define FETCH_ROWS "16"
#define FETCH_COPY                                                                                 \
	"500" /* of rows that have about a kilobyte at most: a copy may need hundreds of thousands */
/* Taken by every transaction that writes: as in SQLite there is one writer at a time. */
#define WRITER_LOCK "8386112020297315432"

static const char *const texts[STATEMENT_MAX_] = {
#define STATEMENTS_OF_POSTGRESQL
#define Q(name, sql) [Q_##name] = sql,
#define L            Q
#include "store/statements.tbl.h"
#undef L
#undef Q
};

static const bool is_list[STATEMENT_MAX_] = {
#define Q(name, sql)
#define L(name, sql) [Q_##name] = true,
#include "store/statements.tbl.h"
#undef L
#undef Q
#undef STATEMENTS_OF_POSTGRESQL
};

/* Lists of the loop's copy (replica.h). Other lists have rows of up to a megabyte. */
static const bool is_copy[STATEMENT_MAX_] = {
    [Q_COPY_USERS] = true,
    [Q_COPY_KEYS] = true,
    [Q_COPY_INVITATIONS] = true,
    [Q_COPY_SIGNINS] = true,
};

/* Rows of a statement that runs: all, or those of the last FETCH of a list. */
struct rows {
	PGresult *result;
	int row; /* the next one is behind it */
	bool is_portal, of_own_transaction;
	unsigned char *blob; /* decoded; freed with the row */
};

struct parameters {
	int n;
	Oid types[VALUES_MAX];
	const char *values[VALUES_MAX];
	int lengths[VALUES_MAX], formats[VALUES_MAX];
	char numbers[VALUES_MAX][24];
};

/* ---- parameters ---- */

static int take(struct parameters *p, const struct value *values, unsigned n)
{
	enum { TEXT = 25, BIGINT = 20, BYTES = 17 };

	ASSERT(n <= VALUES_MAX);
	p->n = (int)n;
	for (unsigned i = 0; i < n; i++) {
		const struct value *v = &values[i];

		p->lengths[i] = p->formats[i] = 0;
		p->values[i] = v->data;
		if (v->type == 't') {
			p->types[i] = TEXT;
		} else if (v->type == 'i') {
			p->types[i] = BIGINT;
			(void)snprintf(p->numbers[i], sizeof(p->numbers[i]), "%" PRId64, v->number);
			p->values[i] = p->numbers[i];
		} else {
			p->types[i] = BYTES;
			p->formats[i] = 1;
			/* NULL would be NULL, not nothing. */
			p->values[i] = v->data ? v->data : "";
			p->lengths[i] = (int)MIN(v->len, (size_t)VALUE_MAX + 1);
		}
		if (v->len > VALUE_MAX)
			return -E2BIG;
	}
	return 0;
}

/* A number that the server wrote; anything else is 0. */
static int64_t number_of(const char *text)
{
	int64_t n = 0;

	return parse_i64(text, INT64_MIN, INT64_MAX, &n) < 0 ? 0 : n;
}

/* ?1 is $1 here. */
static void translate(const char *sql, char ret[SQL_SIZE])
{
	size_t n = strlen(sql);

	ASSERT(n < SQL_SIZE);
	memcpy(ret, sql, n + 1);
	for (char *at = ret; (at = strchr(at, '?')); at++)
		*at = '$';
}

/* ---- running ---- */

/* No change is lost if it is sent again over a new connection: its first try changed nothing. */
static bool may_repeat(const struct pg *pg, enum statement id)
{
	return !pg->in_transaction && strncmp(texts[id], "SELECT", 6) == 0;
}

static int prepare(struct pg *pg, enum statement id, const struct parameters *p, struct err *e)
{
	char name[16], sql[SQL_SIZE];

	if (pg->prepared[id])
		return 0;
	(void)snprintf(name, sizeof(name), "s%d", (int)id);
	translate(texts[id], sql);
	int r = pg_result(pg, pq.sendPrepare(pg->conn, name, sql, p->n, p->types), NULL,
			  "a statement", e);
	pg->prepared[id] = r == 0;
	return r;
}

static int run_once(struct pg *pg, enum statement id, const struct parameters *p, PGresult **ret,
		    struct err *e)
{
	char name[16];
	int r = pg_connect(pg, e);

	r = r < 0 ? r : prepare(pg, id, p, e);
	if (r < 0)
		return r;
	(void)snprintf(name, sizeof(name), "s%d", (int)id);
	return pg_result(
	    pg, pq.sendQueryPrepared(pg->conn, name, p->n, p->values, p->lengths, p->formats, 0),
	    ret, "a statement", e);
}

/* A list is read in parts: its rows together may be larger than what this process may have. */
static int open_portal(struct pg *pg, struct rows *rows, enum statement id,
		       const struct parameters *p, struct err *e)
{
	char sql[SQL_SIZE], whole[SQL_SIZE + 64];
	int r = pg_connect(pg, e);

	if (r == 0 && !pg->in_transaction) {
		r = pg_script(pg, "BEGIN READ ONLY", "a list", e);
		pg->in_transaction = rows->of_own_transaction = r == 0;
	}
	if (r < 0)
		return r;
	translate(texts[id], sql);
	(void)snprintf(whole, sizeof(whole), "DECLARE p%d NO SCROLL CURSOR FOR %s", (int)id, sql);
	r = pg_result(pg,
		      pq.sendQueryParams(pg->conn, whole, p->n, p->types, p->values, p->lengths,
					 p->formats, 0),
		      NULL, "a list", e);
	rows->is_portal = r == 0;
	return r;
}

static int fetch(struct pg *pg, struct rows *rows, enum statement id, struct err *e)
{
	char sql[64];

	pq.clear(rows->result);
	rows->result = NULL;
	rows->row = -1;
	(void)snprintf(sql, sizeof(sql), "FETCH %s FROM p%d", is_copy[id] ? FETCH_COPY : FETCH_ROWS,
		       (int)id);
	if (!pg->conn)
		return pg_gone(pg, "a list", e);
	return pg_result(pg, pq.sendQuery(pg->conn, sql), &rows->result, "a list", e);
}

static void finish_rows(struct cursor *c)
{
	struct pg *pg = c->db->handle;
	struct rows *rows = c->own;
	struct err ignored = ERR_INIT;
	char sql[64];

	pq.clear(rows->result);
	pq.freemem(rows->blob);
	(void)snprintf(sql, sizeof(sql), "CLOSE p%d", (int)c->id);
	if (rows->of_own_transaction) {
		if (pg->conn)
			(void)!pg_script(pg, "COMMIT", "a list", &ignored);
		pg->in_transaction = false;
	} else if (rows->is_portal && pg->conn) {
		(void)!pg_script(pg, sql, "a list", &ignored);
	}
	*rows = (struct rows){.row = -1};
}

static int begin(struct cursor *c, const struct value *values, unsigned n, struct err *e)
{
	struct pg *pg = c->db->handle;
	struct parameters p;

	if (!c->own && !(c->own = calloc(1, sizeof(struct rows))))
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a statement of the database");
	struct rows *rows = c->own;
	*rows = (struct rows){.row = -1};
	int r = take(&p, values, n);
	if (r < 0)
		return pg_fail(e, ERR_STORE_FAILED, -r, "a statement", "the value is too long");
	if (is_list[c->id]) {
		r = open_portal(pg, rows, c->id, &p, e);
		r = r < 0 ? r : fetch(pg, rows, c->id, e);
	} else {
		const bool had = pg->conn, again = may_repeat(pg, c->id);

		r = run_once(pg, c->id, &p, &rows->result, e);
		/* The server may have been started again since. */
		if (r == -ENOTCONN && had && again && !pg->conn) {
			*e = ERR_INIT;
			r = run_once(pg, c->id, &p, &rows->result, e);
		}
	}
	if (r < 0) {
		finish_rows(c);
		return r;
	}
	const char *tuples = pq.cmdTuples(rows->result);
	pg->changes = (int)MIN(number_of(tuples), (int64_t)INT_MAX);
	return 0;
}

static int step(struct cursor *c, struct err *e)
{
	struct rows *rows = c->own;

	pq.freemem(rows->blob);
	rows->blob = NULL;
	if (++rows->row < pq.ntuples(rows->result))
		return 1;
	if (!rows->is_portal || rows->row == 0)
		return 0;
	int r = fetch(c->db->handle, rows, c->id, e);
	if (r < 0)
		return r;
	return ++rows->row < pq.ntuples(rows->result);
}

static int changes(const struct db *db)
{
	return ((const struct pg *)db->handle)->changes;
}

/* The number that this connection was given last. */
static int64_t last_id(const struct db *db)
{
	struct pg *pg = db->handle;
	struct err ignored = ERR_INIT;
	PGresult *result = NULL;
	int64_t id = 0;

	if (pg->conn && pg_result(pg, pq.sendQuery(pg->conn, "SELECT lastval()"), &result,
				  "a number", &ignored) == 0)
		id = number_of(pq.getvalue(result, 0, 0));
	pq.clear(result);
	return id;
}

static int script(struct db *db, const char *sql, const char *what, struct err *e)
{
	int r = pg_connect(db->handle, e);

	return r < 0 ? r : pg_script(db->handle, sql, what, e);
}

static void close_all(struct db *db)
{
	for (size_t i = 0; i < STATEMENT_MAX_; i++) {
		free(db->cursors[i].own);
		db->cursors[i].own = NULL;
	}
	pg_free(db->handle);
	db->handle = NULL;
}

/* ---- transactions ---- */

static bool in_transaction(const struct db *db)
{
	return ((const struct pg *)db->handle)->in_transaction;
}

static uint64_t unsure(struct db *db)
{
	struct pg *pg = db->handle;
	const uint64_t transaction = pg->unsure;

	pg->unsure = 0;
	return transaction;
}

static int outcome(struct db *db, uint64_t transaction, struct err *e)
{
	struct pg *pg = db->handle;
	PGresult *result = NULL;
	char sql[64];
	int r = pg_connect(pg, e);

	if (r < 0)
		return r;
	(void)snprintf(sql, sizeof(sql), "SELECT txid_status(%" PRIu64 ")", transaction);
	r = pg_result(pg, pq.sendQuery(pg->conn, sql), &result, "a transaction", e);
	if (r < 0)
		return r;
	const char *status = pq.getvalue(result, 0, 0);
	if (streq(status, "in progress"))
		r = pg_fail(e, ERR_STORE_BUSY, EBUSY, "a transaction",
			    "it is not known yet whether it was made");
	else
		r = streq(status, "committed");
	pq.clear(result);
	return r;
}

static int begin_transaction(struct pg *pg, struct err *e)
{
	struct err ignored = ERR_INIT;
	PGresult *result = NULL;
	int r = pg_connect(pg, e);

	pg->unsure = pg->transaction = 0;
	r = r < 0 ? r
		  : pg_result(pg,
			      pq.sendQuery(pg->conn,
					   "BEGIN; SELECT pg_advisory_xact_lock(" WRITER_LOCK
					   "); SELECT txid_current()"),
			      &result, "a transaction", e);
	if (r == 0)
		pg->transaction = (uint64_t)number_of(pq.getvalue(result, 0, 0));
	pq.clear(result);
	if (r < 0 && pg->conn)
		(void)!pg_script(pg, "ROLLBACK", "a transaction", &ignored);
	return r;
}

int postgresql_snapshot(struct db *db, struct err *e)
{
	struct pg *pg = db->handle;
	int r = pg_connect(pg, e);

	r = r < 0 ? r
		  : pg_script(pg, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "its rows", e);
	pg->in_transaction = r == 0;
	return r;
}

static int transaction(struct db *db, bool waits UNUSED, struct err *e)
{
	struct pg *pg = db->handle;
	const bool had = pg->conn;
	int r = begin_transaction(pg, e);

	if (r == -ENOTCONN && had && !pg->conn) {
		*e = ERR_INIT;
		r = begin_transaction(pg, e);
	}
	pg->in_transaction = r == 0;
	return r;
}

/* The connection was lost before the answer came. The server knows what it did as soon as it can be asked. */
static int ask_outcome(struct db *db, struct err *e)
{
	struct pg *pg = db->handle;
	struct err ignored = ERR_INIT;

	const int r = outcome(db, pg->transaction, &ignored);
	if (r > 0)
		return 0;
	pg->unsure = r < 0 ? pg->transaction : 0;
	return pg_fail(e, ERR_STORE_UNREACHABLE, ENOTCONN, "a transaction",
		       r == 0 ? "the connection was lost, and nothing was changed"
			      : "the connection was lost while the change was made; look whether "
				"it was made before you repeat it");
}

static int commit(struct db *db, struct err *e)
{
	struct pg *pg = db->handle;
	PGresult *result = NULL;

	if (!pg->conn) /* nothing was changed */
		return pg_gone(pg, "a transaction", e);
	int r = pg_result(pg, pq.sendQuery(pg->conn, "COMMIT"), &result, "a transaction", e);
	/* One that failed before is rolled back by it, without an error. */
	if (r == 0 && !streq(pq.cmdStatus(result), "COMMIT"))
		r = pg_fail(e, ERR_STORE_FAILED, EIO, "a transaction", "it was rolled back");
	pq.clear(result);
	pg->in_transaction = false;
	if (r != -ENOTCONN)
		return r;
	*e = ERR_INIT;
	return ask_outcome(db, e);
}

static void rollback(struct db *db)
{
	struct pg *pg = db->handle;
	struct err ignored = ERR_INIT;

	if (pg->conn)
		(void)!pg_script(pg, "ROLLBACK", "a transaction", &ignored);
	pg->in_transaction = false;
}

/* ---- columns ---- */

static const char *text(const struct cursor *c, int column)
{
	const struct rows *rows = c->own;

	return pq.getisnull(rows->result, rows->row, column)
		   ? NULL
		   : pq.getvalue(rows->result, rows->row, column);
}

static int64_t number(const struct cursor *c, int column)
{
	const char *value = text(c, column);

	if (!value)
		return 0;
	return *value == 't' ? 1 : number_of(value); /* a boolean is "t" or "f" */
}

static const void *blob(const struct cursor *c, int column, size_t *ret_len)
{
	struct rows *rows = c->own;
	const char *value = text(c, column);

	pq.freemem(rows->blob);
	rows->blob = value ? pq.unescapeBytea((const unsigned char *)value, ret_len) : NULL;
	if (!rows->blob)
		*ret_len = 0;
	return rows->blob;
}

static int columns(const struct cursor *c)
{
	return pq.nfields(((const struct rows *)c->own)->result);
}

static unsigned server(const struct db *db)
{
	return (unsigned)MAX(pq.serverVersion(((const struct pg *)db->handle)->conn), 0);
}

static void end_by(struct db *db, uint64_t ns)
{
	((struct pg *)db->handle)->end_ns = ns;
}

static const struct db_kind postgresql_kind = {
    .dialect = DIALECT_POSTGRESQL,
    .versions = "CREATE TABLE IF NOT EXISTS migrations(version BIGINT PRIMARY KEY,"
		" at_ms BIGINT NOT NULL)",
    .close = close_all,
    .begin = begin,
    .step = step,
    .end = finish_rows,
    .changes = changes,
    .last_id = last_id,
    .in_transaction = in_transaction,
    .transaction = transaction,
    .commit = commit,
    .rollback = rollback,
    .unsure = unsure,
    .outcome = outcome,
    .script = script,
    .server = server,
    .end_by = end_by,
    .number = number,
    .text = text,
    .blob = blob,
    .columns = columns,
};

int postgresql_open(struct db *db, const char *address, const struct store_config *config,
		    struct err *e)
{
	int r = libpq_load(e);
	struct pg *pg = r < 0 ? NULL : calloc(1, sizeof(*pg));

	if (r < 0)
		return r;
	if (!pg || !(pg->address = strdup(address))) {
		free(pg);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the store");
	}
	db->kind = &postgresql_kind;
	db->handle = pg;
	db->waits = true;
	pg->busy_ms = config->busy_ms ? config->busy_ms : BUSY_MS;
	int connected = pg_connect(pg, e); /* who starts it is told all */
	pg->hides = config->copied;
	return connected;
}
