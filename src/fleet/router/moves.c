/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sandboxes that have moved, and what the router calls. */
#include "fleet/router/moves.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define CLEAN_NS (20 * NS_PER_S)

/* ---- the table ---- */

static struct list *bucket_of(const struct moves *m, const char *id)
{
	uint32_t h =
	    2166136261u; /* FNV-1a; ids were made by workers, so nobody chooses collisions */

	for (; *id; id++)
		h = (h ^ (uint8_t)*id) * 16777619u;
	return (struct list *)(uintptr_t)&m->table[h % MOVES_BUCKETS];
}

static struct moved *find(const struct moves *m, const char *id)
{
	list_for_each(l, bucket_of(m, id)) {
		struct moved *x = list_entry(l, struct moved, node);

		if (streq(x->id, id))
			return x;
	}
	return NULL;
}

bool moves_note_row(struct moves *m, const struct store_snapshot *row)
{
	char worker[FLEET_WORKER_SIZE];
	struct moved *x = find(m, row->id);
	const bool named =
	    fleet_id_worker(m->router->config.key, row->id, worker) && streq(worker, row->worker);

	if (row->removed_ms > 0 || (named && !row->loading)) {
		if (x) {
			list_remove(&x->node);
			free(x);
		}
		return true;
	}
	if (!x && (x = calloc(1, sizeof(*x))))
		list_append(bucket_of(m, row->id), &x->node);
	if (!x)
		return false;
	memcpy(x->id, row->id, sizeof(x->id));
	(void)!text_copy(x->worker, sizeof(x->worker), row->loading ? "" : row->worker);
	return true;
}

bool moves_where(const struct fleet_router *f, const char *id, char ret[FLEET_WORKER_SIZE])
{
	const struct moved *x = f->moves ? find(f->moves, id) : NULL;

	if (x)
		memcpy(ret, x->worker, FLEET_WORKER_SIZE);
	return x;
}

/* ---- the rest of the router ---- */

static int on_fast(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct moves *m = user;

	loop_work("fleet", "moves");
	moves_step(m);
	(void)sd_event_source_set_time_relative(source, 200 * 1000);
	return sd_event_source_set_enabled(source, list_is_empty(&m->moves) ? SD_EVENT_OFF
									    : SD_EVENT_ONESHOT);
}

int moves_begin(struct fleet_router *f, struct err *e)
{
	const struct fleet_moves_config *c = f->config.moves;

	if (!c)
		return 0;
	struct moves *m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "sandboxes that move");
	m->router = f;
	m->config = *c;
	(void)crypto_generichash(m->secret, sizeof(m->secret), c->secret, c->secret_len, NULL, 0);
	for (size_t i = 0; i < MOVES_BUCKETS; i++)
		list_init(&m->table[i]);
	list_init(&m->workers);
	list_init(&m->moves);
	list_init(&m->loads);
	list_init(&m->tellings);
	(void)pthread_mutex_init(&m->lock, NULL);
	const int r =
	    sd_event_add_time_relative(f->config.loop, &m->fast, CLOCK_MONOTONIC, 0, 0, on_fast, m);
	if (r < 0) {
		free(m);
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	}
	f->moves = m;
	return 0;
}

static void moves_free(struct moves *m)
{
	(void)store_close(m->store);
	(void)pthread_mutex_destroy(&m->lock);
	sodium_memzero(m->secret, sizeof(m->secret));
	free(m);
}

/* A job has ended. */
void moves_release(struct moves *m)
{
	if (--m->n_jobs == 0 && !m->router)
		moves_free(m);
}

void moves_done(struct fleet_router *f)
{
	struct moves *m = TAKE_PTR(f->moves);

	if (!m)
		return;
	m->fast = sd_event_source_disable_unref(m->fast);
	loads_done(m);
	moves_tell_none(m);
	for (struct move *x; (x = list_first(&m->moves, struct move, node));) {
		struct load *load = x->load;

		move_drop(x);
		if (load)
			load_ended(load, -ECANCELED, NULL); /* nobody waits any more */
	}
	for (struct moves_worker *x; (x = list_first(&m->workers, struct moves_worker, node));)
		moves_worker_free(x);
	for (size_t i = 0; i < MOVES_BUCKETS; i++) {
		struct moved *x;
		while ((x = list_pop_first(&m->table[i], struct moved, node)))
			free(x);
	}
	m->router = NULL;
	if (m->n_jobs == 0)
		moves_free(m);
}

void moves_tick(struct fleet_router *f)
{
	struct moves *m = f->moves;
	const uint64_t now = now_ns();

	if (!m)
		return;
	moves_read_rows(m);
	looks_of_moves(m);
	loads_tick(m);
	if (now - m->clean_ns > CLEAN_NS) {
		m->clean_ns = now;
		moves_clean(m);
	}
	if (!list_is_empty(&m->moves))
		(void)sd_event_source_set_enabled(m->fast, SD_EVENT_ONESHOT);
}

/* ---- owners who are removed ---- */

struct forgotten {
	struct job job;
	char owner[STORE_OWNER_SIZE];
};

static void forget_rows(struct job *j)
{
	const struct forgotten *x = CONTAINER_OF(j, struct forgotten, job);
	struct store *s = moves_store_begin(j);

	if (s)
		j->r = store_snapshot_removed_of(s, x->owner, UINT32_MAX / 2, &j->e);
	moves_store_end(j);
}

static void on_forgotten(struct job *j, bool closed UNUSED)
{
	struct forgotten *x = CONTAINER_OF(j, struct forgotten, job);

	if (j->r < 0)
		LOG_ERROR("rows_not_removed", LOG_S("user", x->owner), LOG_S("error", j->e.text));
	free(x);
}

void moves_forget_owner(struct fleet_router *f, const char *owner)
{
	struct forgotten *x = f->moves ? calloc(1, sizeof(*x)) : NULL;

	if (!x)
		return;
	x->job.fn = forget_rows;
	x->job.done = on_forgotten;
	if (text_copy(x->owner, sizeof(x->owner), owner) < 0 || moves_run(f->moves, &x->job) < 0)
		free(x);
}

/* ---- figures ---- */

int moves_metrics(const struct fleet_router *f, struct buf *b)
{
	static const char *const orders[] = {"load", "save"};
	static const char *const outcomes[MOVE_OUTCOMES] = {"done", "failed", "put_off"};
	const struct moves *m = f->moves; /* NULL: nothing moves, so all are 0 */
	int r =
	    buf_add_str(b, "# HELP caisson_fleet_moves_total Stored sandboxes that were saved, or "
			   "given to another worker.\n# TYPE caisson_fleet_moves_total counter\n");

	for (unsigned i = 0; i < ARRAY_SIZE(orders); i++)
		for (unsigned k = 0; k < MOVE_OUTCOMES && r == 0; k++)
			r = buf_printf(
			    b, "caisson_fleet_moves_total{order=\"%s\",outcome=\"%s\"} %ju\n",
			    orders[i], outcomes[k], (uintmax_t)(m ? m->outcomes[i][k] : 0));
	return r < 0
		   ? r
		   : buf_printf(b,
				"# HELP caisson_fleet_objects_deleted_total Objects of the object "
				"store that no sandbox needed any more.\n"
				"# TYPE caisson_fleet_objects_deleted_total counter\n"
				"caisson_fleet_objects_deleted_total %ju\n",
				(uintmax_t)(m ? m->deleted : 0));
}
