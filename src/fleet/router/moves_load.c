/* SPDX-License-Identifier: Apache-2.0 */
/* A stored sandbox whose worker is lost is wanted: it gets another one. All requests for it wait for the same load. */
#include "fleet/router/moves.h"

#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STUCK_NS (60 * NS_PER_S) /* a load that another router has begun */

struct move_wait {
	struct list node; /* of load.waiters */
	struct load *load;
	char owner[STORE_OWNER_SIZE];
	bool admin;
	uint64_t until_ns;
	move_fn fn;
	void *user;
};

struct load {
	struct list node; /* of moves.loads */
	struct moves *m;  /* NULL: closed; only a job or an order holds it */
	char id[65];
	struct list waiters;
	struct job job;
	bool works, moving; /* there is a job; there is an order */
	int found;          /* of the job: 1, 0 */
	char target[FLEET_WORKER_SIZE];
	struct store_snapshot row;
	uint64_t again_ns;              /* when the row is read again; 0 = not */
	uint64_t seen_ns, seen_version; /* since when the row is as it is */
};

static void wait_free(struct move_wait *w)
{
	list_remove(&w->node);
	w->load->m->n_waiters--;
	free(w);
}

static void load_free(struct load *l)
{
	list_remove(&l->node);
	l->m = NULL;
	if (!l->works && !l->moving)
		free(l);
}

static void answer(struct load *l, const char *worker, enum err_code code, const char *why)
{
	struct move_wait *w;

	while ((w = list_first(&l->waiters, struct move_wait, node))) {
		const move_fn fn = w->fn;
		void *user = w->user;

		wait_free(w);
		fn(worker, code, why, user);
	}
	load_free(l);
}

/* ---- who gets it ---- */

static bool may_load(const struct worker *w)
{
	return worker_is_usable(w) && w->moves;
}

static struct worker *choose(struct moves *m)
{
	struct fleet_candidate all[FLEET_MEMBERS_MAX];
	struct worker *workers[FLEET_MEMBERS_MAX] = {0};
	uint32_t random[2];
	size_t n = 0;

	rand_bytes(random, sizeof(random));
	list_for_each(node, &m->router->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (n == FLEET_MEMBERS_MAX || !may_load(w))
			continue;
		all[n] = (struct fleet_candidate){.open = w->open, .max = w->max, .usable = true};
		memcpy(all[n].worker, w->id, sizeof(all[n].worker));
		workers[n++] = w;
	}
	const size_t at = fleet_place_any(all, n, random[0], random[1]);
	return at == FLEET_NOBODY ? NULL : workers[at];
}

/* ---- steps ---- */

static void find(struct load *l);

static void on_job(struct job *j, bool closed);

static bool run(struct load *l, void (*fn)(struct job *j))
{
	l->job = (struct job){.fn = fn, .done = on_job};
	l->works = true;
	if (moves_run(l->m, &l->job) == 0)
		return true;
	l->works = false;
	answer(l, NULL, ERR_SERVER_BUSY, "too much waits for a thread");
	return false;
}

static void take_row(struct job *j)
{
	struct load *l = CONTAINER_OF(j, struct load, job);
	struct store *s = moves_store_begin(j);
	struct store_snapshot row = l->row;

	if (s)
		l->found = j->r = store_snapshot_take(s, l->row.incarnation, l->row.epoch,
						      l->target, &row, &j->e);
	l->row = row;
	moves_store_end(j);
}

static void on_taken(struct load *l)
{
	if (!l->found) { /* another router was faster */
		l->again_ns = now_ns() + NS_PER_S;
		return;
	}
	LOG_INFO("sandbox_taken", LOG_S("session_id", l->id), LOG_S("worker", l->target),
		 LOG_U("epoch", l->row.epoch));
	(void)!moves_note_row(l->m, &l->row);
	l->moving = true;
	if (move_load(l->m, &l->row, l->target, l) < 0) {
		l->moving = false;
		answer(l, NULL, ERR_OUT_OF_MEMORY, "no memory");
	}
}

/* Those who may not have it hear what they would of one that is not there. */
static void refuse_others(struct load *l)
{
	list_for_each(node, &l->waiters) {
		struct move_wait *w = list_entry(node, struct move_wait, node);
		const move_fn fn = w->fn;
		void *user = w->user;

		if (w->admin || streq(w->owner, l->row.owner))
			continue;
		wait_free(w);
		fn(NULL, ERR_SESSION_NOT_FOUND, "There is no such sandbox", user);
	}
}

