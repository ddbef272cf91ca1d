/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a sandbox, and the layer of its root user: requests to init, and distrust of its answers. */
#include "engine/engine_layer.h"
#include "engine/front/inside/inside.h"

#include "base/kill_points.h"

#define FLAGS_ALL                                                                                  \
	((uint32_t)(PROTO_CHECKPOINT_KEPT | PROTO_CHECKPOINT_LOST | PROTO_CHECKPOINT_PARTIAL))

static const struct {
	int errnum;
	enum err_code code;
	const char *text;
} failures[] = {
    {ENOENT, ERR_CHECKPOINT_NOT_FOUND, "there is no such checkpoint"},
    {ESTALE, ERR_CHECKPOINT_LOST,
     "the interpreter of that checkpoint has ended: a run killed it, or memory ran out"},
    {ENOSPC, ERR_NO_SPACE,
     "the files do not fit: all checkpoints together may hold as much as the workspace, of which "
     "they "
     "are a part if it is on disk"},
    {EDQUOT, ERR_NO_SPACE, "the files do not fit into the workspace"},
    {PROTO_E_HOST_FULL, ERR_HOST_DISK_FULL, "the disk of this machine is full"},
    {ENOMEM, ERR_OUT_OF_MEMORY, "the copy of the files does not fit into the sandbox's memory"},
    {ESRCH, ERR_SYSTEM, "the process that copied the files was killed"},
    {EINTR, ERR_SYSTEM, "the process that copied the files was ended by a signal"},
    {ETIMEDOUT, ERR_TIMEOUT, "copying the files took too long"},
    {ETIME, ERR_SESSION_BUSY,
     "no interpreter was ready that could read the variables of the sandbox, which rested; try "
     "again"},
    {ELOOP, ERR_INVALID_PATH, "folders of the workspace are nested too deep to be copied"},
    {ENAMETOOLONG, ERR_INVALID_PATH, "a path of the workspace is too long to be copied"},
    {EBUSY, ERR_SESSION_BUSY, "a run is in progress"},
    {ENOTSUP, ERR_ENGINE_NOT_BUILT_IN, "this kernel cannot make checkpoints"},
    {EPIPE, ERR_CANCELLED, "whoever wanted the layer has ended"},
};

static void set_error(const struct engine_sandbox *s, struct err *e, int errnum, uint32_t flags)
{
	enum err_code code = ERR_SYSTEM;
	const char *text = "copying the files has failed";

	if (errnum == ENOSPC && s->ration != ENGINE_RATION_ALL)
		errnum = PROTO_E_HOST_FULL;
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].errnum == errnum) {
			code = failures[i].code;
			text = failures[i].text;
		}
	const int shown = errnum == PROTO_E_HOST_FULL ? ENOSPC : errnum;
	if (flags & PROTO_CHECKPOINT_PARTIAL)
		(void)err_set(e, ERR_CHECKPOINT_PARTIAL, shown,
			      "the files of the workspace are incomplete: %s", text);
	else
		(void)err_set(e, code, shown, "%s", text);
}

static int ask(struct engine_sandbox *s, enum proto_checkpoint_op op, uint32_t place,
	       uint32_t flags, int pipe, const struct inside_checkpoint_op *waits, struct err *e)
{
	struct proto_init_checkpoint m = {
	    .head = PROTO_HEAD(INIT_CHECKPOINT, proto_init_checkpoint),
	    .op = op,
	    .place = place,
	    .flags = flags,
	};
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	if (place >= PROTO_CHECKPOINTS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL,
			       "there is no such place for a checkpoint");
	if (s->run || s->checkpoint.cb)
		return err_set(e, ERR_SESSION_BUSY, EBUSY,
			       "a run or another checkpoint is in progress in the sandbox");
	if (s->n_background > 0)
		return err_set(e, ERR_SESSION_BUSY, EBUSY,
			       "background processes of the sandbox are on; end them first");
	m.seq = ++s->next_seq;
	r = channel_send(s->init, &m.head, &pipe, pipe >= 0);
	if (r < 0)
		return inside_refuse(e, r, ERR_SYSTEM, "the sandbox cannot be asked");
	KILL_POINT(CHECKPOINT_SENT);
	s->checkpoint = *waits;
	s->checkpoint.seq = m.seq;
	s->checkpoint.oom_before = inside_oom_kills(s);
	inside_idle_note(s); /* not idle: init may need its interpreters until the answer */
	inside_wait(s);
	return 0;
}

