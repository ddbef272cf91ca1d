/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a plain socket. */
#include "http/socket_io.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static ssize_t result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

static ssize_t receive(const struct http_io *io, void *to, size_t max, int flags)
{
	ssize_t n;

	do
		n = recv(io->fd, to, max, MSG_DONTWAIT | flags);
	while (n < 0 && errno == EINTR);
	return result(n);
}

static ssize_t plain_recv(struct http_io *io, void *to, size_t max)
{
	return receive(io, to, max, 0);
}

static ssize_t plain_discard(struct http_io *io, void *scratch, size_t max)
{
	return receive(io, scratch, max, MSG_TRUNC); /* TCP does not even copy it */
}

static ssize_t plain_send(struct http_io *io, struct iovec *iov, size_t n, bool more)
{
	const struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
	ssize_t sent;

	do
		sent = sendmsg(io->fd, &msg, flags);
	while (sent < 0 && errno == EINTR);
	return result(sent);
}

static ssize_t plain_send_file(struct http_io *io, int file, off_t *off, size_t max)
{
	ssize_t n;

	do
		n = sendfile(io->fd, file, off, max);
	while (n < 0 && errno == EINTR);
	return result(n);
}

static int plain_shut(struct http_io *io)
{
	return shutdown(io->fd, SHUT_WR) < 0 ? -errno : 0;
}

static void plain_cut(struct http_io *io)
{
	(void)shutdown(io->fd, SHUT_RDWR);
}

/* Closing a socket does not end what the kernel holds for a client that does not read; a reset does. */
static void plain_close(struct http_io *io, bool drop)
{
	const struct linger now = {.l_onoff = 1};

	if (drop)
		(void)setsockopt(io->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	io->fd = fd_close(io->fd);
}

static int plain_held(const struct http_io *io)
{
	int n = 0;

	return ioctl(io->fd, SIOCOUTQ, &n) == 0 && n > 0 ? n : 0;
}

static bool plain_pending(const struct http_io *io UNUSED)
{
	return false;
}

const struct http_io_ops http_plain_io = {
    .recv = plain_recv,
    .discard = plain_discard,
    .send = plain_send,
    .send_file = plain_send_file,
    .shut = plain_shut,
    .cut = plain_cut,
    .close = plain_close,
    .held = plain_held,
    .pending = plain_pending,
};
