/* SPDX-License-Identifier: Apache-2.0 */
/* What a router says of its workers, and counts. */
#include "fleet/router/moves.h"

#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const char *const states[WORKER_STATES] = {"ready", "not_ready", "draining", "unreachable",
						  "lost",  "refused",   "unknown"};

static enum worker_state state_of(const struct worker *w)
{
	const uint64_t heard = MAX(w->good_ns, w->router->began_ns);

	if (w->refused)
		return WORKER_REFUSED;
	if (now_ns() - heard >= FLEET_LOST_S * NS_PER_S)
		return WORKER_LOST;
	if (!w->known)
		return w->missed > 0 ? WORKER_UNREACHABLE : WORKER_UNKNOWN;
	if (w->missed > 0 || !worker_is_fresh(w))
		return WORKER_UNREACHABLE;
	if (w->draining)
		return WORKER_DRAINING;
	return w->ready ? WORKER_READY : WORKER_NOT_READY;
}

void worker_note_state(struct worker *w)
{
	const enum worker_state now = state_of(w);

	if (w->since_ms != 0 && now == w->state)
		return;
	w->state = now;
	w->since_ms = store_now_ms();
}

static void when(uint64_t ms, char ret[32])
{
	const time_t t = (time_t)(ms / 1000);
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		ret[0] = '\0';
}

static json_t *worker_json(struct worker *w)
{
	char since[32];

	worker_note_state(w);
	when(w->since_ms, since);
	json_t *o = json_pack("{s:s, s:s, s:s, s:b}", "address", w->at.text, "state",
			      states[w->state], "since", since, "listed", w->listed);
	/* Of one that has never answered nothing else is known. */
	if (o && w->known)
		(void)json_object_update_new(
		    o, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "id", w->id, "name",
				 w->name, "version", w->version, "epoch", w->epoch, "sandboxes",
				 (json_int_t)w->open, "sandboxes_max", (json_int_t)w->max,
				 "requests", (json_int_t)w->n_hops));
	return o;
}

json_t *fleet_router_json(struct fleet_router *f)
{
	json_t *list = json_array();

	list_for_each(node, &f->workers)
		if (json_array_append_new(list,
					  worker_json(list_entry(node, struct worker, node))) < 0) {
			json_decref(list);
			return NULL;
		}
	return json_pack("{s:o}", "workers", list);
}

/* ---- metrics ---- */

void router_count_failure(struct fleet_router *f, enum err_code code)
{
	static const enum err_code codes[ROUTER_FAILURES - 1] = {
	    ERR_NODE_UNREACHABLE, ERR_NODE_LOST,       ERR_NODE_REFUSES,     ERR_FLEET_FULL,
	    ERR_FLEET_EMPTY,      ERR_GATEWAY_TIMEOUT, ERR_SESSION_NOT_FOUND};
	unsigned i = 0;

	while (i < ROUTER_FAILURES - 1 && codes[i] != code)
		i++;
	f->counts.failures[i]++;
}

static int add(struct buf *b, const char *name, const char *type, const char *help,
	       const char *label, const char *const *values, const uint64_t *n, size_t rows)
{
	int r = buf_printf(b, "# HELP caisson_fleet_%s %s\n# TYPE caisson_fleet_%s %s\n", name,
			   help, name, type);

	for (size_t i = 0; r == 0 && i < rows; i++)
		r = buf_printf(b, "caisson_fleet_%s{%s=\"%s\"} %ju\n", name, label, values[i],
			       (uintmax_t)n[i]);
	return r;
}

int fleet_router_metrics(struct fleet_router *f, struct buf *b)
{
	static const char *const outcomes[] = {"answered", "failed", "left"};
	static const char *const retries[] = {"unreachable", "closed", "full"};
	static const char *const failures[ROUTER_FAILURES] = {
	    "node_unreachable", "node_lost",       "node_refuses",      "fleet_full",
	    "fleet_empty",      "gateway_timeout", "session_not_found", "other"};
	const struct router_counts *c = &f->counts;
	uint64_t workers[WORKER_STATES] = {0}, failed = 0;

	list_for_each(node, &f->workers) {
		const struct worker *w = list_entry(node, struct worker, node);

		if (w->listed)
			workers[state_of(w)]++;
	}
	for (size_t i = 0; i < ROUTER_FAILURES; i++)
		failed += c->failures[i];
	const uint64_t ended[] = {c->answered, failed, c->left};
	int r = add(b, "workers", "gauge", "Workers of the list.", "state", states, workers,
		    WORKER_STATES);
	r = r < 0 ? r
		  : add(b, "requests_total", "counter", "Requests for workers that are over.",
			"outcome", outcomes, ended, ARRAY_SIZE(outcomes));
	r = r < 0 ? r
		  : add(b, "failures_total", "counter",
			"Requests for workers that the router itself refused.", "code", failures,
			c->failures, ROUTER_FAILURES);
	r = r < 0 ? r : moves_metrics(f, b);
	return r < 0 ? r
		     : add(b, "retries_total", "counter",
			   "Requests that were sent once more, by what the worker before did.",
			   "reason", retries, c->retries, ARRAY_SIZE(retries));
}
