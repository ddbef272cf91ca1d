/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox comes to rest: init has its session write the variables to the stored workspace, one request and one answer
 * (runtime/init/stored_variables.c). */
#include "engine/front/inside/inside.h"

static int refuse(struct err *e, int errnum)
{
	if (errnum == ENODATA)
		return err_set(e, ERR_NOT_FOUND, 0, "there are no variables");
	if (errnum == ENOTSUP)
		return err_set(e, ERR_ENGINE_NOT_BUILT_IN, 0,
			       "the sandbox has no place to keep variables while it rests");
	if (errnum == EBUSY)
		return err_set(e, ERR_SESSION_BUSY, 0, "a run is on");
	if (errnum == EALREADY)
		return err_set(e, ERR_SESSION_BUSY, 0, "variables are being written already");
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_set(e, ERR_NO_SPACE, 0, "the disk of the sandbox is full");
	return err_set(e, ERR_ENGINE_UNAVAILABLE, errnum, "the variables were not written");
}

int engine_store(struct engine_sandbox *s, engine_done_fn cb, void *user, struct err *e)
{
	const struct proto_init_note note = {.head = PROTO_HEAD(INIT_STORE, proto_init_note)};
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	if (s->inward) /* a container has no folder that its runs cannot see */
		return refuse(e, ENOTSUP);
	if (s->store.cb)
		return refuse(e, EALREADY);
	r = channel_send(s->init, &note.head, NULL, 0);
	if (r < 0)
		return refuse(e, -r);
	s->store = (struct inside_store_op){.cb = cb, .user = user};
	return 0;
}

int inside_stored(struct engine_sandbox *s, const struct proto_init_stored *m)
{
	struct err e = ERR_INIT;

	if (!s->store.cb || m->errnum < 0 || m->errnum > 4095)
		return s->state == INSIDE_ENDING ? 0 : -EPROTO; /* nobody waits for it any more */
	if (m->errnum != 0)
		(void)refuse(&e, m->errnum);
	inside_store_abort(s, m->errnum != 0 ? &e : NULL);
	return 0;
}

void inside_store_abort(struct engine_sandbox *s, const struct err *e)
{
	const struct inside_store_op op = s->store;

	s->store = (struct inside_store_op){0};
	if (op.cb)
		op.cb(e, op.user);
}
