/* SPDX-License-Identifier: Apache-2.0 */
#include "base/reap.h"

#include "base/rand.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

void reap_child(pid_t pid, uint64_t timeout_ns)
{
	const uint64_t end = now_ns() + timeout_ns;

	while (pid > 0) {
		pid_t ended = waitpid(pid, NULL, WNOHANG);

		if (ended == pid || (ended < 0 && errno != EINTR) || now_ns() >= end)
			return;
		(void)poll(NULL, 0, 1); /* 1 ms; there is no wait with a timeout */
	}
}
