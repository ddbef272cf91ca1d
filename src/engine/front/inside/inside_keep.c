/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace of a session becomes a stored one: one request to the engine, one answer. Init hears of it first, so
 * that no upload is told to be there without being flushed once the workspace is stored.
 *
 * A sandbox that is lost meanwhile may have a stored workspace all the same. So the answer is awaited until nothing of
 * the sandbox is left. */
#include "engine/front/inside/inside.h"

static int refuse(struct err *e, int errnum)
{
	if (errnum == ENOTSUP)
		return err_set(
		    e, ERR_NOT_KEEPABLE, 0,
		    "The files of this sandbox are in memory or in a container, and cannot become "
		    "those of a stored sandbox where they are. Make a stored sandbox and copy "
		    "them: download the archive of its folder, and upload it there.");
	if (errnum == EEXIST)
		return err_set(e, ERR_ALREADY_EXISTS, errnum, "a stored workspace of that key");
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_set(e, ERR_HOST_DISK_FULL, 0,
			       "the disk of the host has no room to keep the files; the sandbox "
			       "stays what it was");
	if (errnum == EROFS || errnum == EIO)
		return err_set(
		    e, ERR_HOST_DISK_FULL, errnum,
		    "the disk of the host was full or has failed, so what the sandbox has "
		    "is not all on its disk; download its files");
	if (errnum == EALREADY)
		return err_set(e, ERR_SESSION_BUSY, 0, "the sandbox is being kept already");
	if (errnum == ESRCH || errnum == EPIPE || errnum == ECONNRESET)
		return err_set(e, ERR_SANDBOX_LOST, errnum, "the sandbox has ended");
	return err_set(e, ERR_ENGINE_UNAVAILABLE, errnum, "the files were not kept");
}

int engine_check_keep(const struct engine_sandbox *s, struct err *e)
{
	return engine_keeps(s->engine) && (s->engine->enforced & ENGINE_CAP_PERSISTENT) &&
		       (s->policy.enforced & ENGINE_CAP_ON_DISK)
		   ? 0
		   : refuse(e, ENOTSUP);
}

int engine_keep(struct engine_sandbox *s, const char *persist_id, engine_done_fn cb, void *user,
		struct err *e)
{
	struct proto_init_note note = {.head = PROTO_HEAD(INIT_KEEP, proto_init_note)};
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	if (s->keep.cb)
		return refuse(e, EALREADY);
	r = engine_check_keep(s, e);
	if (r < 0)
		return r;
	r = channel_send(s->init, &note.head, NULL, 0);
	r = r < 0 ? r : engine_ask_keep(s, persist_id);
	if (r < 0)
		return refuse(e, -r);
	s->keep = (struct inside_keep_op){.cb = cb, .user = user};
	return 0;
}

void inside_kept(struct engine_sandbox *s, int errnum)
{
	struct err e = ERR_INIT;

	if (errnum != 0)
		(void)refuse(&e, errnum);
	inside_keep_abort(s, errnum != 0 ? &e : NULL);
}

void inside_keep_abort(struct engine_sandbox *s, const struct err *e)
{
	const struct inside_keep_op op = s->keep;

	s->keep = (struct inside_keep_op){0};
	if (op.cb)
		op.cb(e, op.user);
}
