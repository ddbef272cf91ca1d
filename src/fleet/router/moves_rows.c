/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs on threads: reading rows, and deleting objects. One at a time has the database. */
#include "fleet/router/moves.h"

#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "objects/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHO         "moves" /* whose jobs these are (base/workers.h) */
#define ROWS_MAX    500u    /* that one job reads */
#define DEAD_MS     (UINT64_C(24) * 3600 * 1000)
#define DEAD_MAX    8u             /* generations that one job cleans */
#define REMOVED_MS  (90 * DEAD_MS) /* that a worker may be away with what was removed meanwhile */
#define REMOVED_MAX 100u           /* rows of those that one job forgets */
#define DELETES_MAX 256u           /* objects that it deletes */
#define DELETE_MS   10000u

static void job_fn(void *user)
{
	struct job *j = user;

	j->fn(j);
}

static void job_done(void *user)
{
	struct job *j = user;
	struct moves *m = j->m;

	j->done(j, !m->router);
	moves_release(m);
}

int moves_run(struct moves *m, struct job *j)
{
	j->m = m;
	j->e = (struct err)ERR_INIT;
	m->n_jobs++;
	const int r = workers_run_counted(WHO, job_fn, job_done, j);
	if (r < 0)
		m->n_jobs--;
	return r;
}

struct store *moves_store_begin(struct job *j)
{
	struct moves *m = j->m;

	(void)pthread_mutex_lock(&m->lock);
	if (!m->store) {
		const struct store_config c = {.path = m->config.path,
					       .address = m->config.address};

		j->r = store_open(&c, &m->store, &j->e);
	}
	return m->store;
}

void moves_store_end(struct job *j)
{
	(void)pthread_mutex_unlock(&j->m->lock);
}

int moves_sign(const struct moves *m, const char *method, const char *incarnation, uint32_t epoch,
	       uint32_t generation, uint32_t index, uint64_t length, struct buf *ret, struct err *e)
{
	char name[SNAPSHOT_NAME_SIZE];
	const struct objects_order o = {.method = method,
					.key = name,
					.length = length,
					.seconds = MOVES_SECONDS,
					.at = (uint64_t)time(NULL)};

	snapshot_object_name(incarnation, epoch, generation, index, name);
	return objects_sign(m->config.objects, &o, ret, e);
}

/* ---- rows that have changed ---- */

struct reading {
	struct job job;
	uint64_t version;
	unsigned n;
	struct store_snapshot rows[ROWS_MAX];
};

static bool on_row(const struct store_snapshot *row, void *user)
{
	struct reading *x = user;

	x->rows[x->n++] = *row;
	return x->n < ROWS_MAX;
}

static void read_rows(struct job *j)
{
	struct reading *x = CONTAINER_OF(j, struct reading, job);
	struct store *s = moves_store_begin(j);

	if (s)
		j->r = store_snapshot_since(s, x->version, ROWS_MAX, on_row, x, &j->e);
	moves_store_end(j);
}

static void on_rows(struct job *j, bool closed)
{
	struct reading *x = CONTAINER_OF(j, struct reading, job);
	struct moves *m = j->m;

	m->reads = false;
	if (j->r < 0)
		LOG_OFTEN(LOG_LEVEL_WARNING, "moves_not_read", LOG_S("error", j->e.text));
	bool more = x->n == ROWS_MAX;

	for (unsigned i = 0; i < x->n && !closed; i++) {
		if (!moves_note_row(m, &x->rows[i])) { /* the next look begins with it */
			more = false;
			break;
		}
		m->version = x->rows[i].version;
	}
	free(x);
	if (more && !closed)
		moves_read_rows(m);
}

void moves_read_rows(struct moves *m)
{
	struct reading *x = m->reads ? NULL : calloc(1, sizeof(*x));

	if (!x)
		return;
	x->job.fn = read_rows;
	x->job.done = on_rows;
	x->version = m->version;
	m->reads = true;
	if (moves_run(m, &x->job) < 0) {
		m->reads = false;
		free(x);
	}
}

/* ---- objects that no row names ---- */

