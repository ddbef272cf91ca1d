/* SPDX-License-Identifier: Apache-2.0 */
/* The copier: a child of init, in the runs' cgroup, that saves, restores or removes the files of a
 * checkpoint, or writes what a root user has changed. It writes a report into a pipe to init and exits. */
#include "root_user.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW_NAME "new" /* folder in the store: a copy that is not complete yet */

static void name_of(uint32_t place, char ret[16])
{
	(void)snprintf(ret, 16, "%u", place);
}

static void tell(int out, const struct copier_report *r)
{
	(void)!write(out, r, sizeof(*r));
}

static int copy_into(const struct init *in, int from_parent, const char *from_name, int to,
		     struct tree_count *count)
{
	_cleanup_fd_ int from = fd_open_beneath(from_parent, from_name, O_RDONLY | O_DIRECTORY, 0);

	const bool owners = root_user_is_there(in) && wall_stands(WALL_ROOT_OWN);

	return from < 0 ? from : tree_copy(from, to, owners, count);
}

static int save_files(const struct init *in, const char *name, struct copier_report *r)
{
	int store = in->checkpoints.store;

	if (mkdirat(store, NEW_NAME, 0700) < 0)
		return -errno;
	_cleanup_fd_ int to = fd_open_beneath(store, NEW_NAME, O_RDONLY | O_DIRECTORY, 0);
	if (to < 0)
		return to;
	int error = copy_into(in, in->workspace, ".", to, &r->count);
	KILL_POINT(FILES_COPIED);
	if (error == 0 && renameat(store, NEW_NAME, store, name) < 0)
		error = -errno;
	return error;
}

/* Replaces the files of the workspace. The old files are moved into the folder `aside` until the copy
 * is complete. With `direct` they are removed first, because there is not room for both. */
static int restore_files(const struct init *in, const char *name, struct copier_report *r, int out)
{
	const struct init_checkpoints *p = &in->checkpoints;
	_cleanup_fd_ int ws = fd_open_beneath(in->workspace, ".", O_RDONLY | O_DIRECTORY, 0);

	if (ws < 0)
		return ws;
	r->touched = p->direct || mkdirat(ws, p->aside, 0700) == 0;
	if (!r->touched)
		return -errno;
	int error = p->direct ? tree_clear(ws, NULL) : tree_set_aside(ws, p->aside);
	KILL_POINT(FILES_ASIDE);
	if (error == 0)
		error = copy_into(in, p->store, name, ws, &r->count);
	KILL_POINT(FILES_BACK);
	if (error < 0 || p->direct)
		return error;
	tell(out, r); /* the files are restored, even if removing the old ones fails */
	return tree_remove(ws, p->aside);
}

static int undo_files(const struct init *in)
{
	const struct init_checkpoints *p = &in->checkpoints;

	if (p->f.op == PROTO_CHECKPOINT_SAVE)
		return tree_remove(p->store, NEW_NAME);
	_cleanup_fd_ int ws = fd_open_beneath(in->workspace, ".", O_RDONLY | O_DIRECTORY, 0);
	return ws < 0 ? ws : tree_put_back(ws, p->aside);
}

static int work_of(const struct init *in, bool undo, struct copier_report *r, int out)
{
	char name[16];

	name_of(in->checkpoints.f.place, name);
	if (undo)
		return undo_files(in);
	switch (in->checkpoints.f.op) {
	case PROTO_CHECKPOINT_SAVE:
		return save_files(in, name, r);
	case PROTO_CHECKPOINT_RESTORE:
		return restore_files(in, name, r, out);
	case PROTO_CHECKPOINT_LAYER:
		return root_user_write_layer(in->checkpoints.layer, &r->count);
	default:
		return tree_remove(in->checkpoints.store, name);
	}
}

_Noreturn void copier_main(const struct init *in, bool undo, int out)
{
	struct copier_report r = {0};
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (uint32_t i = 0; i < in->n_procs; i++)
		if (write(in->procs[i], "0", 1) != 1)
			_exit(1);
	r.error = work_of(in, undo, &r, out);
	tell(out, &r);
	_exit(0);
}
