/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a run, watches its deadlines, and reports its end.
 *
 * A run is over when its first process has ended and no other process of it is left. Only then init sends INIT_ENDED. So
 * when the front reads that message, nothing more can be written to the run's pipes. */
#include "asked.h"
#include "root_user.h"
#include "terminal.h"

#include "base/attr.h"
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUP_AFTER_NS                                                                             \
	UINT64_C(1000000000) /* a cell has not reacted to SIGINT: its children get it, too */
#define WATCH_EVERY_NS   UINT64_C(20000000)    /* between two checks of memory and sockets */
#define WATCH_LEAST_NS   UINT64_C(4000000)     /* where memory is nearly used up, under gVisor */
#define BYTES_PER_NS     4                     /* more than a program can write to */
#define SOCKETS_EVERY_NS UINT64_C(100000000)   /* of sockets alone, if a cgroup limits memory */
#define LOOK_AGAIN_NS    UINT64_C(200000)      /* ENDING: until init counts processes again */
#define STATE_WAIT_NS    UINT64_C(30000000000) /* a session cannot begin without a spare */
#define ASK_MAX          3 /* requests for a clean interpreter; one that arrives may be lost again */
#define SPARE_WAIT_NS    UINT64_C(2000000000) /* then the run starts cold */

static uint64_t later(uint64_t from, uint64_t by)
{
	return by > UINT64_MAX - from ? UINT64_MAX : from + by;
}

static void report_failure(struct init *in, uint32_t id, int errnum)
{
	struct proto_init_ended e = {.head = PROTO_HEAD(INIT_ENDED, proto_init_ended),
				     .run = id,
				     .end = PROTO_END_FAILED,
				     .value = errnum};

	init_send(in, &e.head, NULL, 0);
}

static bool is_command(const struct proto_init_run *f)
{
	return f->kind == PROTO_RUN_ARGV || (f->kind == PROTO_RUN_BACKGROUND && f->argc > 0);
}

/* Stores the descriptors of INIT_RUN in C; -1 = the message is invalid. */
static int sort_fds(const struct proto_init_run *f, const int *fds, size_t n, struct run_child *c)
{
	size_t at = PROTO_RUN_BASE_FDS;

	if (n < PROTO_RUN_BASE_FDS)
		return -1;
	c->out = fds[0];
	c->err = fds[1];
	c->args = fds[2];
	c->code = (f->fds & PROTO_RUN_CODE) && at < n ? fds[at++] : -1;
	c->result = (f->fds & PROTO_RUN_RESULT) && at < n ? fds[at++] : -1;
	c->stdin_fd = (f->fds & PROTO_RUN_STDIN) && at < n ? fds[at++] : -1;
	c->tail = (f->fds & PROTO_RUN_TAIL) && at < n ? fds[at++] : -1;
	bool wants_code = !is_command(f);
	bool wants_result =
	    f->kind == PROTO_RUN_STATEFUL || (f->python & PROTO_PYTHON_NOTEBOOK) != 0;
	bool right_result = f->kind == PROTO_RUN_ARGV || (c->result >= 0) == wants_result;
	return at == n && (c->code >= 0) == wants_code && right_result ? 0 : -1;
}

static bool is_possible(const struct init *in, const struct proto_init_run *f)
{
	return f->run != 0 && f->kind >= PROTO_RUN_PYTHON && f->kind <= PROTO_RUN_BACKGROUND &&
	       (f->fds & ~(uint32_t)(PROTO_RUN_CODE | PROTO_RUN_STDIN | PROTO_RUN_RESULT |
				     PROTO_RUN_TAIL)) == 0 &&
	       f->context < PROTO_CONTEXTS_MAX && f->root <= 1 &&
	       (f->root == 0 || (is_command(f) && root_user_is_there(in))) &&
	       f->argc <= PROTO_ARG_MAX && f->envc <= PROTO_ARG_MAX && f->args_size > 0 &&
	       f->args_size <= PROTO_ARGS_MAX &&
	       (f->rows == 0 && f->columns == 0
		    ? true
		    : f->kind == PROTO_RUN_BACKGROUND && terminal_is_size(f->rows, f->columns)) &&
	       (is_command(f) ? f->argc != 0 : f->kind == PROTO_RUN_PYTHON || f->argc == 0);
}

/* ROOM: bytes of memory that the run may still use. If init comes too late under gVisor, the whole sandbox ends
 * (watch_early() in init.c), and 20 ms are 30 MiB. */