static void on_found(struct load *l)
{
	struct worker *at = l->found ? worker_find(l->m->router, l->row.worker) : NULL;
	const uint64_t now = now_ns();

	if (!l->found || l->row.snap_generation == 0) {
		answer(l, NULL, ERR_NODE_LOST,
		       "the worker that had this is gone, and it was not saved");
		return;
	}
	refuse_others(l);
	if (l->seen_version != l->row.version) {
		l->seen_version = l->row.version;
		l->seen_ns = now;
	}
	if (list_is_empty(&l->waiters)) {
		load_free(l);
	} else if (at && !l->row.loading && at->missed == 0) {
		(void)!moves_note_row(l->m, &l->row);
		answer(l, at->id, ERR_NONE, NULL);
	} else if (l->row.loading && now - l->seen_ns < STUCK_NS) {
		l->again_ns = now + NS_PER_S; /* another router does it */
	} else if (at && !hop_is_lost(l->m->router, at)) {
		answer(l, NULL, ERR_NODE_UNREACHABLE,
		       "the worker that has this does not answer now");
	} else {
		const struct worker *to = choose(l->m);
		if (!to) {
			answer(l, NULL, ERR_FLEET_EMPTY, "no worker of this fleet is ready for it");
			return;
		}
		memcpy(l->target, to->id, sizeof(l->target));
		(void)run(l, take_row);
	}
}

static void find_row(struct job *j)
{
	struct load *l = CONTAINER_OF(j, struct load, job);
	struct store *s = moves_store_begin(j);

	if (s)
		l->found = j->r = store_snapshot_find(s, l->id, &l->row, &j->e);
	moves_store_end(j);
}

static void on_job(struct job *j, bool closed UNUSED)
{
	struct load *l = CONTAINER_OF(j, struct load, job);

	l->works = false;
	if (!l->m) {
		if (!l->moving)
			free(l);
	} else if (j->r < 0) {
		answer(l, NULL, j->e.code, j->e.text);
	} else if (j->fn == find_row) {
		on_found(l);
	} else {
		on_taken(l);
	}
}

static void find(struct load *l)
{
	l->again_ns = 0;
	(void)run(l, find_row);
}

void load_ended(struct load *l, int r, const struct err *e)
{
	l->moving = false;
	if (!l->m) {
		if (!l->works)
			free(l);
		return;
	}
	if (r < 0) {
		answer(l, NULL, e->code, e->text);
		return;
	}
	l->row.loading = false;
	(void)!moves_note_row(l->m, &l->row);
	answer(l, l->target, ERR_NONE, NULL);
}

/* ---- those who wait ---- */

static struct load *load_of(struct moves *m, const char *id)
{
	list_for_each(node, &m->loads) {
		struct load *l = list_entry(node, struct load, node);

		if (streq(l->id, id))
			return l;
	}
	struct load *l = calloc(1, sizeof(*l));
	if (!l || text_copy(l->id, sizeof(l->id), id) < 0) {
		free(l);
		return NULL;
	}
	l->m = m;
	l->again_ns = 1; /* at the next tick: never before the call has returned */
	list_init(&l->waiters);
	list_append(&m->loads, &l->node);
	return l;
}

struct move_wait *moves_want(struct fleet_router *f, const struct caller *who, const char *id,
			     move_fn fn, void *user)
{
	struct moves *m = f->moves;

	if (!m || !who || m->n_waiters >= MOVES_WAITERS)
		return NULL;
	struct move_wait *w = calloc(1, sizeof(*w));
	struct load *l = w ? load_of(m, id) : NULL;
	if (!l || text_copy(w->owner, sizeof(w->owner), who->owner) < 0) {
		free(w);
		return NULL;
	}
	w->load = l;
	w->admin = who->admin;
	w->fn = fn;
	w->user = user;
	w->until_ns = now_ns() + MOVES_WAIT_NS;
	list_append(&l->waiters, &w->node);
	m->n_waiters++;
	return w;
}

void moves_unwant(struct move_wait *w)
{
	if (w)
		wait_free(w);
}

static void expire(struct load *l, uint64_t now)
{
	list_for_each(node, &l->waiters) {
		struct move_wait *w = list_entry(node, struct move_wait, node);
		const move_fn fn = w->fn;
		void *user = w->user;

		if (now < w->until_ns)
			continue;
		wait_free(w);
		fn(NULL, ERR_SANDBOX_MOVING,
		   "the sandbox is brought to another worker, which takes "
		   "longer than a request can wait",
		   user);
	}
}

void loads_tick(struct moves *m)
{
	const uint64_t now = now_ns();

	list_for_each(node, &m->loads) {
		struct load *l = list_entry(node, struct load, node);

		expire(l, now);
		if (l->works || l->moving)
			continue;
		if (list_is_empty(&l->waiters))
			load_free(l);
		else if (l->again_ns > 0 && now >= l->again_ns)
			find(l);
	}
}

void loads_done(struct moves *m)
{
	for (struct load *l; (l = list_first(&m->loads, struct load, node));)
		answer(l, NULL, ERR_CANCELLED, "the router is shutting down");
}
