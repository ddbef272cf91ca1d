/* SPDX-License-Identifier: Apache-2.0 */
/* within [--landlock] COMMAND…: runs a command behind the system call filter (and Landlock) alone,
 * without any namespace. Shows what the filter breaks: test suites of interpreters and packages are
 * run with it. */
#include "walls/filter.h"
#include "walls/landlock.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	static struct filter_program filter;
	struct err e = ERR_INIT;
	int first = 1;
	int r = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 125;
	if (argc > 1 && strcmp(argv[1], "--landlock") == 0) {
		int fd = landlock_prepare("");

		first = 2;
		r = fd < 0 ? fd : landlock_apply(fd);
	}
	if (first >= argc || r < 0 || filter_compile(&filter_run, 0, &filter, &e) < 0 ||
	    filter_load(filter.insn, filter.n) < 0) {
		(void)fprintf(stderr, "within: not possible: %s%s\n", e.text,
			      r < 0 ? strerror(-r) : "");
		return 125;
	}
	(void)execvp(argv[first], argv + first);
	perror(argv[first]);
	return 127;
}
