/* SPDX-License-Identifier: Apache-2.0 */
/* Kills the processes of a run. These are all processes of the sandbox except init, the waiting
 * interpreters, checkpoints, processes that are leaving, those of the session (session_processes.c), and
 * background processes (background.c). */
#include "asked.h"

#include "base/parse.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Whether PID is a process that is no part of a run. */
static bool is_kept(const struct init *in, pid_t pid)
{
	return pid == in->warm.clean || pid == in->warm.spare || session_keeps(in, pid) ||
	       checkpoints_keep(in, pid) || end_is_leaving(in, pid) || contexts_keep(in, pid) ||
	       background_keeps(in, pid) || pid == asked_porter();
}

bool kill_keeps_any(const struct init *in)
{
	return in->warm.clean > 0 || in->warm.spare > 0 || in->session.state != SESSION_NONE ||
	       checkpoints_any(in) || contexts_any(in) || end_any(in) || background_any(in) ||
	       asked_porter() > 0;
}

static bool is_loose(const struct init *in, pid_t pid)
{
	return !is_kept(in, pid);
}

uint32_t kill_each(struct init *in, void (*fn)(struct init *, pid_t, int), int signo)
{
	return kill_each_that(in, is_loose, fn, signo);
}

uint32_t kill_each_that(struct init *in, bool (*wanted)(const struct init *, pid_t),
			void (*fn)(struct init *, pid_t, int), int signo)
{
	int fd = openat(in->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *de;
	uint32_t found = 0;
	uint64_t pid;

	in->awake = in->dying = 0;

	if (!d)
		init_die("proc");
	while ((de = readdir(d))) {
		if (parse_u64_n(de->d_name, strlen(de->d_name), 2, INT32_MAX, &pid) < 0 ||
		    !wanted(in, (pid_t)pid))
			continue;
		const enum end_look look = end_look_at(in, (pid_t)pid);
		if (look == END_ENTERING)
			(void)kill((pid_t)pid, SIGCONT); /* all were stopped */
		if (look == END_GONE || look == END_ENTERING)
			continue;
		in->awake += look == END_ALIVE;
		in->dying += look == END_DYING;
		found++;
		fn(in, (pid_t)pid, signo);
	}
	(void)closedir(d);
	return found;
}

bool kill_again(const struct init *in)
{
	return !session_is_waking(in) && in->warm.spare_state != SPARE_FORKING &&
	       (in->strangers || !in->contained);
}

static uint32_t others; /* found by kill_others() */

static void kill_other(struct init *in, pid_t pid, int signo)
{
	if (processes_keep(in, pid))
		return;
	others++;
	if (signo)
		(void)kill(pid, signo);
}

uint32_t kill_others(struct init *in, int signo)
{
	others = 0;
	(void)kill_each(in, kill_other, signo);
	return others;
}

/* Continues what SIGSTOP to all processes has stopped. A session process and its backup stay stopped
 * until they are needed. */
void kill_wake(const struct init *in)
{
	const pid_t waiting[] = {in->warm.clean, in->warm.spare, in->checkpoints.copier,
				 asked_porter()};

	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++)
		if (waiting[i] > 0)
			(void)kill(waiting[i], SIGCONT);
}

/* kill(2) with -1 walks all processes of the namespace under a lock that a fork needs to complete, so
 * a fork bomb cannot outrun it. The same holds for cgroup.kill, which is used if only processes of
 * the run are in that cgroup. */
void kill_run(struct init *in)
{
	if (in->run.state == RUN_RUNNING)
		run_to(in, RUN_KILLING);
	warm_events(in, POLLIN, 0); /* learn the pid of a clean interpreter that has just come */
	/* These must survive, and they were forked in the cgroup of the runs. */
	bool spared = in->session.state != SESSION_NONE || checkpoints_any(in) ||
		      contexts_any(in) || end_any_stopped(in) || warm_spare_alone(in) ||
		      background_any(in);
	if (in->kill >= 0 && !spared)
		(void)!write(in->kill, "1", 1);
	if (!kill_keeps_any(in)) {
		(void)kill(-1, SIGKILL);
	} else if (in->kill < 0 || spared) {
		background_stop_others(in);
		/* Counted here, because the children of a stateful run's first process, which
		 * lives on as the session process, are not reaped by init. */
		in->run.left = kill_others(in, SIGKILL);
		kill_wake(in);
	}
}

void kill_strangers(struct init *in)
{
	/* init does not know the pid of a spare or fork that is being made */
	in->strangers =
	    run_is_on(in) || in->warm.spare_state == SPARE_FORKING || checkpoints_forking(in);
	if (in->strangers || kill_others(in, 0) == 0)
		return;
	background_stop_others(in);
	(void)kill_others(in, SIGKILL);
	kill_wake(in);
}