struct cleaning {
	struct job job;
	unsigned n, n_deleted;
	struct {
		char incarnation[STORE_INCARNATION_SIZE];
		struct store_objects objects;
	} dead[DEAD_MAX];
};

static bool on_dead(const char *incarnation, const struct store_objects *o, void *user)
{
	struct cleaning *x = user;

	memcpy(x->dead[x->n].incarnation, incarnation, STORE_INCARNATION_SIZE);
	x->dead[x->n++].objects = *o;
	return x->n < DEAD_MAX;
}

static int delete_one(struct cleaning *x, struct objects_client *c, const char *incarnation,
		      const struct store_objects *o, uint32_t index)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(OBJECTS_ADDRESS_MAX);
	struct err *e = &x->job.e;
	const int r = moves_sign(x->job.m, "DELETE", incarnation, o->epoch, o->generation, index,
				 OBJECTS_LENGTH_ANY, &address, e);
	const struct objects_request q = {.method = "DELETE",
					  .address = buf_str(&address),
					  .what = "an object of a sandbox",
					  .deadline_ms = DELETE_MS};

	return r < 0 ? r : objects_send(c, &q, e);
}

/* Leaves in O what was deleted. */
static int delete_some(struct cleaning *x, struct objects_client *c, const char *incarnation,
		       struct store_objects *o)
{
	struct store_objects gone = {.epoch = o->epoch, .generation = o->generation};
	int r = 0;

	for (uint32_t i = 0; i < 8 * STORE_OBJECTS_BYTES && r == 0 && x->n_deleted < DELETES_MAX;
	     i++) {
		if (!(o->bits[i / 8] >> (i % 8) & 1))
			continue;
		r = delete_one(x, c, incarnation, o, i);
		if (r == 0) {
			gone.bits[i / 8] |= (uint8_t)(1u << (i % 8));
			x->n_deleted++;
		}
	}
	*o = gone;
	return r;
}

static void clean(struct job *j)
{
	struct cleaning *x = CONTAINER_OF(j, struct cleaning, job);
	struct objects_client *c = NULL;
	struct store *s = moves_store_begin(j);

	if (s)
		j->r =
		    store_snapshot_dead(s, store_now_ms() - DEAD_MS, DEAD_MAX, on_dead, x, &j->e);
	if (s && j->r >= 0)
		j->r = MIN(
		    store_snapshot_forget(s, store_now_ms() - REMOVED_MS, REMOVED_MAX, &j->e), 0);
	moves_store_end(j);
	if (j->r < 0 || x->n == 0)
		return;
	j->r = objects_client_new(&c, j->m->config.ca, &j->e);
	/* What there was no time for is not told to be deleted, so it stays due. */
	for (unsigned i = 0; i < x->n && j->r == 0 && x->n_deleted < DELETES_MAX; i++) {
		struct err e = ERR_INIT;

		j->r = delete_some(x, c, x->dead[i].incarnation, &x->dead[i].objects);
		s = moves_store_begin(j);
		if (s && store_snapshot_deleted(s, x->dead[i].incarnation, &x->dead[i].objects,
						&e) < 0) {
			j->e = e;
			j->r = -EIO;
		}
		moves_store_end(j);
	}
	(void)objects_client_free(c);
}

static void on_clean(struct job *j, bool closed)
{
	struct cleaning *x = CONTAINER_OF(j, struct cleaning, job);
	struct moves *m = j->m;
	const bool more = x->n_deleted >= DELETES_MAX || x->n == DEAD_MAX;

	m->cleans = false;
	m->deleted += x->n_deleted;
	if (j->r < 0)
		LOG_OFTEN(LOG_LEVEL_WARNING, "objects_not_deleted", LOG_S("error", j->e.text));
	else if (more && !closed)
		m->clean_ns = 0;
	free(x);
}

void moves_clean(struct moves *m)
{
	struct cleaning *x = m->cleans ? NULL : calloc(1, sizeof(*x));

	if (!x)
		return;
	x->job.fn = clean;
	x->job.done = on_clean;
	m->cleans = true;
	if (moves_run(m, &x->job) < 0) {
		m->cleans = false;
		free(x);
	}
}
