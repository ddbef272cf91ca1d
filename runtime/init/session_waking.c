/* SPDX-License-Identifier: Apache-2.0 */
/* Another process takes the place of a session process that has died: WAKING, see session.h. It is the backup, or a
 * spare that reads what the backup has written down. Code of the session executes meanwhile, so what comes is checked as
 * in session_state.c, and the whole has a time limit. */
#include "init.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "frames.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define WAKE_WAIT_NS UINT64_C(8000000000) /* a backup gives itself three seconds to write */
/* The reader imports the libraries of the session again, and the first import of a large one takes longer than
 * 8 s on a busy machine. */
#define REVIVE_WAIT_NS UINT64_C(20000000000)

static void wake_backup(struct init *in)
{
	struct init_session *s = &in->session;
	const bool stores = variables_writing();
	const struct rt_head wake = {.kind = stores ? RT_STORE : RT_WAKE};

	disk_session_begins(in);
	s->waking = WAKING_BACKUP;
	s->until = init_now() + WAKE_WAIT_NS;
	s->look_at = init_now() + SESSION_FORK_LOOK_NS;
	if (stores)
		s->carried = variables_file(in, s->pid);
	else if (s->carries)
		s->carried = memfd_create("variables", MFD_CLOEXEC);
	(void)kill(s->pid, SIGCONT);
	if (fd_send(s->channel, &wake, sizeof(wake), &s->carried, s->carried >= 0, MSG_DONTWAIT) <
	    0)
		session_take_over(in);
	KILL_POINT(WAKE_SENT);
}

static void revive(struct init *in)
{
	struct init_session *s = &in->session;

	if (in->warm.spare_state == SPARE_NONE && in->warm.channel < 0 && !in->warm.soon)
		warm_ask(in);
	if (in->warm.spare_state != SPARE_READY)
		return;
	contexts_mark(in, in->warm.spare);
	const pid_t pid = warm_take_for(in, RT_REVIVE, s->carried, &s->channel);
	if (pid <= 0) {
		session_take_over(in);
		return;
	}
	s->waking = WAKING_REVIVES;
	s->until = init_now() + REVIVE_WAIT_NS;
	s->pid = pid;
	KILL_POINT(REVIVE_SENT);
}

void session_read(struct init *in, int file)
{
	struct init_session *s = &in->session;

	disk_session_begins(in);
	session_to(s, SESSION_WAKING);
	s->waking = WAKING_SPARE;
	s->until = init_now() + REVIVE_WAIT_NS;
	s->look_at = init_now() + SESSION_FORK_LOOK_NS;
	s->carried = file;
	s->from_disk = true;
	s->has_state = true;
	s->kept = s->gone = 0;
	memset(s->names, 0, sizeof(s->names));
}

bool session_is_read(const struct init *in)
{
	return in->session.state == SESSION_WAKING && in->session.from_disk;
}

bool session_wants_spare(const struct init *in)
{
	return in->session.state == SESSION_WAKING && in->session.waking == WAKING_SPARE;
}

bool session_is_waking(const struct init *in)
{
	return in->session.state == SESSION_WAKING && in->session.waking != WAKING_WAITS;
}

bool session_wakes(struct init *in)
{
	struct init_session *s = &in->session;

	if (s->state == SESSION_WAKING && s->waking == WAKING_WAITS)
		wake_backup(in);
	return s->state == SESSION_WAKING;
}

void session_wake_on(struct init *in)
{
	if (!run_is_on(in) && !in->strangers)
		(void)session_wakes(in);
	if (session_wants_spare(in))
		revive(in);
}

_Static_assert(RT_GONE_MAX == PROTO_GONE_MAX, "the names are passed on as they are");

static void count_names(struct init_session *s, const struct rt_woken *w)
{
	const size_t len = strnlen(s->names, sizeof(s->names) - 1);
	const size_t more = strnlen(w->names, sizeof(w->names));

	s->kept = w->kept;
	s->gone += w->gone;
	if (more > 0 && len + 2 + more < sizeof(s->names)) {
		if (len > 0)
			memcpy(s->names + len, ", ", 2);
		memcpy(s->names + len + (len > 0 ? 2 : 0), w->names, more);
	}
}

void session_woken(struct init *in)
{
	struct init_session *s = &in->session;
	const bool revives = s->waking == WAKING_REVIVES;
	struct rt_woken w;
	const pid_t pid =
	    warm_take_frame(s->channel, revives ? RT_REVIVED : RT_WOKEN, &w, sizeof(w));

	if (pid == 0)
		return;
	if (pid != s->pid || s->waking < WAKING_BACKUP) {
		session_take_over(in);
		return;
	}
	if (!revives && variables_writing()) {
		variables_written(in);
		session_adopt(in, 0, -1, false);
		return;
	}
	if (!revives && !s->from_disk)
		memset(s->names, 0, sizeof(s->names));
	if (s->carried >= 0)
		count_names(s, &w);
	if (s->carried >= 0 && !revives) {
		s->carried_on = true;
		(void)kill(pid, SIGKILL);
		s->gone_pid = pid;
		s->pid = 0;
		s->channel = fd_close(s->channel);
		s->waking = WAKING_SPARE;
		return;
	}
	/* What it has started, and is no descendant, is killed next, out of the same process group: see the top of
	 * session_processes.c. */
	if (!in->inward)
		(void)kill(pid, SIGSTOP);
	s->carried = fd_close(s->carried);
	s->until = s->look_at = 0;
	disk_changed(in);
	session_to(s, SESSION_HELD);
	in->strangers = true;
}
