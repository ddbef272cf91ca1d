/* SPDX-License-Identifier: Apache-2.0 */
/* A list that all workers have a part of. Workers that do not tell theirs are named in the answer, so that nobody takes what is
 * missing for deleted. */
#include "fleet/router/merge.h"
#include "fleet/router/parts.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/workers.h"
#include "fleet/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MS  10000u
#define PART_DEPTH 32u
#define ANSWER_MAX (MERGE_BYTES_MAX + (64u << 10))

struct merge {
	struct list node; /* of router.lists */
	const struct bound *bound;
	struct http_request *req;
	struct merge_rows rows;
	bool limited;    /* the router says how many rows, and where */
	struct buf head; /* what each worker is asked, behind the first line */
	json_t *missing;
	unsigned n_waiting, n_told;
	struct budget_share share;
	char owner[STORE_OWNER_SIZE]; /* who asks: jobs are theirs */
	json_t *refusal;              /* of the first worker that refused, for the caller */
	int status;
	char silent[8]; /* a worker without which a list of a face is not whole; "" = none */
	/* Megabytes of JSON take tens of milliseconds, so threads read and write them. */
	unsigned n_jobs;
	bool gone;         /* nobody waits for the answer: the last job frees this */
	struct buf answer; /* and R, of the job that writes it */
	int r;
};

/* A part that a thread reads. */
struct reading {
	struct merge *m;
	struct merge_part *part;
	int status;
	bool ours; /* the worker does not believe us */
	size_t len;
	json_t *root;  /* NULL: it cannot be read */
	size_t *sizes; /* of its rows */
	char text[];
};

/* Nothing of the router is used any more. Jobs that are under way keep it until the last has ended. */
static void merge_free(struct merge *m)
{
	list_for_each(node, &m->rows.parts) {
		struct merge_part *p = list_entry(node, struct merge_part, node);

		p->asked = fetch_drop(p->asked);
	}
	list_remove(&m->node);
	m->gone = true;
	if (m->n_jobs > 0)
		return;
	budget_give(&m->share); /* what jobs hold counts until they have ended */
	merge_rows_done(&m->rows);
	buf_done(&m->head);
	buf_done(&m->answer);
	json_decref(m->missing);
	json_decref(m->refusal);
	free(m);
}

static void fail(struct merge *m)
{
	const struct bound *b = m->bound;
	struct http_request *req = m->req;

	merge_free(m);
	hop_respond(b, req, ERR_OUT_OF_MEMORY, "no memory for the list");
}

static bool is_refused(const struct merge *m)
{
	return m->refusal && m->n_told == 0;
}

/* On a thread. */
static void write_answer(void *user)
{
	struct merge *m = user;

	m->r = is_refused(m) ? jsonio_add(&m->answer, m->refusal, JSON_COMPACT)
			     : merge_write(&m->rows, m->missing, &m->answer);
}

static void on_written(void *user)
{
	struct merge *m = user;
	struct http_request *req = m->req;

	m->n_jobs--;
	if (m->gone) {
		merge_free(m);
		return;
	}
	const size_t len = m->answer.len;
	char *text = m->r < 0 ? NULL : buf_take(&m->answer);
	if (!text) {
		fail(m);
		return;
	}
	const int status = is_refused(m) ? m->status : 200;
	/* The routes of the second family have problems of another form, and faces. */
	const char *type = is_refused(m) && json_is_string(json_object_get(m->refusal, "code"))
			       ? HTTP_PROBLEM_TYPE
			       : "application/json";
	if (m->rows.next.len > 0)
		(void)http_add_header(req, "X-Next-Token", buf_str(&m->rows.next));
	merge_free(m);
	http_respond_take(req, status, type, text, len);
}

/* A list of a face has no place for who is missing, and one that is silently short reads as "deleted". */
static bool refuse_short(struct merge *m)
{
	const struct bound *b = m->bound;
	struct http_request *req = m->req;
	char why[160];

	if (!m->silent[0] || is_refused(m))
		return false;
	LOG_OFTEN(LOG_LEVEL_WARNING, "list_not_whole", LOG_S("worker", m->silent),
		  LOG_S("route", b->pattern));
	(void)snprintf(why, sizeof(why),
		       "worker %s does not tell its part now, and the list would not be whole",
		       m->silent);
	merge_free(m);
	router_count_failure(b->router, ERR_NODE_UNREACHABLE);
	hop_respond(b, req, ERR_NODE_UNREACHABLE, why);
	return true;
}

static void respond(struct merge *m)
{
	if (refuse_short(m))
		return;
	m->n_jobs++;
	if (workers_run(m->owner, write_answer, on_written, m) < 0) {
		m->n_jobs--;
		fail(m);
	}
}

