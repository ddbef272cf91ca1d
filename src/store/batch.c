/* SPDX-License-Identifier: Apache-2.0 */
/* The helper thread writes a batch of rows in one transaction. If one of them can never be written, the batch is written
 * row by row, and that one is put aside: it keeps no other back. If the disk, a lock or memory is to blame, the whole batch
 * is tried again later. */
#include "store/db.h"

#include <string.h>

#define PRUNE_EVERY 1000u
#define PRUNE_SLICE 64    /* rows of one owner that go before the next look at who has most */
#define PRUNE_STEPS 1000u /* slices of one transaction */
#define USAGE_DAYS  40
#define DAY_MS      UINT64_C(86400000)

static int write_run(struct db *db, const struct note *n, struct err *e)
{
	return run_write(db, &n->run, n->at_ms, e);
}

static int write_audit(struct db *db, const struct note *n, struct err *e)
{
	return audit_write(db, &n->audit, e);
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

static int write_name(struct db *db, const struct note *n, struct err *e)
{
	return db_run(db, Q_NOTEBOOK_NAME, NULL, e, "ttt", n->notebook.owner, n->notebook.sandbox,
		      n->notebook.name);
}

static int (*const writers[])(struct db *db, const struct note *n, struct err *e) = {
    [NOTE_RUN] = write_run,
    [NOTE_AUDIT] = write_audit,
    [NOTE_SANDBOX_USED] = write_sandbox_used,
    [NOTE_SANDBOX_RUN] = write_sandbox_run,
    [NOTE_KEY_USED] = write_key_used,
    [NOTE_NAME] = write_name,
};

int prune_most(struct db *db, enum statement q, uint64_t over, int class, struct err *e)
{
	int r = 0, gone = 1;

	for (unsigned steps = 0; r == 0 && gone > 0 && over > 0 && steps < PRUNE_STEPS; steps++) {
		r = db_run(db, q, &gone, e, class < 0 ? "i" : "ii",
			   (int64_t)MIN(over, (uint64_t)PRUNE_SLICE), (int64_t) class);
		over -= MIN(over, (uint64_t)MAX(gone, 0));
	}
	return r;
}

static int prune(struct store *s, struct err *e)
{
	struct db *db = &s->helper.db;
	uint64_t over = 0;
	int r = db_transaction(db, false, e);

	r = r < 0 ? r
		  : db_number(db, &over,
			      db_begin(db, Q_RUN_OVER, e, "i", (int64_t)s->config.runs_keep), e);
	r = r < 0 ? r : prune_most(db, Q_RUN_PRUNE, over, -1, e);
	r = r < 0 ? r : audit_prune(db, e);
	r = r < 0 ? r
		  : db_run(db, Q_USAGE_PRUNE, NULL, e, "i",
			   (int64_t)(store_now_ms() / DAY_MS) - USAGE_DAYS);
	return db_finish(db, false, r, e);
}

/* Is the row to blame, and not the disk, a lock or memory? Then no later try can write it. */
static bool is_of_the_row(const struct err *e)
{
	switch (e->errnum) {
	case E2BIG:   /* a value is too long */
	case EEXIST:  /* a constraint of its table */
	case EINVAL:  /* another type, or there is no such table */
	case EUCLEAN: /* its table is damaged */
		return true;
	default:
		return false;
	}
}

static int write_note(struct store *s, const struct note *n, struct err *e)
{
	struct helper *h = &s->helper;

	if (n->kind == NOTE_REFUSALS)
		return refusals_write(h, e);
	if (n->kind == NOTE_DRAFT)
		return draft_write(&h->db, s->running.region, n->cell, e);
	return n->kind == NOTE_CELL ? cell_write(&h->db, &s->config, n->cell, e)
				    : writers[n->kind](&h->db, n, e);
}

/* Writes the row so that it leaves nothing if it fails. If it is to blame itself, it is put aside. */
static int write_alone(struct store *s, struct note *n, struct err *e)
{
	struct helper *h = &s->helper;
	struct err why = ERR_INIT;
	int r = db_run(&h->db, Q_ROW_BEGIN, NULL, e, "");

	if (r < 0)
		return r;
	r = write_note(s, n, &why);
	if (r < 0 && is_of_the_row(&why) && h->db.kind->in_transaction(&h->db)) {
		n->aside = true;
		(void)pthread_mutex_lock(&h->lock);
		h->aside_why = why;
		if (n->kind == NOTE_REFUSALS)
			refusals_settle(h, false);
		(void)pthread_mutex_unlock(&h->lock);
		r = db_run(&h->db, Q_ROW_DROP, NULL, e, "");
	} else if (r < 0) {
		*e = why;
	}
	return r < 0 ? r : db_run(&h->db, Q_ROW_KEEP, NULL, e, "");
}

/* ALONE: row by row, so that one that cannot be written keeps no other back. */
static int write_all(struct store *s, const struct notes *batch, bool alone, struct err *e)
{
	struct helper *h = &s->helper;
	int r = db_transaction(&h->db, false, e);

	if (r < 0)
		return r;
	for (struct list *l = batch->list.next; l != &batch->list && r == 0; l = l->next) {
		struct note *n = list_entry(l, struct note, node);

		n->aside = false;
		r = alone ? write_alone(s, n, e) : write_note(s, n, e);
	}
	r = db_finish(&h->db, false, r, e);
	if (r < 0 && h->db.kind->unsure)
		h->unsure = h->db.kind->unsure(&h->db);
	return r;
}

/* Whether the last try was successful after all, and only its answer was lost. */
static int was_written(struct helper *h, struct err *e)
{
	const int r = h->unsure ? h->db.kind->outcome(&h->db, h->unsure, e) : 0;

	if (r >= 0)
		h->unsure = 0;
	return r;
}

int batch_write(struct store *s, const struct notes *batch, struct err *e)
{
	struct helper *h = &s->helper;
	int r = was_written(h, e);

	if (r != 0)
		return MIN(r, 0);
	r = write_all(s, batch, false, e);
	if (r < 0 && is_of_the_row(e)) {
		*e = ERR_INIT;
		(void)pthread_mutex_lock(&h->lock);
		refusals_settle(h, false); /* their rows were rolled back */
		(void)pthread_mutex_unlock(&h->lock);
		r = write_all(s, batch, true, e);
	}
	if (r < 0)
		return r;
	h->since_prune += batch->n;
	if (h->since_prune >= PRUNE_EVERY) {
		struct err ignored = ERR_INIT;

		h->since_prune = 0;
		if (prune(s, &ignored) < 0) { /* again with later rows */
			(void)pthread_mutex_lock(&h->lock);
			h->counts.failed++;
			(void)pthread_mutex_unlock(&h->lock);
		}
	}
	if (h->db.kind->batch_end)
		h->db.kind->batch_end(&h->db);
	return 0;
}

void batch_name_aside(struct helper *h, const struct note *n)
{
	char *to = h->aside_what;
	const size_t size = sizeof(h->aside_what);

	switch (n->kind) {
	case NOTE_RUN:
		(void)snprintf(to, size, "run %s of '%s'", n->run.id, n->run.owner);
		break;
	case NOTE_AUDIT:
		(void)snprintf(to, size, "audit %s of '%s'", n->audit.action, n->audit.actor);
		break;
	case NOTE_CELL:
	case NOTE_DRAFT:
		(void)snprintf(to, size, "history of run %s of '%s'", n->cell->run, n->cell->owner);
		break;
	case NOTE_NAME:
		(void)snprintf(to, size, "name of notebook %.60s", n->notebook.sandbox);
		break;
	case NOTE_REFUSALS:
		(void)snprintf(to, size, "audit of requests that failed");
		break;
	case NOTE_SANDBOX_USED:
	case NOTE_SANDBOX_RUN:
	case NOTE_KEY_USED:
		(void)snprintf(to, size, "use of %s", n->id);
		break;
	}
}
