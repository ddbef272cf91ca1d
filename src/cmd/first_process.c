/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/first_process.h"

#include "base/attr.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED_STATUS 128 /* what shells and Docker add to the number of a signal */

/* What `docker stop` and `docker kill --signal` send. */
static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/* Of root's capabilities only the right to signal the server is needed, which has another uid. */
static void keep_kill_only(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capget, &head, data) < 0)
		return;
	data[0].permitted &= 1u << CAP_KILL;
	data[0].effective = data[0].permitted;
	data[0].inheritable = 0;
	data[1] = (struct __user_cap_data_struct){0};
	if (syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		(void)fprintf(stderr, "caisson: the first process keeps its capabilities\n");
}

/* Takes the status of everything that has ended. Returns the exit status of CHILD, or -1 while it runs. */
static int reap(pid_t child)
{
	int result = -1;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == child)
			result = WIFSIGNALED(status) ? KILLED_STATUS + WTERMSIG(status)
						     : WEXITSTATUS(status);
	return result;
}

NORETURN static void stay(pid_t child, const sigset_t *set)
{
	siginfo_t info;

	keep_kill_only();
	for (;;) {
		const int signo = sigwaitinfo(set, &info);

		if (signo == SIGCHLD) {
			const int status = reap(child);

			if (status >= 0)
				_exit(status);
		} else if (signo > 0 && info.si_code != SI_KERNEL) {
			/* A terminal has sent its signals to the child as well (SI_KERNEL). */
			(void)kill(child, signo);
		}
	}
}

void first_process_split(void)
{
	sigset_t set;
	sigset_t before;

	if (getpid() != 1)
		return;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
		(void)sigaddset(&set, passed_on[i]);
	/* Blocked before the fork, so that no signal of an impatient `docker stop` is lost. */
	(void)sigprocmask(SIG_BLOCK, &set, &before);
	const pid_t child = fork();

	if (child < 0) {
		perror("caisson: fork");
		exit(EXIT_FAILURE);
	}
	if (child > 0)
		stay(child, &set);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
}
