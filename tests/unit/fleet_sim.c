/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_sim.h"

#include "fleet/router/place.h"
#include "fleet/router/router.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CORES   2u
#define LOOK_S  1.0 /* between two questions of a router: worker.c */
#define FRESH_S 2.5 /* worker.c */
#define NOBODY  UINT32_MAX

enum kind { CLAIM, REACH, SERVED, END, LOOK };

struct event {
	double at;
	enum kind kind;
	uint32_t who, worker; /* a claim, or a router with LOOK */
};

struct claim {
	double began;
	uint32_t router, next; /* NEXT: in the queue of a worker */
	uint32_t tried[FLEET_TRIES_MAX];
	uint32_t n_tried;
};

struct host {
	unsigned open, busy;
	uint32_t first, last; /* claims that wait for a core */
};

struct view {
	struct fleet_candidate *workers;
	double *heard; /* when each worker answered last */
};

struct sim {
	struct sim_config c;
	struct sim_result r;
	struct event *heap;
	size_t n, room;
	struct claim *claims;
	uint32_t n_claims;
	struct host *hosts;
	struct view *views;
	float *times;
	unsigned open, most_open, free;
	uint64_t random;
	double now;
};

static void *get(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

/* ---- chance: splitmix64 ---- */

static uint64_t chance(struct sim *s)
{
	uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static double wait_of(struct sim *s, double average)
{
	return -average * log1p(-(double)(chance(s) >> 11) * 0x1p-53);
}

/* ---- events, the next one first ---- */

static void put(struct sim *s, double at, enum kind kind, uint32_t who, uint32_t worker)
{
	if (s->n == s->room) {
		s->room = s->room * 2 + 1024;
		s->heap = realloc(s->heap, s->room * sizeof(*s->heap));
		if (!s->heap)
			abort();
	}
	size_t i = s->n++;
	for (; i > 0 && s->heap[(i - 1) / 2].at > at; i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = (struct event){at, kind, who, worker};
}

static struct event take(struct sim *s)
{
	const struct event first = s->heap[0], last = s->heap[--s->n];
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < s->n; i = child) {
		child += child + 1 < s->n && s->heap[child + 1].at < s->heap[child].at;
		if (s->heap[child].at >= last.at)
			break;
		s->heap[i] = s->heap[child];
	}
	s->heap[i] = last;
	return first;
}

/* ---- a fleet ---- */

static bool is_cut(const struct sim *s, uint32_t worker)
{
	return s->c.cut_s > 0 && worker == 0 && s->now >= s->c.cut_s;
}

static void look(struct sim *s, uint32_t router)
{
	struct view *v = &s->views[router];

	for (uint32_t i = 0; i < s->c.workers; i++)
		if (!is_cut(s, i)) {
			v->workers[i].open = s->hosts[i].open;
			v->heard[i] = s->now;
		}
	if (s->n_claims < s->c.claims)
		put(s, s->now + LOOK_S, LOOK, router, 0);
}

/* As hop.c does: of those that answer and were not asked before. */
static void place(struct sim *s, uint32_t id)
{
	struct claim *x = &s->claims[id];
	struct view *v = &s->views[x->router];
	size_t at = FLEET_NOBODY;

	for (uint32_t i = 0; i < s->c.workers; i++)
		v->workers[i].usable = s->now - v->heard[i] < FRESH_S;
	for (uint32_t i = 0; i < x->n_tried; i++)
		v->workers[x->tried[i]].usable = false;
	const uint64_t random = chance(s);
	if (x->n_tried < FLEET_TRIES_MAX)
		at = fleet_place_any(v->workers, s->c.workers, (uint32_t)random,
				     (uint32_t)(random >> 32));
	if (at == FLEET_NOBODY) {
		s->r.refused++;
		s->r.refused_with_room += s->free > 0;
		return;
	}
	v->workers[at].open++;
	x->tried[x->n_tried++] = (uint32_t)at;
	put(s, s->now + SIM_HOP_S, REACH, id, (uint32_t)at);
}

static void claim(struct sim *s, uint32_t id)
{
	s->claims[id] = (struct claim){.began = s->now - SIM_HOP_S,
				       .router = (uint32_t)(chance(s) % s->c.routers),
				       .next = NOBODY};
	if (++s->n_claims < s->c.claims)
		put(s, s->now + wait_of(s, 1 / s->c.rate), CLAIM, s->n_claims, 0);
	place(s, id);
}

static void serve(struct sim *s, uint32_t id, uint32_t worker)
{
	s->hosts[worker].busy++;
	put(s, s->now + wait_of(s, s->c.service_s), SERVED, id, worker);
}

static void count_imbalance(struct sim *s)
{
	unsigned most = 0;

	if (s->open <= s->most_open)
		return;
	s->most_open = s->open;
	if (s->open % s->c.workers != 0) /* often enough */
		return;
	for (uint32_t i = 0; i < s->c.workers; i++)
		most = s->hosts[i].open > most ? s->hosts[i].open : most;
	s->r.imbalance = (double)most * s->c.workers / s->open;
}

static void reach(struct sim *s, uint32_t id, uint32_t worker)
{
	struct host *h = &s->hosts[worker];

	if (is_cut(s, worker)) {
		s->r.lost++;
		s->r.cut_known_s = s->now - s->c.cut_s;
		return;
	}
	if (h->open >= s->c.places) {
		s->r.retries++;
		place(s, id);
		return;
	}
	h->open++;
	s->open++;
	s->free--;
	count_imbalance(s);
	if (h->busy < CORES) {
		serve(s, id, worker);
		return;
	}
	if (h->first == NOBODY)
		h->first = id;
	else
		s->claims[h->last].next = id;
	h->last = id;
}

static void served(struct sim *s, uint32_t id, uint32_t worker)
{
	struct host *h = &s->hosts[worker];

	h->busy--;
	s->times[s->r.placed++] = (float)(s->now + 2 * SIM_HOP_S - s->claims[id].began);
	if (s->c.life_s > 0)
		put(s, s->now + wait_of(s, s->c.life_s), END, id, worker);
	if (h->first == NOBODY)
		return;
	const uint32_t next = h->first;
	h->first = s->claims[next].next;
	serve(s, next, worker);
}

static void step(struct sim *s)
{
	const struct event e = take(s);

	s->now = e.at;
	switch (e.kind) {
	case CLAIM:
		claim(s, e.who);
		break;
	case REACH:
		reach(s, e.who, e.worker);
		break;
	case SERVED:
		served(s, e.who, e.worker);
		break;
	case END:
		s->hosts[e.worker].open--;
		s->open--;
		s->free++;
		break;
	case LOOK:
		look(s, e.who);
		break;
	}
}

static void begin(struct sim *s)
{
	s->claims = get(s->c.claims, sizeof(*s->claims));
	s->times = get(s->c.claims, sizeof(*s->times));
	s->hosts = get(s->c.workers, sizeof(*s->hosts));
	s->views = get(s->c.routers, sizeof(*s->views));
	s->free = (s->c.workers - s->c.full) * s->c.places;
	s->open = s->most_open = s->c.full * s->c.places;
	for (uint32_t i = 0; i < s->c.workers; i++)
		s->hosts[i] = (struct host){
		    .open = i < s->c.full ? s->c.places : 0, .first = NOBODY, .last = NOBODY};
	for (uint32_t k = 0; k < s->c.routers; k++) {
		s->views[k].workers = get(s->c.workers, sizeof(*s->views[k].workers));
		s->views[k].heard = get(s->c.workers, sizeof(*s->views[k].heard));
		for (uint32_t i = 0; i < s->c.workers; i++) {
			s->views[k].workers[i].max = s->c.places;
			s->views[k].workers[i].open = s->hosts[i].open;
		}
		put(s, LOOK_S * k / s->c.routers, LOOK, k, 0);
	}
	put(s, 0, CLAIM, 0, 0);
}

static int by_size(const void *a, const void *b)
{
	float x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

struct sim_result sim_run(const struct sim_config *config)
{
	struct sim s = {.c = *config, .random = config->seed};

	begin(&s);
	while (s.n > 0)
		step(&s);
	qsort(s.times, s.r.placed, sizeof(*s.times), by_size);
	if (s.r.placed > 0) {
		s.r.p50_ms = 1000.0 * (double)s.times[s.r.placed / 2];
		s.r.p99_ms = 1000.0 * (double)s.times[s.r.placed - 1 - s.r.placed / 100];
	}
	for (uint32_t k = 0; k < s.c.routers; k++) {
		free(s.views[k].workers);
		free(s.views[k].heard);
	}
	free(s.views);
	free(s.hosts);
	free(s.times);
	free(s.claims);
	free(s.heap);
	return s.r;
}
