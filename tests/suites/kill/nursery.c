/* SPDX-License-Identifier: Apache-2.0 */
/* `nursery COMMAND…`: becomes COMMAND as a child subreaper (prctl(2)). Whatever the servers that it
 * starts leave behind becomes its child, so nothing that is left can hide among the others of this
 * host. */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
		(void)fprintf(stderr, "usage: nursery COMMAND...\n");
		return 1;
	}
	(void)execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
