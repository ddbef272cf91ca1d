/* SPDX-License-Identifier: Apache-2.0 */
/* Other limits for a sandbox that lives: one request to the engine, one answer. When the engine has done it,
 * init hears of it, because it watches some uses of memory itself. */
#include "engine/front/inside/inside.h"

static int refuse(const struct engine_limits *l, int errnum, uint32_t what, uint64_t used,
		  struct err *e)
{
	const char *which = what == PROTO_LIMIT_MEMORY ? "the memory"
			    : what == PROTO_LIMIT_CPU  ? "the CPU time"
			    : what == PROTO_LIMIT_PIDS ? "the number of processes"
						       : "limits";

	if (errnum == ENOTSUP)
		return err_set(e, ERR_LIMIT_NOT_CHANGEABLE, 0,
			       "this server cannot change %s of a sandbox that lives", which);
	if (errnum == EBUSY && used > 0)
		return err_set(e, ERR_LIMIT_BELOW_USE, 0,
			       "the sandbox uses %llu MiB of memory, too much for a limit of %llu "
			       "MiB; nothing was changed",
			       (unsigned long long)(used >> 20),
			       (unsigned long long)(l->memory_bytes >> 20));
	if (errnum == EBUSY)
		return err_set(
		    e, ERR_SESSION_BUSY, 0,
		    "memory is lowered between runs only; try again when the run has ended");
	if (errnum == ESRCH || errnum == EPIPE || errnum == ECONNRESET)
		return err_set(e, ERR_SANDBOX_LOST, errnum, "the sandbox has ended");
	return err_set(e, ERR_ENGINE_UNAVAILABLE, errnum, "the limits were not changed");
}

int engine_change(struct engine_sandbox *s, const struct engine_limits *l, engine_done_fn cb,
		  void *user, struct err *e)
{
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	if (s->change.cb)
		return err_set(e, ERR_SESSION_BUSY, EBUSY,
			       "its limits are being changed by another request; try again");
	r = engine_ask_change(s, l);
	if (r < 0)
		return refuse(l, -r, 0, 0, e);
	s->change = (struct inside_change_op){.limits = *l, .cb = cb, .user = user};
	return 0;
}

void inside_changed(struct engine_sandbox *s, int errnum, uint32_t what, uint64_t used)
{
	const struct inside_change_op op = s->change;
	struct proto_init_limit m = {
	    .head = PROTO_HEAD(INIT_LIMIT, proto_init_limit),
	    .memory_bytes = op.limits.memory_bytes,
	    .pids = op.limits.pids,
	};
	struct err e = ERR_INIT;

	if (!op.cb) /* the sandbox ended meanwhile */
		return;
	s->change = (struct inside_change_op){0};
	if (errnum != 0) {
		(void)refuse(&op.limits, errnum, what, used, &e);
		op.cb(&e, op.user);
		return;
	}
	s->policy.limits.memory_bytes = op.limits.memory_bytes;
	s->policy.limits.cpu_milli = op.limits.cpu_milli;
	s->policy.limits.pids = op.limits.pids;
	if (s->init)
		(void)!channel_send(s->init, &m.head, NULL,
				    0); /* an ended channel says so itself */
	op.cb(NULL, op.user);
}

void inside_change_abort(struct engine_sandbox *s, const struct err *e)
{
	const struct inside_change_op op = s->change;

	s->change = (struct inside_change_op){0};
	if (op.cb)
		op.cb(e, op.user);
}
