/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker keeps a template or a snapshot under a name. All workers are asked each time. The router remembers no answers: a worker
 * answers from memory, and what is remembered would be wrong after a delete or a build through another router. */
#include "fleet/router/parts.h"

#include "base/text.h"
#include "fleet/identity.h"
#include "fleet/kept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SEEK_MS     2000u
#define ANSWER_MAX  4096u /* bytes */
#define ANSWER_ROWS 32u   /* JSON values */
#define COUNT_MAX   1000000

struct seek {
	struct fleet_router *router;
	seek_fn fn;
	void *user;
	struct list parts; /* struct seek_part, owned */
	unsigned n_waiting;
	struct budget_share share;
	struct seek_answer answer;
	enum seek_use use;
	unsigned rank; /* of what answer.worker has; 0: nothing yet */
	json_int_t at;
};

struct seek_part {
	struct list node;
	struct seek *seek;
	struct fetch *asked; /* NULL: it has answered */
	char worker[FLEET_WORKER_SIZE];
};

struct seek *seek_drop(struct seek *s)
{
	if (!s)
		return NULL;
	list_for_each(node, &s->parts) {
		struct seek_part *p = list_entry(node, struct seek_part, node);

		(void)fetch_drop(p->asked);
		list_remove(&p->node);
		free(p);
	}
	budget_give(&s->share);
	free(s);
	return NULL;
}

static void finish(struct seek *s)
{
	const struct seek_answer answer = s->answer;
	const seek_fn fn = s->fn;
	void *user = s->user;

	(void)seek_drop(s);
	fn(&answer, user);
}

static void note_silent(struct seek *s, const char *worker)
{
	if (!s->answer.silent[0])
		(void)!text_copy(s->answer.silent, sizeof(s->answer.silent), worker);
}

static json_int_t number(const json_t *o, const char *member, json_int_t most)
{
	const json_int_t n = json_integer_value(json_object_get(o, member));

	return n < 0 ? 0 : MIN(n, most);
}

/* What is wanted more has the larger number; 0: it is not wanted. As on one server: faces/e2b/control.c, snapshots.c. */
static const unsigned ranks[SEEK_MAX_][FLEET_KEPT_MAX_] = {
    [SEEK_SOURCE] = {[FLEET_KEPT_TEMPLATE] = 1, [FLEET_KEPT_SNAPSHOT] = 2},
    [SEEK_DELETE] = {[FLEET_KEPT_TEMPLATE] = 2, [FLEET_KEPT_SNAPSHOT] = 1},
    [SEEK_TEMPLATE] = {[FLEET_KEPT_TEMPLATE] = 1},
};

/* A worker speaks for ids of its own alone. */
static bool is_kept(const struct seek *s, const struct seek_part *p, const json_t *kept)
{
	const char *id = json_string_value(json_object_get(kept, "id"));
	char worker[FLEET_WORKER_SIZE];

	return id && fleet_id_worker(s->router->config.key, id, worker) && streq(worker, p->worker);
}

/* Of two of one kind the newest counts. */
static void choose(struct seek *s, const struct seek_part *p, enum fleet_kept kind,
		   const json_t *kept)
{
	const unsigned rank = ranks[s->use][kind];
	const json_int_t at = number(kept, "at", INT64_MAX);

	if (rank == 0 || rank < s->rank || (rank == s->rank && at <= s->at))
		return;
	memcpy(s->answer.worker, p->worker, sizeof(s->answer.worker));
	s->rank = rank;
	s->at = at;
}

/* Takes what a worker says. False: it is no such answer. */
static bool take(struct seek *s, const struct seek_part *p, const json_t *o)
{
	static const char *const members[] = FLEET_KEPT_MEMBERS;
	struct seek_answer *a = &s->answer;

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const json_t *kept = json_object_get(o, members[i]);

		if (!kept || (!json_is_null(kept) && !is_kept(s, p, kept)))
			return false;
	}
	for (enum fleet_kept i = 0; i < FLEET_KEPT_MAX_; i++)
		if (json_is_object(json_object_get(o, members[i])))
			choose(s, p, i, json_object_get(o, members[i]));
	a->have += (uint64_t)number(o, "have", COUNT_MAX);
	a->open += (uint64_t)number(o, "open", COUNT_MAX);
	a->most = MAX(a->most, (uint64_t)number(o, "most", COUNT_MAX));
	a->open_most = MAX(a->open_most, (uint64_t)number(o, "open_most", COUNT_MAX));
	return true;
}

static void on_answer(const struct fetch_answer *a, void *user)
{
	struct seek_part *p = user;
	struct seek *s = p->seek;
	json_t *o = NULL;

	p->asked = NULL;
	/* Workers of older versions refuse, and have none. */
	const bool refuses = a->status >= 400 && a->status < 500 && !a->ours;
	const bool told = a->status == 200 && fetch_json(a, ANSWER_ROWS, 4, &o) == 0;
	if (!refuses && (!told || !take(s, p, o)))
		note_silent(s, p->worker);
	json_decref(o);
	if (--s->n_waiting == 0)
		finish(s);
}

static int write_question(const struct seek *s, const struct worker *w, const struct caller *who,
			  const char *name, struct buf *ret)
{
	int r = buf_printf(ret, "GET %s%s HTTP/1.1\r\nHost: %s\r\n" FLEET_LIST_HEADER ": 1\r\n",
			   s->router->face->kept_path, name, w->at.text);

	r = r < 0 ? r : hop_add_caller(s->router, who, NULL, ret);
	return r < 0 ? r : buf_add_str(ret, "\r\n");
}

static void ask(struct seek *s, struct worker *w, const struct caller *who, const char *name)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(RELAY_BUF_MAX);
	struct seek_part *p = calloc(1, sizeof(*p));

	if (p && write_question(s, w, who, name, &text) == 0)
		p->asked = fetch_begin(w, buf_str(&text), ANSWER_MAX, SEEK_MS, on_answer, p);
	if (!p || !p->asked) {
		free(p);
		note_silent(s, w->id);
		return;
	}
	p->seek = s;
	memcpy(p->worker, w->id, sizeof(p->worker));
	list_append(&s->parts, &p->node);
	s->n_waiting++;
}

static void ask_all(struct seek *s, const struct bound *b, const struct caller *who,
		    const char *name)
{
	list_for_each(node, &s->router->workers) {
		struct worker *w = list_entry(node, struct worker, node);

		if (w->refused || (w->known && !worker_offers(w, b)))
			continue;
		if (w->known && w->missed == 0)
			ask(s, w, who, name);
		else if (w->listed && !hop_is_lost(s->router, w))
			note_silent(s, w->known ? w->id : "unknown");
	}
}

int seek_begin(const struct bound *b, const struct caller *who, const char *name, enum seek_use use,
	       seek_fn fn, void *user, struct seek **ret, struct err *e)
{
	struct seek *s = calloc(1, sizeof(*s));
	uint64_t n = 0;

	*ret = NULL;
	if (!s)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a request");
	s->router = b->router;
	s->use = use;
	s->fn = fn;
	s->user = user;
	list_init(&s->parts);
	list_for_each(node, &s->router->workers)
		n++;
	const int r = budget_take(s->router->config.budgets, who->owner, BUDGET_PORT_REQUESTS, n,
				  &s->share, e);
	if (r < 0) {
		(void)seek_drop(s);
		return r;
	}
	ask_all(s, b, who, name);
	if (s->n_waiting > 0)
		*ret = s;
	else
		finish(s);
	return 0;
}
