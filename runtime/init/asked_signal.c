/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that init sends for programs of the sandbox. */
#include "asked.h"
#include "root_user.h"

#include "base/walls.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_reaper(const struct init *in, pid_t pid)
{
	for (size_t i = 0; i < PROTO_BACKGROUND_MAX; i++)
		if (in->background.at[i].state != BACKGROUND_FREE &&
		    in->background.at[i].reaper == pid)
			return true;
	return false;
}

/* Of the session, or of a context, that is the interpreter itself and its backups. A cell's own process is one, too. */
static bool is_ours(const struct init *in, pid_t pid)
{
	return pid <= 1 || pid == asked_porter() || pid == in->warm.clean ||
	       pid == in->warm.spare || pid == in->session.pid || session_keeps(in, pid) ||
	       contexts_wait(in, pid) || checkpoints_keep(in, pid) || end_is_leaving(in, pid) ||
	       is_reaper(in, pid);
}

/* A process is being made that init does not know yet. */
static bool is_forking(const struct init *in)
{
	return in->warm.spare_state == SPARE_FORKING || in->session.state == SESSION_FORKING ||
	       in->session.state == SESSION_WAKING || checkpoints_forking(in);
}

/* Stopped by init until a run begins, or by a client. */
static bool must_rest(const struct init *in, pid_t pid)
{
	const struct init_background *of = background_owner(in, pid);

	return of ? of->frozen_ns != 0 : !run_is_on(in);
}

static int may_signal(const struct init *in, uid_t uid, pid_t pid, int signo)
{
	uid_t of[2];

	if (!end_users(in, pid, of))
		return -EPERM;
	if (!wall_stands(WALL_ASKED))
		return 0;
	if (is_ours(in, pid) || (uid != ROOT_USER_ID && uid != of[0] && uid != of[1]) ||
	    (signo == SIGCONT && must_rest(in, pid)))
		return -EPERM;
	return is_forking(in) && !end_has_executed(in, pid) ? -EAGAIN : 0;
}

/* The descriptor holds the process: if its number comes again meanwhile, the signal fails. */
static int signal_one(const struct init *in, uid_t uid, pid_t pid, int signo)
{
	const int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0) /* EINVAL: a thread that is not its process */
		return errno == ESRCH ? -ESRCH : -EPERM;
	int r = may_signal(in, uid, pid, signo);
	if (r == 0 && syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) < 0)
		r = -errno;
	(void)close(fd);
	return r;
}

static struct { /* of the request for a group or a list */
	pid_t group;
	uid_t uid;
	int answer;
	pid_t *found;
	uint32_t n, max;
} now;

static bool is_member(const struct init *in, pid_t pid)
{
	(void)in;
	return getpgid(pid) == now.group;
}

/* One that got it is a success, kill(2). */
static void signal_member(struct init *in, pid_t pid, int signo)
{
	const int r = signal_one(in, now.uid, pid, signo);

	if (r == 0 || (now.answer != 0 && r != -ESRCH))
		now.answer = r;
}

int asked_signal(struct init *in, uid_t uid, pid_t pid, int signo)
{
	if (signo < 0 || signo > SIGRTMAX)
		return -EINVAL;
	if (pid > 1)
		return signal_one(in, uid, pid, signo);
	if (pid >= -1 || pid == INT32_MIN)
		return -EPERM;
	now.group = -pid;
	now.uid = uid;
	now.answer = -ESRCH;
	(void)kill_each_that(in, is_member, signal_member, signo);
	return now.answer;
}

static bool is_listed(const struct init *in, pid_t pid)
{
	return now.n < now.max && may_signal(in, now.uid, pid, 0) == 0;
}

static void list(struct init *in, pid_t pid, int signo)
{
	(void)in;
	(void)signo;
	now.found[now.n++] = pid;
}

uint32_t asked_list(struct init *in, uid_t uid, pid_t *ret, uint32_t max)
{
	now.uid = uid;
	now.found = ret;
	now.n = 0;
	now.max = max;
	(void)kill_each_that(in, is_listed, list, 0);
	return now.n;
}
