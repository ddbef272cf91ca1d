/* SPDX-License-Identifier: Apache-2.0 */
#include "app/reopener.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/reap.h"
#include "config/config_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHANNEL_FD  3
#define END_WAIT_NS (2 * NS_PER_S)
#define ANSWER_MS   2000 /* the file may be on a slow disk; the server must not hang on it */

struct reopener {
	int fd;
	pid_t pid;
};

struct answer { /* a descriptor comes with it if errnum is 0 */
	int32_t errnum;
};

/* ---- the process ---- */

static int open_it(const struct reopener_config *c, uint8_t what)
{
	if (what == REOPEN_LOG && c->log)
		return log_open_file(c->log);
	if (what == REOPEN_SETTINGS && c->settings)
		return config_file_open(c->settings, c->settings_safe);
	return -ENOENT;
}

NORETURN static void serve(int channel, const struct reopener_config *c)
{
	int fds[FDIO_PASS_MAX];
	uint8_t what;

	(void)prctl(PR_SET_NAME, "caisson-reopen", 0, 0, 0);
	if (setsid() < 0 ||
	    (channel == CHANNEL_FD ? 0 : dup3(channel, CHANNEL_FD, O_CLOEXEC)) < 0 ||
	    syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0) < 0)
		_exit(1);
	for (;;) {
		size_t n_fds = 0;
		ssize_t n = fd_recv(CHANNEL_FD, &what, sizeof(what), fds, &n_fds, 0);

		fd_close_many(fds, n_fds);
		if (n != (ssize_t)sizeof(what))
			_exit(0);
		_cleanup_fd_ int fd = open_it(c, what);
		struct answer a = {.errnum = fd < 0 ? -fd : 0};

		if (fd_send(CHANNEL_FD, &a, sizeof(a), &fd, fd >= 0, 0) < 0)
			_exit(0);
	}
}

/* ---- the server's side ---- */

int reopener_start(const struct reopener_config *c, struct reopener **ret, struct err *e)
{
	int pair[2];

	*ret = NULL;
	if (!c->log && !c->settings)
		return 0;
	struct reopener *r = calloc(1, sizeof(*r));
	if (!r || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(r);
		return err_set(e, ERR_SYSTEM, errno, "the process that opens the log again");
	}
	r->pid = fork();
	if (r->pid == 0)
		serve(pair[1], c);
	(void)close(pair[1]);
	r->fd = pair[0];
	if (r->pid < 0) {
		int errnum = errno;

		(void)close(pair[0]);
		free(r);
		return err_set(e, ERR_SYSTEM, errnum, "the process that opens the log again");
	}
	*ret = r;
	return 0;
}

int reopener_open(struct reopener *r, enum reopen what)
{
	const uint8_t question = (uint8_t)what;
	struct pollfd p = {.events = POLLIN};
	int fds[FDIO_PASS_MAX];
	struct answer a;
	size_t n_fds = 0;

	if (!r)
		return -ENOENT;
	p.fd = r->fd;
	if (r->fd < 0 || fd_send(r->fd, &question, sizeof(question), NULL, 0, MSG_DONTWAIT) < 0)
		return -EPIPE;
	if (poll(&p, 1, ANSWER_MS) <= 0) {
		r->fd = fd_close(r->fd); /* or the next question would get this late answer */
		return -ETIMEDOUT;
	}
	ssize_t n = fd_recv(r->fd, &a, sizeof(a), fds, &n_fds, MSG_DONTWAIT);
	if (n == (ssize_t)sizeof(a) && a.errnum == 0 && n_fds == 1)
		return fds[0];
	fd_close_many(fds, n_fds);
	return n == (ssize_t)sizeof(a) && a.errnum > 0 ? -a.errnum : -EPROTO;
}

struct reopener *reopener_free(struct reopener *r)
{
	if (!r)
		return NULL;
	r->fd = fd_close(r->fd);
	reap_child(r->pid, END_WAIT_NS);
	free(r);
	return NULL;
}