int engine_save_checkpoint(struct engine_sandbox *s, uint32_t place, engine_checkpoint_fn cb,
			   void *user, struct err *e)
{
	const struct inside_checkpoint_op waits = {.cb = cb, .user = user};

	/* Without forked interpreters there are no variables, and none can read those of a sandbox that rested. */
	const uint32_t flags = s->warm ? 0 : PROTO_CHECKPOINT_FILES_ONLY;

	/* Init may need an interpreter to read them, and no run asks for one. */
	if (s->warm && s->state == INSIDE_READY && !s->run)
		(void)inside_clean_for_run(s);
	return ask(s, PROTO_CHECKPOINT_SAVE, place, flags, -1, &waits, e);
}

int engine_restore_checkpoint(struct engine_sandbox *s, uint32_t place, enum engine_restore how,
			      engine_checkpoint_fn cb, void *user, struct err *e)
{
	static const uint32_t flags[] = {
	    [ENGINE_RESTORE_ALL] = 0,
	    [ENGINE_RESTORE_FILES] = PROTO_CHECKPOINT_FILES_ONLY,
	    [ENGINE_RESTORE_PARK] = PROTO_CHECKPOINT_PARK,
	    [ENGINE_RESTORE_RETURN] = PROTO_CHECKPOINT_RETURN,
	};
	const struct inside_checkpoint_op waits = {.cb = cb, .user = user};

	return ask(s, PROTO_CHECKPOINT_RESTORE, place, flags[how], -1, &waits, e);
}

int engine_drop_checkpoint(struct engine_sandbox *s, uint32_t place, engine_checkpoint_fn cb,
			   void *user, struct err *e)
{
	const struct inside_checkpoint_op waits = {.cb = cb, .user = user};

	return ask(s, PROTO_CHECKPOINT_DROP, place, 0, -1, &waits, e);
}

int engine_write_layer(struct engine_sandbox *s, int pipe, engine_checkpoint_fn cb, void *user,
		       struct err *e)
{
	const struct inside_checkpoint_op waits = {.cb = cb, .user = user};

	if (!(s->policy.enforced & ENGINE_CAP_ROOT))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the sandbox has no root user, so nothing of its image has changed");
	return ask(s, PROTO_CHECKPOINT_LAYER, 0, 0, pipe, &waits, e);
}

int inside_checkpointed(struct engine_sandbox *s, const struct proto_init_checkpointed *m)
{
	const struct inside_checkpoint_op op = s->checkpoint;
	struct err e = ERR_INIT;

	if (!op.cb || m->seq != op.seq || m->errnum < 0 || m->errnum > 4095 ||
	    (m->flags & ~FLAGS_ALL) != 0)
		return -EPROTO; /* whoever waits is told by the end of the sandbox */
	if (m->errnum != 0 && s->state == INSIDE_ENDING) /* as in inside_filed() */
		return 0;
	const struct engine_checkpoint p = {
	    .state_kept = m->flags & PROTO_CHECKPOINT_KEPT,
	    .state_lost = m->flags & PROTO_CHECKPOINT_LOST,
	    .files = m->files,
	    .bytes = m->bytes,
	    .skipped = m->skipped,
	    .kinds = m->kinds & PROTO_KIND_ALL,
	};
	KILL_POINT(CHECKPOINT_ANSWERED);
	s->checkpoint = (struct inside_checkpoint_op){0};
	inside_wait(s);
	inside_idle_note(s);
	bool oom = m->errnum == ESRCH && inside_oom_kills(s) > op.oom_before;
	if (m->errnum != 0)
		set_error(s, &e, oom ? ENOMEM : m->errnum, m->flags);
	op.cb(m->errnum != 0 ? NULL : &p, m->errnum != 0 ? &e : NULL, op.user);
	return 0;
}

void inside_checkpoints_abort(struct engine_sandbox *s, const struct err *e)
{
	const struct inside_checkpoint_op op = s->checkpoint;

	s->checkpoint = (struct inside_checkpoint_op){0};
	if (op.cb)
		op.cb(NULL, e, op.user);
}
