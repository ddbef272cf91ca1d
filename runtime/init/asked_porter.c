/* SPDX-License-Identifier: Apache-2.0 */
/* The process that reads what programs of the sandbox ask for: asked.h. It has no right that they lack, and a /proc with all
 * processes. */
#include "ask_init.h"
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
#define KEPT_FDS    3
#define IDLE_MS     200 /* then the porter ends */
#define LATER_TRIES 80  /* a request that can be answered later */
#define LATER_NS    5000000
#define PAUSE_NS    1000000 /* after a walk through all processes, so that init has time for others */
#define PART_MAX    4096    /* of each file of a process */

struct request {
	struct ask_init ask;
	ssize_t len;
	uid_t uid;
	bool known; /* the kernel says who it is */
	int answer; /* -1 = none came along */
};

/* More descriptors than there is room for do not arrive. */
static struct request take(void)
{
	struct request r = {.answer = -1};
	struct iovec part = {.iov_base = &r.ask, .iov_len = sizeof(r.ask)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
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
			r.known = true;
		} else if (c->cmsg_type == SCM_RIGHTS && c->cmsg_len >= CMSG_LEN(sizeof(int))) {
			memcpy(&r.answer, CMSG_DATA(c), sizeof(int));
		}
	}
	if (m.msg_flags & MSG_TRUNC)
		r.len = -1;
	return r;
}

static int ask(uint32_t kind, const struct request *r, struct asked_answer *ret)
{
	const struct timespec moment = {.tv_nsec = LATER_NS};
	const struct asked_for a = {
	    .kind = kind, .uid = r->uid, .pid = r->ask.pid, .signo = r->ask.signo};

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
		good = write(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
		       write(fd, text, len) == (ssize_t)len;
	}
	if (good && lseek(fd, 0, SEEK_SET) == 0)
		return fd;
	(void)fd_close(fd);
	return -1;
}

static void serve(const struct request *r)
{
	static struct asked_answer said;
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const bool list = r->ask.kind == ASK_INIT_LIST;
	int32_t error = -ask(r->ask.kind, r, &said);
	int fd = list && error == 0 ? write_list(&said) : -1;

	if (list && error == 0 && fd < 0)
		error = ENOMEM;
	(void)!fd_send(r->answer, &error, sizeof(error), &fd, fd >= 0, MSG_DONTWAIT);
	(void)fd_close(fd);
	if (list || r->ask.pid < 0)
		(void)nanosleep(&pause, NULL);
}

/* Whatever the descriptor is, closing it must not wait. */
static void drop(int fd)
{
	const struct linger none = {0};

	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	(void)close(fd);
}

/* Keeps these alone, as descriptors from SOCKET_FD on. */
static void keep(const int *given, int n)
{
	int high[KEPT_FDS];

	for (int i = 0; i < n; i++)
		if ((high[i] = fcntl(given[i], F_DUPFD, SOCKET_FD + KEPT_FDS)) < 0)
			_exit(1);
	for (int i = 0; i < n; i++)
		if (dup2(high[i], SOCKET_FD + i) < 0)
			_exit(1);
	if (syscall(SYS_close_range, SOCKET_FD + n, FDS_LAST, 0) < 0)
		_exit(1);
}

void porter_main(const struct init *in, int socket, int channel)
{
	const int kept[KEPT_FDS] = {socket, channel, in->proc};
	struct pollfd p = {.fd = SOCKET_FD, .events = POLLIN};
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_NAME, "caisson-porter", 0, 0, 0);
	for (uint32_t i = 0; i < in->n_procs; i++)
		(void)!write(in->procs[i], "0", 1);
	keep(kept, KEPT_FDS);
	if (root_user_is_there(in) && root_user_leave() < 0)
		_exit(1);
	while (poll(&p, 1, IDLE_MS) > 0) {
		const struct request r = take();
		if (r.len == sizeof(r.ask) && r.known && r.answer >= 0 &&
		    (r.ask.kind == ASK_INIT_SIGNAL || r.ask.kind == ASK_INIT_LIST))
			serve(&r);
		drop(r.answer);
	}
	_exit(0);
}
