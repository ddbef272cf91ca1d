/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread: writes rows that nobody waits for, checkpoints the WAL.
 *
 * The caller's thread appends rows to a bounded list. The helper takes the whole list and writes it in
 * one transaction, so a thousand runs a second cost twenty transactions. A batch that fails (full
 * disk, lock of another process) is kept and tried again. Meanwhile the list fills; rows that find it
 * full are counted as lost. A user may have at most twice as many rows in it as are free: so one alone gets
 * two thirds of it, and whoever comes later gets a place, however many rows the others make. The thread starts with the first row. That is after the
 * process gave up its rights (Linux keeps rights per thread), and never in a program that writes
 * nothing. */
#include "store/replica.h"

#include "base/loop.h"
#include "base/rand.h"

#include <sodium.h>
#include <string.h>
#include <sys/eventfd.h>

#define NOTES_MAX      8192u
#define BATCH_WAIT_NS  (50 * NS_PER_MS)
#define SERVER_BATCH   500u        /* rows of one transaction in PostgreSQL */
#define CELL_BYTES_MAX (16u << 20) /* of cells that wait */
#define DRAFTS_PART    4u          /* of the list and of these bytes drafts may fill one part */
#define CLOSE_NS                                                                                   \
	(5 * NS_PER_S)  /* for what waits when the store is closed, and the database is silent */
#define SHARE_TIMES   2 /* a user may have so many times what is free */
#define RETRY_WAIT_NS NS_PER_S
#define FLUSH_WAIT_NS NS_PER_S
#define CLOSE_WAIT_NS NS_PER_S /* for what removed users left */

/* ---- lists ---- */

static void notes_init(struct notes *l)
{
	list_init(&l->list);
	l->n = 0;
}

static void note_free(struct note *n)
{
	if (note_has_cell(n))
		store_cell_free(n->cell);
	free(n);
}

static void notes_free(struct notes *l)
{
	list_for_each(n, &l->list)
		note_free(list_entry(n, struct note, node));
	notes_init(l);
}

/* ---- shares ---- */

struct row_share *share_of(struct helper *h, const char *who)
{
	uint64_t hash;

	(void)crypto_shorthash((uint8_t *)&hash, (const uint8_t *)who, strlen(who),
			       h->refusals.secret);
	return &h->shares[hash % ROW_SHARES];
}

bool share_fits(uint64_t have, uint64_t want, uint64_t free)
{
	return want <= free && have + want <= (free - want) * SHARE_TIMES + 1;
}

static const char *who_of(const struct note *n)
{
	switch (n->kind) {
	case NOTE_RUN:
		return n->run.owner;
	case NOTE_AUDIT:
		return n->audit.actor[0] ? n->audit.actor : n->audit.source;
	case NOTE_CELL:
	case NOTE_DRAFT:
		return n->cell->owner;
	case NOTE_NAME:
		return n->notebook.owner;
	case NOTE_SANDBOX_USED:
	case NOTE_SANDBOX_RUN:
	case NOTE_KEY_USED:
		return n->id;
	case NOTE_REFUSALS:
		break;
	}
	return "";
}

/* Takes room for N in the list. */
static bool take_room(struct helper *h, const struct note *n)
{
	const uint64_t bytes = note_has_cell(n) ? n->cell->bytes : 0;
	/* On a slow disk drafts must not take the place of rows that come once. */
	const unsigned part = n->kind == NOTE_DRAFT ? DRAFTS_PART : 1;
	const uint64_t rows_max = NOTES_MAX / part, bytes_max = CELL_BYTES_MAX / part;

	if (n->kind == NOTE_REFUSALS) /* one at a time, for all */
		return true;
	struct row_share *x = share_of(h, who_of(n));
	if (!share_fits(x->rows, 1, rows_max - MIN(h->notes.n, rows_max)) ||
	    (bytes > 0 &&
	     !share_fits(x->cell_bytes, bytes, bytes_max - MIN(h->cell_bytes, bytes_max))))
		return false;
	x->rows++;
	x->cell_bytes += bytes;
	h->cell_bytes += bytes;
	return true;
}

