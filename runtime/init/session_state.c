/* SPDX-License-Identifier: Apache-2.0 */
/* Stateful runs. All cells of a session execute in one process, the *session process*: its threads, its open files and
 * its loop are there in the next cell. Its *backup* is a stopped fork that it made after the last cell. If the session
 * process dies, the backup takes its place, with the state before the run.
 *
 *   first cell    executes in the spare of the clean interpreter, which becomes the session process
 *   between runs  the session process forks the backup. Then both are stopped, and so is every process that a cell
 *                 has started (session_processes.c). So nothing executes between runs.
 *   later cells   the session process goes on; the backup stays stopped
 *
 * Where a library of the session cannot go on in a fork, the backup writes its variables down, and a spare reads them
 * (runtime/python/carry.py). The end of the run is told after that.
 *
 * A backup executes nothing before it is needed, and holds no pipe, connection or lock of the session
 * (backup_files.c). It is ended when the next one is there: a session process that dies while it forks leaves the one
 * from before its last cell, and the next answer says so.
 *
 * Both have the uid of the runs, so a run can kill them. Without a backup the session goes on, and its variables are
 * lost if it dies: the next INIT_ENDED says so once, and a new session begins. Submitted code can also find the
 * channel of its process and send any frame itself; these are checked against what init knows. */
#include "init.h"

#include "base/attr.h"
#include "base/fdio.h"
#include "base/kill_points.h"
#include "frames.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_LOOK_NS UINT64_C(100000000) /* after a run; then after twice the time, and so on */
#define LAST_LOOK_NS  UINT64_C(60000000000)

#define TO(state) (1u << SESSION_##state)

/* A step that is not in this table is an error in init itself, so init ends. Submitted code cannot
 * cause one: what it sends is checked before session_to() is called. */
static const uint8_t allowed[] = {
    [SESSION_NONE] = TO(RUNNING) | TO(WAKING),
    [SESSION_WAKING] = TO(NONE) | TO(HELD),
    [SESSION_RUNNING] = TO(NONE) | TO(HELD),
    [SESSION_HELD] = TO(NONE) | TO(RESTING) | TO(FORKING),
    [SESSION_RESTING] = TO(NONE) | TO(HELD),
    [SESSION_FORKING] = TO(NONE) | TO(READY),
    [SESSION_READY] = TO(NONE) | TO(HELD) | TO(RESTING) | TO(RUNNING),
};

void session_to(struct init_session *s, enum session_state state)
{
	if (!(allowed[s->state] & (1u << state)))
		init_die("session state");
	s->state = state;
}

static void end_backup(struct init_session *s)
{
	if (s->backup > 0)
		(void)kill(s->backup, SIGKILL);
	s->backup_channel = fd_close(s->backup_channel);
	s->backup = 0;
}

/* It is a process that leaves, so that nobody takes it for one of the session until it has ended. */
static void end_old(struct init *in)
{
	struct init_session *s = &in->session;

	if (s->old > 0 && !end_leave(in, s->old))
		(void)kill(s->old, SIGKILL);
	s->old_channel = fd_close(s->old_channel);
	if (s->old > 0 && in->defer_until == 0)
		deferral_end(in);
	s->old = 0;
}

static void end_session(struct init *in)
{
	struct init_session *s = &in->session;

	end_backup(s);
	end_old(in);
	if (s->pid > 0) {
		(void)kill(s->pid, SIGKILL);
		s->gone_pid = s->pid;
	}
	s->channel = fd_close(s->channel);
	s->carried = fd_close(s->carried);
	s->pid = 0;
	s->until = 0;
	s->threads = s->processes = 0;
	s->has_threads = s->has_services = s->has_processes = s->has_connections = false;
	s->look_at = 0;
	s->n_noted = 0;
	s->has_state = false;
	if (s->state != SESSION_NONE)
		session_to(s, SESSION_NONE);
}

