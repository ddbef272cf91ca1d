/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: sessions of one sandbox, each with variables of its own. One of them is current: in->session, for which the other
 * files are written. A stateful run of another one makes that current first, and the one that was is set aside. It
 * keeps its backup, and its processes stay stopped until a run is on: then they go on beside it, as those of the current
 * session do, so that a run can reach a server that another context has started.
 *
 * While the continuations of a branch execute, the session that was there is set aside, too (ASIDE_BRANCH). It and all that
 * its cells have started stay stopped: they keep their threads, locks and connections, and a continuation cannot use them.
 * The session's ports and locks are taken meanwhile. Checkpoints and branches are of the default context.
 *
 * The processes are noted as in session_processes.c, by process id and start time, and what has a noted one among its
 * ancestors belongs to the same session. They have the uid of the runs, so a run may kill them. A session whose process
 * has died goes on from its backup when it becomes current again. */
#include "init.h"

#include "base/fdio.h"
#include "base/walls.h"

#include <signal.h>
#include <sys/resource.h>

#define DEPTH_MAX 64 /* of a chain of parents that is followed */
#define END_TRIES 20 /* looks for processes with a mark, until there are none */
/* Above those of background processes, whose numbers have 32 bits: background_owner.c. */
#define MARK_FIRST ((UINT64_C(1) << 62) + (UINT64_C(1) << 40))

static const struct init_session none = {
    .channel = -1, .backup_channel = -1, .old_channel = -1, .carried = -1};

static const struct init_aside *next_used(const struct init *in, size_t *i)
{
	for (; *i < ARRAY_SIZE(in->contexts.at); (*i)++)
		if (in->contexts.at[*i].used)
			return &in->contexts.at[(*i)++];
	return NULL;
}

#define each_aside(in, a) for (size_t i_ = 0; (in)->contexts.n > 0 && ((a) = next_used((in), &i_));)

/* PID is the process of a session that is set aside, or a backup of it. */
static bool is_interpreter(const struct init_session *s, pid_t pid)
{
	return pid == s->pid || pid == s->backup || pid == s->old || pid == s->gone_pid;
}

static bool is_noted(const struct init_session *s, pid_t pid, uint64_t start)
{
	for (size_t i = 0; i < s->n_noted; i++)
		if (s->noted[i].pid == pid && s->noted[i].start == start)
			return true;
	return false;
}

static bool may_have_processes(const struct init_session *s)
{
	return s->n_noted > 0 || s->threads > 1;
}

/* Whose process PID is, as far as it is none of an interpreter; NULL = of no session that is set aside. */
static const struct init_aside *owner_of(const struct init *in, pid_t pid)
{
	const struct init_aside *a;
	bool any = false;

	each_aside(in, a) any = any || may_have_processes(&a->session);
	for (int i = 0; any && pid > 1 && i < DEPTH_MAX; i++) {
		struct end_stat st;
		if (!end_stat(in, pid, &st))
			return NULL;
		each_aside(in, a) if (pid == a->session.pid ||
				      is_noted(&a->session, pid, st.start)) return a;
		pid = st.parent;
	}
	return NULL;
}

bool contexts_wait(const struct init *in, pid_t pid)
{
	const struct init_aside *a;

	each_aside(in, a) if (pid > 0 && is_interpreter(&a->session, pid)) return true;
	return false;
}

bool contexts_keep(const struct init *in, pid_t pid)
{
	return contexts_wait(in, pid) || owner_of(in, pid);
}

bool contexts_any(const struct init *in)
{
	return in->contexts.n > 0;
}

bool contexts_active(const struct init *in)
{
	const struct init_aside *a;

	each_aside(in, a) if (may_have_processes(&a->session)) return true;
	return false;
}

pid_t contexts_next(const struct init *in, size_t *at)
{
	const struct init_aside *a = next_used(in, at);

	return a ? a->session.pid : -1;
}

/* ---- what those that are set aside do while a run is on ---- */

static const struct init_aside *asked; /* by is_asked(); NULL = all but that of a branch */

static bool is_asked(const struct init *in, pid_t pid)
{
	const struct init_aside *a = contexts_wait(in, pid) ? NULL : owner_of(in, pid);

	return a && (asked ? a == asked : a != &in->contexts.at[ASIDE_BRANCH]);
}

static void send_signal(struct init *in UNUSED, pid_t pid, int signo)
{
	(void)kill(pid, signo);
}

static void end_awake(struct init *in, pid_t pid, int signo)
{
	if (end_look_at(in, pid) == END_ALIVE)
		(void)kill(pid, signo);
}

