/* SPDX-License-Identifier: Apache-2.0 */
/* The process that reads what programs of the sandbox ask for: asked.h. It has a /proc with all
 * processes, and where there is a root user the rights of init, for commands of that user (asked_sudo.c). */
#include "asked.h"
#include "root_user.h"

#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SOCKET_FD   3
#define CHANNEL_FD  4
#define PROC_FD     5
#define KEPT_MAX    (4 + INIT_FDS_MAX)
#define IDLE_MS     200 /* then the porter ends */
#define LATER_TRIES 80  /* a request that can be answered later */
#define LATER_NS    5000000
#define PAUSE_NS    1000000 /* after a walk through all processes, so that init has time for others */
#define PART_MAX    4096    /* of each file of a process */
#define LONGEST_S   2 /* for one request; then the porter is killed, and init forks the next one */

struct request {
	struct ask_init ask;
	ssize_t len;
	uid_t uid;
	pid_t pid;
	bool known; /* the kernel says who it is */
	int fds[ASK_INIT_SUDO_FDS +
		1]; /* the first is for the answer. One more: the kernel rounds up */
	size_t n_fds;
};

/* The kernel closes descriptors for which there is no room. */
static struct request take(void)
{
	struct request r = {.len = -1};
	struct iovec part = {.iov_base = &r.ask, .iov_len = sizeof(r.ask)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(r.fds))];
	} control;
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};

	r.len = recvmsg(SOCKET_FD, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	for (struct cmsghdr *c = r.len >= 0 ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c)) {
		struct ucred who;
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&who, CMSG_DATA(c), sizeof(who));
			r.uid = who.uid;
			r.pid = who.pid;
			r.known = true;
		} else if (c->cmsg_type == SCM_RIGHTS) {
			const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			r.n_fds = MIN(n, sizeof(r.fds) / sizeof(r.fds[0]));
			memcpy(r.fds, CMSG_DATA(c), r.n_fds * sizeof(int));
		}
	}
	if (m.msg_flags & MSG_TRUNC)
		r.len = -1;
	return r;
}

static int ask(uint32_t kind, const struct request *r, struct asked_answer *ret)
{
	const struct timespec moment = {.tv_nsec = LATER_NS};
	const struct asked_for a = {.kind = kind,
				    .uid = r->uid,
				    .pid = kind == ASK_INIT_SUDO ? r->pid : r->ask.pid,
				    .signo = r->ask.signo};

	for (int i = 0; i < LATER_TRIES; i++) {
		if (send(CHANNEL_FD, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a) ||
		    recv(CHANNEL_FD, ret, sizeof(*ret), 0) <
			(ssize_t)offsetof(struct asked_answer, pids))
			_exit(0); /* init has closed it */
		if (ret->error != -EAGAIN)
			return ret->error;
		(void)nanosleep(&moment, NULL);
	}
	return -EPERM;
}

/* Puts the first bytes of a file of PID behind what TEXT has. Returns how many. */
static uint32_t add_file(pid_t pid, const char *name, char *text, size_t *at)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%d/%s", pid, name);
	const int fd = openat(PROC_FD, path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd >= 0 ? read(fd, text + *at, PART_MAX) : 0;
	(void)fd_close(fd);
	*at += n > 0 ? (size_t)n : 0;
	return n > 0 ? (uint32_t)n : 0;
}