static void miss(struct merge *m, const char *worker)
{
	(void)json_array_append_new(m->missing, json_string(worker));
	if (m->rows.kind->form == MERGE_ARRAY && !m->silent[0])
		(void)!text_copy(m->silent, sizeof(m->silent), worker);
}

/* The part of W is missing. What a face has ends with its worker: one that is gone has no part. Nor has one that nothing was sent to,
 * since another one has its short id; and one that drains has ended when it does not answer twice in a row. */
static void miss_silent(struct merge *m, const struct worker *w)
{
	const bool gone = (w->refused && w->open == 0) || (w->draining && !worker_is_fresh(w)) ||
			  hop_is_lost(m->bound->router, w);

	/* An address is nothing for clients. */
	if (m->rows.kind->form == MERGE_OBJECT || !gone)
		miss(m, w->known ? w->id : "unknown");
}

/* On a thread. */
static void read_part(void *user)
{
	struct reading *x = user;
	const struct merge_kind *k = x->m->rows.kind;
	const size_t n = jsonio_count(x->text, x->len, k->values, PART_DEPTH);

	if (n == 0 || n > k->values || jsonio_read_on_thread(x->text, x->len, 0, &x->root) < 0)
		x->root = NULL;
	x->sizes = x->root ? merge_measure(k, x->root) : NULL;
}

/* What a worker says that has no list for us. What it holds against this router is not for the client. */
static void note_refusal(struct merge *m, const struct reading *x)
{
	const char *worker = x->part->worker;

	miss(m, worker);
	if (x->status < 400 || x->status >= 500 || !json_is_object(x->root))
		return;
	if (x->ours || hop_says_ours(x->text, x->len)) {
		LOG_OFTEN(LOG_LEVEL_ERROR, "identity_refused", LOG_S("worker", worker));
	} else if (!m->refusal) {
		m->refusal = json_incref(x->root);
		m->status = x->status;
	}
}

static void part_is_done(struct merge *m)
{
	if (--m->n_waiting == 0)
		respond(m);
}

static void on_read(void *user)
{
	struct reading *x = user;
	struct merge *m = x->m;

	m->n_jobs--;
	if (!m->gone) {
		if (x->status == 200 && x->sizes &&
		    merge_take(&m->rows, x->part, x->root, x->sizes) == 0)
			m->n_told++;
		else
			note_refusal(m, x);
	}
	json_decref(x->root);
	free(x->sizes);
	workers_free_memory(m->owner, x, sizeof(*x) + x->len);
	if (m->gone)
		merge_free(m);
	else
		part_is_done(m);
}

static void on_part(const struct fetch_answer *a, void *user)
{
	struct merge_part *p = user;
	struct merge *m = p->owner;
	const bool fits = a->status > 0 && a->len <= m->rows.kind->bytes;
	struct reading *x = fits ? malloc(sizeof(*x) + a->len + 1) : NULL;

	p->asked = NULL;
	if (x) {
		*x = (struct reading){
		    .m = m, .part = p, .status = a->status, .ours = a->ours, .len = a->len};
		memcpy(x->text, a->body, a->len);
		m->n_jobs++;
		if (workers_run(m->owner, read_part, on_read, x) == 0)
			return;
		m->n_jobs--;
		free(x);
	}
	miss(m, p->worker);
	part_is_done(m);
}

static void on_gone(void *user)
{
	merge_free(user);
}

/* ---- what a worker is asked ---- */

/* "GET /api/v1/history?limit=30&before=120&q=x HTTP/1.1" and the rest. */
static int write_request(const struct merge *m, const struct merge_part *p, struct buf *ret)
{
	const char *cursor = m->rows.kind->cursor;
	const char *const ours[] = {"api_key", "limit", cursor, NULL};
	static const char *const keys[] = {"api_key", NULL};
	int r = buf_printf(ret, "GET %s", http_request_path(m->req));

	if (r == 0 && m->limited)
		r = buf_printf(ret, "?limit=%zu", m->rows.limit);
	if (r == 0 && m->limited && p->before > 0)
		r = buf_printf(ret, "&%s=%ju", cursor, (uintmax_t)p->before);
	r = r < 0 ? r
		  : hop_add_query(m->req, m->limited ? ours : keys, m->limited ? '&' : '?', ret);
	r = r < 0 ? r : buf_add_str(ret, " HTTP/1.1\r\n");
	return r < 0 ? r : buf_add(ret, m->head.data, m->head.len);
}