bool note_push(struct store *s, const struct note *n)
{
	struct helper *h = s ? &s->helper : NULL;
	struct note *copy = s ? malloc(sizeof(*copy)) : NULL;
	bool taken = false;

	if (!s)
		return false;
	(void)pthread_mutex_lock(&h->lock);
	if (!copy || helper_start(s) < 0 || !take_room(h, n)) {
		h->counts.lost += n->kind != NOTE_DRAFT; /* it is tried again */
		running_free(s, n->ticket);
		if (note_has_cell(n))
			store_cell_free(n->cell);
		free(copy);
	} else {
		taken = true;
		*copy = *n;
		list_append(&h->notes.list, &copy->node);
		h->queued_seq++;
		readers_note(s, copy);
		/* The helper is awake already and waits for more rows. */
		if (h->notes.n++ == 0)
			(void)pthread_cond_signal(&h->work);
	}
	(void)pthread_mutex_unlock(&h->lock);
	return taken;
}

/* ---- the thread ---- */

static void wait_until(struct helper *h, uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

	(void)pthread_cond_timedwait(&h->work, &h->lock, &t);
}

static bool has_job(const struct helper *h)
{
	return !list_is_empty(&h->settling);
}

/* Waits for more rows, unless somebody waits for the helper or the list is half full. */
static void gather(struct helper *h, uint64_t wait_ns)
{
	uint64_t until = now_ns() + wait_ns;

	while (!h->stop && !h->flush && !has_job(h) && h->notes.n < NOTES_MAX / 2 &&
	       now_ns() < until)
		wait_until(h, until);
}

/* Records whether the batch failed; wakes the loop if that changed. Called with the lock held. */
static void note_trouble(struct helper *h, const struct err *e)
{
	uint64_t one = 1;
	bool was = h->trouble.code != ERR_NONE;

	h->trouble = *e;
	if (was != (e->code != ERR_NONE))
		(void)!write(h->event_fd, &one, sizeof(one));
}

static void tell_trouble(struct store *s)
{
	struct helper *h = &s->helper;

	struct err link = ERR_INIT;
	const bool gone = replica_trouble(s, &link);

	(void)pthread_mutex_lock(&h->lock);
	struct err e = h->trouble.code == ERR_NONE && gone ? link : h->trouble;
	uint64_t queued = h->notes.n + h->kept;
	bool bad = e.code != ERR_NONE, changed = bad != h->told;
	h->told = bad;
	const uint64_t aside = h->counts.aside - h->aside_told;
	const struct err why = h->aside_why;
	char what[sizeof(h->aside_what)];
	memcpy(what, h->aside_what, sizeof(what));
	h->aside_told = h->counts.aside;
	(void)pthread_mutex_unlock(&h->lock);
	if (changed && s->on_trouble)
		s->on_trouble(bad ? &e : NULL, queued, s->trouble_user);
	if (aside > 0 && s->on_aside)
		s->on_aside(what, &why, aside, s->aside_user);
}

/* Called with the lock held. */
static void written(struct store *s, const struct note *n)
{
	if (n->aside) {
		s->helper.counts.aside++;
		batch_name_aside(&s->helper, n);
	}
	running_free(s, n->ticket);
	if (note_has_cell(n)) {
		s->helper.cell_bytes -= n->cell->bytes;
		share_of(&s->helper, n->cell->owner)->cell_bytes -= n->cell->bytes;
	}
}

/* All rows that wait. For PostgreSQL the first ones: each row changes the sums of its owner, and a transaction there has to walk past all
 * versions of a row that it made itself. Called with the lock held. */
static void take_batch(struct helper *h, struct notes *batch)
{
	const uint64_t n = h->db.waits ? MIN(h->notes.n, (uint64_t)SERVER_BATCH) : h->notes.n;

	if (n == h->notes.n)
		list_splice(&batch->list, &h->notes.list);
	for (uint64_t i = 0; i < n && n < h->notes.n; i++)
		list_append(&batch->list, list_pop(&h->notes.list));
	batch->n = n;
	h->notes.n -= n;
	h->batch_seq = h->queued_seq - h->notes.n;
	for (unsigned i = 0; i < ROW_SHARES; i++)
		h->shares[i].rows = 0;
	list_for_each(l, &h->notes.list) {
		const struct note *left = list_entry(l, struct note, node);

		share_of(h, who_of(left))->rows += left->kind != NOTE_REFUSALS;
	}
}