static uint64_t watch_every(const struct init *in, uint64_t room)
{
	if (!in->config.poll_memory)
		return SOCKETS_EVERY_NS;
	if (!in->inward || room / BYTES_PER_NS > WATCH_EVERY_NS)
		return WATCH_EVERY_NS;
	return MAX(room / BYTES_PER_NS, WATCH_LEAST_NS);
}

/* Reports that the run in WAITING cannot start. */
static void refuse(struct init *in, int errnum)
{
	uint32_t id = in->run.id;

	run_to(in, RUN_NONE);
	report_failure(in, id, errnum);
}

static void start_clock(struct init *in, const struct proto_init_run *f)
{
	struct init_run *r = &in->run;

	r->term_at = f->timeout_ns > 0 && wall_stands(WALL_DEADLINE)
			 ? later(r->started_ns, f->timeout_ns)
			 : 0;
	in->watch_at = later(r->started_ns, watch_every(in, 0));
}

static void start_cold(struct init *in, struct run_child *c)
{
	struct init_run *r = &in->run;
	int error[2];

	if (pipe2(error, O_CLOEXEC | O_NONBLOCK) < 0) {
		refuse(in, errno);
		return;
	}
	r->started_ns = init_now();
	pid_t pid = init_fork(in, in->config.oom_score);
	if (pid == 0) {
		c->error = error[1];
		run_child(c);
	}
	int errnum = errno;
	KILL_POINT(RUN_FORKED);
	(void)close(error[1]);
	if (pid < 0) {
		(void)close(error[0]);
		refuse(in, errnum);
		return;
	}
	r->pid = pid;
	r->error = error[0];
	run_to(in, RUN_RUNNING);
	start_clock(in, c->f);
}

/* False = the spare or the session process was lost. */
static bool start_warm(struct init *in, const struct run_child *c)
{
	struct init_run *r = &in->run;
	uint64_t started = init_now();
	bool stateful = c->f->kind == PROTO_RUN_STATEFUL;
	bool forked = !stateful || in->session.state == SESSION_NONE;
	pid_t pid = stateful ? session_take(in, c) : warm_take(in, c, NULL);

	if (pid <= 0)
		return false;
	KILL_POINT(RUN_GIVEN);
	r->form = stateful ? RUN_STATEFUL : RUN_WARM;
	r->pid = pid;
	r->forked = forked;
	r->flags = PROTO_ENDED_WARM;
	r->started_ns = started;
	run_to(in, RUN_RUNNING);
	start_clock(in, c->f);
	return true;
}

/* Keeps copies of the descriptors, because take_message() closes those of the message. */
static bool wait_for_spare(struct init *in, const struct proto_init_run *f, const int *fds,
			   size_t n)
{
	struct init_waiting *w = &in->waiting;
	const enum session_state is = in->session.state;
	uint64_t wait = f->kind != PROTO_RUN_STATEFUL && is != SESSION_WAKING ? SPARE_WAIT_NS
			: is == SESSION_NONE || in->session.from_disk         ? STATE_WAIT_NS
								      : SESSION_FORK_WAIT_NS;
	*w = (struct init_waiting){.f = *f, .until = later(init_now(), wait)};
	for (w->n = 0; w->n < n; w->n++) {
		w->fds[w->n] = fcntl(fds[w->n], F_DUPFD_CLOEXEC, 3);
		if (w->fds[w->n] < 0) {
			fd_close_many(w->fds, w->n);
			return false;
		}
	}
	return true;
}

static void make_cwd(const struct init *in, const struct run_child *c)
{
	char path[PROTO_PATH_MAX];
	const ssize_t n = c->f->make_cwd ? pread(c->args, path, sizeof(path) - 1, 0) : 0;

	if (n <= 0)
		return;
	path[n] = '\0'; /* the folder is the first string of the arguments */
	files_make_folder(in, path);
}

static void start_now(struct init *in, struct run_child *c)
{
	deferral_end(in);
	if (in->strangers)
		kill_strangers(in);
	if (disk_run_begins(in) < 0) {
		refuse(in, EDQUOT);
		return;
	}
	make_cwd(in, c);
	if (c->f->kind == PROTO_RUN_STATEFUL) {
		if (!session_can(in) || !start_warm(in, c))
			refuse(in, ENOTSUP);
		return;
	}
	processes_note(in);
	if (!warm_can(in, c->f) || in->warm.spare_state != SPARE_READY || !start_warm(in, c))
		start_cold(in, c);
}