void session_take_over(struct init *in)
{
	struct init_session *s = &in->session;
	const bool behind = s->backup == 0 && s->old > 0;
	const pid_t pid = behind ? s->old : s->backup;
	const int channel = behind ? s->old_channel : s->backup_channel;

	if (s->has_state && pid == 0) {
		s->lost = true;
		s->why = s->state == SESSION_WAKING && s->from_disk && !s->carried_on
			     ? PROTO_LOST_RESTED
			 : s->state != SESSION_WAKING              ? PROTO_LOST_ALONE
			 : s->until != 0 && init_now() >= s->until ? PROTO_LOST_SILENT
								   : PROTO_LOST_CRASHED;
	}
	if (behind) {
		s->old = 0;
		s->old_channel = -1;
	} else if (pid > 0) {
		s->backup = 0;
		s->backup_channel = -1;
	}
	session_adopt(in, pid, channel, behind ? s->old_carries : s->carries);
	s->behind |= behind;
}

void session_start(struct init *in)
{
	in->session = (struct init_session){
	    .channel = -1, .backup_channel = -1, .old_channel = -1, .carried = -1};
}

void session_say(struct init *in, struct proto_init_ended *e)
{
	struct init_session *s = &in->session;

	if (s->lost) {
		e->flags |= PROTO_ENDED_LOST;
		e->lost = s->why;
	}
	if (s->carried_on)
		e->flags |= PROTO_ENDED_CARRIED;
	if (s->from_disk && s->gone > 0)
		e->flags |= PROTO_ENDED_RESTED;
	if (s->carried_on || s->gone > 0) {
		e->names_kept = s->kept;
		e->names_gone = s->gone;
		memcpy(e->gone, s->names, sizeof(e->gone));
	}
	if (s->behind && !s->lost)
		e->flags |= PROTO_ENDED_BEHIND;
	s->lost = s->behind = s->carried_on = s->from_disk = false;
	s->kept = s->gone = 0;
}

void session_lose(struct init *in)
{
	in->session.lost = true;
	in->session.why = PROTO_LOST_SILENT;
	session_adopt(in, 0, -1, false);
}

bool session_keeps(const struct init *in, pid_t pid)
{
	const struct init_session *s = &in->session;

	return pid > 0 && ((pid == s->pid && s->state != SESSION_RUNNING) || pid == s->backup ||
			   pid == s->old || pid == s->gone_pid);
}

pid_t session_waiting(const struct init *in)
{
	return in->session.state == SESSION_RUNNING ? in->session.backup : in->session.pid;
}

void session_rest(struct init *in)
{
	struct init_session *s = &in->session;

	if (s->state != SESSION_HELD && s->state != SESSION_READY)
		return;
	end_backup(s);
	end_old(in);
	session_to(s, SESSION_RESTING);
}

void session_wanted(struct init *in)
{
	if (in->session.state == SESSION_RESTING)
		session_to(&in->session, SESSION_HELD);
}

/* FORKING ends when the session process rests, and its backup is there or could not be made. */
static void look_ready(struct init *in)
{
	struct init_session *s = &in->session;

	if (s->state != SESSION_FORKING || !s->rested || (s->backup == 0 && s->backup_channel >= 0))
		return;
	session_to(s, SESSION_READY);
	s->until = 0;
	end_old(in);
	processes_stop(in);
	session_settled(in);
	KILL_POINT(BACKUP_READY);
}

void session_late(struct init *in)
{
	struct init_session *s = &in->session;

	if (s->state != SESSION_FORKING && s->state != SESSION_WAKING)
		return;
	if (s->state == SESSION_WAKING || !s->rested) {
		session_take_over(in);
		return;
	}
	end_backup(s); /* the session goes on without one */
	look_ready(in);
}

void session_settled(struct init *in)
{
	struct init_session *s = &in->session;

	s->look_in = FIRST_LOOK_NS;
	s->look_at =
	    s->processes > 0 || s->threads > 1 || contexts_active(in) ? init_now() + s->look_in : 0;
}

static void end_awake(struct init *in)
{
	processes_end_awake(in);
	contexts_end_awake(in);
}

/* Between runs: what a run could have left executes although it was stopped (a timer of timer_create(2) can send
 * SIGCONT), or handlers of a fork execute. What was stopped and is awake is ended. */
static void session_look(struct init *in)
{
	struct init_session *s = &in->session;
	const bool forks = s->state == SESSION_FORKING || s->state == SESSION_WAKING;

	s->look_in = forks ? SESSION_FORK_LOOK_NS : MIN(2 * s->look_in, LAST_LOOK_NS);
	s->look_at = init_now() + s->look_in;
	/* not while a process may be made that init does not know yet */
	if (!forks && in->warm.spare_state != SPARE_FORKING && !checkpoints_forking(in))
		end_awake(in);
	/* Handlers of a fork, and the values that are written or read, are submitted code as in a run. */
	bool over =
	    (in->config.poll_memory && watch_memory(in) == 0) || (forks && sockets_watch(in));
	if (over || (!forks && s->pid > 0 && end_look_at(in, s->pid) == END_ALIVE))
		session_take_over(in);
}

