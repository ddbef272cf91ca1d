/* SPDX-License-Identifier: Apache-2.0 */
/* Stored workspaces: which creations may have one, and how one is removed. */
#include "engine/front/front.h"

#include "base/kill_points.h"
#include "base/text.h"

#include <string.h>

static int check_key(const char *key, struct err *e)
{
	return proto_key_ok(key) ? 0
				 : err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "key of a workspace");
}

int front_check_stored(const struct front_engine *g, const struct engine_create *c, struct err *e)
{
	if (check_key(c->persist_id, e) < 0)
		return -EINVAL;
	if (c->helper_of)
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "a helper stores nothing");
	if (!((g->base.enforced | g->base.best_effort) & ENGINE_CAP_PERSISTENT))
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			       "stored workspaces need loop devices on this machine");
	if (!(g->base.enforced & ENGINE_CAP_PERSISTENT) &&
	    (c->limits.explicit_mask & ENGINE_CAP_DISK))
		return err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, 0,
			       "without root a stored workspace cannot be limited hard "
			       "(SANDBOX_ALLOW_WEAKER=disk permits less)");
	return 0;
}

int front_forget(struct engine *base, const char *persist_id, engine_done_fn cb, void *user,
		 struct err *e)
{
	struct front_engine *g = front_engine_of(base);
	struct proto_mon_forget m = {.head = PROTO_HEAD(MON_FORGET, proto_mon_forget)};

	if (check_key(persist_id, e) < 0)
		return -EINVAL;
	if (g->dead)
		return front_refuse_dead(g, e);
	struct front_forget *f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "forget");
	*f = (struct front_forget){.seq = ++g->next_forget, .cb = cb, .user = user};
	m.seq = f->seq;
	(void)!text_copy(m.persist, sizeof(m.persist), persist_id);
	int r = channel_send(g->monitor, &m.head, NULL, 0);
	if (r < 0) {
		free(f);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "the monitor does not answer");
	}
	list_prepend(&g->forgets, &f->node);
	KILL_POINT(FORGET_SENT);
	return 0;
}

int front_forgotten(struct front_engine *g, const struct proto_mon_forgotten *m)
{
	struct front_forget *f = NULL;
	struct err e = ERR_INIT;

	list_for_each(l, &g->forgets)
		if (list_entry(l, struct front_forget, node)->seq == m->seq)
			f = list_entry(l, struct front_forget, node);
	if (!f)
		return -EPROTO;
	list_remove(&f->node);
	if (m->errnum == EBUSY)
		(void)err_set(&e, ERR_SANDBOX_IN_USE, 0, "the sandbox is open");
	else if (m->errnum != 0)
		(void)err_set(&e, ERR_SYSTEM, m->errnum, "a stored workspace");
	if (f->cb)
		f->cb(m->errnum != 0 ? &e : NULL, f->user);
	free(f);
	return 0;
}

void front_forget_abort(struct front_engine *g, const struct err *e)
{
	struct front_forget *f;

	while ((f = list_pop_first(&g->forgets, struct front_forget, node))) {
		if (f->cb)
			f->cb(e, f->user);
		free(f);
	}
}
