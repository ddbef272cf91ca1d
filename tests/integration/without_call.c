/* SPDX-License-Identifier: Apache-2.0 */
/* without_call NUMBER COMMAND…: a command on a kernel that does not know one system call: a filter
 * answers it with ENOSYS. Root keeps its rights; a plain user gives up those to come. */
#include "base/parse.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NUMBER_MAX 4095

static int load(uint32_t number)
{
	struct sock_filter rows[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = ARRAY_SIZE(rows), .filter = rows};

	if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

int main(int argc, char **argv)
{
	uint64_t number;

	if (argc < 3 || parse_u64(argv[1], 0, NUMBER_MAX, &number) < 0) {
		(void)fprintf(stderr, "usage: without_call NUMBER COMMAND...\n");
		return 125;
	}
	int r = load((uint32_t)number);
	if (r < 0) {
		errno = -r;
		perror("without_call");
		return 125;
	}
	(void)execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
