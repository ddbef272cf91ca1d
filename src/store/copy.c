/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the database for backups, and what is checked before one is taken back. */
#include "store/copy.h"

#include "base/fdio.h"
#include "store/db_sqlite.h"

#include <fcntl.h>
#include <string.h>

#define FILE_MODE  0600
#define PAGES_ONCE 1024  /* so that a copy notices in time that the database is busy */
#define BUSY_TRIES 1000u /* BUSY_MS apart */
#define BUSY_MS    10

static int open_db(const char *path, int flags, struct db *ret, struct err *e)
{
	int rc = sqlite_open_file(path, ret, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE);

	return rc == SQLITE_OK ? 0 : sqlite_fail(ret, rc, path, e);
}

/* The files beside the database belong to the server, which could not make them again. */
static int open_source(const char *path, struct db *ret, struct err *e)
{
	int on = 1;
	int r = open_db(path, SQLITE_OPEN_READWRITE, ret, e);

	if (r < 0)
		return r;
	(void)sqlite3_file_control(ret->handle, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
	(void)sqlite3_db_config(ret->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return 0;
}

/* One read transaction covers all steps, so the copy is of one moment however long it takes, and no writer waits. */
static int copy_pages(struct db *from, struct db *to, struct err *e)
{
	sqlite3_backup *b = NULL;
	int rc = sqlite3_exec(from->handle, "BEGIN; SELECT count(*) FROM sqlite_master", NULL, NULL,
			      NULL);

	if (rc == SQLITE_OK)
		b = sqlite3_backup_init(to->handle, "main", from->handle, "main");
	if (rc != SQLITE_OK || !b)
		return sqlite_fail(rc != SQLITE_OK ? from : to, rc != SQLITE_OK ? rc : SQLITE_ERROR,
				   "its copy", e);
	for (unsigned tries = 0;;) {
		rc = sqlite3_backup_step(b, PAGES_ONCE);
		if (rc == SQLITE_DONE)
			break;
		if (rc == SQLITE_OK)
			continue;
		if ((rc != SQLITE_BUSY && rc != SQLITE_LOCKED) || ++tries == BUSY_TRIES)
			break;
		(void)sqlite3_sleep(BUSY_MS);
	}
	const int end = sqlite3_backup_finish(b);

	if (rc == SQLITE_DONE && end == SQLITE_OK)
		return 0;
	return sqlite_fail(to, rc == SQLITE_DONE ? end : rc, "its copy", e);
}

static int each_workspace(struct db *db, store_copied_fn fn, void *user, struct err *e)
{
	sqlite3_stmt *st = NULL;
	char name[sizeof((struct store_sandbox){0}.persist)];
	int r = 0;
	int rc = sqlite3_prepare_v2(db->handle, "SELECT persist FROM sandboxes ORDER BY rowid", -1,
				    &st, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		copy_text(name, sizeof(name), (const char *)sqlite3_column_text(st, 0));
		r = name[0] ? fn(name, user, e) : 0;
		if (r < 0)
			break;
	}
	(void)sqlite3_finalize(st);
	if (r < 0)
		return r;
	return rc == SQLITE_DONE ? 0 : sqlite_fail(db, rc, "its sandboxes", e);
}

static int flush(const char *path, struct err *e)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_set(e, store_err_of(errno), errno, "%s", path);
	return 0;
}

int store_copy(const char *path, const char *to, store_copied_fn fn, void *user, struct err *e)
{
	struct db from = {0}, copy = {0};
	_cleanup_fd_ int fd =
	    open(to, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);

	if (fd < 0)
		return err_set(e, store_err_of(errno), errno, "%s", to);
	int r = open_source(path, &from, e);
	r = r < 0 ? r : open_db(to, SQLITE_OPEN_READWRITE, &copy, e);
	r = r < 0 ? r : copy_pages(&from, &copy, e);
	/* A copy with a write-ahead log would be two files. */
	if (r == 0 && sqlite3_exec(copy.handle, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) !=
			  SQLITE_OK)
		r = sqlite_fail(&copy, SQLITE_ERROR, "its copy", e);
	if (r == 0 && fn)
		r = each_workspace(&copy, fn, user, e);
	db_close(&copy);
	db_close(&from);
	return r < 0 ? r : flush(to, e);
}

/* ---- before a copy is taken back ---- */

static int ask(struct db *db, const char *sql, char *ret, size_t size, uint64_t *ret_number,
	       struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db->handle, sql, -1, &st, NULL);

	rc = rc == SQLITE_OK ? sqlite3_step(st) : rc;
	if (rc == SQLITE_ROW) {
		*ret_number = (uint64_t)MAX(sqlite3_column_int64(st, 0), 0);
		copy_text(ret, size, (const char *)sqlite3_column_text(st, 0));
	}
	(void)sqlite3_finalize(st);
	return rc == SQLITE_ROW ? 0 : sqlite_fail(db, rc, "a check", e);
}

int store_check_copy(const char *path, struct err *e)
{
	struct db db = {0};
	char answer[256] = "";
	uint64_t version = 0;
	int r = open_db(path, SQLITE_OPEN_READONLY, &db, e);

	r = r < 0 ? r : ask(&db, "PRAGMA quick_check(1)", answer, sizeof(answer), &version, e);
	if (r == 0 && !streq(answer, "ok"))
		r = err_set(e, ERR_STORE_FAILED, 0, "the database is damaged: %s", answer);
	r = r < 0 ? r
		  : ask(&db, "SELECT coalesce(max(version), 0) FROM migrations", answer,
			sizeof(answer), &version, e);
	db_close(&db);
	if (r < 0)
		return r;
	if (version <= store_version_known())
		return 0;
	return err_set(e, ERR_STORE_FAILED, 0,
		       "the database has tables of version %ju, this program knows %u: install the "
		       "version that made it",
		       (uintmax_t)version, store_version_known());
}

#ifndef HAVE_LIBPQ
int store_move(const char *path UNUSED, const char *address UNUSED, uint64_t audit_keep UNUSED,
	       struct store_moved *ret UNUSED, struct err *e)
{
	return err_set(e, ERR_STORE_FAILED, ENOSYS, "this program was built without PostgreSQL");
}
#endif

bool store_is_served(const char *path)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	_cleanup_free_ char *runs = NULL;

	if (asprintf(&runs, "%s-runs", path) < 0)
		return true;
	_cleanup_fd_ int fd = open(runs, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
	return fd >= 0 && (fcntl(fd, F_OFD_GETLK, &l) < 0 || l.l_type != F_UNLCK);
}
