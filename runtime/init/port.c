/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the servers of a sandbox. init makes them, because it is in the network namespace of the sandbox, and
 * hands them out; the front never enters that namespace. What a socket holds counts for the process that made it: init, and
 * so the sandbox. */
#include "init.h"

#include "base/fdio.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20

static int try(const struct sockaddr *to, socklen_t size)
{
	_cleanup_fd_ int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int error = 0;
	socklen_t error_size = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, to, size) < 0 && errno != EINPROGRESS)
		return -errno;
	/* On loopback the answer comes at once, unless the server does not accept what it has: then the front waits. */
	if (poll(&p, 1, PATIENCE_MS) > 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) == 0 && error != 0)
		return -error;
	return TAKE_FD(fd);
}

int port_connect(uint32_t port)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					.sin6_port = htons((uint16_t)port),
					.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const int fd = try((const struct sockaddr *)&v4, sizeof(v4));

	if (fd != -ECONNREFUSED)
		return fd;
	/* Servers that listen on "localhost" may have chosen the other address of that name. */
	const int other = try((const struct sockaddr *)&v6, sizeof(v6));
	return other < 0 ? -ECONNREFUSED : other;
}
