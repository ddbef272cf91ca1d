/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the end of a stateless run before the kernel frees its memory.
 *
 * An interpreter of the science image has some 1,500 mappings. The kernel takes longer to free them
 * than most runs take, and does so inside exit(2), before the parent learns of the exit. So the run
 * reports its end itself: it flushes and closes everything, writes its exit status into its process
 * name, and stops. Init sees the stop, kills the process and need not wait. This needs no
 * descriptor, so the run has none but its own.
 *
 * It is done only where no program can tell the difference. The process must be the first of the
 * run. It has no other threads: one might go on with its descriptors closed. It has and had no
 * children: the CPU time of those that it has waited for is reported only by exit. Init is its
 * parent already: a middle process that is slow to exit would be told of the stop instead. And it
 * is small: memory that is being freed still counts as the sandbox's. */
#include "extension.h"
#include "old_libc.h"

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
#define LINKS_ALONE    3 /* links of /proc/self/task if there is one thread */

static struct {
	pid_t pid; /* of the run's first process, not of its forks; 0 = no named end */
	long rss;  /* peak resident set at the start, in KiB */
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
	if (old_stat("/proc/self/task", &tasks) < 0 || tasks.st_nlink != LINKS_ALONE)
		return;
	/* nobody may find locks, listening sockets or pipes still held */
	if (syscall(SYS_close_range, 0U, 0x7fffffffU, 0U) < 0)
		return;
	(void)snprintf(name, sizeof(name), RT_END_FORMAT, (unsigned)status & 0xffU,
		       (unsigned long long)own.ru_maxrss);
	if (prctl(PR_SET_NAME, name, 0, 0, 0) == 0)
		(void)kill(run.pid, SIGSTOP);
}
