/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/common/remover.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/common/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

NORETURN static void remove_and_end(const struct remover *r)
{
	/* Close everything: with the liveness pipe open, inits would not see the end of our parent. */
	if (syscall(SYS_close_range, 3U, ~0U, 0) < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, "caisson-sweep", 0, 0, 0);
	_cleanup_fd_ int dir = open(r->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	KILL_POINT(SWEEP_BEGUN);
	/* fsync(2) here, because our parent must not wait for a disk */
	if (dir >= 0 && fsync(dir) == 0 && (!r->prepare || r->prepare(r->user) == 0))
		folder_sweep(dir);
	_exit(0);
}

void remover_start(struct remover *r)
{
	r->again = r->pid > 0;
	if (r->again || access(r->folder, F_OK) < 0)
		return;
	const pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid == 0)
		remove_and_end(r);
	r->pid = pid > 0 ? pid : 0; /* else the next start */
}

bool remover_ended(struct remover *r, pid_t pid)
{
	if (pid != r->pid)
		return false;
	r->pid = 0;
	if (r->again)
		remover_start(r);
	return true;
}

void remover_look(struct remover *r)
{
	if (r->pid > 0 && waitpid(r->pid, NULL, WNOHANG) == r->pid)
		(void)!remover_ended(r, r->pid);
}

void remover_kill(struct remover *r, bool reap)
{
	if (r->pid <= 0)
		return;
	r->again = false;
	(void)kill(r->pid, SIGKILL);
	if (reap && waitpid(r->pid, NULL, 0) == r->pid)
		r->pid = 0;
}
