/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's side of the copy (replica.h): a kind of database that records what is done in it. */
#include "store/replica.h"
#include "store/db_sqlite.h"

#include "base/loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS_MAX 64u /* statements of one change */

struct waiter {
	struct list node;
	uint64_t from, to; /* of its changes */
	int r;
	struct err err;
	store_settled_fn fn;
	void *user;
};

struct replica {
	struct store *store;
	struct link *link;
	struct list pending; /* of struct change */
	uint64_t seq;        /* of the last change */
	struct change *open; /* the transaction that runs; NULL: none */
	struct call *call;   /* its last statement */
	bool fills;          /* the copy is not up to date until the next one comes */
	struct list waiters;
	struct db_kind kind; /* SQLite's, and records */
	/* Of the changes that store_owes() is about: the first one, and the turn of the loop in which they were made. */
	uint64_t owed_from, owed_turn;
	bool begun;      /* the loop runs */
	bool has_thread; /* else changes wait for PostgreSQL: the server has not begun */
	int sent_r;      /* what became of such a change */
	struct err *sent_err;
	sd_event_source *starter;
};

/* ---- what the loop's changes are over ---- */

static int script(struct db *db, const char *sql, struct err *e)
{
	return sqlite_kind.script(db, sql, "its copy", e);
}

static void take_back(struct db *db)
{
	struct err ignored = ERR_INIT;

	if (db->handle && sqlite_kind.in_transaction(db))
		(void)!script(db, "ROLLBACK", &ignored);
}

static int repeat_one(struct db *plain, const struct change *c, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; i < c->n_calls && r >= 0; i++)
		r = c->calls[i]->reads ? 0 : replica_call_run(plain, c->calls[i], e);
	return r;
}

/* The copy may have rows that nobody has confirmed. */
static void spoiled(struct replica *p, struct db *db)
{
	take_back(db);
	p->fills = true;
	replica_link_refill(p->link);
}

/* Makes the pending changes again. What fails now will fail in PostgreSQL, which says so. */
static void make_again(struct replica *p, struct db *db)
{
	struct err ignored = ERR_INIT;

	if (list_is_empty(&p->pending) || script(db, "BEGIN", &ignored) < 0)
		return;
	const struct db_kind *kind = db->kind;
	bool whole = true;

	db->kind = &sqlite_kind; /* nothing of it is a change */
	list_for_each(n, &p->pending) {
		const struct change *c = list_entry(n, struct change, pending);

		if (!whole || script(db, "SAVEPOINT again", &ignored) < 0)
			break;
		if (repeat_one(db, c, &ignored) < 0)
			(void)!script(db, "ROLLBACK TO again", &ignored);
		/* Without memory or room SQLite takes all back by itself: what follows would be committed. */
		whole =
		    sqlite_kind.in_transaction(db) && script(db, "RELEASE again", &ignored) == 0;
	}
	db->kind = kind;
	if (!whole)
		spoiled(p, db);
}

/* ---- the kind of database ---- */

/* Clients read it, so it says nothing of where the database is; replica_trouble() does. */
static int away(const char *text, struct err *e)
{
	(void)err_set(e, ERR_STORE_UNREACHABLE, 0, "%s", text);
	e->errnum = ENOTCONN;
	return -ENOTCONN;
}

static int unreachable(struct replica *p, struct err *e)
{
	if (p->begun && !p->has_thread) /* the loop may not wait itself */
		return away("the database: its thread could not be started", e);
	const bool up = replica_link_is_up(p->link, NULL), is_old = replica_link_is_old(p->link);

	if (up && !p->fills && !is_old)
		return 0;
	return away(up && !is_old ? "the database: its rows are read again"
				  : "the database cannot be reached",
		    e);
}

/* The copy is good for a while after the database has last said something, whatever the link still waits for. */
static int check_age(struct replica *p, struct err *e)
{
	return replica_link_is_old(p->link) ? away("the database cannot be reached", e) : 0;
}

static int record(struct replica *p, struct call *call, struct err *e)
{
	struct change *c = p->open;
	struct call **more = NULL;

	if (call && c->n_calls < CALLS_MAX)
		more = reallocarray(c->calls, c->n_calls + 1, sizeof(struct call *));
	if (!more) {
		free(call);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a change of the store");
	}
	c->calls = more;
	c->calls[c->n_calls++] = p->call = call;
	c->bytes += call->bytes;
	return 0;
}

