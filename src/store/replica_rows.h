/* SPDX-License-Identifier: Apache-2.0 */
/* Private to replica_link.c and replica_rows.c: rows that the copy has, read from PostgreSQL. */
#pragma once

#include "store/replica.h"

#define CHANNEL      "caisson"
#define CHANGED_SIZE 1024 /* "TABLE KEY", as the triggers write it (migrations.tbl.h) */

/* Makes an empty copy and puts all rows into it, as they are at one moment. */
int replica_rows_fill(struct db *from, const struct store_config *config, struct db *ret,
		      struct err *e) MUST_CHECK;
/* Copies the rows of all these tables from one database to another. */
int replica_rows_copy(struct db *from, struct db *to, struct err *e) MUST_CHECK;
/* Copies the audit log to a PostgreSQL database that has none. */
int replica_rows_copy_audit(struct db *from, struct db *to, struct err *e) MUST_CHECK;
/* Reads the row that CHANGED names. RET, to be freed, is the statement that brings the copy up to date; NULL: the copy does not
 * have this table. */
int replica_rows_fetch(struct db *from, const char *changed, struct call **ret,
		       struct err *e) MUST_CHECK;
