/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite: connections, errors, statements. */
#include "store/db_sqlite.h"

#include "base/rand.h"

#include <string.h>

#define PRAGMAS_TEXT                                                                               \
	"PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"       \
	"PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"                                \
	"PRAGMA journal_size_limit = 4194304; PRAGMA wal_autocheckpoint = 0"
#define BUSY_MS      500
#define BUSY_STEP_US 500 /* average pause between two tries for the lock */
#define WAL_TRIES    50  /* WAL_WAIT_MS apart: two processes may create the file at once */
#define WAL_WAIT_MS  10
#define VALUE_MAX    (1 << 20) /* bytes of one value or statement */

static const char *const texts[STATEMENT_MAX_] = {
#define Q(name, sql) [Q_##name] = sql,
#define L            Q
#include "store/statements.tbl.h"
#undef L
#undef Q
};

/* The errno of a failed file operation, if a person can do something about it; else 0. SQLite keeps
 * it in three places and sets none of them every time. */
static int cause_of(sqlite3 *handle)
{
	sqlite3_file *journal = NULL;
	int causes[] = {sqlite3_system_errno(handle), 0, 0};

	(void)sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &journal);
	if (journal && journal->pMethods)
		(void)journal->pMethods->xFileControl(journal, SQLITE_FCNTL_LAST_ERRNO, &causes[1]);
	(void)sqlite3_file_control(handle, "main", SQLITE_FCNTL_LAST_ERRNO, &causes[2]);
	for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
		if (store_err_of(causes[i]) != ERR_STORE_FAILED)
			return causes[i];
	return 0;
}

int sqlite_fail(const struct db *db, int rc, const char *what, struct err *e)
{
	static const struct {
		int rc;
		enum err_code code;
		int errnum;
	} rows[] = {
	    {SQLITE_FULL, ERR_STORE_FULL, ENOSPC},
	    {SQLITE_BUSY, ERR_STORE_BUSY, EBUSY},
	    {SQLITE_LOCKED, ERR_STORE_BUSY, EBUSY},
	    {SQLITE_NOMEM, ERR_OUT_OF_MEMORY, ENOMEM},
	    {SQLITE_CONSTRAINT, ERR_ALREADY_EXISTS, EEXIST},
	    {SQLITE_TOOBIG, ERR_STORE_FAILED, E2BIG},
	    {SQLITE_MISMATCH, ERR_STORE_FAILED, EINVAL},
	    {SQLITE_ERROR, ERR_STORE_FAILED, EINVAL},
	    {SQLITE_READONLY, ERR_STORE_READ_ONLY, EROFS},
	    {SQLITE_CANTOPEN, ERR_STORE_FAILED, EACCES},
	    {SQLITE_CORRUPT, ERR_STORE_FAILED, EUCLEAN},
	    {SQLITE_NOTADB, ERR_STORE_FAILED, EUCLEAN},
	};
	const char *text = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
	enum err_code code = ERR_STORE_FAILED;
	int errnum = EIO;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].rc == (rc & 0xff)) {
			code = rows[i].code;
			errnum = rows[i].errnum;
		}
	bool of_file = (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN;
	int cause = of_file && db->handle ? cause_of(db->handle) : 0;
	if (cause != 0) {
		code = store_err_of(cause);
		errnum = cause;
	}
	(void)err_set(e, code, 0, "the database, %s: %s", what, text);
	e->errnum = errnum;
	return -errnum;
}

/* ---- opening ---- */

/* SQLite's own busy handler sleeps longer and longer, and never gets the lock beside a busy writer. */
static int on_busy(void *user, int tries)
{
	const struct db *db = user;
	uint32_t jitter;

	if ((uint64_t)tries * BUSY_STEP_US >= (uint64_t)db->busy_ms * 1000)
		return 0;
	rand_bytes(&jitter, sizeof(jitter));
	(void)usleep(1 + jitter % (2 * BUSY_STEP_US));
	return 1;
}

