/* SPDX-License-Identifier: Apache-2.0 */
/* The connection between the loop's copy and PostgreSQL, and the thread that waits for it: it repeats the changes of the loop, reads the
 * rows that others have changed, and makes a new copy after a lost connection. */
#include "store/replica_rows.h"

#include "store/db_postgresql.h"
#include "store/pg.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define LOCK_MS                                                                                    \
	5000u /* a batch of another server's rows may have the lock that long; the loop waits for nothing */
/* So long the loop reads its copy while the database does not answer: a restart or a change to a standby is over by then. It is
 * also how long a key is good that another server has revoked meanwhile. */
#define COPY_MS  60000u
#define BEAT_MS  1000
#define BEAT_NS  (BEAT_MS * NS_PER_MS)
#define AGAIN_MS 300 /* longer than pg_connect() refuses a next try */
#define MARK_NS  (5 * NS_PER_S)
#define ROWS_MAX 1000u /* that are read one by one; a new copy is cheaper than more */
#define UNSURE_NS                                                                                  \
	(5 *                                                                                       \
	 NS_PER_S) /* of questions what became of a change; the last one may take as long again */
#define END_NS   (2 * NS_PER_S)    /* for what is left when the store is closed */
#define SLICE_NS (100 * NS_PER_MS) /* of changes, before the loop hears what others have changed */

struct link {
	struct db db; /* of the thread, once that runs */
	struct store_config config;
	int event_fd, wake_fd;
	uint64_t instance; /* marks our own changes among the notifications */
	uint64_t filled;   /* the connection that the copy is from */
	uint64_t last;     /* of our changes that was made */
	uint64_t marked;   /* of those whose notification has come */
	struct list ended; /* changes of which the copy has nothing yet */
	char (*changed)[CHANGED_SIZE];
	unsigned n_changed;
	bool too_many; /* rows have changed */
	pthread_t thread;
	bool started;
	/* protected by the lock: */
	pthread_mutex_t lock;
	struct list todo, news;
	bool stop, refill, up, was_old;
	struct err why;    /* it is not up */
	uint64_t heard_ns; /* its last answer */
	uint64_t taken_ns; /* the same, once the loop has the news that came with it */
};

static struct pg *pg_of(struct link *l)
{
	return l->db.handle;
}

static bool is_old(const struct link *l, uint64_t since)
{
	return now_ns() - since > l->config.copy_ms * NS_PER_MS;
}

/* Gives the loop the news, together with what they say about the database: an old copy is not read as a fresh one. R: what
 * follow() returned. */
static void tell(struct link *l, int r, const struct err *why, struct list *news)
{
	const uint64_t one = 1;
	const bool up = r >= 0, some = !list_is_empty(news);

	(void)pthread_mutex_lock(&l->lock);
	const bool changed = l->up != up;
	l->up = up;
	l->why = *why;
	if (!up && pg_of(l)->why[0])
		(void)pg_fail(&l->why, ERR_STORE_UNREACHABLE, ENOTCONN, "its rows",
			      pg_of(l)->why); /* for the log */
	pg_of(l)->why[0] = '\0';
	list_splice(&l->news, news);
	if (r > 0)
		l->heard_ns = now_ns();
	if (list_is_empty(&l->news))
		l->taken_ns = l->heard_ns;
	const bool ages = is_old(l, l->heard_ns) != l->was_old;
	l->was_old = l->was_old != ages;
	(void)pthread_mutex_unlock(&l->lock);
	if (changed || ages || some)
		(void)!write(l->event_fd, &one, sizeof(one));
}

static bool stops(struct link *l)
{
	(void)pthread_mutex_lock(&l->lock);
	const bool stop = l->stop;
	(void)pthread_mutex_unlock(&l->lock);
	return stop;
}

/* ---- notifications ---- */

static void note_changed(struct link *l, const char *text)
{
	char mark[64];
	const int n = snprintf(mark, sizeof(mark), "mark %016" PRIx64 " ", l->instance);
	uint64_t seq;

	if (strncmp(text, mark, (size_t)n) == 0 && parse_u64(text + n, 0, UINT64_MAX, &seq) == 0) {
		l->marked = MAX(l->marked, seq);
		return;
	}
	for (unsigned i = 0; i < l->n_changed; i++)
		if (streq(l->changed[i], text))
			return;
	if (text_starts_with(text, "mark "))
		return;
	if (l->n_changed == ROWS_MAX) {
		l->too_many = true;
		return;
	}
	copy_text(l->changed[l->n_changed++], CHANGED_SIZE, text);
}

