/* SPDX-License-Identifier: Apache-2.0 */
/* What workers have: read when it has changed, and all of it when a worker was started anew or comes back. */
#include "fleet/router/moves.h"

#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS  10000u
#define ANSWER_MAX (256u << 10)
#define VALUES     4096u
#define DEPTH      4u
#define AGAIN_NS   (600 * NS_PER_S)
#define TOLD_MAX   100000u /* rows of one worker that are compared */
#define PAGE       500u
#define CHORES_MAX 64u

/* ---- one worker ---- */

void moves_worker_free(struct moves_worker *w)
{
	w->look = fetch_drop(w->look);
	for (struct want *x; (x = list_pop_first(&w->wants, struct want, node));)
		free(x);
	json_decref(w->told);
	list_remove(&w->node);
	if (w->worker)
		w->worker->moves = NULL;
	w->worker = NULL;
	w->moves = NULL;
	if (w->n_jobs == 0)
		free(w);
}

void moves_worker_gone(struct worker *w)
{
	if (w->moves)
		moves_worker_free(w->moves);
}

void moves_heard(struct worker *w, const char *version)
{
	struct moves *m = w->router->moves;
	struct moves_worker *x = w->moves;

	if (!m || !version || strlen(version) >= sizeof(x->said))
		return;
	if (!x) {
		x = calloc(1, sizeof(*x));
		if (!x)
			return;
		x->moves = m;
		x->worker = w;
		list_init(&x->wants);
		list_append(&m->workers, &x->node);
		w->moves = x;
	}
	(void)!text_copy(x->said, sizeof(x->said), version);
}

/* A job for a worker has ended. False: nobody is there any more. */
static bool is_there(struct moves_worker *w)
{
	w->n_jobs--;
	if (w->moves)
		return true;
	if (w->n_jobs == 0)
		free(w);
	return false;
}

static void add_want(struct moves_worker *w, const struct store_moving *row)
{
	struct want *x = w->n_wants < MOVES_WANTS ? calloc(1, sizeof(*x)) : NULL;

	if (!x) {
		w->again_ns = MIN(w->again_ns, now_ns() + MOVES_RETRY_NS);
		return;
	}
	x->row = *row;
	list_append(&w->wants, &x->node);
	w->n_wants++;
}

static void clear_wants(struct moves_worker *w)
{
	for (struct want *x; (x = list_pop_first(&w->wants, struct want, node));)
		free(x);
	w->n_wants = 0;
}

/* Owners take turns: the first of another owner than the last one, else the first. */
static struct want *next_want(struct moves_worker *w)
{
	struct want *x = NULL;

	list_for_each(l, &w->wants) {
		struct want *one = list_entry(l, struct want, node);
		const bool other = !streq(one->row.owner, w->last_owner);

		x = x && !other ? x : one;
		if (other)
			break;
	}
	if (x) {
		list_remove(&x->node);
		w->n_wants--;
	}
	return x;
}

static void save_some(struct moves_worker *w)
{
	struct want *x;

	while (w->n_moves < MOVES_OF_WORKER && (x = next_want(w))) {
		memcpy(w->last_owner, x->row.owner, sizeof(w->last_owner));
		if (moves_is_recent(w->moves, x->row.incarnation, w->worker->id))
			w->again_ns = MIN(w->again_ns, now_ns() + MOVES_RETRY_NS);
		else
			move_save(w, &x->row);
		free(x);
	}
}

/* ---- what its owner has removed ---- */

struct chore {
	struct job job;
	struct moves_worker *worker;
	char id[FLEET_WORKER_SIZE];
	char incarnation[STORE_INCARNATION_SIZE];
	uint32_t epoch;
	bool proven;
};

static void remove_row(struct job *j)
{
	const struct chore *x = CONTAINER_OF(j, struct chore, job);
	struct store *s = moves_store_begin(j);

	if (s)
		j->r = store_snapshot_removed(s, x->incarnation, x->epoch, x->id, x->proven, &j->e);
	moves_store_end(j);
}

static void on_row_removed(struct job *j, bool closed)
{
	struct chore *x = CONTAINER_OF(j, struct chore, job);

	if (is_there(x->worker) && !closed) {
		if (j->r < 0)
			x->worker->again_ns = MIN(x->worker->again_ns, now_ns() + NS_PER_S);
		else
			moves_tell(j->m, x->id, "/fleet/orders",
				   json_pack("{s:i, s:s, s:s}", "v", 1, "kind", "forget",
					     "incarnation", x->incarnation));
	}
	free(x);
}

