/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread: writes rows that nobody waits for, checkpoints the WAL, hashes passwords.
 *
 * The caller's thread appends rows to a bounded list. The helper takes the whole list and writes it in
 * one transaction, so a thousand runs a second cost twenty transactions. A batch that fails (full
 * disk, lock of another process) is kept and tried again. Meanwhile the list fills; rows that find it
 * full are counted as lost. The thread starts with the first row or password. That is after the
 * process gave up its rights (Linux keeps rights per thread), and never in a program that writes
 * nothing. */
#include "store/db.h"

#include "base/rand.h"

#include <sodium.h>
#include <string.h>
#include <sys/eventfd.h>

#define NOTES_MAX      8192u
#define BATCH_WAIT_NS  (50 * NS_PER_MS)
#define CELL_BYTES_MAX (16u << 20) /* of cells that wait */
#define RETRY_WAIT_NS  NS_PER_S
#define FLUSH_WAIT_NS  NS_PER_S
#define PRUNE_EVERY    1000u
#define USAGE_DAYS     40
#define DAY_MS         UINT64_C(86400000)

/* ---- lists ---- */

static void notes_init(struct notes *l)
{
	list_init(&l->list);
	l->n = 0;
}

static void note_free(struct note *n)
{
	if (n->kind == NOTE_CELL)
		store_cell_free(n->cell);
	free(n);
}

static void notes_free(struct notes *l)
{
	list_for_each(n, &l->list)
		note_free(list_entry(n, struct note, node));
	notes_init(l);
}

void note_push(struct store *s, const struct note *n)
{
	struct helper *h = s ? &s->helper : NULL;
	struct note *copy = s ? malloc(sizeof(*copy)) : NULL;

	if (!s)
		return;
	(void)pthread_mutex_lock(&h->lock);
	const uint64_t bytes = n->kind == NOTE_CELL ? n->cell->bytes : 0;
	if (!copy || h->notes.n >= NOTES_MAX || h->cell_bytes + bytes > CELL_BYTES_MAX ||
	    helper_start(s) < 0) {
		h->counts.lost++;
		running_free(s, n->ticket);
		if (n->kind == NOTE_CELL)
			store_cell_free(n->cell);
		free(copy);
	} else {
		*copy = *n;
		h->cell_bytes += bytes;
		list_append(&h->notes.list, &copy->node);
		h->queued_seq++;
		readers_note(s, copy);
		/* The helper is awake already and waits for more rows. */
		if (h->notes.n++ == 0)
			(void)pthread_cond_signal(&h->work);
	}
	(void)pthread_mutex_unlock(&h->lock);
}

/* ---- writing, on the thread ---- */

static int write_run(struct db *db, const struct note *n, struct err *e)
{
	return run_write(db, &n->run, n->at_ms, e);
}

static int write_audit(struct db *db, const struct note *n, struct err *e)
{
	const struct store_audit *a = &n->audit;

	return db_run(db, Q_AUDIT_ADD, NULL, e, "itttttt", (int64_t)a->at_ms, a->actor, a->action,
		      a->object, a->result, a->detail, a->peer);
}

static int write_sandbox_used(struct db *db, const struct note *n, struct err *e)
{
	return db_run(db, Q_SANDBOX_USED, NULL, e, "ti", n->id, (int64_t)n->at_ms);
}

static int write_sandbox_run(struct db *db, const struct note *n, struct err *e)
{
	return db_run(db, Q_SANDBOX_RUN, NULL, e, "t", n->id);
}

static int write_key_used(struct db *db, const struct note *n, struct err *e)
{
	return db_run(db, Q_KEY_USED, NULL, e, "ti", n->id, (int64_t)n->at_ms);
}

static int (*const writers[])(struct db *db, const struct note *n, struct err *e) = {
    [NOTE_RUN] = write_run,
    [NOTE_AUDIT] = write_audit,
    [NOTE_SANDBOX_USED] = write_sandbox_used,
    [NOTE_SANDBOX_RUN] = write_sandbox_run,
    [NOTE_KEY_USED] = write_key_used,
};

static int prune(struct store *s, struct err *e)
{
	struct db *db = &s->helper.db;
	int r = db_run(db, Q_RUN_PRUNE, NULL, e, "i", (int64_t)s->config.runs_keep);

	r = r < 0 ? r : db_run(db, Q_AUDIT_PRUNE, NULL, e, "i", (int64_t)s->config.audit_keep);
	return r < 0 ? r
		     : db_run(db, Q_USAGE_PRUNE, NULL, e, "i",
			      (int64_t)(store_now_ms() / DAY_MS) - USAGE_DAYS);
}

static int write_batch(struct store *s, const struct notes *batch, struct err *e)
{
	struct helper *h = &s->helper;
	int r = db_transaction(&h->db, false, e);

	if (r < 0)
		return r;
	for (struct list *l = batch->list.next; l != &batch->list && r == 0; l = l->next) {
		const struct note *n = list_entry(l, struct note, node);

		r = n->kind == NOTE_CELL ? cell_write(&h->db, &s->config, n->cell, e)
					 : writers[n->kind](&h->db, n, e);
	}
	h->since_prune += batch->n;
	if (r == 0 && h->since_prune >= PRUNE_EVERY) {
		h->since_prune = 0;
		r = prune(s, e);
	}
	r = db_finish(&h->db, false, r, e);
	/* Copies the WAL into the database file; does nothing while the WAL is small. */
	if (r == 0)
		(void)sqlite3_wal_checkpoint_v2(h->db.handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
						NULL);
	return r;
}

