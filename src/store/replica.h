/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store: the loop's copy of what a PostgreSQL server has. The loop never waits for that server
 * (docs/decisions/0047-postgresql.md, "The loop").
 *
 * The copy is an SQLite database in memory, of the loop alone. Its committed rows are what PostgreSQL has said. Over them, in one
 * transaction that is never committed, are the loop's changes that PostgreSQL has not confirmed yet. Each change was recorded: its
 * statements, and what the caller saw of their results. The thread of the link runs the same statements in PostgreSQL. If a result
 * differs, somebody else was faster, and the change fails with STORE_BUSY.
 *
 * Triggers in PostgreSQL notify of every row that was changed, by whomever (channel CHANNEL). The link reads these rows, and
 * the loop puts them into the copy: it takes the unconfirmed changes back, writes the rows, and makes the rest of the changes
 * again. So what was refused leaves nothing. After a lost connection the link fills a new copy, since notifications may
 * have been missed. */
#pragma once

#include "store/db.h"

/* What a statement of a change returned, and its parameters. */
struct call {
	enum statement id;
	struct value values[VALUES_MAX]; /* point behind the struct */
	unsigned n_values;
	size_t bytes;  /* what it takes in memory */
	bool reads;    /* it changes nothing */
	bool seen;     /* the caller looked at `changes` */
	bool ended;    /* no more rows came */
	unsigned rows; /* that came */
	int changes;
	uint64_t
	    below; /* the caller looked only whether its number is below this one; 0: at the number */
	uint8_t digest[32]; /* of the rows */
};

enum news_kind {
	NEWS_ROWS, /* rows that have changed */
	NEWS_COPY, /* a new copy */
	NEWS_END,  /* of a change, which it is a part of */
};

/* From the link to the loop. */
struct news {
	struct list node;
	enum news_kind kind;
	struct call **rows; /* statements for the copy */
	unsigned n_rows;
	struct db copy;
};

/* A transaction of the loop; or, without calls, a question whether the copy is up to date. */
struct change {
	struct list node;    /* of the link */
	struct list pending; /* of the loop, in the order in which it made them */
	struct news end;
	uint64_t seq;
	uint64_t turn;             /* of the loop */
	char by[STORE_OWNER_SIZE]; /* who makes it; "": the server, or the local user */
	bool durable;
	bool writes;
	struct call **calls;
	unsigned n_calls;
	size_t bytes;
	int r; /* what became of it, once the link has tried */
	struct err err;
};

/* ---- replica_calls.c ---- */

struct call *replica_call_new(enum statement id, const struct value *values,
			      unsigned n); /* NULL: no memory */
/* What C, whose statement has begun at ST, returns with this row. */
void replica_call_add_row(struct call *c, const struct cursor *st, int r);
/* Runs it; its result does not matter. */
int replica_call_run(struct db *db, const struct call *c, struct err *e) MUST_CHECK;
/* Runs it in PostgreSQL. 0: it returned the same; -EBUSY: it did not. */
int replica_call_repeat(struct db *db, const struct call *c, struct err *e) MUST_CHECK;
/* E: another result than on the copy. */
int replica_call_differs(struct err *e);
/* Whether BY, who may be NULL, may make one more change, if PENDING wait: STORE_BUSY. */
int replica_check_room(const struct list *pending, const char *by, struct err *e) MUST_CHECK;
void replica_change_free(struct change *c);
void replica_news_free(struct news *n);

/* ---- replica.c ---- */

/* Opens s->db. The helper is open already. */
int replica_open(struct store *s, const struct store_config *config, struct err *e) MUST_CHECK;
void replica_close(struct store *s);
int replica_attach(struct store *s, sd_event *loop) MUST_CHECK;
/* As store_settle(). */
int replica_settle(struct store *s, store_settled_fn fn, void *user, struct err *e) MUST_CHECK;
void replica_looked_below(struct db *db, uint64_t limit);
bool replica_owes(const struct store *s);
/* Calls FN once the copy has all that is in PostgreSQL now. */
int replica_barrier(struct store *s, store_settled_fn fn, void *user, struct err *e) MUST_CHECK;
void replica_answers(struct store *s);
/* Whether the database cannot be reached. E: why. */
bool replica_trouble(struct store *s, struct err *e);

/* As store_look_at_link(). */
bool replica_look(struct store *s, struct store_link *ret);

#ifndef HAVE_LIBPQ /* then there is no replica */
#define replica_open(s, config, e)                                                                 \
	err_set(e, ERR_STORE_FAILED, ENOSYS, "this program was built without PostgreSQL")
#define replica_close(s)                ((void)(s))
#define replica_attach(s, loop)         (0)
#define replica_settle(s, fn, user, e)  (1)
#define replica_looked_below(db, limit) ((void)(db))
#define replica_owes(s)                 (false)
#define replica_barrier(s, fn, user, e) (1)
#define replica_answers(s)              ((void)(s))
#define replica_trouble(s, e)           (false)
#define replica_look(s, ret)            (false)
#endif

/* ---- replica_link.c: the connection, and its thread ---- */

struct link;
/* Connects, brings the tables up to date and fills the first copy. EVENT_FD is written when there are news. */
int replica_link_open(const char *address, const struct store_config *config, int event_fd,
		      struct link **ret, struct err *e) MUST_CHECK;
struct link *replica_link_close(struct link *l); /* NULL is fine; what waits is not done */
/* Until the thread runs, replica_link_send() waits for PostgreSQL, and the news are there when it returns. */
bool replica_link_start(struct link *l); /* whether it runs */
void replica_link_send(struct link *l, struct change *c);
void replica_link_refill(struct link *l); /* a new copy is needed */
/* Moves the news to RET, oldest first. */
void replica_link_take(struct link *l, struct list *ret);
/* Whether PostgreSQL was there a moment ago. E: why not. */
bool replica_link_is_up(struct link *l, struct err *e);
/* Whether it answered last so long ago that the copy is too old. */
bool replica_link_is_old(struct link *l);
/* For how long the loop has not had all that it said. */
uint64_t replica_link_age_ms(struct link *l);
