/* SPDX-License-Identifier: Apache-2.0 */
#include "extension.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HIGH_FD     100
#define HIGH_FD_FEW 10 /* under a limit of fewer open files than HIGH_FD */

int fd_copy_high(int fd)
{
	const int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

	return high < 0 && errno == EINVAL ? fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD_FEW) : high;
}

void frame_close_fds(struct frame *f)
{
	for (size_t i = 0; i < f->n_fds; i++)
		(void)close(f->fds[i]);
	f->n_fds = 0;
}

/* Descriptors 0 to 2 are free in a waiting interpreter, so the kernel may hand out those numbers.
 */
static int move_up(int fd)
{
	if (fd > 2)
		return fd;
	int higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int saved = errno;
	(void)close(fd);
	errno = saved;
	return higher;
}

static int take_fds(struct msghdr *m, struct frame *f)
{
	int r = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (f->n_fds == RT_FDS_MAX) {
				(void)close(fd);
				r = -EPROTO;
				continue;
			}
			fd = move_up(fd);
			if (fd < 0)
				r = -errno;
			else
				f->fds[f->n_fds++] = fd;
		}
	}
	return r;
}

int channel_recv(int channel, struct frame *f)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * RT_FDS_MAX)];
	} control;
	struct iovec iov = {.iov_base = f->u.bytes, .iov_len = sizeof(f->u)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n;

	f->n_fds = 0;
	do {
		n = recvmsg(channel, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	int r = take_fds(&m, f);
	f->len = (size_t)n;
	if (n == 0)
		r = -EPIPE;
	else if (r == 0 && ((m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || f->len < sizeof(f->u.h)))
		r = -EPROTO;
	if (r < 0)
		frame_close_fds(f);
	return r;
}

int channel_send(int channel, const void *frame, size_t len)
{
	ssize_t n;

	do {
		n = send(channel, frame, len, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}