/* A file in memory, or -1. */
static int write_list(const struct asked_answer *found)
{
	static char text[3 * PART_MAX];
	const int fd = (int)syscall(SYS_memfd_create, "processes", MFD_CLOEXEC);
	bool good = fd >= 0;

	for (uint32_t i = 0; i < found->n && i < ASKED_LIST_MAX && good; i++) {
		const pid_t pid = found->pids[i];
		size_t len = 0;
		uint32_t head[4] = {(uint32_t)pid};

		head[1] = add_file(pid, "stat", text, &len);
		head[2] = add_file(pid, "status", text, &len);
		head[3] = add_file(pid, "cmdline", text, &len);
		if (head[1] == 0 || head[2] == 0)
			continue; /* it has ended */
		good = write(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
		       write(fd, text, len) == (ssize_t)len;
	}
	if (good && lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	(void)fd_close(fd);
	return -1;
}

/* The server of a command has the descriptors, and the porter closes its own. It waits until init has been asked once more:
 * what ends or pauses the run or the background process from then on finds the server. */
static int32_t start_sudo(const struct init *in, const struct request *r, uint32_t background)
{
	static struct asked_answer again;
	int pair[2];
	char ready;

	if (r->n_fds != ASK_INIT_SUDO_FDS)
		return EINVAL;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return errno;
	const pid_t pid = fork();
	int32_t error = pid < 0 ? errno : 0;
	if (pid == 0) {
		(void)close(pair[0]);
		sudo_main(in, &r->ask, r->fds, background, pair[1]);
	}
	(void)close(pair[1]);
	if (error == 0 && read(pair[0], &ready, 1) != 1)
		error = EAGAIN;
	error = error ? error : -ask(ASK_INIT_SUDO, r, &again);
	if (error == 0 && again.background != background)
		error = EPERM;
	if (error == 0 && send(pair[0], &ready, 1, MSG_NOSIGNAL) != 1)
		error = EAGAIN;
	(void)close(pair[0]);
	return error;
}

/* True = a server of sudo has the descriptors. */
static bool serve(const struct init *in, const struct request *r)
{
	static struct asked_answer said;
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const bool list = r->ask.kind == ASK_INIT_LIST;
	int32_t error = -ask(r->ask.kind, r, &said);
	int fd = list && error == 0 ? write_list(&said) : -1;

	if (list && error == 0 && fd < 0)
		error = ENOMEM;
	if (r->ask.kind == ASK_INIT_SUDO) {
		error = error ? error : start_sudo(in, r, said.background);
		if (error == 0)
			return true; /* and it answers */
	}
	(void)!fd_send(r->fds[0], &error, sizeof(error), &fd, fd >= 0, MSG_DONTWAIT);
	(void)fd_close(fd);
	if (list || r->ask.pid < 0)
		(void)nanosleep(&pause, NULL);
	return false;
}

/* The most usual descriptor that would make us wait does not. */
static void drop(int fd)
{
	const struct linger none = {0};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	(void)close(fd);
}

/* Keeps these alone, and names them by their new numbers. */
static void keep(int *const *kept, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (*kept[i] >= 0 &&
		    (*kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, SOCKET_FD + n)) < 0)
			_exit(1);
	for (unsigned i = 0; i < n; i++)
		if (*kept[i] >= 0 &&
		    (*kept[i] = dup3(*kept[i], (int)(SOCKET_FD + i), O_CLOEXEC)) < 0)
			_exit(1);
	if (syscall(SYS_close_range, SOCKET_FD + n, FDS_LAST, 0) < 0)
		_exit(1);
}

/* What a command of root needs to be started, only where there is a root user. */
static void keep_needed(struct init *in, int socket, int channel)
{
	int *kept[KEPT_MAX] = {&socket, &channel, &in->proc};
	unsigned n = 3;

	if (root_user_is_there(in)) {
		kept[n++] = &in->landlock;
		for (uint32_t i = 0; i < in->n_procs; i++)
			kept[n++] = &in->procs[i];
	}
	keep(kept, n);
}

void porter_main(struct init *in, int socket, int channel)
{
	struct pollfd p = {.fd = SOCKET_FD, .events = POLLIN};
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigdelset(&all, SIGALRM);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)signal(SIGCHLD, SIG_IGN); /* the kernel forgets servers of sudo that have ended */
	(void)prctl(PR_SET_NAME, "caisson-porter", 0, 0, 0);
	for (uint32_t i = 0; i < in->n_procs; i++)
		(void)!write(in->procs[i], "0", 1);
	keep_needed(in, socket, channel);
	while (poll(&p, 1, IDLE_MS) > 0) {
		/* However a socket came, alone or in the queue of another one, its last close(2) may wait as long as its owner
		 * has chosen (SO_LINGER), and recvmsg(2) closes those that have no room. */
		(void)alarm(LONGEST_S);
		struct request r = take();
		bool served = false;
		if (r.len == sizeof(r.ask) && r.known && r.n_fds > 0 &&
		    r.ask.kind >= ASK_INIT_SIGNAL && r.ask.kind <= ASK_INIT_SUDO)
			served = serve(in, &r);
		for (size_t i = 0; i < r.n_fds && !served; i++)
			drop(r.fds[i]);
		if (served) /* their options are the asker's */
			fd_close_many(r.fds, r.n_fds);
	}
	_exit(0);
}
