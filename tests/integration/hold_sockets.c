/* SPDX-License-Identifier: Apache-2.0 */
/* hold_sockets PID: keeps every socket of process PID open until its own input ends. */
#include "base/parse.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FD_MAX 256

int main(int argc, char **argv)
{
	uint64_t pid;
	int type;
	unsigned held = 0;

	if (argc != 2 || parse_u64(argv[1], 1, INT32_MAX, &pid) < 0) {
		(void)fprintf(stderr, "usage: hold_sockets PID\n");
		return 2;
	}
	const int process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	for (int i = 0; i < FD_MAX && process >= 0; i++) {
		const int fd = (int)syscall(SYS_pidfd_getfd, process, i, 0);
		socklen_t len = sizeof(type);
		if (fd < 0)
			continue;
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0)
			held++;
		else
			(void)close(fd);
	}
	(void)printf("holds %u\n", held);
	(void)fflush(stdout);
	return getchar() == EOF && held > 0 ? 0 : 1;
}
