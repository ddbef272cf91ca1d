/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a PostgreSQL server: making it, waiting for answers, what errors mean. libpq's own blocking calls have no end when a
 * network goes silent, so each wait is ours. */
#include "store/pg.h"

#include "base/rand.h"
#include "base/text.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_NS     (5 * NS_PER_S)
#define ANSWER_NS      (30 * NS_PER_S)
#define STATEMENT_MS   20000u
#define SLICE_MS       UINT64_C(250) /* then the end of waiting is looked at again */
#define RETRY_NS       (250 * NS_PER_MS)
#define SERVER_VERSION 120000

int pg_fail(struct err *e, enum err_code code, int errnum, const char *what, const char *why)
{
	(void)err_set(e, code, 0, "the database, %s: %s", what, why);
	e->errnum = errnum;
	return -errnum;
}

static void drop(struct pg *pg)
{
	if (pg->conn)
		pq.finish(pg->conn);
	pg->conn = NULL;
	memset(pg->prepared, 0, sizeof(pg->prepared));
}

void pg_free(struct pg *pg)
{
	drop(pg);
	sodium_memzero(pg->address, strlen(pg->address));
	free(pg->address);
	free(pg);
}

/* libpq's message without its last newline. It never has the password. */
static void message_of(const PGconn *conn, char *ret, size_t size)
{
	copy_text(ret, size, pq.errorMessage(conn));
	for (char *at = ret; (at = strchr(at, '\n')); at++)
		*at = at[1] ? ' ' : '\0';
}

int pg_gone(struct pg *pg, const char *what, struct err *e)
{
	if (pg->conn)
		message_of(pg->conn, pg->why, sizeof(pg->why));
	else
		copy_text(pg->why, sizeof(pg->why), "the connection was lost");
	drop(pg);
	return pg_fail(e, ERR_STORE_UNREACHABLE, ENOTCONN, what,
		       pg->hides ? "it cannot be reached" : pg->why);
}