void session_prepare(struct init *in)
{
	struct init_session *s = &in->session;
	/* The fork inherits cgroup, limits, Landlock rules and filter, so it needs no more. */
	struct rt_fork k = {.h = {.kind = RT_FORK},
			    .awaited = in->run.state == RUN_WAITING || in->back_to_back,
			    .rests = 1};
	int pair[2];

	if (s->state == SESSION_WAKING)
		session_wake_on(in);
	if (s->until != 0 && init_now() >= s->until)
		session_late(in);
	if (s->look_at != 0 && (in->run.state == RUN_NONE || s->state == SESSION_WAKING) &&
	    init_now() >= s->look_at)
		session_look(in);
	if (in->run.state == RUN_WAITING && in->waiting.f.kind == PROTO_RUN_STATEFUL &&
	    in->waiting.f.context == in->contexts.current)
		session_wanted(in);
	if (s->state != SESSION_HELD || run_is_on(in) || in->warm.spare_state == SPARE_FORKING ||
	    (in->defer_until != 0 && !in->back_to_back) || checkpoints_replace(in) ||
	    warm_pair(pair) < 0)
		return;
	if (in->inward) /* see the top of session_processes.c */
		processes_go_on(in);
	else
		(void)kill(s->pid, SIGCONT);
	ssize_t sent = fd_send(s->channel, &k, sizeof(k), &pair[1], 1, MSG_DONTWAIT);
	(void)close(pair[1]);
	s->backup_channel = pair[0];
	s->rested = false;
	session_to(s, SESSION_FORKING);
	s->until = init_now() + SESSION_FORK_WAIT_NS;
	s->look_at = init_now() + SESSION_FORK_LOOK_NS;
	if (sent < 0)
		session_take_over(in);
}

uint64_t session_next(const struct init *in)
{
	const struct init_session *s = &in->session;

	const uint64_t disk = session_is_waking(in) ? disk_next(in) : 0;

	return init_sooner(init_sooner(s->until, s->look_at), disk);
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

	if (s->state == SESSION_NONE) {
		contexts_mark(in, in->warm.spare);
		const pid_t pid = warm_take(in, c, &s->channel);
		if (pid > 0) {
			s->pid = pid;
			session_to(s, SESSION_RUNNING);
			processes_go_on(in);
		}
		return pid;
	}
	int r = warm_send_run(s->channel, c);
	if (r < 0) {
		session_take_over(in);
		return r;
	}
	session_to(s, SESSION_RUNNING);
	processes_go_on(in);
	return s->pid;
}

int session_channel(const struct init *in)
{
	const struct init_session *s = &in->session;

	return s->state == SESSION_RUNNING || s->state == SESSION_FORKING ||
		       s->state == SESSION_WAKING
		   ? s->channel
		   : -1;
}

/* The backup has ended between runs. Another one is made when it is needed, and not again and again. */
static void lack_backup(struct init_session *s)
{
	if (s->state == SESSION_READY)
		session_to(s, SESSION_RESTING);
}

static void backup_event(struct init *in)
{
	struct init_session *s = &in->session;
	struct rt_backed backed;
	pid_t pid = warm_take_frame(s->backup_channel, RT_BACKED, &backed, sizeof(backed));

	if (pid == 0)
		return;
	/* Submitted code can answer in place of its fork: then the pid is one that init knows. */
	siginfo_t what = {0};
	bool known = pid == s->pid || pid == s->old || checkpoints_keep(in, pid);
	bool ours =
	    pid > 0 && !known && waitid(P_PID, (id_t)pid, &what, WEXITED | WNOHANG | WNOWAIT) == 0;
	if (ours && s->backup == 0 && s->state == SESSION_FORKING) {
		s->backup = pid;
		s->has_connections = backed.connections > 0;
		(void)kill(pid, SIGSTOP);
	} else {
		/* it could not be made, has ended, or speaks although nobody asked */
		end_backup(s);
		lack_backup(s);
	}
	look_ready(in);
}