static void take_notifications(struct link *l)
{
	char text[CHANGED_SIZE];

	while (pg_notified(pg_of(l), text, sizeof(text)))
		note_changed(l, text);
}

/* Until the notifications of our change SEQ have come: they are behind those of all earlier ones. */
static int wait_for_mark(struct link *l, uint64_t seq, struct err *e)
{
	const uint64_t until = now_ns() + MARK_NS;
	int r = 0;

	for (take_notifications(l); r >= 0 && l->marked < seq; take_notifications(l)) {
		if (!pg_of(l)->conn || now_ns() > until)
			return pg_gone(pg_of(l), "waiting", e);
		r = pg_wait(pg_of(l), -1, AGAIN_MS, e);
	}
	return MIN(r, 0);
}

/* ---- a new copy, and rows ---- */

static struct news *news_new(enum news_kind kind, unsigned n_rows)
{
	struct news *n = calloc(1, sizeof(*n));

	if (n)
		n->kind = kind;
	if (n && n_rows > 0 && !(n->rows = calloc(n_rows, sizeof(struct call *)))) {
		free(n);
		n = NULL;
	}
	return n;
}

static int refill(struct link *l, struct list *news, struct err *e)
{
	struct news *n = news_new(NEWS_COPY, 0);

	if (!n)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the copy of the database");
	int r = pg_connect(pg_of(l), e);
	const uint64_t made = pg_of(l)->made;
	r = r < 0 ? r : replica_rows_fill(&l->db, &l->config, &n->copy, e);
	if (r < 0) {
		replica_news_free(n);
		return r;
	}
	l->filled = made;
	l->marked = l->last;
	l->n_changed = 0;
	l->too_many = false;
	list_append(news, &n->node);
	return 0;
}

static int fetch_all(struct link *l, struct news *n, struct err *e)
{
	int r = postgresql_snapshot(&l->db, e);

	for (unsigned i = 0; i < l->n_changed && r == 0; i++) {
		struct call *c = NULL;

		r = replica_rows_fetch(&l->db, l->changed[i], &c, e);
		if (c)
			n->rows[n->n_rows++] = c;
	}
	l->db.kind->rollback(&l->db);
	return r;
}

static int fetch(struct link *l, struct list *news, struct err *e)
{
	if (l->n_changed == 0)
		return 0;
	struct news *n = news_new(NEWS_ROWS, l->n_changed);
	if (!n)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the copy of the database");
	int r = fetch_all(l, n, e);
	if (r < 0) {
		replica_news_free(n);
		return r;
	}
	l->n_changed = 0;
	list_append(news, &n->node);
	return 0;
}

/* ---- changes ---- */

static int write_mark(struct link *l, uint64_t seq, struct err *e)
{
	char sql[128];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT pg_notify('" CHANNEL "', 'mark %016" PRIx64 " %" PRIu64 "')",
		       l->instance, seq);
	return l->db.kind->script(&l->db, sql, "a change", e);
}

static int repeat(struct link *l, struct change *c, struct err *e)
{
	if (c->n_calls == 0) /* a barrier changes nothing, and needs no lock */
		return write_mark(l, c->seq, e);
	int r = db_transaction(&l->db, true, e);

	for (unsigned i = 0; i < c->n_calls && r == 0; i++)
		r = replica_call_repeat(&l->db, c->calls[i], e);
	/* What the copy allowed was impossible there. */
	if (r < 0 && (e->errnum == EEXIST || e->errnum == EINVAL))
		r = replica_call_differs(e);
	r = r < 0 ? r : write_mark(l, c->seq, e);
	return db_finish(&l->db, true, r, e);
}