/* ---- the thread ---- */

static void wait_until(struct helper *h, uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

	(void)pthread_cond_timedwait(&h->work, &h->lock, &t);
}

static bool has_job(const struct helper *h)
{
	if (!list_is_empty(&h->settling))
		return true;
	for (size_t i = 0; i < STORE_LANE_MAX_; i++)
		if (!list_is_empty(&h->jobs[i]))
			return true;
	return false;
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

	(void)pthread_mutex_lock(&h->lock);
	struct err e = h->trouble;
	uint64_t queued = h->notes.n + h->kept;
	bool bad = e.code != ERR_NONE, changed = bad != h->told;
	h->told = bad;
	(void)pthread_mutex_unlock(&h->lock);
	if (changed && s->on_trouble)
		s->on_trouble(bad ? &e : NULL, queued, s->trouble_user);
}

/* Called with the lock held. */
static void written(struct store *s, const struct note *n)
{
	running_free(s, n->ticket);
	if (n->kind == NOTE_CELL)
		s->helper.cell_bytes -= n->cell->bytes;
}

static void write_some(struct store *s, struct notes *batch)
{
	struct helper *h = &s->helper;
	struct err e = ERR_INIT;
	uint64_t one = 1;

	if (batch->n == 0) {
		if (h->notes.n == 0)
			return;
		list_splice(&batch->list, &h->notes.list);
		batch->n = h->notes.n;
		h->notes.n = 0;
		h->batch_seq = h->queued_seq;
	}
	h->writing = true;
	(void)pthread_mutex_unlock(&h->lock);
	int r = write_batch(s, batch, &e);
	(void)pthread_mutex_lock(&h->lock);
	h->writing = false;
	if (r < 0) {
		h->counts.failed++;
	} else {
		h->counts.written += batch->n;
		h->written_seq = h->batch_seq;
		list_for_each(n, &batch->list)
			written(s, list_entry(n, struct note, node));
		notes_free(batch);
	}
	h->kept = batch->n;
	note_trouble(h, &e);
	if (h->readers > 0)
		(void)!write(h->event_fd, &one, sizeof(one));
	(void)pthread_cond_broadcast(&h->idle);
}

/* The oldest job of the lane, but one of somebody else than the last one if there is any. */
static struct hash_job *next_in_lane(struct helper *h, unsigned lane)
{
	struct hash_job *job = list_first(&h->jobs[lane], struct hash_job, node);

	list_for_each(n, &h->jobs[lane]) {
		struct hash_job *other = list_entry(n, struct hash_job, node);

		if (other->from != h->last_from[lane]) {
			job = other;
			break;
		}
	}
	if (job) {
		list_remove(&job->node);
		h->last_from[lane] = job->from;
	}
	return job;
}

/* The lanes take turns, so that a flood in one does not delay another. */
static struct hash_job *next_job(struct helper *h)
{
	for (unsigned i = 0; i < STORE_LANE_MAX_; i++) {
		unsigned lane = (h->turn + i) % STORE_LANE_MAX_;
		struct hash_job *job = next_in_lane(h, lane);

		if (!job)
			continue;
		h->turn = (lane + 1) % STORE_LANE_MAX_;
		return job;
	}
	return NULL;
}

static void do_job(struct helper *h)
{
	struct hash_job *job = next_job(h);
	uint64_t one = 1;

	if (!job)
		return;
	(void)pthread_mutex_unlock(&h->lock);
	hash_job_run(job);
	(void)pthread_mutex_lock(&h->lock);
	list_append(&h->done, &job->node);
	h->counts.hashes++;
	(void)!write(h->event_fd, &one, sizeof(one));
}

static void *helper_main(void *arg)
{
	struct store *s = arg;
	struct helper *h = &s->helper;
	struct notes batch;

	notes_init(&batch);
	(void)pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		if (!has_job(h) && h->notes.n == 0 && batch.n == 0)
			(void)pthread_cond_wait(&h->work, &h->lock);
		gather(h, batch.n ? RETRY_WAIT_NS : BATCH_WAIT_NS);
		settle_some(h);
		write_some(s, &batch);
		do_job(h);
		h->flush = h->flush && h->notes.n > 0 && batch.n == 0;
	}
	write_some(s, &batch); /* first the failed batch, then the new rows */
	if (batch.n == 0)
		write_some(s, &batch);
	notes_free(&batch);
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
	for (size_t i = 0; i < STORE_LANE_MAX_; i++)
		list_init(&h->jobs[i]);
	list_init(&h->done);
	h->wal = -1;
	h->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->event_fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "eventfd");
	int r = settle_open(h, path, e);
	return r < 0 ? r : db_open(&h->db, path, &s->config, e);
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
	if (h->started)
		(void)pthread_join(h->thread, NULL);
	hash_cancel(s);
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

	(void)!read(fd, &n, sizeof(n));
	hash_answers(user);
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

int store_attach(struct store *s, sd_event *loop)
{
	int r = sd_event_add_io(loop, &s->answers, s->helper.event_fd, EPOLLIN, on_answers, s);

	return MIN(r, 0);
}

void store_flush(struct store *s)
{
	struct helper *h = &s->helper;
	uint64_t until = now_ns() + FLUSH_WAIT_NS;
	struct timespec t = {.tv_sec = (time_t)(until / NS_PER_S),
			     .tv_nsec = (long)(until % NS_PER_S)};
	int r = 0;

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
	(void)pthread_mutex_unlock(&h->lock);
}
