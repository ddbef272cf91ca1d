/* SPDX-License-Identifier: Apache-2.0 */
/* A list that all workers have a part of. Workers that do not tell theirs are named in the answer, so that nobody takes what is
 * missing for deleted. */
#include "fleet/router/parts.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define ANSWER_MS 10000u
/* What one worker tells, which is read and written again in one turn of the loop: 3 ms at most. */
#define PART_MAX     (256u << 10) /* bytes */
#define PART_VALUES  8192u
#define PART_DEPTH   32u
#define MERGED_MAX   (4u << 20)
#define MERGED_BEGIN "{\"sandboxes\":["

struct merge {
	struct list node; /* of router.lists */
	struct http_request *req;
	struct buf head; /* what each worker is asked */
	struct buf text; /* the answer: parts are written as they come */
	json_t *missing;
	unsigned n_waiting;
	struct budget_share share;
	json_t *refusal; /* of the first worker that refused, for the caller */
	int status;
	struct list parts;
};

struct part {
	struct list node;
	struct merge *merge;
	struct fetch *fetch;
	char worker[FLEET_WORKER_SIZE];
};

static void merge_free(struct merge *m)
{
	list_for_each(node, &m->parts) {
		struct part *p = list_entry(node, struct part, node);

		list_remove(&p->node);
		p->fetch = fetch_drop(p->fetch);
		free(p);
	}
	list_remove(&m->node);
	buf_done(&m->head);
	buf_done(&m->text);
	budget_give(&m->share);
	json_decref(m->missing);
	json_decref(m->refusal);
	free(m);
}

static void respond(struct merge *m)
{
	struct http_request *req = m->req;
	const bool refused = m->refusal && m->text.len == sizeof(MERGED_BEGIN) - 1;
	const int status = refused ? m->status : 200;
	int r = 0;

	if (refused)
		buf_reset(&m->text);
	r = refused ? jsonio_add(&m->text, m->refusal, JSON_COMPACT) : buf_add_char(&m->text, ']');
	if (r == 0 && !refused && json_array_size(m->missing) > 0) {
		r = buf_add_str(&m->text, ",\"workers_missing\":");
		r = r < 0 ? r : jsonio_add(&m->text, m->missing, JSON_COMPACT);
	}
	r = r < 0 || refused ? r : buf_add_char(&m->text, '}');
	if (r < 0) {
		merge_free(m);
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory for the list", NULL);
		return;
	}
	http_respond(req, status, refused ? HTTP_PROBLEM_TYPE : "application/json", m->text.data,
		     m->text.len);
	merge_free(m);
}

static void miss(struct merge *m, const char *worker)
{
	(void)json_array_append_new(m->missing, json_string(worker));
}

/* Appends the elements of LIST, all or none. */
static int add_list(struct merge *m, const json_t *list)
{
	const size_t before = m->text.len;
	size_t i;
	const json_t *one;
	int r = 0;

	json_array_foreach(list, i, one) {
		if (m->text.len > sizeof(MERGED_BEGIN) - 1)
			r = buf_add_char(&m->text, ',');
		r = r < 0 ? r : jsonio_add(&m->text, one, JSON_COMPACT);
		if (r < 0)
			break;
	}
	if (r < 0)
		m->text.len = before;
	return r;
}

static json_t *read_part(const struct fetch_answer *a)
{
	json_t *root = NULL;
	const size_t n = a->status > 0 && a->len <= PART_MAX
			     ? jsonio_count(a->body, a->len, PART_VALUES, PART_DEPTH)
			     : 0;

	if (n == 0 || n > PART_VALUES || jsonio_read(a->body, a->len, 0, &root, NULL) < 0)
		return NULL;
	return root;
}

/* What a worker says that has no list for us. What it holds against this router is not for the client. */
static void note_refusal(struct merge *m, const struct fetch_answer *a, json_t *root,
			 const char *worker)
{
	miss(m, worker);
	if (a->status < 400 || a->status >= 500 || !json_is_object(root))
		return;
	if (hop_says_ours(a->body, a->len)) {
		LOG_OFTEN(LOG_LEVEL_ERROR, "identity_refused", LOG_S("worker", worker));
	} else if (!m->refusal) {
		m->refusal = json_incref(root);
		m->status = a->status;
	}
}

static void on_part(const struct fetch_answer *a, void *user)
{
	struct part *p = user;
	struct merge *m = p->merge;
	json_t *root = read_part(a);
	const json_t *list = a->status == 200 ? json_object_get(root, "sandboxes") : NULL;

	if (!json_is_array(list) || add_list(m, list) < 0)
		note_refusal(m, a, root, p->worker);
	json_decref(root);
	list_remove(&p->node);
	free(p);
	if (--m->n_waiting == 0)
		respond(m);
}

static void on_gone(void *user)
{
	merge_free(user);
}

static void ask(struct merge *m, struct worker *w)
{
	struct part *p = calloc(1, sizeof(*p));

	if (!p) {
		miss(m, w->id);
		return;
	}
	p->merge = m;
	memcpy(p->worker, w->id, sizeof(p->worker));
	p->fetch = fetch_begin(w, buf_str(&m->head), PART_MAX, ANSWER_MS, on_part, p);
	if (!p->fetch) {
		free(p);
		miss(m, w->id);
		return;
	}
	list_append(&m->parts, &p->node);
	m->n_waiting++;
}

static struct merge *merge_new(struct fleet_router *f, struct http_request *req)
{
	struct merge *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	list_init(&m->parts);
	list_append(&f->lists, &m->node);
	buf_init(&m->head, RELAY_BUF_MAX);
	buf_init(&m->text, MERGED_MAX);
	m->req = req;
	m->missing = json_array();
	return m;
}

/* What is said to all workers, and the beginning of the answer. */
static int begin(struct merge *m, struct fleet_router *f, const struct caller *who, struct err *e)
{
	const struct worker *first = list_first(&f->workers, struct worker, node);
	uint64_t n = 0;

	list_for_each(node, &f->workers)
		n++;
	int r = budget_take(f->config.budgets, who->owner, BUDGET_PORT_REQUESTS, n, &m->share, e);
	if (r < 0)
		return r;
	r = hop_write_head(f, m->req, who, first, HTTP_GET, &m->head);
	r = r < 0 ? r : buf_add_str(&m->head, "\r\n");
	r = r < 0 ? r : buf_add_str(&m->text, MERGED_BEGIN);
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "no memory for the list") : 0;
}

/* Asks all that can answer. False: there is nobody. */
static bool ask_all(struct merge *m, struct fleet_router *f)
{
	bool any = false;

	list_for_each(node, &f->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (!w->known || w->refused) {
			/* Its part is missing all the same. An address is nothing for clients. */
			if (w->listed)
				miss(m, w->known ? w->id : "unknown");
			continue;
		}
		any = true;
		if (w->missed > 0)
			miss(m, w->id);
		else
			ask(m, w);
	}
	return any;
}

void merge_begin(struct fleet_router *f, struct http_request *req, const struct caller *who)
{
	struct merge *m = list_is_empty(&f->workers) ? NULL : merge_new(f, req);
	struct err e = ERR_INIT;

	if (!m && !list_is_empty(&f->workers)) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	if (m && begin(m, f, who, &e) < 0) {
		merge_free(m);
		http_respond_problem(req, e.code, e.text, NULL);
		return;
	}
	if (!m || !ask_all(m, f)) {
		if (m)
			merge_free(m);
		hop_respond(req, false, ERR_FLEET_EMPTY, "no worker of this fleet is ready");
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