/* The connection was lost while the commit was on its way: the server knows what became of it, as soon as it can be asked. */
static int ask(struct link *l, uint64_t transaction, struct err *e)
{
	const uint64_t until = now_ns() + UNSURE_NS;

	while (now_ns() < until && !stops(l)) {
		struct err ignored = ERR_INIT;
		const int r = l->db.kind->outcome(&l->db, transaction, &ignored);

		if (r > 0)
			return 0;
		if (r == 0)
			return pg_fail(e, ERR_STORE_UNREACHABLE, ENOTCONN, "a change",
				       "the connection was lost, and nothing was changed");
		(void)usleep(AGAIN_MS * 1000);
	}
	return -ENOTCONN; /* E says that it is not known */
}

static void try_change(struct link *l, struct change *c)
{
	c->r = repeat(l, c, &c->err);
	const uint64_t unsure = c->r < 0 ? l->db.kind->unsure(&l->db) : 0;
	if (unsure && (c->r = ask(l, unsure, &c->err)) == 0)
		c->err = ERR_INIT;
	/* Whoever is refused finds the row of the one who was faster, if he looks again. */
	struct err ignored = ERR_INIT;
	if (c->r == -EBUSY && write_mark(l, c->seq, &ignored) == 0)
		l->last = c->seq;
}

/* The next slice tries the rest. */
static void try_some(struct link *l, struct list *todo)
{
	const uint64_t until = now_ns() + SLICE_NS;
	struct change *c;

	while ((c = list_pop_first(todo, struct change, node))) {
		try_change(l, c);
		l->last = c->r == 0 ? c->seq : l->last;
		list_append(&l->ended, &c->node);
		if (now_ns() >= until)
			return;
	}
}

/* ---- all together ---- */

/* Makes news of what has changed since. 1: the server has answered; 0: it was not asked. */
static int follow(struct link *l, bool fills, struct list *news, struct err *e)
{
	int r = pg_connect(pg_of(l), e);

	if (r == 0 && !fills && pg_of(l)->made == l->filled)
		r = wait_for_mark(l, l->last, e);
	if (r < 0)
		return r;
	take_notifications(l);
	if (fills || l->too_many || pg_of(l)->made != l->filled)
		r = refill(l, news, e);
	else if (l->n_changed > 0)
		r = fetch(l, news, e);
	else if (now_ns() - l->heard_ns < BEAT_NS / 2)
		return 0;
	else
		r = pg_script(pg_of(l), "SELECT 1", "a look", e);
	return r < 0 ? r : 1;
}

/* A change that was made is told once the copy has it, so that nobody reads what was before; at the latest when nobody reads
 * at all, because the database has been away for too long. */
static void move_ended(struct link *l, bool all, struct list *news)
{
	list_for_each(n, &l->ended) {
		struct change *c = list_entry(n, struct change, node);

		if (!all && c->r == 0)
			continue;
		list_remove(n);
		list_append(news, &c->end.node);
	}
}

static void work_slice(struct link *l, struct list *todo)
{
	struct list news = LIST_INIT(news);
	struct err e = ERR_INIT;

	(void)pthread_mutex_lock(&l->lock);
	list_splice(todo, &l->todo);
	const bool fills = l->refill;
	l->refill = false;
	(void)pthread_mutex_unlock(&l->lock);
	try_some(l, todo);
	const int r = follow(l, fills, &news, &e);
	(void)pthread_mutex_lock(&l->lock);
	l->refill = l->refill || (r < 0 && fills);
	const bool too_long = is_old(l, l->heard_ns);
	(void)pthread_mutex_unlock(&l->lock);
	move_ended(l, r >= 0 || too_long, &news);
	tell(l, r, &e, &news);
}

static void work(struct link *l)
{
	struct list todo = LIST_INIT(todo);

	do
		work_slice(l, &todo);
	while (!list_is_empty(&todo) && !(stops(l) && now_ns() >= pg_of(l)->end_ns));
}

static void *link_main(void *arg)
{
	struct link *l = arg;
	struct err ignored = ERR_INIT;
	bool stop = false;
	uint64_t n;

	while (!stop) {
		const bool up = replica_link_is_up(l, NULL);

		/* What libpq has read together with an answer does not wake the poll. */
		take_notifications(l);
		const bool more = l->n_changed > 0 || l->too_many;
		(void)!pg_wait(pg_of(l), l->wake_fd, !up ? AGAIN_MS : more ? 0 : BEAT_MS, &ignored);
		(void)!read(l->wake_fd, &n, sizeof(n));
		stop = stops(l);
		if (!stop || up)
			work(l);
	}
	return NULL;
}

