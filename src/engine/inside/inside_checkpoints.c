/* SPDX-License-Identifier: Apache-2.0 */
/* Kept states of a sandbox, seen from the front: questions to init, and distrust of the answers. */
#include "engine/native/front/front.h"

#include "base/kill_points.h"

#define FLAGS_ALL ((uint32_t)(PROTO_POINT_KEPT | PROTO_POINT_LOST | PROTO_POINT_PARTIAL))

static const struct {
	int errnum;
	enum err_code code;
	const char *text;
} failures[] = {
    {ENOENT, ERR_CHECKPOINT_NOT_FOUND, "there is no such kept state"},
    {ESTALE, ERR_CHECKPOINT_LOST,
     "the interpreter of that kept state has ended: a run killed it, or memory ran out"},
    {ENOSPC, ERR_NO_SPACE,
     "the files do not fit: all kept states together may hold as much as the workspace"},
    {EDQUOT, ERR_NO_SPACE, "the files do not fit into the workspace"},
    {ENOMEM, ERR_OUT_OF_MEMORY, "the copy of the files does not fit into the sandbox's memory"},
    {ESRCH, ERR_SYSTEM, "the process that copied the files was killed"},
    {EINTR, ERR_SYSTEM, "the process that copied the files was ended by a signal"},
    {ETIMEDOUT, ERR_TIMEOUT, "copying the files took too long"},
    {ELOOP, ERR_INVALID_PATH, "folders of the workspace are nested too deep to be copied"},
    {ENAMETOOLONG, ERR_INVALID_PATH, "a path of the workspace is too long to be copied"},
    {EBUSY, ERR_SESSION_BUSY, "a run is going on"},
    {ENOTSUP, ERR_ENGINE_NOT_BUILT_IN, "this kernel cannot keep states"},
};

static void set_error(struct err *e, int errnum, uint32_t flags)
{
	enum err_code code = ERR_SYSTEM;
	const char *text = "copying the files has failed";

	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].errnum == errnum) {
			code = failures[i].code;
			text = failures[i].text;
		}
	if (flags & PROTO_POINT_PARTIAL)
		(void)err_set(e, ERR_CHECKPOINT_PARTIAL, errnum,
			      "the files of the workspace are incomplete: %s", text);
	else
		(void)err_set(e, code, errnum, "%s", text);
}

static int ask(struct engine_sandbox *base, enum proto_point_op op, uint32_t place, uint32_t flags,
	       const struct native_point_op *waits, struct err *e)
{
	struct native_sandbox *s = native_sandbox_of(base);
	struct proto_init_point m = {
	    .head = PROTO_HEAD(INIT_POINT, proto_init_point),
	    .op = op,
	    .place = place,
	    .flags = flags,
	};
	int r = native_check_ready(s, e);

	if (r < 0)
		return r;
	if (place >= PROTO_POINTS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "a place for a kept state");
	if (s->run || s->point.cb)
		return err_set(e, ERR_SESSION_BUSY, EBUSY, "something is going on in the sandbox");
	m.seq = ++s->next_seq;
	r = chan_send(s->init, &m.head, NULL, 0);
	if (r < 0)
		return err_set(e, ERR_SANDBOX_LOST, -r, "the sandbox does not answer");
	KILL_POINT(POINT_SENT);
	s->point = *waits;
	s->point.seq = m.seq;
	s->point.op = op;
	s->point.oom_before = native_oom_kills(s);
	native_wait_for_init(s);
	return 0;
}

int native_save_point(struct engine_sandbox *base, uint32_t place, engine_point_fn cb, void *user,
		      struct err *e)
{
	const struct native_point_op waits = {.cb = cb, .user = user};

	return ask(base, PROTO_POINT_SAVE, place, 0, &waits, e);
}

int native_restore_point(struct engine_sandbox *base, uint32_t place, bool files_only,
			 engine_point_fn cb, void *user, struct err *e)
{
	const struct native_point_op waits = {.cb = cb, .user = user};

	return ask(base, PROTO_POINT_RESTORE, place, files_only ? PROTO_POINT_FILES_ONLY : 0,
		   &waits, e);
}

int native_drop_point(struct engine_sandbox *base, uint32_t place, engine_point_fn cb, void *user,
		      struct err *e)
{
	const struct native_point_op waits = {.cb = cb, .user = user};

	return ask(base, PROTO_POINT_DROP, place, 0, &waits, e);
}

/* An answer of init. -EPROTO = a lie. */
int native_pointed(struct native_sandbox *s, const struct proto_init_pointed *m)
{
	const struct native_point_op op = s->point;
	struct err e = ERR_INIT;

	if (!op.cb || m->seq != op.seq || m->errnum < 0 || m->errnum > 4095 ||
	    (m->flags & ~FLAGS_ALL) != 0)
		return -EPROTO; /* whoever waits is told by the end of the sandbox */
	const struct engine_point p = {
	    .state_kept = m->flags & PROTO_POINT_KEPT,
	    .state_lost = m->flags & PROTO_POINT_LOST,
	    .files = m->files,
	    .bytes = m->bytes,
	    .skipped = m->skipped,
	};
	KILL_POINT(POINT_ANSWERED);
	s->point = (struct native_point_op){0};
	native_wait_for_init(s);
	native_idle_note(s);
	bool oom = m->errnum == ESRCH && native_oom_kills(s) > op.oom_before;
	if (m->errnum != 0)
		set_error(&e, oom ? ENOMEM : m->errnum, m->flags);
	op.cb(m->errnum != 0 ? NULL : &p, m->errnum != 0 ? &e : NULL, op.user);
	return 0;
}

void native_points_abort(struct native_sandbox *s, const struct err *e)
{
	const struct native_point_op op = s->point;

	s->point = (struct native_point_op){0};
	if (op.cb)
		op.cb(NULL, e, op.user);
}
