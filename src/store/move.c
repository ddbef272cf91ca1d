/* SPDX-License-Identifier: Apache-2.0 */
/* Copies what a router has in an SQLite file into an empty PostgreSQL database. */
#include "store/copy.h"
#include "store/db_sqlite.h"
#include "store/replica_rows.h"

static int open_source(const char *path, struct db *ret, struct err *e)
{
	uint64_t version = 0;
	const int rc = sqlite_open_file(path, ret,
					SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
					    SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW);

	if (rc != SQLITE_OK)
		return sqlite_fail(ret, rc, path, e);
	int r = ret->kind->script(ret, "BEGIN", path, e); /* all is of one moment */
	r = r < 0 ? r : db_number(ret, &version, db_begin(ret, Q_VERSION, e, ""), e);
	r = r < 0 ? r : store_check_version(version, e);
	if (r == 0 && version < store_version_known())
		r = err_set(
		    e, ERR_STORE_FAILED, 0,
		    "%s has tables of an older version: start this version's server with it "
		    "once",
		    path);
	return r;
}

/* The secrets of a server that has begun there would not fit to the keys from here. */
static int check_empty(struct db *db, struct err *e)
{
	uint64_t users = 0, secrets = 0, rows = 0;
	int r = db_number(db, &users, db_begin(db, Q_USER_COUNT, e, ""), e);

	r = r < 0 ? r : db_number(db, &secrets, db_begin(db, Q_META_COUNT, e, ""), e);
	r = r < 0 ? r : db_number(db, &rows, db_begin(db, Q_AUDIT_COUNT, e, ""), e);
	if (r < 0 || users + secrets + rows == 0)
		return r;
	(void)err_set(
	    e, ERR_ALREADY_EXISTS, 0,
	    "the PostgreSQL database is not empty (%ju users, %ju rows of the audit log): "
	    "give a new one",
	    (uintmax_t)users, (uintmax_t)rows);
	e->errnum = EEXIST;
	return -EEXIST;
}

static int copy_all(struct db *from, struct db *to, struct store_moved *ret, struct err *e)
{
	int r = db_transaction(to, true, e);

	r = r < 0 ? r : check_empty(to, e);
	r = r < 0 ? r : replica_rows_copy(from, to, e);
	r = r < 0 ? r : replica_rows_copy_audit(from, to, e);
	r = r < 0 ? r : db_number(to, &ret->users, db_begin(to, Q_USER_COUNT, e, ""), e);
	r = r < 0 ? r
		  : db_number(to, &ret->keys,
			      db_begin(to, Q_KEY_COUNT, e, "ti", (const char *)NULL,
				       (int64_t)store_now_ms()),
			      e);
	r = r < 0 ? r : db_number(to, &ret->audit, db_begin(to, Q_AUDIT_COUNT, e, ""), e);
	return db_finish(to, true, r, e);
}

int store_move(const char *path, const char *address, uint64_t audit_keep, struct store_moved *ret,
	       struct err *e)
{
	const struct store_config config = {.address = address, .audit_keep = audit_keep};
	struct db from = {0}, to = {0};
	int r = open_source(path, &from, e);

	r = r < 0 ? r : db_open(&to, NULL, &config, e);
	r = r < 0 ? r : store_migrate(&to, NULL, &config, e);
	r = r < 0 ? r : copy_all(&from, &to, ret, e);
	db_close(&to);
	db_close(&from);
	return r;
}
