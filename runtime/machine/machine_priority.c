/* SPDX-License-Identifier: Apache-2.0 */
/* A program may lower its own priority. The filter of system calls permits that for the number 0 only: it cannot know the
 * caller's own number, and init or the interpreter that later runs are forked from would keep a lower priority for ever.
 * Programs that name themselves by getpid(2) or gettid(2), as psutil does, mean 0. */
#include <sys/syscall.h>
#include <unistd.h>

#define BY_PROCESS                                                                                 \
	0 /* PRIO_PROCESS; the prototype of <sys/resource.h> has another type in C++ and for GNU */

__attribute__((visibility("default"))) int setpriority(int which, unsigned who, int value);

int setpriority(int which, unsigned who, int value)
{
	if (which == BY_PROCESS && who == (unsigned)syscall(SYS_gettid))
		who = 0;
	return (int)syscall(SYS_setpriority, which, who, value);
}
