/* SPDX-License-Identifier: Apache-2.0 */
#include "asked.h"
#include "ask_init.h"
#include "root_user.h"

#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_OPTIONS "mode=755,size=4096,nr_inodes=2"
#define SOCKET_FD      3
#define CHANNEL_FD     4
#define IDLE_MS        200                /* then the porter ends */
#define AGAIN_NS       UINT64_C(50000000) /* until init tries to fork another one */
#define LATER_TRIES    80                 /* a request that can be answered later */
#define LATER_NS       5000000
#define GROUP_NS       1000000 /* after a walk through all processes, so that init has time for others */

struct asked_for { /* from the porter; the answer is an int, 0 or -errno */
	uid_t uid;
	pid_t pid;
	int signo;
};

static struct {
	int socket, channel;
	pid_t porter; /* 0 = there is none */
	uint64_t again_at;
} asked = {.socket = -1, .channel = -1};

/* The folder is a file system of its own, because nothing else in the sandbox's root is both its own and closed to runs. */
int asked_begin(const char *root)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char folder[64];
	const int on = 1;

	(void)snprintf(folder, sizeof(folder), "%s" ASK_INIT_FOLDER, root);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s" ASK_INIT_SOCKET, root);
	if (mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, FOLDER_OPTIONS) < 0)
		return -errno;
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(at.sun_path, 0666) < 0 ||
	    mount(NULL, folder, NULL,
		  MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
		const int errnum = errno;
		(void)close(fd);
		return -errnum;
	}
	asked.socket = fd;
	return 0;
}

/* ---- the porter ---- */

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

static int ask(const struct asked_for *a)
{
	int answer = -EPERM;

	if (send(CHANNEL_FD, a, sizeof(*a), MSG_NOSIGNAL) != sizeof(*a) ||
	    recv(CHANNEL_FD, &answer, sizeof(answer), 0) != sizeof(answer))
		_exit(0); /* init has closed it */
	return answer;
}

static int answer_of(const struct request *r)
{
	const struct timespec moment = {.tv_nsec = LATER_NS};
	const struct timespec pause = {.tv_nsec = GROUP_NS};
	const struct asked_for a = {.uid = r->uid, .pid = r->ask.pid, .signo = r->ask.signo};
	int answer = -EAGAIN;

	for (int i = 0; i < LATER_TRIES && answer == -EAGAIN; i++) {
		if (i > 0)
			(void)nanosleep(&moment, NULL);
		answer = ask(&a);
	}
	if (a.pid < 0)
		(void)nanosleep(&pause, NULL);
	return answer == -EAGAIN ? -EPERM : answer;
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

_Noreturn static void porter(const struct init *in, int channel)
{
	sigset_t all;
	struct pollfd p = {.fd = SOCKET_FD, .events = POLLIN};

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_NAME, "caisson-porter", 0, 0, 0);
	for (uint32_t i = 0; i < in->n_procs; i++)
		(void)!write(in->procs[i], "0", 1);
	const int sock = fcntl(asked.socket, F_DUPFD, CHANNEL_FD + 1);
	const int high = fcntl(channel, F_DUPFD, CHANNEL_FD + 1);
	if (sock < 0 || high < 0 || dup2(sock, SOCKET_FD) < 0 || dup2(high, CHANNEL_FD) < 0 ||
	    syscall(SYS_close_range, CHANNEL_FD + 1, FDS_LAST, 0) < 0 ||
	    (root_user_is_there(in) && root_user_leave() < 0))
		_exit(1);
	while (poll(&p, 1, IDLE_MS) > 0) {
		const struct request r = take();
		if (r.len == sizeof(r.ask) && r.known && r.ask.kind == ASK_INIT_SIGNAL &&
		    r.answer >= 0) {
			const int32_t answer = -answer_of(&r);
			(void)send(r.answer, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
		}
		drop(r.answer);
	}
	_exit(0);
}

/* ---- init ---- */

static void start_porter(const struct init *in)
{
	int pair[2];

	asked.again_at = init_now() + AGAIN_NS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	const pid_t pid = init_fork(in, in->config.oom_score);
	if (pid == 0)
		porter(in, pair[1]);
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return;
	}
	asked.porter = pid;
	asked.channel = pair[0];
}

int asked_socket(void)
{
	return asked.porter == 0 && (asked.again_at == 0 || init_now() >= asked.again_at)
		   ? asked.socket
		   : -1;
}

int asked_channel(void)
{
	return asked.channel;
}

uint64_t asked_next(void)
{
	return asked.porter == 0 && asked.again_at > init_now() ? asked.again_at : 0;
}

void asked_events(struct init *in, short request, short channel)
{
	struct asked_for a;

	if (request && asked.porter == 0)
		start_porter(in);
	if (!channel || asked.channel < 0)
		return;
	const ssize_t n = recv(asked.channel, &a, sizeof(a), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n == sizeof(a)) {
		const int answer = asked_signal(in, a.uid, a.pid, a.signo);
		if (send(asked.channel, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL) ==
		    sizeof(answer))
			return;
	}
	asked.channel = fd_close(asked.channel); /* the porter has ended, or is about to */
}

bool asked_reaped(pid_t pid)
{
	if (pid != asked.porter || pid == 0)
		return false;
	asked.porter = 0;
	asked.again_at = 0;
	asked.channel = fd_close(asked.channel);
	return true;
}

pid_t asked_porter(void)
{
	return asked.porter;
}