void contexts_go_on(struct init *in)
{
	const struct init_aside *a;

	if (!contexts_active(in))
		return;
	each_aside(in, a) if (a != &in->contexts.at[ASIDE_BRANCH] && a->session.threads > 1 &&
			      a->session.pid > 0)(void) kill(a->session.pid, SIGCONT);
	asked = NULL;
	(void)kill_each_that(in, is_asked, send_signal, SIGCONT);
}

void contexts_end_awake(struct init *in)
{
	const struct init_aside *a;

	if (!contexts_active(in))
		return;
	each_aside(in, a) if (a->session.pid > 0) end_awake(in, a->session.pid, SIGKILL);
	asked = NULL;
	(void)kill_each_that(in, is_asked, end_awake, SIGKILL);
}

/* ---- marks ---- */

/* A daemon that a process of one context makes while a run of another is on has lost its ancestors. At the end of that run it is
 * taken for one of that context: it rests, and goes on, with it. So that it ends with its own, the first process of a
 * session has a hard limit of resident memory (RLIMIT_RSS, which no kernel enforces) that no other session has. Children
 * keep it, and init reads it. Who takes the mark of another context ends with that one, too, and gains nothing. */
void contexts_mark(struct init *in, pid_t pid)
{
	struct init_session *s = &in->session;

	if (s->mark == 0)
		s->mark = MARK_FIRST + ++in->contexts.marks;
	const struct rlimit l = {.rlim_cur = s->mark, .rlim_max = s->mark};
	/* Without it (gVisor) the other rules hold. */
	(void)prlimit(pid, RLIMIT_RSS, &l, NULL);
}

uint64_t contexts_mark_of(pid_t pid)
{
	struct rlimit l;

	return pid > 0 && prlimit(pid, RLIMIT_RSS, NULL, &l) == 0 && l.rlim_max >= MARK_FIRST &&
		       l.rlim_max != RLIM_INFINITY
		   ? l.rlim_max
		   : 0;
}

static uint64_t ended; /* the mark of those that is_of_ended() finds */

/* Checkpoints and branches of a session have its mark and outlive it. */
static bool is_of_ended(const struct init *in, pid_t pid)
{
	return contexts_mark_of(pid) == ended && !contexts_wait(in, pid) &&
	       !checkpoints_keep(in, pid) && !session_keeps(in, pid) && !end_is_leaving(in, pid);
}

static void end_marked(struct init *in, uint64_t mark)
{
	ended = mark;
	for (int i = 0; mark != 0 && wall_stands(WALL_MARKS) && i < END_TRIES; i++)
		if (kill_each_that(in, is_of_ended, send_signal, SIGKILL) == in->dying)
			return;
}

/* ---- aside and back ---- */

static void note(struct init *in, pid_t pid, int signo UNUSED)
{
	struct init_session *s = &in->session;
	struct end_stat st;

	if (s->n_noted < SESSION_NOTED_MAX && end_stat(in, pid, &st))
		s->noted[s->n_noted++] = (struct init_noted){.pid = pid, .start = st.start};
}

static bool is_empty(const struct init_session *s)
{
	return s->state == SESSION_NONE && s->gone_pid == 0 && !s->lost && !s->behind &&
	       s->kept == 0 && s->gone == 0;
}

static void set_aside(struct init *in, size_t place)
{
	struct init_session *s = &in->session;
	struct init_aside *a = &in->contexts.at[place];

	s->n_noted = 0;
	s->look_at = 0;
	if (s->state != SESSION_NONE)
		(void)kill_each(in, note, 0);
	if (!is_empty(s)) {
		*a = (struct init_aside){.used = true, .session = *s};
		in->contexts.n++;
	}
	*s = none;
}

static void give_up(struct init *in, pid_t pid)
{
	if (pid <= 0)
		return;
	(void)kill(pid, SIGKILL);
	(void)end_leave(in, pid); /* its time is not that of the run that is on */
}

static void end_aside(struct init *in, size_t place)
{
	struct init_aside *a = &in->contexts.at[place];
	struct init_session *s = &a->session;

	if (!a->used)
		return;
	asked = a;
	if (wall_stands(WALL_TREE))
		(void)kill_each_that(in, is_asked, send_signal, SIGKILL);
	give_up(in, s->pid);
	give_up(in, s->backup);
	give_up(in, s->old);
	give_up(in, s->gone_pid);
	(void)fd_close(s->channel);
	(void)fd_close(s->backup_channel);
	(void)fd_close(s->old_channel);
	a->used = false;
	in->contexts.n--;
}

