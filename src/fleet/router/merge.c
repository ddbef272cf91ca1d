/* SPDX-License-Identifier: Apache-2.0 */
/* A list that all workers have a part of. Workers that do not tell theirs are named in the answer, so that nobody takes what is
 * missing for deleted. */
#include "fleet/router/parts.h"

#include "base/text.h"

#include <errno.h>
#include <string.h>

#define PART_MAX   (1u << 20) /* bytes of what one worker tells */
#define ANSWER_MS  10000u
#define MERGED_MAX (16u << 20)

struct merge {
	struct list node; /* of router.lists */
	struct http_request *req;
	json_t *sandboxes, *missing;
	unsigned n_waiting;
	size_t bytes;
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
	json_decref(m->sandboxes);
	json_decref(m->missing);
	json_decref(m->refusal);
	free(m);
}

static void respond(struct merge *m)
{
	struct http_request *req = m->req;
	json_t *body = json_pack("{s:O}", "sandboxes", m->sandboxes);

	if (body && json_array_size(m->missing) > 0)
		(void)json_object_set(body, "workers_missing", m->missing);
	const bool refused = m->refusal && json_array_size(m->sandboxes) == 0;
	char *text = body ? json_dumps(refused ? m->refusal : body, JSON_COMPACT) : NULL;
	const int status = refused ? m->status : 200;
	json_decref(body);
	merge_free(m);
	http_respond_take(req, status, refused ? HTTP_PROBLEM_TYPE : "application/json", text,
			  text ? strlen(text) : 0);
}

static void miss(struct merge *m, const char *worker)
{
	(void)json_array_append_new(m->missing, json_string(worker));
}

static void on_part(const struct fetch_answer *a, void *user)
{
	struct part *p = user;
	struct merge *m = p->merge;
	json_t *root = a->status > 0 ? json_loadb(a->body, a->len, 0, NULL) : NULL;
	json_t *list = a->status == 200 ? json_object_get(root, "sandboxes") : NULL;

	if (json_is_array(list) && m->bytes + a->len <= MERGED_MAX) {
		m->bytes += a->len;
		(void)json_array_extend(m->sandboxes, list);
	} else if (a->status >= 400 && a->status < 500 && json_is_object(root)) {
		if (!m->refusal)
			m->refusal = json_incref(root);
		m->status = a->status;
	} else {
		miss(m, p->worker);
	}
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

static void ask(struct merge *m, struct fleet_router *f, struct worker *w, const struct caller *who)
{
	_cleanup_(buf_done) struct buf head = BUF_INIT(RELAY_BUF_MAX);
	struct part *p = calloc(1, sizeof(*p));

	if (!p || hop_write_head(f, m->req, who, w, HTTP_GET, &head) < 0 ||
	    buf_add_str(&head, "\r\n") < 0) {
		free(p);
		miss(m, w->id);
		return;
	}
	p->merge = m;
	memcpy(p->worker, w->id, sizeof(p->worker));
	p->fetch = fetch_begin(w, buf_str(&head), PART_MAX, ANSWER_MS, on_part, p);
	if (!p->fetch) {
		free(p);
		miss(m, w->id);
		return;
	}
	list_append(&m->parts, &p->node);
	m->n_waiting++;
}

void merge_begin(struct fleet_router *f, struct http_request *req, const struct caller *who)
{
	struct merge *m = calloc(1, sizeof(*m));
	unsigned n = 0;

	if (!m) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	list_init(&m->parts);
	list_append(&f->lists, &m->node);
	m->req = req;
	m->sandboxes = json_array();
	m->missing = json_array();
	http_request_on_gone(req, on_gone, m);
	list_for_each(node, &f->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (!w->known || w->refused)
			continue;
		n++;
		if (w->missed > 0)
			miss(m, w->id);
		else
			ask(m, f, w, who);
	}
	if (m->n_waiting > 0)
		return;
	if (n > 0) {
		respond(m);
		return;
	}
	merge_free(m);
	hop_respond(req, false, ERR_FLEET_EMPTY, "no worker of this fleet is ready");
}

void merges_done(struct fleet_router *f)
{
	list_for_each(node, &f->lists)
		merge_free(list_entry(node, struct merge, node));
}