/* 0: EVENTS; -ETIMEDOUT. */
static int wait_for(const struct pg *pg, short events, uint64_t until)
{
	struct pollfd p = {.fd = pq.socket(pg->conn), .events = events};

	for (;;) {
		const uint64_t now = now_ns(), end = pg->end_ns;
		const uint64_t last = end ? MIN(until, end) : until;

		if (now >= last)
			return -ETIMEDOUT;
		const int n = poll(&p, 1, (int)MIN((last - now) / NS_PER_MS + 1, SLICE_MS));

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* ---- what errors mean ---- */

static const struct {
	const char *state; /* the beginning of the SQLSTATE; the first row that fits */
	enum err_code code;
	int errnum;
} states[] = {
    {"23", ERR_ALREADY_EXISTS, EEXIST},       /* a constraint */
    {"53100", ERR_STORE_FULL, ENOSPC},        /* disk full */
    {"53200", ERR_STORE_BUSY, ENOMEM},        /* of the server */
    {"53", ERR_STORE_UNREACHABLE, ENOTCONN},  /* too many connections */
    {"54", ERR_STORE_FAILED, E2BIG},          /* a limit of the program */
    {"55P03", ERR_STORE_BUSY, EBUSY},         /* lock_timeout */
    {"57014", ERR_STORE_BUSY, EBUSY},         /* statement_timeout */
    {"40", ERR_STORE_BUSY, EBUSY},            /* a deadlock */
    {"25006", ERR_STORE_READ_ONLY, EROFS},    /* a standby */
    {"42501", ERR_STORE_READ_ONLY, EROFS},    /* no right */
    {"25", ERR_STORE_FAILED, EIO},            /* of the transaction */
    {"22", ERR_STORE_FAILED, EINVAL},         /* a value */
    {"42", ERR_STORE_FAILED, EINVAL},         /* a statement */
    {"08", ERR_STORE_UNREACHABLE, ENOTCONN},  /* the connection */
    {"57P", ERR_STORE_UNREACHABLE, ENOTCONN}, /* the server ends or begins */
    {"28", ERR_STORE_UNREACHABLE, ENOTCONN},  /* who we are */
    {"3D", ERR_STORE_UNREACHABLE, ENOTCONN},  /* no such database */
};

/* The message alone: details have values of rows. */
static int fail_result(struct pg *pg, const PGresult *result, const char *what, struct err *e)
{
	const char *state = pq.resultErrorField(result, PG_DIAG_SQLSTATE);
	const char *why = pq.resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (!state)
		return pg_gone(pg, what, e);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (text_starts_with(state, states[i].state))
			return pg_fail(e, states[i].code, states[i].errnum, what,
				       why ? why : state);
	return pg_fail(e, ERR_STORE_FAILED, EIO, what, why ? why : state);
}

/* ---- answers ---- */

static int flush(struct pg *pg, uint64_t until)
{
	int left;

	while ((left = pq.flush(pg->conn)) > 0) {
		int r = wait_for(pg, POLLIN | POLLOUT, until);

		if (r < 0)
			return r;
		if (!pq.consumeInput(pg->conn))
			return -EIO;
	}
	return left < 0 ? -EIO : 0;
}

/* The next result; NULL: there is none. */
static int next_result(struct pg *pg, uint64_t until, PGresult **ret)
{
	while (pq.isBusy(pg->conn)) {
		int r = wait_for(pg, POLLIN, until);

		if (r < 0)
			return r;
		if (!pq.consumeInput(pg->conn))
			return -EIO;
	}
	*ret = pq.getResult(pg->conn);
	return 0;
}

static bool is_fine(const PGresult *result)
{
	const ExecStatusType status = pq.resultStatus(result);

	return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

int pg_result(struct pg *pg, int sent, PGresult **ret, const char *what, struct err *e)
{
	const uint64_t until = now_ns() + ANSWER_NS;
	PGresult *last = NULL, *next = NULL;
	int r = sent ? flush(pg, until) : -EIO;

	while (r == 0 && (r = next_result(pg, until, &next)) == 0 && next) {
		if (!last || is_fine(last)) {
			pq.clear(last);
			last = next;
		} else {
			pq.clear(next);
		}
	}
	if (r == -ETIMEDOUT) {
		drop(pg);
		r = pg_fail(e, ERR_STORE_UNREACHABLE, ENOTCONN, what, "no answer in time");
	} else if (r < 0 || !last) {
		r = pg_gone(pg, what, e);
	} else if (!is_fine(last)) {
		r = fail_result(pg, last, what, e);
	}
	/* Also after an error that the server could still tell. */
	if (r < 0 && pg->conn && pq.status(pg->conn) != CONNECTION_OK) {
		drop(pg);
		r = pg_fail(e, ERR_STORE_UNREACHABLE, ENOTCONN, what,
			    "the server has ended the connection");
	}
	if (r == 0 && ret)
		*ret = last;
	else
		pq.clear(last);
	return r;
}

int pg_script(struct pg *pg, const char *sql, const char *what, struct err *e)
{
	return pg_result(pg, pq.sendQuery(pg->conn, sql), NULL, what, e);
}

/* ---- notifications ---- */

int pg_wait(struct pg *pg, int extra_fd, int ms, struct err *e)
{
	struct pollfd p[] = {{.fd = pg->conn ? pq.socket(pg->conn) : -1, .events = POLLIN},
			     {.fd = extra_fd, .events = POLLIN}};

	const int n = poll(p, ARRAY_SIZE(p), ms);
	if (n <= 0 || !p[0].revents)
		return 0;
	return pq.consumeInput(pg->conn) ? 1 : pg_gone(pg, "waiting", e);
}

bool pg_notified(struct pg *pg, char *ret, size_t size)
{
	PGnotify *n = pg->conn ? pq.notifies(pg->conn) : NULL;

	if (!n)
		return false;
	copy_text(ret, size, n->extra);
	pq.freemem(n);
	return true;
}

/* ---- connecting ---- */

static void on_notice(void *user UNUSED, const char *text UNUSED)
{
}

static int handshake(struct pg *pg, struct err *e)
{
	const uint64_t until = now_ns() + CONNECT_NS;
	PostgresPollingStatusType state = PGRES_POLLING_WRITING;

	while (state != PGRES_POLLING_OK) {
		if (state == PGRES_POLLING_FAILED || pq.status(pg->conn) == CONNECTION_BAD)
			return pg_gone(pg, "connecting", e);
		if (wait_for(pg, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until) < 0) {
			drop(pg);
			return pg_fail(e, ERR_STORE_UNREACHABLE, ENOTCONN, "connecting",
				       "no answer in time");
		}
		state = pq.connectPoll(pg->conn);
	}
	return 0;
}

static int settings(struct pg *pg, struct err *e)
{
	const char *encoding = pq.parameterStatus(pg->conn, "server_encoding");
	char sql[512];

	if (pq.serverVersion(pg->conn) < SERVER_VERSION)
		return pg_fail(e, ERR_STORE_FAILED, EPROTO, "connecting",
			       "PostgreSQL 12 or newer is needed");
	if (!encoding || !streq(encoding, "UTF8"))
		return pg_fail(e, ERR_STORE_FAILED, EPROTO, "connecting",
			       "its encoding must be UTF8");
	(void)snprintf(sql, sizeof(sql),
		       "SET lock_timeout = %u; SET statement_timeout = %u;"
		       "SET idle_in_transaction_session_timeout = %u;"
		       "SET bytea_output = hex; SET standard_conforming_strings = on;"
		       "SELECT set_config('synchronous_commit', 'on', false)"
		       " WHERE current_setting('synchronous_commit') = 'off'",
		       pg->busy_ms, STATEMENT_MS, STATEMENT_MS * 3);
	int r = pg_script(pg, sql, "connecting", e);
	if (r < 0 || !pg->listens)
		return r;
	(void)snprintf(sql, sizeof(sql), "LISTEN %s", pg->listens);
	return pg_script(pg, sql, "connecting", e);
}

/* libpq's message about an address that it cannot read may have the password. */
static int check_address(const char *address, struct err *e)
{
	PQconninfoOption *parts = pq.conninfoParse(address, NULL);

	if (!parts)
		return pg_fail(e, ERR_STORE_FAILED, EINVAL, "its address",
			       "it is not one that PostgreSQL understands "
			       "(postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…)");
	pq.conninfoFree(parts);
	return 0;
}

int pg_connect(struct pg *pg, struct err *e)
{
	/* What stands before the address is a default, what stands behind it is not. */
	const char *const names[] = {"application_name", "keepalives_idle", "dbname",
				     "client_encoding", NULL};
	const char *const values[] = {"caisson", "30", pg->address, "UTF8", NULL};

	if (pg->conn)
		return 0;
	if (pg->in_transaction)
		return pg_gone(pg, "a transaction", e);
	if (now_ns() < pg->retry_ns)
		return pg_fail(e, ERR_STORE_UNREACHABLE, ENOTCONN, "connecting",
			       "the last try has failed just now");
	int r = check_address(pg->address, e);
	if (r < 0)
		return r;
	pg->conn = pq.connectStartParams(names, values, 1);
	if (!pg->conn)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the database");
	(void)pq.setNoticeProcessor(pg->conn, on_notice, NULL);
	r = handshake(pg, e);
	if (r == 0 && pq.setnonblocking(pg->conn, 1) < 0)
		r = pg_gone(pg, "connecting", e);
	r = r < 0 ? r : settings(pg, e);
	pg->made += r == 0;
	if (r < 0) {
		drop(pg);
		pg->retry_ns = now_ns() + RETRY_NS;
	}
	return r;
}
