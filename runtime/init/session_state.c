/* SPDX-License-Identifier: Apache-2.0 */
/* Stateful runs. The holder is the process whose memory is the session's state. A run executes in a
 * fork of the holder. When its code has returned (RT_RUN_DONE), that fork becomes the new holder and
 * the old holder is killed. After any other end the old holder stays, with the state before the run.
 *
 *   first run    executes in the spare of the clean interpreter
 *   later runs   execute in `next`, a fork that the holder made ahead of need
 *
 * Between runs holder and `next` are stopped, except while the holder forks, and no other process of
 * the sandbox is left. So nothing that a run leaves behind executes after the run.
 *
 * The holder has the uid of the runs, so a run can kill it. Then the state is lost: the next
 * INIT_ENDED says so once, and a new session state begins. Submitted code can also find the channel
 * and send RT_RUN_DONE or RT_READY itself; these are checked against what init knows. */
#include "init.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "frames.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TO(state) (1u << SESSION_##state)

/* A step that is not in this table is an error in init itself, so init ends. Submitted code cannot
 * cause one: what it sends is checked before session_to() is called. */
static const uint8_t allowed[] = {
    [SESSION_NONE] = TO(HELD),
    [SESSION_HELD] = TO(NONE) | TO(RESTING) | TO(FORKING),
    [SESSION_RESTING] = TO(NONE) | TO(HELD),
    [SESSION_FORKING] = TO(NONE) | TO(READY),
    [SESSION_READY] = TO(NONE) | TO(HELD) | TO(RESTING),
};

/* The only place that changes the state; the picture is in init.h. */
static void session_to(struct init_session *s, enum session_state state)
{
	if (!(allowed[s->state] & (1u << state)))
		init_die("session state");
	s->state = state;
}

static void hold(struct init_session *s, pid_t pid, int channel)
{
	session_to(s, SESSION_HELD);
	s->holder = pid;
	s->holder_channel = channel;
}

static void kill_next(struct init_session *s)
{
	if (s->next > 0)
		(void)kill(s->next, SIGKILL);
	s->next_channel = fd_close(s->next_channel);
	s->next = 0;
}

static void kill_holder(struct init_session *s)
{
	kill_next(s);
	if (s->holder > 0)
		(void)kill(s->holder, SIGKILL);
	s->gone = s->holder;
	s->holder_channel = fd_close(s->holder_channel);
	s->holder = 0;
	if (s->state != SESSION_NONE)
		session_to(s, SESSION_NONE);
}

void session_start(struct init *in)
{
	in->session =
	    (struct init_session){.holder_channel = -1, .next_channel = -1, .run_channel = -1};
}

void session_lose(struct init *in)
{
	kill_holder(&in->session);
	in->session.lost = true;
	kill_strangers(in);
}

bool session_keeps(const struct init *in, pid_t pid)
{
	return pid > 0 &&
	       (pid == in->session.holder || pid == in->session.next || pid == in->session.gone);
}

void session_rest(struct init *in)
{
	struct init_session *s = &in->session;

	if (s->state != SESSION_HELD && s->state != SESSION_READY)
		return;
	kill_next(s);
	session_to(s, SESSION_RESTING);
}

void session_wanted(struct init *in)
{
	if (in->session.state == SESSION_RESTING)
		session_to(&in->session, SESSION_HELD);
}

void session_prepare(struct init *in)
{
	struct init_session *s = &in->session;
	/* The fork inherits cgroup, limits, Landlock rules and filter, so it needs no more. */
	struct rt_fork k = {.h = {.kind = RT_FORK},
			    .awaited = in->run.state == RUN_WAITING || in->hasty};
	int pair[2];

	if (s->state == SESSION_FORKING && init_now() >= s->until)
		session_lose(in);
	if (in->run.state == RUN_WAITING && in->waiting.f.kind == PROTO_RUN_STATEFUL)
		session_wanted(in);
	if (s->state != SESSION_HELD || run_is_on(in) || in->warm.spare_state == SPARE_FORKING ||
	    (in->calm_until != 0 && !in->hasty) || warm_pair(pair) < 0)
		return;
	(void)kill(s->holder, SIGCONT);
	ssize_t sent = fd_send(s->holder_channel, &k, sizeof(k), &pair[1], 1, MSG_DONTWAIT);
	(void)close(pair[1]);
	s->next_channel = pair[0];
	session_to(s, SESSION_FORKING);
	s->until = init_now() + SESSION_FORK_WAIT_NS;
	if (sent < 0)
		session_lose(in);
}

