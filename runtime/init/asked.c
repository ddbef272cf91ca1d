/* SPDX-License-Identifier: Apache-2.0 */
#include "asked.h"

#include "base/fdio.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FOLDER_OPTIONS "mode=755,size=4096,nr_inodes=2"
#define AGAIN_NS       UINT64_C(50000000) /* until init tries to fork another one */

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

static void start_porter(struct init *in)
{
	int pair[2];

	asked.again_at = init_now() + AGAIN_NS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	const pid_t pid = init_fork(in, in->config.oom_score);
	if (pid == 0)
		porter_main(in, asked.socket, pair[1]);
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

/* False = the porter does not take it. */
static bool answer(struct init *in, const struct asked_for *a)
{
	static struct asked_answer said;
	size_t len = offsetof(struct asked_answer, pids);

	said.n = said.background = 0;
	said.error = 0;
	if (a->kind == ASK_INIT_LIST)
		said.n = asked_list(in, a->uid, said.pids, ASKED_LIST_MAX);
	else if (a->kind == ASK_INIT_SUDO)
		said.error = asked_sudo(in, a->uid, a->pid, &said.background);
	else
		said.error = asked_signal(in, a->uid, a->pid, a->signo);
	len += said.n * sizeof(said.pids[0]);
	return send(asked.channel, &said, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
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
	if (n == sizeof(a) && answer(in, &a))
		return;
	asked.channel = fd_close(asked.channel); /* the porter has ended, or is about to */
}

bool asked_reaped(pid_t pid)
{
	if (pid != asked.porter || pid == 0)
		return false;
	asked.porter = 0;
	asked.channel = fd_close(asked.channel);
	return true;
}

pid_t asked_porter(void)
{
	return asked.porter;
}
