/* SPDX-License-Identifier: Apache-2.0 */
/* Private to db_postgresql.c and pg.c: one connection to a PostgreSQL server. */
#pragma once

#include "store/db.h"
#include "store/libpq.h"

#define BUSY_MS 500

struct pg {
	PGconn *conn;  /* NULL: there is none */
	char *address; /* may have a password */
	unsigned busy_ms;
	bool in_transaction; /* it may have lost its connection */
	bool prepared[STATEMENT_MAX_];
	int changes;
	uint64_t transaction; /* its number; 0: none */
	uint64_t unsure;      /* the last one, if it may have been committed; 0: no */
	uint64_t retry_ns;    /* no new connection before */
	bool
	    hides; /* errors are for clients: libpq's message, which names hosts, is in WHY alone */
	char why[256];
	const char
	    *listens; /* the channel of notifications that each connection is to have; NULL: none */
	_Atomic uint64_t
	    end_ns;    /* no wait is longer; 0: each has its own end. Other threads may set it */
	uint64_t made; /* connections so far: between two of them notifications are missed */
};

/* Connects if there is no connection. -ENOTCONN: none can be made, or a transaction has lost its own. */
int pg_connect(struct pg *pg, struct err *e) MUST_CHECK;
/* Waits for the answer to what was SENT (the result of pq.send…()). RET, which may be NULL, is the last result of those that it has. */
int pg_result(struct pg *pg, int sent, PGresult **ret, const char *what, struct err *e) MUST_CHECK;
/* Runs statements without parameters. */
int pg_script(struct pg *pg, const char *sql, const char *what, struct err *e) MUST_CHECK;
/* E is "the database, WHAT: WHY". Returns -ERRNUM. */
int pg_fail(struct err *e, enum err_code code, int errnum, const char *what, const char *why);
/* The connection was lost: forgets it. Returns -ENOTCONN. */
int pg_gone(struct pg *pg, const char *what, struct err *e);
/* Waits until the server says something, EXTRA_FD is readable, or for MS. 1: there may be a notification. -ENOTCONN: the connection is
 * gone; E says why. */
int pg_wait(struct pg *pg, int extra_fd, int ms, struct err *e) MUST_CHECK;
/* The oldest notification that has come, and whose answers have been read. False: there is none. */
bool pg_notified(struct pg *pg, char *ret, size_t size);
void pg_free(struct pg *pg);
