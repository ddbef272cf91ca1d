/* SPDX-License-Identifier: Apache-2.0 */
/* Brings the tables of a database up to date. */
#include "store/copy.h"
#include "store/db.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct step {
	unsigned version;
	const char *sql;
};

static const struct step sqlite_steps[] = {
#define M(version, sql) {version, sql},
#define P(version, sql)
#include "store/migrations.tbl.h"
#undef P
#undef M
};

static const struct step postgresql_steps[] = {
#define M(version, sql)
#define P(version, sql) {version, sql},
#include "store/migrations.tbl.h"
#undef P
#undef M
};

static const struct {
	const struct step *steps;
	size_t n;
} all[] = {
    [DIALECT_SQLITE] = {sqlite_steps, ARRAY_SIZE(sqlite_steps)},
    [DIALECT_POSTGRESQL] = {postgresql_steps, ARRAY_SIZE(postgresql_steps)},
};

unsigned store_version_known(void)
{
	return sqlite_steps[ARRAY_SIZE(sqlite_steps) - 1].version;
}

static int version_of(struct db *db, uint64_t *ret, struct err *e)
{
	int r = db->kind->script(db, db->kind->versions, "the version of its tables", e);

	return r < 0 ? r : db_number(db, ret, db_begin(db, Q_VERSION, e, ""), e);
}

static int apply(struct db *db, const struct step *step, struct err *e)
{
	int r = db->kind->script(db, step->sql, "a migration", e);

	return r < 0 ? r
		     : db_run(db, Q_VERSION_ADD, NULL, e, "ii", (int64_t)step->version,
			      (int64_t)store_now_ms());
}

/* An older version of the program refuses the tables after the change, so the way back is the database as it was. Called in the
 * transaction of the migration: the connection of the copy sees what was there before. One copy is kept, the newest. */
static int keep_copy(const char *path, struct err *e)
{
	char kept[PATH_MAX], unfinished[PATH_MAX];
	const int n = snprintf(kept, sizeof(kept), "%s.before", path);
	const int m = snprintf(unfinished, sizeof(unfinished), "%s.before.new", path);

	if (n < 0 || m < 0 || (size_t)m >= sizeof(unfinished))
		return err_set(e, ERR_STORE_FAILED, ENAMETOOLONG, "%s", path);
	(void)unlink(unfinished); /* of a start that was killed */
	int r = store_copy(path, unfinished, NULL, NULL, e);

	if (r == 0 && rename(unfinished, kept) < 0)
		r = err_set(e, store_err_of(errno), errno, "%s", kept);
	if (r < 0) {
		(void)unlink(unfinished);
		return err_wrap(e, "the copy before its tables are changed");
	}
	return 0;
}

int store_check_version(uint64_t version, struct err *e)
{
	const uint64_t newest = store_version_known();

	if (version <= newest)
		return 0;
	(void)err_set(e, ERR_STORE_FAILED, 0,
		      "a newer version of this program has changed the database (its tables have "
		      "version %ju, this one knows %ju): use that version, or restore a backup "
		      "into a new state folder",
		      (uintmax_t)version, (uintmax_t)newest);
	e->errnum = EPROTO;
	return -EPROTO;
}

static int migrate_inside(struct db *db, const char *path, struct err *e)
{
	uint64_t version = 0, newest = store_version_known();
	int r = version_of(db, &version, e);

	r = r < 0 ? r : store_check_version(version, e);
	if (r < 0)
		return r;
	if (version > 0 && version < newest && path)
		r = keep_copy(path, e);
	for (size_t i = 0; i < all[db->kind->dialect].n && r == 0; i++) {
		const struct step *step = &all[db->kind->dialect].steps[i];

		if (step->version > version)
			r = apply(db, step, e);
	}
	return r;
}

/* Takes the writer's lock even if there is nothing to migrate: that opens -wal and -shm, too. */
int store_migrate(struct db *db, const char *path, const struct store_config *config, struct err *e)
{
	int r = db_transaction(db, false, e);

	if (r < 0)
		return r;
	r = migrate_inside(db, path, e);
	r = r < 0 ? r : audit_set_bounds(db, config, e);
	return db_finish(db, false, r, e);
}