uint64_t session_next(const struct init *in)
{
	return in->session.state == SESSION_FORKING ? in->session.until : 0;
}

bool session_can(const struct init *in)
{
	const struct init_session *s = &in->session;

	return s->state == SESSION_READY ||
	       (s->state == SESSION_NONE && in->warm.spare_state == SPARE_READY);
}

pid_t session_take(struct init *in, const struct run_child *c)
{
	struct init_session *s = &in->session;

	if (s->state == SESSION_NONE)
		return warm_take(in, c, &s->run_channel);
	int r = warm_send_run(s->next_channel, c);
	if (r < 0) {
		session_lose(in);
		return r;
	}
	(void)kill(s->next, SIGCONT);
	return session_part(in, &s->run_channel);
}

static void next_event(struct init *in)
{
	struct init_session *s = &in->session;
	pid_t pid = warm_take_head(s->next_channel, RT_READY);

	if (pid == 0)
		return;
	/* Submitted code can answer in place of its fork: then the pid is one that init knows. */
	bool known = pid == s->holder || checkpoints_keep(in, pid);
	if (pid > 0 && !known && s->state == SESSION_FORKING) {
		s->next = pid;
		session_to(s, SESSION_READY);
		(void)kill(s->holder, SIGSTOP);
		(void)kill(s->next, SIGSTOP);
		end_stop(in);
		kill_strangers(in);
		KILL_POINT(NEXT_READY);
	} else if (s->state == SESSION_FORKING) {
		session_lose(in); /* the holder cannot fork */
	} else {
		kill_next(s);
		session_to(s, SESSION_HELD);
	}
}

static void done_event(struct init *in)
{
	struct init_session *s = &in->session;
	struct init_run *r = &in->run;
	struct rt_run_done done;
	ssize_t n = recv(s->run_channel, &done, sizeof(done), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return;
	if (n != sizeof(done) || done.h.kind != RT_RUN_DONE || r->pid <= 0) {
		/* nonsense: the run ends when its process exits */
		s->run_channel = fd_close(s->run_channel);
		return;
	}
	if (end_leave(in, s->holder)) /* it is stopped; calm_end() kills it later */
		s->holder = 0;
	kill_holder(s);
	hold(s, r->pid, s->run_channel);
	s->run_channel = -1;
	r->flags |= PROTO_ENDED_KEPT;
	KILL_POINT(STATE_TAKEN);
	r->cell = done.cell;
	if (done.lost & RT_LOST_THREADS)
		r->flags |= PROTO_ENDED_THREADS;
	run_returned(in, done.status & 0xff, done.cpu_ns, done.max_rss);
}

void session_events(struct init *in, short next, short run)
{
	if (next && in->session.next_channel >= 0)
		next_event(in);
	if (run && in->session.run_channel >= 0)
		done_event(in);
}

/* The run's process has exited: what is left in its channel is ignored. */
void session_run_ended(struct init *in)
{
	in->session.run_channel = fd_close(in->session.run_channel);
}

bool session_reaped(struct init *in, pid_t pid)
{
	struct init_session *s = &in->session;

	if (pid == s->gone) {
		s->gone = 0;
	} else if (pid == s->next) {
		s->next = 0;
		kill_next(s);
		session_to(s, SESSION_HELD);
	} else if (pid == s->holder) {
		s->holder = 0;
		session_lose(in);
	} else {
		return false;
	}
	return true;
}

pid_t session_part(struct init *in, int *ret_channel)
{
	struct init_session *s = &in->session;
	pid_t pid = s->next;

	*ret_channel = s->next_channel;
	s->next_channel = -1;
	s->next = 0;
	session_to(s, SESSION_HELD);
	return pid;
}

void session_adopt(struct init *in, pid_t pid, int channel)
{
	struct init_session *s = &in->session;

	kill_holder(s);
	if (pid > 0)
		hold(s, pid, channel);
	s->lost = false;
}
