/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that a user of the sandbox has executed as root (runtime/sudo).
 *
 * porter ──► server ──► the command ──► …
 *
 * The server is a process of ours, forked by the porter for one command. It adopts the orphans of the command and ends when
 * no process is left below it, so that all of it can be found: it belongs to the run, or by its mark to the background
 * process, from which the request came, and is ended with that (background_owner.c). It never waits for the asker: it reads what
 * the asker says, and when the asker has ended it ends the command. */
#include "ask_init.h"
#include "asked.h"
#include "root_user.h"

#include "base/fdio.h"
#include "base/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 1000 /* after SIGTERM, when the asker has ended */

int asked_sudo(const struct init *in, uid_t uid, pid_t pid, uint32_t *ret)
{
	uid_t of[2];
	const struct init_background *b = background_owner(in, pid);

	if (!root_user_is_there(in))
		return -EOPNOTSUPP;
	if (!end_users(in, pid, of) || !(b || run_is_on(in)) || (b && b->frozen_ns != 0) ||
	    (wall_stands(WALL_ASKED) && uid != getuid() && uid != ROOT_USER_ID))
		return -EPERM;
	*ret = b ? b->id : 0;
	return 0;
}

/* A file of ours with the SIZE bytes of the asker's, who could change his meanwhile; or -1. */
static int copy_args(int from, uint32_t *size)
{
	char *text = malloc(PROTO_ARGS_MAX);
	const ssize_t n = text ? pread(from, text, PROTO_ARGS_MAX, 0) : -1;
	int fd = n > 0 && text[n - 1] == '\0' ? memfd_create("args", MFD_CLOEXEC) : -1;

	if (fd >= 0 && write(fd, text, (size_t)n) != n)
		fd = fd_close(fd);
	free(text);
	*size = (uint32_t)n;
	return fd;
}

static void tell(int sock, int32_t began, int32_t value)
{
	const struct ask_init_ended e = {.began = began, .value = value};

	(void)send(sock, &e, sizeof(e), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The command and its children have a process group of their own. */
static void signal_all(pid_t pid, int signo)
{
	(void)kill(-pid, signo);
	if (signo == SIGTERM || signo == SIGHUP)
		(void)kill(-pid, SIGCONT);
}

static void end_command(pid_t pid, int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	signal_all(pid, SIGHUP);
	signal_all(pid, SIGTERM);
	(void)poll(&p, 1, GRACE_MS);
	signal_all(pid, SIGKILL);
}

/* Until the command has ended. */
static void attend(int sock, pid_t pid)
{
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p[] = {{.fd = pidfd, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
	int32_t signo;
	int status = 0;

	while (poll(p, 2, -1) > 0 && !p[0].revents) {
		const ssize_t n = recv(sock, &signo, sizeof(signo), MSG_DONTWAIT);
		if (n == sizeof(signo) && signo > 0 && signo <= SIGRTMAX)
			signal_all(pid, signo);
		if (n == 0 || (n < 0 && errno != EAGAIN) || (n > 0 && n != sizeof(signo))) {
			end_command(pid, pidfd);
			break;
		}
	}
	(void)waitpid(pid, &status, 0);
	tell(sock, 1, status);
}

static void mark(uint32_t background)
{
	const uint64_t value = background_mark(background);
	const struct rlimit l = {.rlim_cur = value, .rlim_max = value};

	if (background != 0 && setrlimit(RLIMIT_RSS, &l) < 0)
		_exit(1);
}

static int start(struct run_child *c, int *ret_error)
{
	int error[2];

	if (pipe2(error, O_CLOEXEC) < 0)
		return -errno;
	c->error = error[1];
	const pid_t pid = fork();
	if (pid == 0)
		run_child(c);
	(void)close(error[1]);
	*ret_error = error[0];
	return pid < 0 ? -errno : pid;
}

void sudo_main(const struct init *in, const struct ask_init *ask, const int fds[ASK_INIT_SUDO_FDS],
	       uint32_t background, int go)
{
	char ready = 0;
	struct proto_init_run f = {.run = 1,
				   .kind = PROTO_RUN_ARGV,
				   .root = 1,
				   .argc = (uint32_t)ask->pid,
				   .envc = (uint32_t)ask->signo};
	struct run_child c = {.in = in,
			      .f = &f,
			      .out = fds[3],
			      .err = fds[4],
			      .code = -1,
			      .result = -1,
			      .stdin_fd = fds[2],
			      .tail = -1};
	int error = -1;
	int errnum = 0;

	(void)signal(SIGCHLD, SIG_DFL); /* the porter waits for nobody */
	(void)prctl(PR_SET_NAME, "caisson-sudo", 0, 0, 0);
	mark(background);
	if (write(go, &ready, 1) != 1 || read(go, &ready, 1) != 1)
		_exit(1); /* init has changed its mind */
	(void)close(go);
	c.args = ask->pid > 0 && ask->pid <= PROTO_ARG_MAX && ask->signo >= 0 &&
			 ask->signo <= PROTO_ARG_MAX
		     ? copy_args(fds[1], &f.args_size)
		     : -1;
	const pid_t pid = c.args < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0
			      ? -EINVAL
			      : start(&c, &error);
	for (int i = 1; i < ASK_INIT_SUDO_FDS; i++)
		(void)close(fds[i]); /* whoever reads them sees the end of the command */
	if (pid < 0) {
		tell(fds[0], 0, -pid);
		_exit(1);
	}
	if (read(error, &errnum, sizeof(errnum)) == sizeof(errnum))
		tell(fds[0], 0, errnum);
	else
		attend(fds[0], pid);
	(void)close(fds[0]);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	_exit(0);
}
