/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parent.h"

#include "base/fdio.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int parent_watch(void)
{
	return (int)syscall(SYS_pidfd_open, getppid(), 0);
}

static int wait_until(int channel, short events, int watch, int ms)
{
	struct pollfd p[] = {{.fd = channel, .events = events}, {.fd = watch, .events = POLLIN}};
	int n;

	while ((n = poll(p, ARRAY_SIZE(p), ms)) < 0)
		if (errno != EINTR)
			return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	return p[1].revents ? -EPIPE : 0;
}

int parent_wait(int channel, int watch)
{
	return wait_until(channel, POLLIN, watch, -1);
}

int parent_wait_ms(int channel, int watch, int ms)
{
	return wait_until(channel, POLLIN, watch, ms);
}

int parent_send(int channel, int watch, const void *data, size_t len, const int *fds, size_t n)
{
	int r = 0;

	while (r == 0) {
		const ssize_t sent = fd_send(channel, data, len, fds, n, MSG_DONTWAIT);
		if (sent != -EAGAIN)
			return sent < 0 ? (int)sent : 0;
		r = wait_until(channel, POLLOUT, watch, -1);
	}
	return r;
}