static int set_wal(struct db *db, struct err *e)
{
	int rc = SQLITE_BUSY;

	/* SQLite does not call the busy handler for this statement. */
	for (int i = 0; i < WAL_TRIES && (rc & 0xff) == SQLITE_BUSY; i++) {
		rc = sqlite3_exec(db->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
		if ((rc & 0xff) == SQLITE_BUSY)
			(void)sqlite3_sleep(WAL_WAIT_MS);
	}
	return rc == SQLITE_OK ? 0 : sqlite_fail(db, rc, "journal_mode", e);
}

int sqlite_open_file(const char *path, struct db *db, int flags)
{
	sqlite3 *handle = NULL;
	const int rc = sqlite3_open_v2(path, &handle, flags, NULL);

	db->kind = &sqlite_kind;
	db->handle = handle;
	return rc;
}

int sqlite_open(struct db *db, const char *path, const struct store_config *config, struct err *e)
{
	int on = 1;
	int rc = sqlite_open_file(path, db,
				  SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
				      SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW);

	if (rc != SQLITE_OK)
		return sqlite_fail(db, rc, path, e);
	db->busy_ms = config->busy_ms ? config->busy_ms : BUSY_MS;
	(void)sqlite3_busy_handler(db->handle, on_busy, db);
	(void)sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	(void)sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 0);
	(void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	/* SQLite must not remove the -wal file: a process without rights could not create it again. */
	(void)sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
	int r = set_wal(db, e);
	if (r < 0)
		return r;
	rc = sqlite3_exec(db->handle, PRAGMAS_TEXT, NULL, NULL, NULL);
	if (rc == SQLITE_OK && config->pages_max) {
		char text[64];

		(void)sqlite3_snprintf(sizeof(text), text, "PRAGMA max_page_count = %llu",
				       (unsigned long long)config->pages_max);
		rc = sqlite3_exec(db->handle, text, NULL, NULL, NULL);
	}
	return rc == SQLITE_OK ? 0 : sqlite_fail(db, rc, "settings", e);
}

/* ---- statements ---- */

static int bind_all(sqlite3_stmt *st, const struct value *values, unsigned n)
{
	int rc = SQLITE_OK;

	for (unsigned i = 0; i < n && rc == SQLITE_OK; i++) {
		const struct value *v = &values[i];
		const int at = (int)i + 1;

		if (v->type == 't') {
			rc = sqlite3_bind_text(st, at, v->data, (int)v->len, SQLITE_STATIC);
		} else if (v->type == 'i') {
			rc = sqlite3_bind_int64(st, at, v->number);
		} else {
			ASSERT(v->type == 'b');
			rc = sqlite3_bind_blob64(st, at, v->data, v->len, SQLITE_STATIC);
		}
	}
	return rc;
}

static int begin(struct cursor *c, const struct value *values, unsigned n, struct err *e)
{
	sqlite3_stmt *st = c->own;
	int rc = SQLITE_OK;

	if (!st) {
		rc = sqlite3_prepare_v3(c->db->handle, texts[c->id], -1, SQLITE_PREPARE_PERSISTENT,
					&st, NULL);
		c->own = st;
	}
	if (rc == SQLITE_OK)
		rc = bind_all(st, values, n);
	return rc == SQLITE_OK ? 0 : sqlite_fail(c->db, rc, "a statement", e);
}

bool sqlite_reads(const struct cursor *c)
{
	return sqlite3_stmt_readonly(c->own);
}

static int step(struct cursor *c, struct err *e)
{
	int rc = sqlite3_step(c->own);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : sqlite_fail(c->db, rc, "a step", e);
}

static void end(struct cursor *c)
{
	(void)sqlite3_reset(c->own);
	(void)sqlite3_clear_bindings(c->own);
}

static int changes(const struct db *db)
{
	return sqlite3_changes(db->handle);
}

static int64_t last_id(const struct db *db)
{
	return sqlite3_last_insert_rowid(db->handle);
}

static int script(struct db *db, const char *sql, const char *what, struct err *e)
{
	const int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : sqlite_fail(db, rc, what, e);
}

static void close_all(struct db *db)
{
	for (size_t i = 0; i < STATEMENT_MAX_; i++) {
		(void)sqlite3_finalize(db->cursors[i].own);
		db->cursors[i].own = NULL;
	}
	(void)sqlite3_close_v2(db->handle);
	db->handle = NULL;
}

/* ---- transactions ---- */

static bool in_transaction(const struct db *db)
{
	return !sqlite3_get_autocommit(db->handle);
}

static int transaction(struct db *db, bool waits, struct err *e)
{
	int r = waits ? db_run(db, Q_SYNC_FULL, NULL, e, "") : 0;

	return r < 0 ? r : db_run(db, Q_BEGIN, NULL, e, "");
}

static int commit(struct db *db, struct err *e)
{
	return db_run(db, Q_COMMIT, NULL, e, "");
}

static void rollback(struct db *db)
{
	struct err ignored = ERR_INIT;

	(void)!db_run(db, Q_ROLLBACK, NULL, &ignored, "");
}

static void durable_end(struct db *db)
{
	struct err ignored = ERR_INIT;

	(void)!db_run(db, Q_SYNC_NORMAL, NULL, &ignored, "");
}

/* Copies the WAL into the database file, so that the WAL stays small, also on a disk that is full. The next commit then begins it
 * again, and syncs its header (https://sqlite.org/src/info/ff5be73dee), on the loop too: it waits for the disk there. */
static void batch_end(struct db *db)
{
	(void)sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* ---- columns ---- */

static int64_t number(const struct cursor *c, int column)
{
	return sqlite3_column_int64(c->own, column);
}

static const char *text(const struct cursor *c, int column)
{
	return (const char *)sqlite3_column_text(c->own, column);
}

static const void *blob(const struct cursor *c, int column, size_t *ret_len)
{
	const void *data = sqlite3_column_blob(c->own, column);

	*ret_len = (size_t)sqlite3_column_bytes(c->own, column);
	return data;
}

static int columns(const struct cursor *c)
{
	return sqlite3_column_count(c->own);
}

const struct db_kind sqlite_kind = {
    .dialect = DIALECT_SQLITE,
    .versions = "CREATE TABLE IF NOT EXISTS migrations(version INTEGER PRIMARY KEY,"
		" at_ms INTEGER NOT NULL) STRICT",
    .close = close_all,
    .begin = begin,
    .step = step,
    .end = end,
    .changes = changes,
    .last_id = last_id,
    .in_transaction = in_transaction,
    .transaction = transaction,
    .commit = commit,
    .rollback = rollback,
    .durable_end = durable_end,
    .script = script,
    .batch_end = batch_end,
    .number = number,
    .text = text,
    .blob = blob,
    .columns = columns,
};