static void forget(struct moves_worker *w, const struct store_moving *row, bool proven)
{
	struct chore *x = w->n_jobs < CHORES_MAX ? calloc(1, sizeof(*x)) : NULL;

	if (!x) {
		w->again_ns = MIN(w->again_ns, now_ns() + NS_PER_S);
		return;
	}
	x->job.fn = remove_row;
	x->job.done = on_row_removed;
	x->worker = w;
	x->epoch = row->epoch;
	x->proven = proven;
	memcpy(x->id, w->worker->id, sizeof(x->id));
	memcpy(x->incarnation, row->incarnation, sizeof(x->incarnation));
	w->n_jobs++;
	if (moves_run(w->moves, &x->job) < 0) {
		w->n_jobs--;
		free(x);
	}
}

/* ---- comparing all that it has with the rows ---- */

struct told {
	char incarnation[STORE_INCARNATION_SIZE];
	uint32_t epoch, drop; /* DROP: below this epoch it is another worker's; 0 = not so */
	bool removed;
	bool proven; /* a router has given it this epoch, or it has made the sandbox */
};

struct comparing {
	struct job job;
	struct moves_worker *worker;
	char id[FLEET_WORKER_SIZE], start[FLEET_EPOCH_SIZE];
	uint64_t version; /* of the rows, before the list was asked for */
	bool whole;       /* the list has all that the worker has */
	bool again;       /* not all could be judged */
	size_t n;
	char last[STORE_INCARNATION_SIZE];
	unsigned n_gone;
	struct store_snapshot gone[PAGE]; /* rows of the worker on one page */
	struct told rows[];
};

static int by_incarnation(const void *a, const void *b)
{
	return strcmp(((const struct told *)a)->incarnation, ((const struct told *)b)->incarnation);
}

static bool on_row(const struct store_snapshot *row, void *user)
{
	struct comparing *x = user;

	x->gone[x->n_gone++] = *row;
	return x->n_gone < PAGE;
}

/* ROW is not in the list of its worker. What is on its way there is somebody's business. What has changed since the list was asked for
 * may have come there after it: the next list has it, or has it not. */
static int note_missing(struct comparing *x, const struct store_snapshot *row, struct store *s,
			struct err *e)
{
	if (row->loading)
		return 0;
	if (row->version > x->version) {
		x->again = true;
		return 0;
	}
	return store_snapshot_nowhere(s, row->incarnation, row->epoch, e);
}

/* What the worker should have, and has not: its disk is another one. */
static int find_missing(struct comparing *x, struct store *s, struct err *e)
{
	int r = 0;

	if (!x->whole)
		return 0;
	do {
		x->n_gone = 0;
		r = store_snapshot_of_worker(s, x->id, x->last, PAGE, on_row, x, e);
		for (unsigned i = 0; i < x->n_gone && r >= 0; i++) {
			struct told key = {0};
			memcpy(key.incarnation, x->gone[i].incarnation, sizeof(key.incarnation));
			memcpy(x->last, key.incarnation, sizeof(x->last));
			if (!bsearch(&key, x->rows, x->n, sizeof(key), by_incarnation))
				r = note_missing(x, &x->gone[i], s, e);
		}
	} while (r >= 0 && x->n_gone == PAGE);
	return r;
}

static int judge(struct comparing *x, struct told *t, struct store *s, struct err *e)
{
	struct store_snapshot row;
	int r = store_snapshot_get(s, t->incarnation, &row, e);

	if (r <= 0 || t->removed)
		return r;
	if (row.removed_ms > 0)
		t->drop = t->epoch + 1;
	else if (row.epoch > t->epoch)
		t->drop = row.epoch;
	else if (t->proven && row.epoch < t->epoch)
		r = store_snapshot_raise(s, t->incarnation, t->epoch, x->id, e);
	else if (t->proven && row.epoch == t->epoch && !row.loading && !row.worker[0])
		r = store_snapshot_back(s, t->incarnation, t->epoch, x->id, e);
	return r;
}