static void bring_back(struct init *in, size_t place)
{
	struct init_aside *a = &in->contexts.at[place];

	if (!a->used)
		return;
	in->session = a->session;
	a->used = false;
	in->contexts.n--;
	if (in->session.state != SESSION_NONE && in->session.pid <= 0)
		session_take_over(in);
	else
		session_settled(in);
}

/* While a process is being made that init does not know yet, it would be taken for one of the session's. */
static bool can_choose(struct init *in)
{
	const enum session_state is = in->session.state;

	if (in->strangers && !run_is_on(in))
		kill_strangers(in);
	return !in->strangers && !run_is_on(in) && is != SESSION_FORKING && is != SESSION_WAKING &&
	       in->warm.spare_state != SPARE_FORKING && !checkpoints_forking(in);
}

bool contexts_choose(struct init *in, uint32_t context)
{
	if (context == in->contexts.current)
		return true;
	if (!can_choose(in))
		return false;
	warm_events(in, POLLIN, 0); /* learn the pid of a clean interpreter that has just come */
	set_aside(in, in->contexts.current);
	in->contexts.current = context;
	bring_back(in, context);
	return true;
}

enum session_state contexts_state(const struct init *in, uint32_t context)
{
	const struct init_aside *a = &in->contexts.at[context];

	if (context == in->contexts.current)
		return in->session.state;
	return a->used ? a->session.state : SESSION_NONE;
}

void contexts_end(struct init *in, uint32_t context)
{
	const bool current = context == in->contexts.current;
	const uint64_t mark = current ? in->session.mark : in->contexts.at[context].session.mark;

	variables_ended(context);
	if (current) {
		in->session.from_disk =
		    false; /* so that names that are gone are not told any more */
		session_adopt(in, 0, -1, false);
		in->session.lost = in->session.behind = false;
	} else {
		end_aside(in, context);
	}
	end_marked(in, mark);
}

/* The variables are read only when there is an interpreter for that: the image's zygote may have to be started first. */
void contexts_come(struct init *in, uint32_t context)
{
	if (contexts_choose(in, context) && in->warm.spare_state == SPARE_READY)
		(void)variables_wanted(in, context);
}

void contexts_begin(struct init *in, const struct proto_init_run *f)
{
	if (f->restarts)
		contexts_end(in, f->context);
	contexts_come(in, f->context);
}

void contexts_rest(struct init *in)
{
	for (size_t i = 0; i < PROTO_CONTEXTS_MAX; i++) {
		struct init_session *s = &in->contexts.at[i].session;
		if (!in->contexts.at[i].used || s->state != SESSION_READY)
			continue;
		give_up(in, s->backup);
		s->backup = 0;
		s->backup_channel = fd_close(s->backup_channel);
		session_to(s, SESSION_RESTING);
	}
}

bool contexts_reaped(struct init *in, pid_t pid)
{
	for (size_t i = 0; in->contexts.n > 0 && i < ARRAY_SIZE(in->contexts.at); i++) {
		struct init_session *s = &in->contexts.at[i].session;
		if (!in->contexts.at[i].used || !is_interpreter(s, pid))
			continue;
		if (pid == s->pid && i == ASIDE_BRANCH) {
			end_aside(in, i);
			(void)end_reaped(in, pid);
		} else if (pid == s->pid) {
			s->pid = 0;
		} else if (pid == s->backup) {
			s->backup = 0;
			s->backup_channel = fd_close(s->backup_channel);
			if (s->state == SESSION_READY) /* another one is made when it is needed */
				session_to(s, SESSION_RESTING);
		} else if (pid == s->old) {
			s->old = 0;
			s->old_channel = fd_close(s->old_channel);
		} else {
			s->gone_pid = 0;
		}
		return true;
	}
	return false;
}

/* ---- branches ---- */

void session_park(struct init *in, pid_t pid, int channel, bool carries)
{
	if (in->session.pid > 0) {
		session_rest(in); /* its backup ends: the kept one is the same */
		set_aside(in, ASIDE_BRANCH);
	}
	session_adopt(in, pid, channel, carries);
}

bool session_return(struct init *in)
{
	if (!parked_any(in))
		return false;
	session_adopt(in, 0, -1, false);
	in->contexts.at[ASIDE_BRANCH].session.gone_pid = in->session.gone_pid;
	bring_back(in, ASIDE_BRANCH);
	session_wanted(in);
	return true;
}

void parked_end(struct init *in)
{
	end_aside(in, ASIDE_BRANCH);
}

bool parked_any(const struct init *in)
{
	return in->contexts.at[ASIDE_BRANCH].used;
}