static void write_some(struct store *s, struct notes *batch)
{
	struct helper *h = &s->helper;
	struct err e = ERR_INIT;
	uint64_t one = 1;

	if (batch->n == 0) {
		if (h->notes.n == 0)
			return;
		take_batch(h, batch);
	}
	h->writing = true;
	(void)pthread_mutex_unlock(&h->lock);
	int r = batch_write(s, batch, &e);
	(void)pthread_mutex_lock(&h->lock);
	h->writing = false;
	refusals_settle(h, r == 0);
	const uint64_t aside = h->counts.aside;
	if (r < 0) {
		h->counts.failed++;
	} else {
		h->written_seq = h->batch_seq;
		h->sweep = true; /* rows of removed users may have come late */
		list_for_each(n, &batch->list)
			written(s, list_entry(n, struct note, node));
		h->counts.written += batch->n - (h->counts.aside - aside);
		notes_free(batch);
	}
	h->kept = batch->n;
	note_trouble(h, &e);
	if (h->readers > 0 || h->counts.aside > aside)
		(void)!write(h->event_fd, &one, sizeof(one));
	(void)pthread_cond_broadcast(&h->idle);
}

/* Removes some of what removed users left. Called with the lock held. */
static void sweep_some(struct helper *h)
{
	struct err e = ERR_INIT;
	bool more = false;

	h->sweep = false;
	(void)pthread_mutex_unlock(&h->lock);
	int r = departed_sweep(&h->db, &more, &e);
	(void)pthread_mutex_lock(&h->lock);
	h->counts.failed += r < 0; /* again after the next rows */
	h->sweep = h->sweep || more;
}

/* Waits until there is something to do. */
static void wait_for_work(struct store *s)
{
	struct helper *h = &s->helper;
	const uint64_t due = refusals_due(h);

	if (has_job(h) || h->notes.n > 0 || h->sweep)
		return;
	if (due == 0) {
		(void)pthread_cond_wait(&h->work, &h->lock);
	} else if (now_ns() < due) {
		wait_until(h, due);
	} else {
		(void)pthread_mutex_unlock(&h->lock);
		refusals_flush(s);
		(void)pthread_mutex_lock(&h->lock);
	}
}

/* The store is being closed. Called with the lock held. */
static void write_rest(struct store *s, struct notes *batch)
{
	struct helper *h = &s->helper;
	const uint64_t until = now_ns() + CLOSE_WAIT_NS;

	write_some(s, batch); /* first the failed batch, then the new rows */
	(void)pthread_mutex_unlock(&h->lock);
	refusals_flush(s);
	(void)pthread_mutex_lock(&h->lock);
	if (batch->n == 0)
		write_some(s, batch);
	while (batch->n == 0 && h->notes.n > 0 && now_ns() < until + NS_PER_S)
		write_some(s, batch);
	while (h->sweep && now_ns() < until)
		sweep_some(h);
	notes_free(batch);
}

static void *helper_main(void *arg)
{
	struct store *s = arg;
	struct helper *h = &s->helper;
	struct notes batch;

	notes_init(&batch);
	(void)pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		if (batch.n == 0)
			wait_for_work(s);
		gather(h, batch.n ? RETRY_WAIT_NS : BATCH_WAIT_NS);
		settle_some(h);
		write_some(s, &batch);
		if (h->sweep)
			sweep_some(h);
		h->flush = h->flush && h->notes.n > 0 && batch.n == 0;
	}
	write_rest(s, &batch);
	(void)pthread_mutex_unlock(&h->lock);
	return NULL;
}