static void rested_event(struct init *in)
{
	struct init_session *s = &in->session;
	struct rt_rested rested;
	pid_t pid = warm_take_frame(s->channel, RT_RESTED, &rested, sizeof(rested));

	if (pid == 0)
		return;
	if (pid != s->pid) { /* it has ended, or this is nonsense */
		(void)kill(s->pid, SIGKILL);
		session_take_over(in);
		return;
	}
	s->rested = true;
	s->carries = rested.carries;
	look_ready(in);
}

static void done_event(struct init *in)
{
	struct init_session *s = &in->session;
	struct init_run *r = &in->run;
	struct rt_run_done done;
	ssize_t n = recv(s->channel, &done, sizeof(done), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0)
		return;
	if (n != sizeof(done) || done.h.kind != RT_RUN_DONE || r->pid <= 0 ||
	    r->state != RUN_RUNNING) { /* KILLING: it was sent SIGKILL just before it returned */
		/* nonsense: the run ends when its process exits */
		s->channel = fd_close(s->channel);
		return;
	}
	end_old(in);
	s->old = s->backup;
	s->old_channel = s->backup_channel;
	s->old_carries = s->carries;
	s->backup = 0;
	s->backup_channel = -1;
	session_to(s, SESSION_HELD);
	s->has_state = true;
	variables_mark(in->contexts.current);
	if ((done.left & RT_LEFT_THREADS) && !s->has_threads)
		r->flags |= PROTO_ENDED_RESTS;
	s->has_threads = done.left & RT_LEFT_THREADS;
	s->has_services = done.left & RT_LEFT_SERVICES;
	s->threads = done.threads;
	r->flags |= PROTO_ENDED_KEPT;
	KILL_POINT(STATE_TAKEN);
	r->cell = done.cell;
	run_returned(in, done.status & 0xff, done.cpu_ns, done.max_rss);
}

void session_events(struct init *in, short backup, short process)
{
	if (backup && in->session.backup_channel >= 0)
		backup_event(in);
	if (!process || session_channel(in) < 0)
		return;
	if (in->session.state == SESSION_FORKING)
		rested_event(in);
	else if (in->session.state == SESSION_WAKING)
		session_woken(in);
	else
		done_event(in);
}

/* The process of a run has exited: what is left in its channel is ignored. */
void session_run_ended(struct init *in)
{
	struct init_session *s = &in->session;

	if (s->state != SESSION_RUNNING)
		return;
	in->run.gone = session_kinds(in);
	s->pid = 0;
	session_take_over(in);
}

uint32_t session_kinds(const struct init *in)
{
	const struct init_session *s = &in->session;

	return (s->has_threads && !(s->has_services && !s->carries) ? PROTO_KIND_THREADS : 0U) |
	       (s->has_processes ? PROTO_KIND_PROCESSES : 0U) |
	       (s->has_connections ? PROTO_KIND_CONNECTIONS : 0U);
}

bool session_reaped(struct init *in, pid_t pid)
{
	struct init_session *s = &in->session;

	if (pid == s->gone_pid) {
		s->gone_pid = 0;
	} else if (pid == s->old) {
		s->old = 0;
		s->old_channel = fd_close(s->old_channel);
	} else if (pid == s->backup) {
		s->backup = 0;
		end_backup(s);
		lack_backup(s);
		look_ready(in);
	} else if (pid == s->pid) {
		s->pid = 0;
		session_take_over(in);
	} else {
		return false;
	}
	return true;
}

pid_t session_part(struct init *in, int *ret_channel)
{
	struct init_session *s = &in->session;
	pid_t pid = s->backup;

	*ret_channel = s->backup_channel;
	s->backup_channel = -1;
	s->backup = 0;
	session_to(s, SESSION_HELD);
	return pid;
}

void session_adopt(struct init *in, pid_t pid, int channel, bool carries)
{
	struct init_session *s = &in->session;

	end_session(in);
	variables_forget(in->contexts.current);
	s->carried_on = false;
	s->kept = 0;
	if (!s->from_disk) /* else the client has not been told yet */
		s->gone = 0;
	s->mark = contexts_mark_of(pid);
	if (pid > 0) {
		session_to(s, SESSION_WAKING);
		s->waking = WAKING_WAITS;
		s->carries = carries;
		s->pid = pid;
		s->channel = channel;
		s->has_state = true;
	}
	kill_strangers(in); /* those of the session process that has gone */
}