/* ---- for the loop ---- */

bool replica_link_start(struct link *l)
{
	sigset_t all, before;

	/* The caller's thread handles all signals. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	l->started = pthread_create(&l->thread, NULL, link_main, l) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return l->started;
}

static void wake(struct link *l)
{
	const uint64_t one = 1;

	(void)!write(l->wake_fd, &one, sizeof(one));
}

void replica_link_send(struct link *l, struct change *c)
{
	(void)pthread_mutex_lock(&l->lock);
	list_append(&l->todo, &c->node);
	(void)pthread_mutex_unlock(&l->lock);
	if (l->started)
		wake(l);
	else
		work(l);
}

void replica_link_refill(struct link *l)
{
	(void)pthread_mutex_lock(&l->lock);
	l->refill = true;
	(void)pthread_mutex_unlock(&l->lock);
	wake(l);
}

void replica_link_take(struct link *l, struct list *ret)
{
	(void)pthread_mutex_lock(&l->lock);
	list_splice(ret, &l->news);
	l->taken_ns = l->heard_ns;
	(void)pthread_mutex_unlock(&l->lock);
}

bool replica_link_is_up(struct link *l, struct err *e)
{
	(void)pthread_mutex_lock(&l->lock);
	const bool up = l->up;
	if (!up && e)
		*e = l->why;
	(void)pthread_mutex_unlock(&l->lock);
	return up;
}

bool replica_link_is_old(struct link *l)
{
	(void)pthread_mutex_lock(&l->lock);
	const bool old = is_old(l, l->taken_ns);
	(void)pthread_mutex_unlock(&l->lock);
	return old;
}

uint64_t replica_link_age_ms(struct link *l)
{
	(void)pthread_mutex_lock(&l->lock);
	const uint64_t ns = l->taken_ns;
	(void)pthread_mutex_unlock(&l->lock);
	return (now_ns() - ns) / NS_PER_MS;
}

/* ---- life ---- */

static int connect_first(struct link *l, const char *address, struct err *e)
{
	struct list news = LIST_INIT(news);
	int r = postgresql_open(&l->db, address, &l->config, e);

	r = r < 0 ? r : store_migrate(&l->db, NULL, &l->config, e);
	if (r < 0)
		return r;
	pg_of(l)->listens = CHANNEL;
	r = pg_script(pg_of(l), "LISTEN " CHANNEL, "connecting", e);
	r = r < 0 ? r : refill(l, &news, e);
	tell(l, r < 0 ? r : 1, e, &news);
	return r;
}

int replica_link_open(const char *address, const struct store_config *config, int event_fd,
		      struct link **ret, struct err *e)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l || !(l->changed = calloc(ROWS_MAX, sizeof(*l->changed)))) {
		free(l);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the store");
	}
	l->config = *config;
	l->config.address = l->config.path = NULL; /* borrowed for this call */
	l->config.copy_ms = config->copy_ms ? config->copy_ms : COPY_MS;
	l->config.busy_ms = config->busy_ms ? config->busy_ms : LOCK_MS;
	l->event_fd = event_fd;
	list_init(&l->todo);
	list_init(&l->news);
	list_init(&l->ended);
	(void)pthread_mutex_init(&l->lock, NULL);
	rand_bytes(&l->instance, sizeof(l->instance));
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r = l->wake_fd < 0 ? err_set(e, ERR_SYSTEM, errno, "eventfd")
			       : connect_first(l, address, e);
	*ret = r < 0 ? replica_link_close(l) : l;
	return r;
}

struct link *replica_link_close(struct link *l)
{
	struct news *n;

	if (!l)
		return NULL;
	(void)pthread_mutex_lock(&l->lock);
	l->stop = true;
	(void)pthread_mutex_unlock(&l->lock);
	if (l->started) {
		l->db.kind->end_by(&l->db, now_ns() + END_NS);
		wake(l);
		(void)pthread_join(l->thread, NULL);
	}
	while ((n = list_pop_first(&l->news, struct news, node)))
		replica_news_free(n);
	db_close(&l->db);
	l->wake_fd = fd_close(l->wake_fd);
	(void)pthread_mutex_destroy(&l->lock);
	free(l->changed);
	free(l);
	return NULL;
}