static void compare(struct job *j)
{
	struct comparing *x = CONTAINER_OF(j, struct comparing, job);
	struct store *s = moves_store_begin(j);

	qsort(x->rows, x->n, sizeof(x->rows[0]), by_incarnation);
	if (s)
		j->r = find_missing(x, s, &j->e);
	moves_store_end(j);
	for (size_t i = 0; i < x->n && j->r >= 0; i++) {
		s = moves_store_begin(j); /* others may have it in between */
		if (s)
			j->r = judge(x, &x->rows[i], s, &j->e);
		moves_store_end(j);
	}
}

static void on_compared(struct job *j, bool closed)
{
	struct comparing *x = CONTAINER_OF(j, struct comparing, job);
	struct moves_worker *w = x->worker;
	const bool there = is_there(w) && !closed;

	if (there)
		w->compares = false;

	if (there && j->r < 0) {
		LOG_OFTEN(LOG_LEVEL_WARNING, "worker_not_compared", LOG_S("worker", x->id),
			  LOG_S("error", j->e.text));
		w->start[0] = '\0'; /* once more */
		w->again_ns = MIN(w->again_ns, now_ns() + NS_PER_S);
	}
	if (there && x->again) {
		w->start[0] = '\0';
		w->again_ns = MIN(w->again_ns, now_ns() + NS_PER_S);
	}
	for (size_t i = 0; i < x->n && there; i++)
		if (x->rows[i].drop > 0)
			moves_tell(j->m, x->id, "/fleet/orders",
				   json_pack("{s:i, s:s, s:s, s:I}", "v", 1, "kind", "drop",
					     "incarnation", x->rows[i].incarnation, "epoch",
					     (json_int_t)x->rows[i].drop));
	free(x);
}

/* All of the list of W is there. */
static void compare_all(struct moves_worker *w)
{
	const size_t n = json_array_size(w->told);
	struct comparing *x = calloc(1, sizeof(*x) + n * sizeof(x->rows[0]));
	const json_t *one;
	size_t i;

	if (!x)
		return;
	json_array_foreach(w->told, i, one) {
		const char *incarnation = NULL;
		json_int_t epoch = 0;
		int removed = 0, proven = 0;

		(void)json_unpack((json_t *)(uintptr_t)one, "[s, I, b, b]", &incarnation, &epoch,
				  &removed, &proven);
		(void)!text_copy(x->rows[i].incarnation, sizeof(x->rows[i].incarnation),
				 incarnation ? incarnation : "");
		x->rows[i].epoch = (uint32_t)epoch;
		x->rows[i].removed = removed;
		x->rows[i].proven = proven;
	}
	x->n = n;
	x->whole = n < TOLD_MAX;
	x->version = w->version;
	x->job.fn = compare;
	x->job.done = on_compared;
	x->worker = w;
	memcpy(x->id, w->worker->id, sizeof(x->id));
	w->n_jobs++;
	if (moves_run(w->moves, &x->job) < 0) {
		w->n_jobs--;
		free(x);
		return;
	}
	w->compares = true;
	memcpy(w->start, w->worker->epoch, sizeof(w->start));
	w->lost = false;
}

/* ---- the list ---- */

static bool is_incarnation(const char *s)
{
	return strlen(s) == STORE_INCARNATION_SIZE - 1 &&
	       strspn(s, "0123456789abcdef") == STORE_INCARNATION_SIZE - 1;
}

static bool read_row(const json_t *one, struct store_moving *ret, bool *ret_rests)
{
	const char *incarnation, *id, *owner, *proof;
	json_int_t epoch, change, saved, disk;
	int removed, rests;

	if (json_unpack((json_t *)(uintptr_t)one,
			"{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:I, s:s !}", "incarnation",
			&incarnation, "id", &id, "owner", &owner, "epoch", &epoch, "change",
			&change, "saved", &saved, "removed", &removed, "at_rest", &rests,
			"disk_bytes", &disk, "proof", &proof) < 0 ||
	    !is_incarnation(incarnation) || epoch < 0 || epoch > STORE_EPOCH_MAX || change < 0 ||
	    saved < 0 || disk < 0 || text_copy(ret->id, sizeof(ret->id), id) < 0 ||
	    text_copy(ret->owner, sizeof(ret->owner), owner) < 0 ||
	    text_copy(ret->proof, sizeof(ret->proof), proof) < 0)
		return false;
	memcpy(ret->incarnation, incarnation, sizeof(ret->incarnation));
	ret->epoch = (uint32_t)epoch;
	ret->change = (uint64_t)change;
	ret->saved = (uint64_t)saved;
	ret->removed = removed;
	ret->disk_bytes = (uint64_t)disk;
	*ret_rests = rests;
	return true;
}