int helper_start(struct store *s)
{
	struct helper *h = &s->helper;
	sigset_t all, before;

	if (h->started)
		return 0;
	/* The caller's thread handles all signals. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&h->thread, NULL, helper_main, s);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	h->started = r == 0;
	return -r;
}

/* ---- life ---- */

int helper_open(struct store *s, const char *path, struct err *e)
{
	struct helper *h = &s->helper;
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&h->lock, NULL);
	(void)pthread_cond_init(&h->work, &attr);
	(void)pthread_cond_init(&h->idle, &attr);
	(void)pthread_condattr_destroy(&attr);
	notes_init(&h->notes);
	refusals_open(h);
	h->sweep = true; /* what an earlier server had not finished */
	h->wal = -1;
	h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->event_fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "eventfd");
	struct store_config config = s->config;
	config.copied = false; /* its errors are for the log */
	int r = settle_open(h, path, e);
	return r < 0 ? r : db_open(&h->db, path, &config, e);
}

void helper_close(struct store *s)
{
	struct helper *h = &s->helper;

	if (h->event_fd < 0)
		return; /* not opened */
	(void)pthread_mutex_lock(&h->lock);
	h->stop = true;
	(void)pthread_cond_signal(&h->work);
	(void)pthread_mutex_unlock(&h->lock);
	if (h->started && h->db.kind->end_by)
		h->db.kind->end_by(&h->db, now_ns() + CLOSE_NS);
	if (h->started)
		(void)pthread_join(h->thread, NULL);
	settle_cancel(s);
	readers_cancel(s);
	notes_free(&h->notes);
	db_close(&h->db);
	h->event_fd = fd_close(h->event_fd);
	(void)pthread_cond_destroy(&h->work);
	(void)pthread_cond_destroy(&h->idle);
	(void)pthread_mutex_destroy(&h->lock);
}

static int on_answers(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	uint64_t n;

	loop_work("store", "answers");
	(void)!read(fd, &n, sizeof(n));
	replica_answers(user);
	settle_answers(user);
	readers_answers(user);
	tell_trouble(user);
	return 0;
}

void store_on_trouble(struct store *s, store_trouble_fn fn, void *user)
{
	s->on_trouble = fn;
	s->trouble_user = user;
}

void store_on_aside(struct store *s, store_aside_fn fn, void *user)
{
	s->on_aside = fn;
	s->aside_user = user;
}

bool store_in_trouble(struct store *s, struct err *e)
{
	struct helper *h = &s->helper;

	(void)pthread_mutex_lock(&h->lock);
	struct err why = h->trouble;
	(void)pthread_mutex_unlock(&h->lock);
	if (why.code == ERR_NONE && !replica_trouble(s, &why))
		why = ERR_INIT;
	if (e)
		*e = why;
	return why.code != ERR_NONE;
}

int store_attach(struct store *s, sd_event *loop)
{
	int r = sd_event_add_io(loop, &s->answers, s->helper.event_fd, EPOLLIN, on_answers, s);

	return r < 0 ? r : replica_attach(s, loop);
}

void store_flush(struct store *s)
{
	struct helper *h = &s->helper;
	uint64_t until = now_ns() + FLUSH_WAIT_NS;
	struct timespec t = {.tv_sec = (time_t)(until / NS_PER_S),
			     .tv_nsec = (long)(until % NS_PER_S)};
	int r = 0;

	refusals_flush(s);
	(void)pthread_mutex_lock(&h->lock);
	uint64_t failed = h->counts.failed;
	while (h->started && (h->notes.n > 0 || h->writing) && h->counts.failed == failed &&
	       r == 0) {
		h->flush = true;
		(void)pthread_cond_signal(&h->work);
		r = pthread_cond_timedwait(&h->idle, &h->lock, &t);
	}
	(void)pthread_mutex_unlock(&h->lock);
}

void store_count(struct store *s, struct store_counts *ret)
{
	struct helper *h = &s->helper;

	(void)pthread_mutex_lock(&h->lock);
	*ret = h->counts;
	ret->queued = h->notes.n + h->kept;
	ret->refused = h->refusals.counted;
	ret->hashes = s->hashes.done;
	(void)pthread_mutex_unlock(&h->lock);
}

bool store_look_at_link(struct store *s, struct store_link *ret)
{
	return replica_look(s, ret);
}