static int begin(struct cursor *c, const struct value *values, unsigned n, struct err *e)
{
	struct replica *p = c->db->replica;

	if (!p->open) {
		int r = check_age(p, e);
		return r < 0 ? r : sqlite_kind.begin(c, values, n, e);
	}
	int r = record(p, replica_call_new(c->id, values, n), e);
	r = r < 0 ? r : sqlite_kind.begin(c, values, n, e);
	if (r >= 0) {
		p->call->reads = sqlite_reads(c);
		p->open->writes = p->open->writes || !p->call->reads;
	}
	return r;
}

static int step(struct cursor *c, struct err *e)
{
	struct replica *p = c->db->replica;
	const int r = sqlite_kind.step(c, e);

	for (unsigned i = p->open ? p->open->n_calls : 0; r >= 0 && i > 0; i--)
		if (p->open->calls[i - 1]->id == c->id) {
			replica_call_add_row(p->open->calls[i - 1], c, r);
			break;
		}
	return r;
}

static int changes(const struct db *db)
{
	struct replica *p = db->replica;
	const int n = sqlite_kind.changes(db);

	if (p->open && p->call) {
		p->call->seen = true;
		p->call->changes = n;
	}
	return n;
}

void replica_looked_below(struct db *db, uint64_t limit)
{
	struct replica *p = db->replica;

	if (p && p->open && p->call)
		p->call->below = limit;
}

static bool in_transaction(const struct db *db)
{
	return db->replica->open;
}

static uint64_t turn_of(const struct replica *p)
{
	uint64_t turn = 0;

	if (p->store->answers)
		(void)sd_event_get_iteration(sd_event_source_get_event(p->store->answers), &turn);
	return turn;
}

static int add_change(struct replica *p, bool limited, struct err *e)
{
	const char *by =
	    limited ? p->store->db.by : NULL; /* else what it waits for was made already */
	int r = limited ? replica_check_room(&p->pending, by, e) : 0;

	if (r < 0)
		return r;
	p->open = calloc(1, sizeof(*p->open));
	p->call = NULL;
	if (!p->open)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a change of the store");
	p->open->turn = turn_of(p);
	copy_text(p->open->by, sizeof(p->open->by), by ? by : "");
	p->open->end.kind = NEWS_END;
	return 0;
}

static int transaction(struct db *db, bool waits UNUSED, struct err *e)
{
	struct replica *p = db->replica;
	int r = unreachable(p, e);

	r = r < 0 ? r : add_change(p, true, e);
	if (r == 0)
		p->open->durable = db->durable;
	if (r == 0 && !sqlite_kind.in_transaction(db))
		r = script(db, "BEGIN", e);
	r = r < 0 ? r : script(db, "SAVEPOINT change", e);
	if (r < 0) {
		replica_change_free(p->open);
		p->open = NULL;
	}
	return r;
}

static void rollback(struct db *db)
{
	struct replica *p = db->replica;
	struct err ignored = ERR_INIT;

	replica_change_free(p->open);
	p->open = NULL;
	if (!list_is_empty(&p->pending) && sqlite_kind.in_transaction(db) &&
	    script(db, "ROLLBACK TO change; RELEASE change", &ignored) == 0)
		return;
	/* SQLite has taken all back, as it does without memory; or nothing else is there. */
	take_back(db);
	make_again(p, db);
}

/* Who leaves a turn without store_settle() was not answered; the next one's answer is not about that change. */
bool replica_owes(const struct store *s)
{
	return s->db.owes && s->replica->owed_turn == turn_of(s->replica);
}

static void send(struct replica *p, struct change *c)
{
	c->seq = ++p->seq;
	if (c->durable && p->has_thread && !replica_owes(p->store)) {
		p->store->db.owes = true;
		p->owed_from = c->seq;
		p->owed_turn = c->turn;
	}
	list_append(&p->pending, &c->pending);
	replica_link_send(p->link, c);
}

static int commit(struct db *db, struct err *e)
{
	struct replica *p = db->replica;
	struct change *c = p->open;

	if (!c->writes) {
		rollback(db);
		return 0;
	}
	int r = script(db, "RELEASE change", e);
	if (r >= 0 && !sqlite_kind.in_transaction(db)) { /* it was the outermost one */
		spoiled(p, db);
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a change of the store");
	}
	if (r < 0)
		return r;
	p->open = NULL;
	p->sent_r = 0;
	send(p, c);
	if (!p->has_thread) { /* it is done, or has failed */
		p->sent_err = e;
		replica_answers(p->store);
		p->sent_err = NULL;
	}
	return p->sent_r;
}