static bool names_worker(const struct moves_worker *w, const char *id)
{
	char worker[FLEET_WORKER_SIZE];

	return fleet_id_worker(w->moves->router->config.key, id, worker) &&
	       streq(worker, w->worker->id);
}

/* A worker that somebody took over may say anything of sandboxes that are elsewhere now, and whose incarnations it has once known. */
static bool is_proven(const struct moves_worker *w, const struct store_moving *row)
{
	char proof[STORE_PROOF_SIZE];

	if (row->epoch == 0)
		return names_worker(w, row->id);
	moves_proof(w->moves, row->incarnation, row->epoch, w->worker->id, proof);
	return sodium_memcmp(proof, row->proof, sizeof(proof)) == 0;
}

/* With its first row a sandbox is known to routers by its id. So that must be one of this worker's; what clients have chosen says nothing
 * of where it was made. Later rows have an epoch, and name the worker. */
static bool may_save(const struct moves_worker *w, const struct store_moving *row)
{
	return row->epoch > 0 || names_worker(w, row->id);
}

static bool take_row(struct moves_worker *w, const json_t *one)
{
	struct store_moving row = {0};
	bool rests = false;

	if (!read_row(one, &row, &rests))
		return false;
	const bool proven = is_proven(w, &row);
	if (w->all && json_array_size(w->told) < TOLD_MAX)
		(void)json_array_append_new(w->told, json_pack("[s, I, b, b]", row.incarnation,
							       (json_int_t)row.epoch,
							       (int)row.removed, (int)proven));
	if (row.removed)
		forget(w, &row, proven);
	else if (rests && row.change != row.saved && may_save(w, &row))
		add_want(w, &row);
	return true;
}

static void ask(struct moves_worker *w);

static void on_list(const struct fetch_answer *a, void *user)
{
	struct moves_worker *w = user;
	json_t *root = NULL, *one;
	size_t i;
	bool ok;

	w->look = NULL;
	ok = a->status == 200 && fetch_json(a, VALUES, DEPTH, &root) == 0;
	json_array_foreach(json_object_get(root, "stored"), i, one)
		ok = ok && take_row(w, one);
	const json_t *next = json_object_get(root, "next");
	const json_int_t after = json_integer_value(next);
	json_decref(root);
	if (!ok || (next && after <= (json_int_t)w->after)) {
		LOG_OFTEN(LOG_LEVEL_WARNING, "stored_not_read", LOG_S("worker", w->worker->id));
		w->again_ns = MIN(w->again_ns, now_ns() + MOVES_RETRY_NS);
	} else if (next) {
		w->after = (uint64_t)after;
		ask(w);
	} else if (w->all) {
		compare_all(w);
	}
}

static void ask(struct moves_worker *w)
{
	char head[256];

	(void)snprintf(head, sizeof(head),
		       "GET /fleet/stored?after=%" PRIu64 "%s HTTP/1.1\r\nHost: %s\r\n"
		       "Accept: application/json\r\n\r\n",
		       w->after, w->all ? "" : "&unsaved=1", w->worker->at.text);
	w->look = fetch_begin(w->worker, head, ANSWER_MAX, ANSWER_MS, on_list, w);
}

static void look(struct moves_worker *w, bool all)
{
	memcpy(w->seen, w->said, sizeof(w->seen));
	w->again_ns = now_ns() + AGAIN_NS;
	w->all = all;
	w->after = 0;
	w->version = w->moves->version;
	json_decref(w->told);
	w->told = json_array();
	clear_wants(w);
	ask(w);
}

void looks_of_moves(struct moves *m)
{
	const uint64_t now = now_ns();

	list_for_each(l, &m->workers) {
		struct moves_worker *w = list_entry(l, struct moves_worker, node);
		const struct worker *at = w->worker;
		const bool all = w->lost || !streq(w->start, at->epoch);

		if (!at->known || at->refused || at->missed > 0) {
			w->lost = w->lost || hop_is_lost(m->router, at);
			continue;
		}
		if (w->look || w->compares)
			continue;
		if (!all)
			save_some(w); /* also of a worker whose list changes all the time */
		if (all || !streq(w->said, w->seen) || now > w->again_ns)
			look(w, all);
	}
}
