/* SPDX-License-Identifier: Apache-2.0 */
/* How a program of the sandbox sends init a request (ask_init.h). Only headers of the C library, as there. */
#pragma once

#include "ask_init.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define ASK_INIT_TRIES 400     /* while the queue of requests is full: two seconds */
#define ASK_INIT_EVERY 5000000 /* ns */

/* Sends WHAT and N descriptors, at most ASK_INIT_SUDO_FDS, over SOCK, a socket for datagrams. 0 or an errno. */
static inline int ask_init_send(int sock, const struct ask_init *what, const int *fds, size_t n)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = ASK_INIT_SOCKET};
	struct iovec part = {.iov_base = (void *)(uintptr_t)what, .iov_len = sizeof(*what)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(ASK_INIT_SUDO_FDS * sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr m = {.msg_name = &at,
			   .msg_namelen = sizeof(at),
			   .msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	const struct timespec moment = {.tv_nsec = ASK_INIT_EVERY};

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	for (int i = 0; i < ASK_INIT_TRIES; i++) {
		if (sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return errno;
		(void)nanosleep(&moment, NULL);
	}
	return EAGAIN;
}