/* PostgreSQL gives another number. */
static int64_t last_id(const struct db *db UNUSED)
{
	return 0;
}

static struct db_kind recording_kind(void)
{
	struct db_kind kind = sqlite_kind;

	kind.begin = begin;
	kind.step = step;
	kind.changes = changes;
	kind.last_id = last_id;
	kind.in_transaction = in_transaction;
	kind.transaction = transaction;
	kind.commit = commit;
	kind.rollback = rollback;
	kind.durable_end = NULL;
	kind.batch_end = NULL;
	return kind;
}

/* ---- news ---- */

static int put_rows(struct db *db, const struct news *n, struct err *e)
{
	int r = script(db, "BEGIN", e);

	for (unsigned i = 0; i < n->n_rows && r >= 0; i++)
		r = replica_call_run(db, n->rows[i], e);
	r = r < 0 ? r : script(db, "COMMIT", e);
	if (r < 0)
		take_back(db);
	return r;
}

static void adopt(struct db *db, struct db *copy)
{
	for (size_t i = 0; i < STATEMENT_MAX_; i++) {
		void *own = db->cursors[i].own;

		db->cursors[i].own = copy->cursors[i].own;
		copy->cursors[i].own = own;
	}
	void *handle = db->handle;
	db->handle = copy->handle;
	copy->handle = handle; /* replica_news_free() closes it */
}

static void on_end(struct replica *p, struct change *c)
{
	if (c->r < 0 && p->sent_err) {
		*p->sent_err = c->err;
		p->sent_r = c->r;
	}
	list_for_each(n, &p->waiters) {
		struct waiter *w = list_entry(n, struct waiter, node);

		if (c->r < 0 && c->durable && w->r == 0 && c->seq >= w->from && c->seq <= w->to) {
			w->r = c->r;
			w->err = c->err;
		}
	}
	list_remove(&c->pending);
	replica_change_free(c);
}

static uint64_t epoch_of(struct db *db)
{
	struct err ignored = ERR_INIT;
	uint64_t epoch = 0;

	if (db->handle) /* there is a copy already */
		(void)!db_number(db, &epoch, db_begin(db, Q_EPOCH, &ignored, ""), &ignored);
	return epoch;
}

/* Takes one of the news. True: credentials may have changed. DB is the copy as SQLite alone. */
static bool take_one(struct replica *p, struct db *db, struct news *n)
{
	struct err e = ERR_INIT;
	bool again = false;

	if (n->kind == NEWS_END) {
		struct change *c = list_entry(n, struct change, end);

		again = c->r < 0;
		on_end(p, c);
		return again;
	}
	if (n->kind == NEWS_COPY) {
		adopt(db, &n->copy);
		p->fills = false;
		again = true;
	} else if (!p->fills && put_rows(db, n, &e) < 0) {
		p->fills = true;
		replica_link_refill(p->link);
	}
	replica_news_free(n);
	return again;
}

/* Whoever has an older epoch has to judge credentials again (store_credentials_epoch()): each number stands for one state. */
static void raise_epoch(struct db *db, uint64_t above)
{
	struct err ignored = ERR_INIT;

	(void)!db_run(db, Q_COPY_EPOCH, NULL, &ignored, "i", (int64_t)above + 1);
}

static void tell_waiters(struct replica *p)
{
	struct waiter *w;

	/* Of a copy that is too old nobody reads. */
	while (!list_is_empty(&p->waiters) && (!p->fills || replica_link_is_old(p->link))) {
		const struct change *first =
		    list_is_empty(&p->pending)
			? NULL
			: list_entry(p->pending.next, struct change, pending);

		w = list_entry(p->waiters.next, struct waiter, node);
		if (first && first->seq <= w->to)
			return;
		list_remove(&w->node);
		w->fn(w->r < 0 ? &w->err : NULL, w->user);
		free(w);
	}
}

