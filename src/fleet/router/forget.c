/* SPDX-License-Identifier: Apache-2.0 */
/* Users that were removed: each worker is told until it has answered. */
#include "fleet/router/moves.h"

#include "base/log.h"
#include "base/text.h"

#include <string.h>

#define FORGETS_MAX 4096u
#define ANSWER_MS   10000u
#define ANSWER_MAX  (16u << 10)

struct forget {
	struct list node; /* of router.forgets */
	struct fleet_router *router;
	struct fetch *fetch;
	char worker[FLEET_WORKER_SIZE];
	char owner[STORE_OWNER_SIZE];
};

static void forget_free(struct forget *x)
{
	x->fetch = fetch_drop(x->fetch);
	list_remove(&x->node);
	x->router->n_forgets--;
	free(x);
}

static void on_told(const struct fetch_answer *a, void *user)
{
	struct forget *x = user;

	x->fetch = NULL;
	if (a->status / 100 == 2 || a->status == 404) /* it has nothing of that user (any more) */
		forget_free(x);
	else
		LOG_OFTEN(LOG_LEVEL_WARNING, "worker_not_told", LOG_S("worker", x->worker),
			  LOG_I("status", a->status));
}

static void tell(struct forget *x)
{
	static const struct caller router = {.how = CALLER_LOCAL, .name = "router", .admin = true};
	_cleanup_(buf_done) struct buf head = BUF_INIT(RELAY_BUF_MAX);
	struct worker *w = worker_find(x->router, x->worker);

	if (!w || w->missed > 0)
		return;
	if (buf_printf(&head,
		       "DELETE /api/v1/users/%s HTTP/1.1\r\nHost: %s\r\n"
		       "Accept: application/json\r\n",
		       x->owner, w->at.text) < 0 ||
	    hop_add_caller(x->router, &router, NULL, &head) < 0 || buf_add_str(&head, "\r\n") < 0)
		return;
	x->fetch = fetch_begin(w, buf_str(&head), ANSWER_MAX, ANSWER_MS, on_told, x);
}

void forgets_go(struct fleet_router *f)
{
	list_for_each(node, &f->forgets) {
		struct forget *x = list_entry(node, struct forget, node);

		if (!x->fetch)
			tell(x);
	}
}

void fleet_router_forget_user(struct fleet_router *f, const char *owner)
{
	moves_forget_owner(f, owner);
	list_for_each(node, &f->workers) {
		const struct worker *w = list_entry(node, struct worker, node);
		struct forget *x = NULL;

		if (!w->known || w->refused)
			continue;
		if (f->n_forgets < FORGETS_MAX)
			x = calloc(1, sizeof(*x));
		if (!x || text_copy(x->owner, sizeof(x->owner), owner) < 0) {
			free(x);
			LOG_ERROR("worker_not_told", LOG_S("worker", w->id), LOG_S("user", owner));
			continue;
		}
		x->router = f;
		memcpy(x->worker, w->id, sizeof(x->worker));
		list_append(&f->forgets, &x->node);
		f->n_forgets++;
	}
	forgets_go(f);
}

void forgets_done(struct fleet_router *f)
{
	list_for_each(node, &f->forgets)
		forget_free(list_entry(node, struct forget, node));
}
