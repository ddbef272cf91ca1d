/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a stateless run, said before the kernel frees its memory.
 *
 * A science interpreter has some 1,500 mappings, and freeing them takes the kernel longer than most
 * runs take. It happens inside exit(2), before the parent hears of the end. So the run says so
 * itself: everything is flushed and closed, it takes a name that has its status, and stops; init
 * sees the stop, kills it, and need not wait. No descriptor is needed for that, so a run has none
 * but its own.
 *
 * Only where nothing can tell the difference: the run's first process, alone, without other threads
 * (one might go on with its descriptors closed), without children (the time of those that it has
 * waited for is told by exit only; the others become init's then, which counts theirs), already
 * adopted by init (its middle process may be slow to go, and would be told of the stop), and small
 * (what is being freed still counts as the sandbox's). */
#include "extension.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROWTH_MAX_KIB 32768
#define INIT_PID       1
#define LINKS_ALONE    3 /* of /proc/self/task with one thread in it */

static struct {
	pid_t pid; /* of the first process; a fork of it is none of ours. 0 = never by name */
	long rss;  /* KiB, at the start */
} run;

void end_begin(int named)
{
	struct rusage use;

	run.pid = named && getrusage(RUSAGE_SELF, &use) == 0 ? getpid() : 0;
	if (run.pid)
		run.rss = use.ru_maxrss;
}

static int is_zero(struct timeval t)
{
	return t.tv_sec == 0 && t.tv_usec == 0;
}

void end_name(int status)
{
	struct rusage own, children;
	struct stat tasks;
	siginfo_t child;
	char name[RT_END_LEN + 1];

	if (run.pid == 0 || run.pid != getpid() || getppid() != INIT_PID)
		return;
	if (getrusage(RUSAGE_SELF, &own) < 0 || getrusage(RUSAGE_CHILDREN, &children) < 0)
		return;
	if (children.ru_maxrss != 0 || !is_zero(children.ru_utime) || !is_zero(children.ru_stime) ||
	    own.ru_maxrss - run.rss > GROWTH_MAX_KIB)
		return;
	if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD)
		return;
	if (stat("/proc/self/task", &tasks) < 0 || tasks.st_nlink != LINKS_ALONE)
		return;
	/* locks, listening sockets, pipes: nobody is to find them still held */
	if (syscall(SYS_close_range, 0U, ~0U, 0U) < 0)
		return;
	(void)snprintf(name, sizeof(name), RT_END_FORMAT, (unsigned)status & 0xffU,
		       (unsigned long long)own.ru_maxrss);
	if (prctl(PR_SET_NAME, name, 0, 0, 0) == 0)
		(void)kill(run.pid, SIGSTOP);
}
