/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that the cells of a session have started. They live until the session ends or its process dies, and
 * execute while any run of the sandbox is on, so that a command can reach a server that a cell has started. Between
 * runs they are stopped.
 *
 * When a stateless run begins, every process besides the kept interpreters is one of them. They are noted then, by
 * process id and start time, because a run can make processes until an id comes again. When it ends, those are kept
 * that are noted or have a noted process among their ancestors. A daemon that one of them makes meanwhile has lost its
 * ancestors, and ends with the run.
 *
 * gVisor's kernel sends SIGHUP to an orphaned process group with a stopped process in it whenever any process leaves
 * the group, not only when the group becomes an orphan (setpgid(2)). The session process, its children and the middle
 * process of a backup are one such group. So under gVisor (init.inward) they go on together, also while a backup is
 * made. */
#include "init.h"

#include "base/attr.h"

#include <signal.h>

#define STOP_TRIES    20
#define STOP_PAUSE_NS 100000 /* between two; a signal reaches another processor in microseconds */
#define DEPTH_MAX     64     /* of a chain of parents that is followed */

static void note(struct init *in, pid_t pid, int signo)
{
	struct init_session *s = &in->session;
	struct end_stat st;

	(void)kill(pid, signo);
	if (s->n_noted < SESSION_NOTED_MAX && end_stat(in, pid, &st))
		s->noted[s->n_noted++] = (struct init_noted){.pid = pid, .start = st.start};
}

static void send_signal(struct init *in UNUSED, pid_t pid, int signo)
{
	(void)kill(pid, signo);
}

/* True = it is gVisor's kernel, and all have been sent SIGCONT. An interpreter that waits does so for a message. */
static bool go_on_at_once(const struct init *in)
{
	return in->inward && kill(-1, SIGCONT) == 0;
}

void processes_go_on(struct init *in)
{
	(void)kill(in->session.pid, SIGCONT);
	if ((in->session.processes > 0 || contexts_active(in)) && go_on_at_once(in))
		return;
	if (in->session.processes > 0)
		(void)kill_each(in, send_signal, SIGCONT);
	contexts_go_on(in);
}

void processes_note(struct init *in)
{
	struct init_session *s = &in->session;

	s->n_noted = 0;
	if (s->state != SESSION_NONE && s->threads > 1)
		(void)kill(s->pid, SIGCONT);
	if (s->processes > 0) {
		(void)go_on_at_once(in);
		(void)kill_each(in, note, SIGCONT);
	}
	contexts_go_on(in);
}

static void ignore(struct init *in UNUSED, pid_t pid UNUSED, int signo UNUSED)
{
}

static void end_awake(struct init *in, pid_t pid, int signo)
{
	if (end_look_at(in, pid) == END_ALIVE)
		(void)kill(pid, signo);
}

void processes_end_awake(struct init *in)
{
	(void)kill_each(in, end_awake, SIGKILL);
}

/* What was killed, such as the backup of a session that began anew, may have much memory to free. */
static uint32_t count(struct init *in)
{
	const uint32_t found = kill_each(in, ignore, 0);

	return found - in->dying;
}

void processes_stop(struct init *in)
{
	const struct timespec moment = {.tv_nsec = STOP_PAUSE_NS};
	warm_events(in, POLLIN, 0); /* learn the pid of a clean interpreter that has just come */
	background_stop_others(in);
	in->session.processes = count(in);
	/* One that runs on another processor may still have sent SIGCONT to one that had stopped. */
	for (int i = 0; in->awake > 0 && i < STOP_TRIES; i++) {
		(void)nanosleep(&moment, NULL);
		background_stop_others(in);
		in->session.processes = count(in);
	}
	if (in->awake > 0)
		processes_end_awake(in);
	kill_wake(in);
}

static bool is_noted(const struct init_session *s, pid_t pid, uint64_t start)
{
	for (size_t i = 0; i < s->n_noted; i++)
		if (s->noted[i].pid == pid && s->noted[i].start == start)
			return true;
	return false;
}

bool processes_keep(const struct init *in, pid_t pid)
{
	const struct init_session *s = &in->session;

	if (s->state == SESSION_NONE || s->state == SESSION_RUNNING)
		return false;
	for (int i = 0; pid > 1 && i < DEPTH_MAX; i++) {
		struct end_stat st;
		if (pid == s->pid)
			return true;
		if (!end_stat(in, pid, &st))
			return false;
		if (is_noted(s, pid, st.start))
			return true;
		pid = st.parent;
	}
	return false;
}