void replica_answers(struct store *s)
{
	struct replica *p = s->replica;
	struct list news = LIST_INIT(news);
	struct news *n;
	bool again = false;

	if (!p)
		return;
	replica_link_take(p->link, &news);
	if (list_is_empty(&news)) {
		tell_waiters(p);
		return;
	}
	s->db.kind = &sqlite_kind;
	const uint64_t seen = epoch_of(&s->db);
	take_back(&s->db);
	const uint64_t before = epoch_of(&s->db);
	while ((n = list_pop_first(&news, struct news, node)))
		again = take_one(p, &s->db, n) || again;
	const uint64_t after = epoch_of(&s->db);
	if (again || after != before)
		raise_epoch(&s->db, MAX(seen, after));
	make_again(p, &s->db);
	s->db.kind = &p->kind;
	tell_waiters(p);
}

/* ---- who waits ---- */

static int wait_for(struct replica *p, uint64_t from, store_settled_fn fn, void *user,
		    struct err *e)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM,
			       "the change may not be made if the machine stops");
	*w = (struct waiter){.from = from, .to = p->seq, .fn = fn, .user = user};
	list_append(&p->waiters, &w->node);
	return 0;
}

/* A caller who asks in a later turn waits for all, and hears of his own. Without a change of his own he hears of none. */
int replica_settle(struct store *s, store_settled_fn fn, void *user, struct err *e)
{
	struct replica *p = s->replica;
	const uint64_t from = s->db.owes ? p->owed_from : p->seq + 1;

	s->db.owes = false;
	return list_is_empty(&p->pending) ? 1 : wait_for(p, from, fn, user, e);
}

int replica_barrier(struct store *s, store_settled_fn fn, void *user, struct err *e)
{
	struct replica *p = s->replica;
	int r = p->begun && !p->has_thread
		    ? away("the database: its thread could not be started", e)
		    : add_change(p, false, e);

	if (r < 0)
		return r;
	struct change *c = p->open;
	p->open = NULL;
	c->durable = true;
	send(p, c);
	r = wait_for(p, p->seq, fn, user, e);
	replica_answers(s);
	return r;
}

/* ---- life ---- */

static void tell_loop(struct store *s)
{
	const uint64_t one = 1;

	(void)!write(s->helper.event_fd, &one, sizeof(one));
}

static int on_start(sd_event_source *source UNUSED, void *user)
{
	struct replica *p = user;

	loop_work("store", "link");
	p->begun = true;
	p->has_thread = replica_link_start(p->link);
	if (!p->has_thread)
		tell_loop(p->store);
	return 0;
}

int replica_attach(struct store *s, sd_event *loop)
{
	struct replica *p = s->replica;

	return p ? MIN(sd_event_add_defer(loop, &p->starter, on_start, p), 0) : 0;
}

bool replica_trouble(struct store *s, struct err *e)
{
	const struct replica *p = s->replica;

	if (p && p->begun && !p->has_thread)
		return away("the database: its thread could not be started; restart the server",
			    e) < 0;
	return p && !replica_link_is_up(p->link, e);
}

bool replica_look(struct store *s, struct store_link *ret)
{
	const struct replica *p = s->replica;
	struct err ignored = ERR_INIT;

	if (!p)
		return false;
	*ret = (struct store_link){.up = !replica_trouble(s, &ignored),
				   .age_ms = replica_link_age_ms(p->link)};
	list_for_each(n, &p->pending)
		ret->changes++;
	return true;
}

int replica_open(struct store *s, const struct store_config *config, struct err *e)
{
	struct replica *p = calloc(1, sizeof(*p));

	if (!p)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the store");
	p->store = s;
	p->kind = recording_kind();
	p->fills = true;
	list_init(&p->pending);
	list_init(&p->waiters);
	s->replica = s->db.replica = p;
	int r = replica_link_open(config->address, &s->config, s->helper.event_fd, &p->link, e);
	if (r == 0)
		replica_answers(s); /* the first copy */
	return r;
}

void replica_close(struct store *s)
{
	struct replica *p = s->replica;
	struct err e = ERR_INIT;
	struct waiter *w;
	struct list *l;

	if (!p)
		return;
	p->starter = sd_event_source_disable_unref(p->starter);
	p->link = replica_link_close(p->link);
	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	while ((w = list_pop_first(&p->waiters, struct waiter, node))) {
		w->fn(&e, w->user);
		free(w);
	}
	while ((l = list_pop(&p->pending)))
		replica_change_free(list_entry(l, struct change, pending));
	db_close(&s->db);
	s->replica = s->db.replica = NULL;
	free(p);
}
