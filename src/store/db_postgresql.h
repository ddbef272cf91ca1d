/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store: the kind of database that is a PostgreSQL server.
 *
 * One connection for each struct db. All transactions take one lock of the database, so there is one writer at a time, as in SQLite: what
 * is counted in a transaction stays so until its commit, and ids are in the order of commits. A commit always waits for the server's disk.
 *
 * A connection that was lost is made anew by the next statement that is in no transaction, at most every RETRY_NS. Meanwhile calls fail with
 * STORE_UNREACHABLE. Every wait for the server has an end. */
#pragma once

#include "store/db.h"

/* ADDRESS: "postgresql://…", as libpq takes it. */
int postgresql_open(struct db *db, const char *address, const struct store_config *config,
		    struct err *e) MUST_CHECK;
/* Begins a transaction that reads what there is at this moment, and takes no lock. db->kind->rollback() ends it. */
int postgresql_snapshot(struct db *db, struct err *e) MUST_CHECK;
