/* SPDX-License-Identifier: Apache-2.0 */
/* How this room uses SQLite: connections, errors, statements, transactions. */
#include "store/db.h"

#include "base/kill_points.h"
#include "base/rand.h"

#include <stdarg.h>
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
#include "store/statements.tbl.h"
#undef Q
};

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

int db_fail(const struct db *db, int rc, const char *what, struct err *e)
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
	return rc == SQLITE_OK ? 0 : db_fail(db, rc, "journal_mode", e);
}

int db_open(struct db *db, const char *path, const struct store_config *config, struct err *e)
{
	int on = 1;
	int rc = sqlite3_open_v2(path, &db->handle,
				 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
				     SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW,
				 NULL);

	if (rc != SQLITE_OK)
		return db_fail(db, rc, path, e);
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
	return rc == SQLITE_OK ? 0 : db_fail(db, rc, "settings", e);
}

void db_close(struct db *db)
{
	for (size_t i = 0; i < STATEMENT_MAX_; i++) {
		(void)sqlite3_finalize(db->statements[i]);
		db->statements[i] = NULL;
	}
	(void)sqlite3_close_v2(db->handle);
	db->handle = NULL;
}

/* ---- statements ---- */

static int bind_all(sqlite3_stmt *st, const char *types, va_list ap)
{
	int rc = SQLITE_OK;

	for (int i = 0; types[i] && rc == SQLITE_OK; i++) {
		if (types[i] == 't') {
			rc = sqlite3_bind_text(st, i + 1, va_arg(ap, const char *), -1,
					       SQLITE_STATIC);
		} else if (types[i] == 'i') {
			rc = sqlite3_bind_int64(st, i + 1, va_arg(ap, int64_t));
		} else {
			const void *data = va_arg(ap, const void *);
			size_t len = va_arg(ap, size_t);

			ASSERT(types[i] == 'b');
			rc = sqlite3_bind_blob64(st, i + 1, data, len, SQLITE_STATIC);
		}
	}
	return rc;
}

static sqlite3_stmt *begin_v(struct db *db, enum statement id, struct err *e, const char *types,
			     va_list ap)
{
	int rc = SQLITE_OK;

	if (!db->statements[id])
		rc = sqlite3_prepare_v3(db->handle, texts[id], -1, SQLITE_PREPARE_PERSISTENT,
					&db->statements[id], NULL);
	if (rc == SQLITE_OK)
		rc = bind_all(db->statements[id], types, ap);
	if (rc == SQLITE_OK)
		return db->statements[id];
	(void)db_fail(db, rc, "a statement", e);
	return NULL;
}

sqlite3_stmt *db_begin(struct db *db, enum statement id, struct err *e, const char *types, ...)
{
	va_list ap;

	va_start(ap, types);
	sqlite3_stmt *st = begin_v(db, id, e, types, ap);
	va_end(ap);
	return st;
}

int db_step(struct db *db, sqlite3_stmt *st, struct err *e)
{
	int rc = sqlite3_step(st);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : db_fail(db, rc, "a step", e);
}

void db_end(sqlite3_stmt **st)
{
	if (!*st)
		return;
	(void)sqlite3_reset(*st);
	(void)sqlite3_clear_bindings(*st);
	*st = NULL;
}

static int run_v(struct db *db, enum statement id, int *ret_changes, struct err *e,
		 const char *types, va_list ap)
{
	_cleanup_(db_end) sqlite3_stmt *st = begin_v(db, id, e, types, ap);

	if (!st)
		return -e->errnum;
	int r = db_step(db, st, e);
	if (r >= 0 && ret_changes)
		*ret_changes = sqlite3_changes(db->handle);
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

int db_number(struct db *db, uint64_t *ret, sqlite3_stmt *st, struct err *e)
{
	_cleanup_(db_end) sqlite3_stmt *own = st;

	if (!own)
		return -e->errnum;
	int r = db_step(db, own, e);
	if (r >= 0)
		*ret = r == 1 ? column_u64(own, 0) : 0;
	return MIN(r, 0);
}

int db_text(struct db *db, sqlite3_stmt *st, char *ret, size_t size, struct err *e)
{
	_cleanup_(db_end) sqlite3_stmt *own = st;
	int r = own ? db_step(db, own, e) : -e->errnum;

	if (r > 0)
		column_text(own, 0, ret, size);
	return r;
}

/* ---- transactions ---- */

int db_transaction(struct db *db, bool durable, struct err *e)
{
	int r = durable && !db->later ? db_run(db, Q_SYNC_FULL, NULL, e, "") : 0;

	return r < 0 ? r : db_run(db, Q_BEGIN, NULL, e, "");
}

int db_finish(struct db *db, bool durable, int r, struct err *e)
{
	struct err ignored = ERR_INIT;

	if (r >= 0) {
		KILL_POINT(COMMIT_NEXT);
		int committed = db_run(db, Q_COMMIT, NULL, e, "");
		KILL_POINT(COMMIT_DONE);
		r = committed < 0 ? committed : r;
		db->owes = db->owes || (durable && db->later && committed >= 0);
	}
	/* On a full disk SQLite may have rolled back already. */
	if (r < 0 && !sqlite3_get_autocommit(db->handle))
		(void)!db_run(db, Q_ROLLBACK, NULL, &ignored, "");
	if (durable)
		(void)!db_run(db, Q_SYNC_NORMAL, NULL, &ignored, "");
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

void mark_set(struct store_mark *mark, uint64_t created_ms, sqlite3_stmt *st)
{
	if (mark)
		*mark = (struct store_mark){true, created_ms,
					    sqlite3_column_int64(st, sqlite3_column_count(st) - 1)};
}

void column_text(sqlite3_stmt *st, int column, char *ret, size_t size)
{
	copy_text(ret, size, (const char *)sqlite3_column_text(st, column));
}

uint64_t column_u64(sqlite3_stmt *st, int column)
{
	int64_t n = sqlite3_column_int64(st, column);

	return n > 0 ? (uint64_t)n : 0;
}
