/* SPDX-License-Identifier: Apache-2.0 */
/* A session that is set aside. While the continuations of a branch execute in forks of a kept backup, the session
 * process and all that its cells have started are stopped: they keep their threads, locks and connections, and go on
 * when the branch is over. A continuation cannot use a server of the session meanwhile, and the session's ports and
 * locks are taken.
 *
 * The processes are noted as in session_processes.c, by process id and start time. They have the uid of the runs, so
 * a continuation may kill them. Without its process the session comes back as a fork of the kept backup. */
#include "init.h"

#include "base/fdio.h"

#include <signal.h>

static const struct init_session none = {
    .channel = -1, .backup_channel = -1, .old_channel = -1, .carried = -1};

void parked_start(struct init *in)
{
	in->parked = none;
}

static void note(struct init *in, pid_t pid, int signo UNUSED)
{
	struct init_session *s = &in->session;
	struct end_stat st;

	if (s->n_noted < SESSION_NOTED_MAX && end_stat(in, pid, &st))
		s->noted[s->n_noted++] = (struct init_noted){.pid = pid, .start = st.start};
}

void session_park(struct init *in, pid_t pid, int channel, bool carries)
{
	struct init_session *s = &in->session;

	if (s->pid > 0) {
		session_rest(in); /* its backup ends: the kept one is the same */
		s->n_noted = 0;
		(void)kill_each(in, note, 0);
		s->look_at = 0;
		in->parked = *s;
		*s = none;
	}
	session_adopt(in, pid, channel, carries);
}

bool session_return(struct init *in)
{
	if (in->parked.pid <= 0)
		return false;
	session_adopt(in, 0, -1, false);
	in->parked.gone_pid = in->session.gone_pid;
	in->session = in->parked;
	in->parked = none;
	session_wanted(in);
	session_settled(in);
	return true;
}

void parked_end(struct init *in)
{
	struct init_session *s = &in->parked;
	const pid_t pid = s->pid;
	struct end_stat st;

	if (pid <= 0)
		return;
	(void)kill(pid, SIGKILL);
	for (size_t i = 0; i < s->n_noted; i++)
		if (end_stat(in, s->noted[i].pid, &st) && st.start == s->noted[i].start)
			(void)kill(s->noted[i].pid, SIGKILL);
	(void)fd_close(s->channel);
	*s = none;
	s->gone_pid = pid;
}

bool parked_keeps(const struct init *in, pid_t pid)
{
	const struct init_session *s = &in->parked;
	struct end_stat st;

	if (pid > 0 && (pid == s->pid || pid == s->gone_pid))
		return true;
	for (size_t i = 0; i < s->n_noted; i++)
		if (s->noted[i].pid == pid)
			return end_stat(in, pid, &st) && st.start == s->noted[i].start;
	return false;
}

bool parked_any(const struct init *in)
{
	return in->parked.pid > 0;
}

bool parked_reaped(struct init *in, pid_t pid)
{
	struct init_session *s = &in->parked;

	if (pid != s->pid && pid != s->gone_pid)
		return false;
	if (pid == s->pid)
		parked_end(in);
	s->gone_pid = 0;
	return true;
}
