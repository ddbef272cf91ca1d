/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that may take long, on threads: a row that is in no cache waits for the disk. They have connections of their own,
 * opened with the store: later the front has no right to open its files. A read may outlive the store.
 *
 * A read gets a thread when a connection is free for it; until then it waits here, so that readers who wait hold no thread
 * of the pool. Those who wait take turns. All reads are jobs of one WHO of the pool: the disk that one tenant's jobs wait
 * for is not the disk of the database. */
#include "store/db.h"

#include "base/loop.h"
#include "base/workers.h"

#include <stdlib.h>
#include <string.h>

#define READS_MAX 2u /* connections: so many reads run at once */
#define POOL_WHO  "the database"

_Static_assert(READS_MAX <= WORKERS_EACH, "a read with a connection does not wait in the pool");

struct reading {
	struct list node;   /* in reads.free, or in none */
	struct store store; /* what FN sees: a store that has a database and nothing else */
};

struct reads {
	unsigned refs; /* of the store and the jobs */
	unsigned n_waiting;
	uint64_t turn;       /* of the job that was started last */
	struct list free;    /* of struct reading */
	struct list waiting; /* of struct job, oldest first */
	struct reading all[READS_MAX];
	unsigned n_open;
};

struct job {
	struct list node; /* in reads.waiting */
	struct reads *reads;
	struct reading *reading; /* once it runs */
	uint64_t turn;           /* the smallest one is next */
	char who[STORE_OWNER_SIZE];
	store_read_fn fn;
	void (*done)(void *user);
	void *user;
};

int reads_open(const char *path, const struct store_config *config, struct reads **ret,
	       struct err *e)
{
	struct reads *r = calloc(1, sizeof(*r));
	int failed = 0;

	if (!r)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the store");
	r->refs = 1;
	list_init(&r->free);
	list_init(&r->waiting);
	while (r->n_open < READS_MAX && failed == 0) {
		struct reading *one = &r->all[r->n_open];

		failed = db_open(&one->store.db, path, config, e);
		list_append(&r->free, &one->node);
		r->n_open++; /* also one that was not opened completely has to be closed */
	}
	*ret = failed < 0 ? reads_unref(r) : r;
	return failed;
}

struct reads *reads_unref(struct reads *r)
{
	if (!r || --r->refs > 0)
		return NULL;
	for (unsigned i = 0; i < r->n_open; i++)
		db_close(&r->all[i].store.db);
	free(r);
	return NULL;
}

/* ---- who is next ---- */

/* The jobs of one WHO have turns one after the other; the first of a newcomer comes before the second ones of others. */
static uint64_t turn_of(const struct reads *r, const char *who)
{
	uint64_t turn = r->turn + 1;

	list_for_each(l, &r->waiting) {
		const struct job *j = list_entry(l, struct job, node);

		if (streq(j->who, who))
			turn = j->turn + 1;
	}
	return turn;
}

static unsigned waiting_of(const struct reads *r, const char *who)
{
	unsigned n = 0;

	list_for_each(l, &r->waiting)
		n += streq(list_entry(l, struct job, node)->who, who);
	return n;
}

static struct job *take_next(struct reads *r)
{
	struct job *next = NULL;

	list_for_each(l, &r->waiting) {
		struct job *j = list_entry(l, struct job, node);

		if (!next || j->turn < next->turn)
			next = j;
	}
	if (next) {
		list_remove(&next->node);
		r->n_waiting--;
	}
	return next;
}

/* ---- running ---- */

static void run(void *user)
{
	struct job *j = user;

	j->fn(&j->reading->store, j->user);
}

static void start_waiting(struct reads *r);

static void on_done(void *user)
{
	struct job *j = user;
	struct reads *r = j->reads;

	loop_work("store", "was read");
	list_append(&r->free, &j->reading->node);
	start_waiting(r);
	j->done(j->user);
	free(j);
	(void)reads_unref(r);
}

/* J reads with ONE, which is no longer free. On an error it has not begun. */
static int start(struct reads *r, struct job *j, struct reading *one)
{
	const uint64_t turn = r->turn;

	j->reading = one;
	r->turn = MAX(turn, j->turn);
	int failed = workers_run(POOL_WHO, run, on_done, j); /* J may be gone */
	if (failed < 0)
		r->turn = turn;
	return failed;
}

static void start_waiting(struct reads *r)
{
	struct job *j;

	while (!list_is_empty(&r->free) && (j = take_next(r))) {
		struct reading *one = list_pop_first(&r->free, struct reading, node);

		if (start(r, j, one) == 0)
			continue;
		/* The pool has no memory or no room. What was accepted happens all the same: here. */
		run(j);
		on_done(j);
	}
}

static int add(struct reads *r, struct job *j, struct err *e)
{
	struct reading *one = list_pop_first(&r->free, struct reading, node);
	int failed = 0;

	j->turn = turn_of(r, j->who);
	if (one && (failed = start(r, j, one)) < 0)
		list_append(&r->free, &one->node);
	else if (one)
		return 0;
	else if (waiting_of(r, j->who) >= STORE_READS_EACH || r->n_waiting >= STORE_READS_ALL)
		failed = -EBUSY;
	else {
		list_append(&r->waiting, &j->node);
		r->n_waiting++;
	}
	if (failed == -EBUSY)
		return err_set(e, ERR_BUDGET_EXCEEDED, EBUSY,
			       "Too many of your requests wait for the database");
	return failed < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -failed, "a read of the store") : 0;
}

int store_read(struct store *s, const char *who, store_read_fn fn, void (*done)(void *user),
	       void *user, struct err *e)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a read of the store");
	*j = (struct job){.reads = s->reads, .fn = fn, .done = done, .user = user};
	list_init(&j->node);
	copy_text(j->who, sizeof(j->who), who);
	s->reads->refs++;
	int r = add(s->reads, j, e);
	if (r < 0) {
		(void)reads_unref(j->reads);
		free(j);
	}
	return r;
}