static void ask(struct merge *m, struct worker *w, struct merge_part *p)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(RELAY_BUF_MAX);

	p->owner = m;
	if (write_request(m, p, &text) == 0)
		p->asked =
		    fetch_begin(w, buf_str(&text), m->rows.kind->bytes, ANSWER_MS, on_part, p);
	if (p->asked)
		m->n_waiting++;
	else
		miss(m, w->id);
}

static struct merge *merge_new(const struct bound *b, struct http_request *req,
			       const struct merge_kind *kind)
{
	struct merge *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	merge_rows_init(&m->rows, kind, b->router->config.key);
	list_append(&b->router->lists, &m->node);
	m->bound = b;
	buf_init(&m->head, RELAY_BUF_MAX);
	buf_init(&m->answer, ANSWER_MAX);
	m->req = req;
	m->missing = json_array();
	return m;
}

/* Reads what the client wants of lists that have an order. A limit that is none, the workers refuse. */
static int read_query(struct merge *m, struct err *e)
{
	const struct merge_kind *k = m->rows.kind;
	const char *limit = http_request_query(m->req, "limit");
	const char *before =
	    k->page > 0 && !k->first ? http_request_query(m->req, k->cursor) : NULL;
	const char *order = k->form == MERGE_ARRAY ? http_request_query(m->req, "order") : NULL;
	const uint64_t most = k->form == MERGE_ARRAY ? k->page : MERGE_LIMIT_MAX;
	uint64_t n = MERGE_LIMIT_DEFAULT;

	if (!k->at)
		return 0;
	m->rows.oldest_first = order && streq(order, "asc");
	if (!limit || parse_u64(limit, 1, most, &n) == 0)
		m->rows.limit = (size_t)(k->page > 0 ? MIN(n, k->page) : n);
	m->limited = k->page > 0 && m->rows.limit > 0;
	const int r = before && (*before || k->form == MERGE_OBJECT)
			  ? merge_read_cursor(&m->rows, before)
			  : 0;
	if (r == -EINVAL)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "`%s` is not what the page before said of the next one", k->cursor);
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "no memory for the list") : 0;
}

/* What is said to all workers. */
static int begin(struct merge *m, const struct caller *who, struct err *e)
{
	const struct fleet_router *f = m->bound->router;
	const struct worker *first = list_first(&f->workers, struct worker, node);
	uint64_t n = 0;

	list_for_each(node, &f->workers)
		n++;
	memcpy(m->owner, who->owner, sizeof(m->owner));
	int r = budget_take(f->config.budgets, who->owner, BUDGET_PORT_REQUESTS, n, &m->share, e);
	r = r < 0 ? r : read_query(m, e);
	if (r < 0)
		return r;
	r = hop_write_fields(m->bound, m->req, who, first, NULL, &m->head);
	if (r == 0 && m->bound->face_row)
		r = buf_add_str(&m->head, FLEET_LIST_HEADER ": 1\r\n");
	r = r < 0 ? r : buf_add_str(&m->head, "\r\n");
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "no memory for the list") : 0;
}

/* Asks all that can answer. False: there is nobody. */
static bool ask_all(struct merge *m, struct fleet_router *f)
{
	bool any = false;

	list_for_each(node, &f->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (w->known && !worker_offers(w, m->bound))
			continue;
		if (!w->known || w->refused) {
			/* Its part is missing all the same. */
			if (w->listed)
				miss_silent(m, w);
			continue;
		}
		any = true;
		struct merge_part *p = merge_part_new(&m->rows, w->id);
		if (p && p->ended)
			continue;
		if (!p || w->missed > 0)
			miss_silent(m, w);
		else
			ask(m, w, p);
	}
	return any;
}

void merge_begin(const struct bound *b, struct http_request *req, const struct caller *who)
{
	struct fleet_router *f = b->router;
	const struct merge_kind *kind = merge_kind_of(b->pattern);
	struct merge *m = list_is_empty(&f->workers) ? NULL : merge_new(b, req, kind);
	struct err e = ERR_INIT;

	if (!m && !list_is_empty(&f->workers)) {
		hop_respond(b, req, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	if (m && begin(m, who, &e) < 0) {
		merge_free(m);
		hop_respond(b, req, e.code, e.text);
		return;
	}
	if (!m || !ask_all(m, f)) {
		if (m)
			merge_free(m);
		hop_respond(b, req, ERR_FLEET_EMPTY,
			    b->face_row ? "no worker of this fleet is ready that offers this API"
					: "no worker of this fleet is ready");
		return;
	}
	http_request_on_gone(req, on_gone, m);
	if (m->n_waiting == 0)
		respond(m);
}

void merges_done(struct fleet_router *f)
{
	list_for_each(node, &f->lists)
		merge_free(list_entry(node, struct merge, node));
}