void run_waiting(struct init *in)
{
	struct init_waiting *w = &in->waiting;
	struct run_child c = {.in = in, .f = &w->f};

	if (in->run.state != RUN_WAITING)
		return;
	if (warm_is_lost(in, &w->f) && w->asked < ASK_MAX && init_now() < w->until) {
		w->asked++;
		warm_ask(in);
		return;
	}
	if (w->f.kind == PROTO_RUN_STATEFUL)
		contexts_come(in, w->f.context);
	if (warm_must_wait(in, &w->f)) {
		if (init_now() < w->until)
			return;
		if (in->session.state == SESSION_FORKING || in->session.state == SESSION_WAKING)
			session_late(in);
		else
			warm_give_up(in);
		if (warm_must_wait(in, &w->f)) { /* another interpreter is being forked */
			w->until = later(init_now(), SPARE_WAIT_NS);
			return;
		}
	}
	(void)sort_fds(&w->f, w->fds, w->n, &c);
	start_now(in, &c);
	fd_close_many(w->fds, w->n);
}

static void start_background(struct init *in, struct run_child *c)
{
	make_cwd(in, c);
	const int r = checkpoints_busy(in) ? -EBUSY : background_start(in, c);
	if (r < 0)
		report_failure(in, c->f->run, -r);
	else if (in->watch_at == 0)
		in->watch_at = later(init_now(), watch_every(in, 0));
}

void run_start(struct init *in, const struct proto_init_run *f, const int *fds, size_t n)
{
	struct run_child c = {.in = in, .f = f};

	if (!is_possible(in, f) || sort_fds(f, fds, n, &c) < 0)
		init_die("run request");
	if (f->kind == PROTO_RUN_BACKGROUND) {
		start_background(in, &c);
		return;
	}
	const bool plain = !is_command(f) && !in->python[0];
	if (plain || in->run.state != RUN_NONE || checkpoints_busy(in)) {
		report_failure(in, f->run, plain ? ENOPKG : EBUSY);
		return;
	}
	KILL_POINT(RUN_TAKEN);
	if (f->kind == PROTO_RUN_STATEFUL)
		contexts_begin(in, f);
	run_to(in, RUN_WAITING);
	in->run.id = f->run;
	in->run.error = -1;
	in->run.grace_ns = f->grace_ns;
	in->warm.rest = false;
	deferral_look(in, f->kind == PROTO_RUN_STATEFUL);
	if (f->warm == PROTO_WARM_COMING && f->kind != PROTO_RUN_ARGV && in->warm.channel < 0)
		in->warm.soon = true;
	if (!warm_is_lost(in, f) && !warm_must_wait(in, f))
		start_now(in, &c);
	else if (!wait_for_spare(in, f, fds, n))
		refuse(in, EMFILE);
}

