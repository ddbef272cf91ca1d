/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store: the kind of database that is an SQLite file. */
#pragma once

#include "store/db.h"

#include <sqlite3.h>

extern const struct db_kind sqlite_kind;

/* Opens the file PATH with FLAGS alone. Returns SQLite's result; DB has to be closed in any case. */
int sqlite_open_file(const char *path, struct db *db, int flags) MUST_CHECK;
/* Whether the statement that has begun at C changes nothing. */
bool sqlite_reads(const struct cursor *c);
/* Opens it as a store wants it. */
int sqlite_open(struct db *db, const char *path, const struct store_config *config,
		struct err *e) MUST_CHECK;
/* Sets E from SQLite's result RC, with the text "WHAT: what SQLite says". Returns a negative errno. */
int sqlite_fail(const struct db *db, int rc, const char *what, struct err *e);