static void finish(struct init *in)
{
	struct init_run *r = &in->run;
	int errnum = 0;
	struct proto_init_ended e = {
	    .head = PROTO_HEAD(INIT_ENDED, proto_init_ended),
	    .run = r->id,
	    .end = WIFSIGNALED(r->status) ? PROTO_END_SIGNALED : PROTO_END_EXITED,
	    .value = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : WEXITSTATUS(r->status),
	    .flags = r->flags,
	    .kinds = r->gone,
	    .killed = MAX(r->killed, r->left),
	    .cell = r->cell,
	    .duration_ns = r->ended_ns - r->started_ns,
	    .cpu_ns = r->cpu_ns + r->orphans_ns,
	    .max_rss = r->max_rss,
	};

	if (r->error >= 0 && read(r->error, &errnum, sizeof(errnum)) == sizeof(errnum)) {
		e.end = PROTO_END_FAILED;
		e.value = errnum;
	}
	if (r->form == RUN_STATEFUL)
		session_say(in, &e);
	if (warm_is_spent(in))
		e.flags |= PROTO_ENDED_SPENT;
	(void)fd_close(r->error);
	if (r->flags & PROTO_ENDED_OOM) /* else they would count for the next run */
		ipc_clear();
	run_to(in, RUN_NONE);
	in->watch_at = background_any(in) ? later(init_now(), watch_every(in, 0)) : 0;
	disk_changed(in);
	deferral_begin(in);
	init_send(in, &e.head, NULL, 0);
	KILL_POINT(END_SENT);
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static uint64_t cpu_of(const struct rusage *use)
{
	return timeval_ns(use->ru_utime) + timeval_ns(use->ru_stime);
}

static void end_all(struct init *in)
{
	KILL_POINT(RUN_OVER);
	if (in->run.flags & PROTO_ENDED_KEPT) {
		const uint32_t before = in->session.processes;
		processes_stop(in);
		session_settled(in);
		in->session.has_processes = in->session.processes > 0;
		if (in->session.processes > before)
			in->run.flags |= PROTO_ENDED_RESTS;
		finish(in);
		return;
	}
	if (wall_stands(WALL_KILL))
		kill_run(in);
	else
		finish(in);
}

static void first_ended(struct init *in, int status, const struct rusage *use)
{
	struct init_run *r = &in->run;

	run_to(in, RUN_ENDING);
	r->status = status;
	r->ended_ns = init_now();
	r->cpu_ns = cpu_of(use);
	r->max_rss = (uint64_t)use->ru_maxrss * 1024;
	session_run_ended(in);
	end_all(in);
}

/* Clears WARM if the first process has called exec: a spare that executes Python again (places.py)
 * saved no time. Submitted code that calls exec is not told apart from it. */
static void look_bare(struct init *in)
{
	if (end_has_executed(in, in->run.pid))
		in->run.flags &= ~(uint32_t)PROTO_ENDED_WARM;
	in->run.forked = false;
}

void run_returned(struct init *in, int status, uint64_t cpu_ns, uint64_t max_rss)
{
	struct init_run *r = &in->run;

	if (r->forked && !(r->flags & PROTO_ENDED_NAMED))
		look_bare(in);
	run_to(in, RUN_ENDING);
	r->status = W_EXITCODE(status, 0);
	r->ended_ns = init_now();
	r->cpu_ns = cpu_ns;
	r->max_rss = max_rss;
	end_all(in);
}

/* A process of the run whose parent had ended, so that init became its parent. */
static void orphan_ended(struct init *in, int status, const struct rusage *use)
{
	struct init_run *r = &in->run;

	if (!run_is_on(in))
		return;
	r->orphans_ns += cpu_of(use);
	if (r->state != RUN_RUNNING && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		r->killed++;
}

/* Like wait4(2) for the next child that has ended. look_bare() needs the first process in /proc, and background_look() the
 * mark of a process, so they are called before it is reaped. */
static pid_t reap_next(struct init *in, int *status, struct rusage *use)
{
	pid_t whom = wall_stands(WALL_REAP) ? -1 : in->run.pid;
	siginfo_t what = {0};

	if ((in->run.forked && in->run.pid > 0) || background_looks(in)) {
		if (waitid(whom < 0 ? P_ALL : P_PID, (id_t)whom, &what,
			   WEXITED | WNOHANG | WNOWAIT) < 0)
			return -1;
		if (what.si_pid == 0)
			return 0;
		whom = what.si_pid;
		if (in->run.forked && whom == in->run.pid)
			look_bare(in);
		background_look(in, whom);
	}
	return wait4(whom, status, WNOHANG, use);
}

void run_reap(struct init *in)
{
	struct rusage use;
	struct end end;
	int status;
	pid_t pid;

	if (end_look(in, &end)) {
		in->run.flags |= PROTO_ENDED_NAMED;
		run_returned(in, end.status, end.cpu_ns, end.max_rss);
	}
	while ((pid = reap_next(in, &status, &use)) > 0) {
		bool checkpoint =
		    checkpoints_reaped(in, pid, status); /* may also be the run's process */
		if (pid == in->run.pid)
			first_ended(in, status, &use);
		else if (warm_reaped(in, pid) || session_reaped(in, pid) ||
			 contexts_reaped(in, pid) || end_reaped(in, pid) || checkpoint ||
			 background_reaped(in, pid, status, &use) || asked_reaped(pid))
			continue;
		else
			orphan_ended(in, status, &use);
	}
	if (in->run.state != RUN_ENDING)
		return;
	/* Without any child of init the namespace is empty, because init adopts orphans. */
	if (((pid < 0 && errno == ECHILD) ||
	     (kill_keeps_any(in) && kill_others(in, kill_again(in) ? SIGKILL : 0) == 0)) &&
	    !session_wakes(in))
		finish(in);
}

/* A run in WAITING was signalled: it is reported as killed and never starts. */
static void end_waiting(struct init *in)
{
	struct proto_init_ended e = {.head = PROTO_HEAD(INIT_ENDED, proto_init_ended),
				     .run = in->run.id,
				     .end = PROTO_END_SIGNALED,
				     .value = SIGKILL,
				     .flags = PROTO_ENDED_KILLED};

	run_to(in, RUN_NONE);
	fd_close_many(in->waiting.fds, in->waiting.n);
	init_send(in, &e.head, NULL, 0);
}

static void end_gently(struct init *in, uint64_t t)
{
	struct init_run *r = &in->run;
	const bool cell = r->form == RUN_STATEFUL;

	r->term_at = 0;
	r->group_at = cell ? later(t, GROUP_AFTER_NS) : 0;
	r->kill_at = wall_stands(WALL_GRACE) ? later(t, r->grace_ns) : 0;
	(void)kill(cell ? r->pid : -r->pid, cell ? SIGINT : SIGTERM);
}

void run_signal(struct init *in, const struct proto_init_signal *f)
{
	if (background_resize(in, f))
		return;
	if (f->signo < 1 || f->signo >= PROTO_SIGNAL_END_)
		init_die("signal request");
	if (background_signal(in, f) || f->run != in->run.id) /* it has ended meanwhile */
		return;
	if (f->signo != SIGKILL && f->signo != SIGTERM && f->signo != SIGINT)
		init_die("signal request");
	if (in->run.state == RUN_WAITING) {
		end_waiting(in);
		return;
	}
	if (in->run.pid <= 0)
		return;
	if (f->signo == SIGKILL) {
		in->run.flags |= PROTO_ENDED_KILLED;
		kill_run(in);
	} else if (f->signo == SIGTERM && in->run.form == RUN_STATEFUL) {
		in->run.flags |= PROTO_ENDED_KILLED;
		end_gently(in, init_now());
	} else {
		(void)kill(-in->run.pid, f->signo);
	}
}

static bool may_grow(const struct init *in)
{
	return in->run.state == RUN_RUNNING || (!run_is_on(in) && background_any(in));
}

/* The sandbox holds more than it may: the run that is on ends. If there is none, the background processes do. */
static void end_for(struct init *in, uint32_t flag)
{
	if (in->run.state == RUN_RUNNING) {
		in->run.flags |= flag;
		kill_run(in);
	} else {
		background_end_all(in, flag);
	}
}

static void watch(struct init *in, uint64_t t)
{
	if (in->watch_at == 0 || t < in->watch_at)
		return;
	uint64_t room = UINT64_MAX;
	if (may_grow(in) && in->config.poll_memory)
		room = watch_memory(in);
	in->watch_at = init_executes(in) ? later(t, watch_every(in, room)) : 0;
	if (may_grow(in) && (room == 0 || sockets_watch(in)))
		end_for(in, PROTO_ENDED_OOM);
}

void run_tick(struct init *in)
{
	struct init_run *r = &in->run;
	uint64_t t;

	if (run_next(in) == 0)
		return;
	t = init_now();
	if (r->term_at != 0 && t >= r->term_at && r->pid > 0) {
		r->flags |= PROTO_ENDED_TIMEOUT;
		end_gently(in, t);
	}
	if (r->group_at != 0 && t >= r->group_at && r->pid > 0) {
		r->group_at = 0;
		(void)kill(-r->pid, SIGINT);
	}
	if (r->kill_at != 0 && t >= r->kill_at && r->pid > 0) {
		r->kill_at = 0;
		kill_run(in);
	}
	watch(in, t);
}

void run_watch_disk(struct init *in)
{
	const bool over = disk_work(in);

	if (over && may_grow(in))
		end_for(in, PROTO_ENDED_DISK);
	else if (over && session_is_waking(in)) /* variables are being written or read */
		session_take_over(in);
}

uint64_t run_next(const struct init *in)
{
	const uint64_t at[] = {in->run.term_at, in->run.group_at, in->run.kill_at, in->watch_at,
			       disk_next(in)};
	const uint64_t wakes = in->session.state == SESSION_WAKING ? session_next(in) : 0;
	uint64_t next = 0;

	if (in->run.state == RUN_WAITING)
		return init_sooner(in->waiting.until, wakes);
	if (in->run.state == RUN_ENDING && wakes != 0)
		return wakes;
	/* The last process may be a child of a waiting interpreter, so init gets no SIGCHLD for it. */
	if (in->run.state == RUN_ENDING && kill_keeps_any(in))
		return later(init_now(), LOOK_AGAIN_NS);
	if (in->run.state == RUN_NONE) {
		const uint64_t watch = init_sooner(in->watch_at, disk_next(in));
		return init_sooner(init_sooner(session_next(in), checkpoints_next(in)),
				   init_sooner(init_sooner(in->defer_until, warm_next(in)), watch));
	}
	if (in->run.pid <= 0)
		return 0;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		next = init_sooner(next, at[i]);
	return next;
}
