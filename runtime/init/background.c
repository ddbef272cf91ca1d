/* SPDX-License-Identifier: Apache-2.0 */
/* Background processes: programs that begin and end beside runs, several at a time.
 *
 * init ──► reaper ──► first process ──► …
 *
 * A reaper is a process of ours between init and the program. It adopts the orphans of the program
 * (PR_SET_CHILD_SUBREAPER, prctl(2)), so whatever setsid(2) and double forks do, a process belongs to a background
 * process if the reaper is among its ancestors, and to nothing else. The reaper tells init about the first process over
 * the pipe `reports`, which all reapers share, and ends when no process is left below it.
 *
 * The reaper of a process with a terminal is also its relay: terminal.c.
 *
 * Where the kernel has no subreapers there is no reaper. init is the parent of the first process, and the processes have a
 * mark (background_owner.c). init reaps the orphans itself, and adds up their CPU time.
 *
 *   FREE --> RUNNING --> ENDING --> FREE
 *
 *   RUNNING  the reaper, or the first process with a mark, was forked
 *   ENDING   the first process has ended, or everything is to end. What is left is sent SIGKILL until the reaper ends,
 *            or until no process has the mark
 *   FREE     nothing of it is left, and INIT_ENDED was sent
 *
 * What ends a run must not touch these, so while there are any, nothing is stopped by kill(-1, …): background_stop_others().
 *
 * The program has the uid of its reaper and may kill it. Then its orphans come to init. Those that are still in the process
 * group of the program are killed, the others are ended with the next run or with the session, like all that init does not
 * know. */
#include "root_user.h"
#include "terminal.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/walls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_FD     3
#define KEPT_FDS      5    /* at most, by a reaper: the pipe to init, and what a relay needs */
#define FOUND_MAX     4096 /* processes that one walk signals; the next walk has the rest */
#define STOP_TRIES    10
#define STOP_PAUSE_NS 100000  /* between two; a signal reaches another processor in microseconds */
#define AGAIN_NS      1000000 /* until what is left is stopped or killed again */

enum report_kind { REPORT_BEGAN = 1, REPORT_ENDED, REPORT_LAST };

struct report { /* from a reaper; less than PIPE_BUF bytes, so it is never torn */
	uint32_t kind;
	uint32_t id;
	pid_t pid;                /* BEGAN */
	int status;               /* ENDED: of the first process, wait(2) */
	uint64_t cpu_ns, max_rss; /* LAST: of all that it has waited for */
};

/* ---- the reaper ---- */

static void tell(int fd, const struct report *r)
{
	(void)!write(fd, r, sizeof(*r));
}

static uint64_t cpu_of(const struct rusage *use)
{
	const struct timeval *t[] = {&use->ru_utime, &use->ru_stime};
	uint64_t sum = 0;

	for (size_t i = 0; i < 2; i++)
		sum += (uint64_t)t[i]->tv_sec * 1000000000u + (uint64_t)t[i]->tv_usec * 1000u;
	return sum;
}

/* A child that has ended counts, and of the first process init is told. Returns its number, 0 = none has ended yet (FLAGS:
 * WNOHANG), -1 = no child is left. */
static pid_t reap(struct report *r, int flags)
{
	struct rusage use;
	int status;
	pid_t pid;

	do
		pid = wait4(-1, &status, flags, &use);
	while (pid < 0 && errno == EINTR);
	if (pid <= 0)
		return pid;
	r->cpu_ns += cpu_of(&use);
	r->max_rss = MAX(r->max_rss, (uint64_t)use.ru_maxrss * 1024);
	if (pid == r->pid) {
		r->kind = REPORT_ENDED;
		r->status = status;
		tell(REPORT_FD, r);
	}
	return pid;
}

static bool reap_some(void *user)
{
	pid_t pid;

	while ((pid = reap(user, WNOHANG)) > 0)
		;
	return pid == 0;
}

/* Keeps N descriptors, as REPORT_FD and those that follow it, and no other one. */
static int keep_fds(int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0 && (fds[i] = fcntl(fds[i], F_DUPFD, REPORT_FD + KEPT_FDS)) < 0)
			return -1;
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0 && (fds[i] = dup2(fds[i], REPORT_FD + (int)i)) < 0)
			return -1;
	return (int)syscall(SYS_close_range, REPORT_FD + n, FDS_LAST, 0);
}

/* The program gets a slave of the terminal. What the relay costs is charged to the run's control groups. */
static int take_terminal(struct run_child *c)
{
	for (uint32_t i = 0; i < c->in->n_procs; i++)
		if (write(c->in->procs[i], "0", 1) != 1)
			return -errno;
	return terminal_slave(c->terminal, c->f->root);
}

_Noreturn static void reaper(const struct run_child *given, int reports)
{
	struct report r = {.id = given->f->run};
	struct run_child c = *given;
	int fds[KEPT_FDS] = {reports, c.terminal, -1, c.stdin_fd, c.out};
	const bool relays = c.terminal > 0;
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_NAME, "caisson-reaper", 0, 0, 0);
	if (relays) {
		c.out = c.err = c.stdin_fd = fds[2] = take_terminal(&c);
		errno = c.out < 0 ? -c.out : 0;
	}
	if (c.out < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || setsid() < 0 ||
	    (r.pid = fork()) < 0) {
		(void)!write(c.error, &(int){errno}, sizeof(int));
		_exit(1);
	}
	if (r.pid == 0)
		run_child(&c);
	if (keep_fds(fds, relays ? KEPT_FDS : 1) < 0)
		_exit(1);
	r.kind = REPORT_BEGAN;
	tell(REPORT_FD, &r);
	if (relays) {
		const struct terminal_ends t = {
		    .master = fds[1], .slave = fds[2], .input = fds[3], .output = fds[4]};
		terminal_relay(&t, reap_some, &r);
	}
	while (reap(&r, 0) > 0)
		;
	r.kind = REPORT_LAST;
	tell(REPORT_FD, &r);
	_exit(0);
}

/* ---- the first process where there are no reapers ---- */

_Noreturn static void marked(struct run_child *c)
{
	const uint64_t mark = background_mark(c->f->run);
	const struct rlimit l = {.rlim_cur = mark, .rlim_max = mark};

	if (setrlimit(RLIMIT_RSS, &l) < 0) {
		(void)!write(c->error, &(int){errno}, sizeof(int));
		_exit(1);
	}
	run_child(c);
}

/* ---- all that belong to one ---- */

static DIR *open_proc(const struct init *in)
{
	const int fd = openat(in->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d)
		init_die("proc");
	return d;
}

/* Sends SIGNO to each process of OF, without its reaper; a SIGSTOP to those that execute, or will when a disk or the child
 * of their vfork(2) lets them. Returns how many got it. OF NULL: to all that belong to no background process. The ancestors of a process may tell whose it is, so
 * many are found before the first one is killed. */
static uint32_t signal_tree(const struct init *in, const struct init_background *of, int signo)
{
	DIR *d = open_proc(in);
	const struct dirent *de;
	pid_t found[FOUND_MAX];
	size_t n_found = 0;
	uint32_t n = 0;
	uint64_t pid;

	while (n_found < FOUND_MAX && (de = readdir(d))) {
		if (parse_u64_n(de->d_name, strlen(de->d_name), 2, INT32_MAX, &pid) < 0 ||
		    background_owner(in, (pid_t)pid) != of || (of && (pid_t)pid == of->reaper))
			continue;
		const enum end_look look = end_look_at(in, (pid_t)pid);
		if (look == END_GONE ||
		    (signo == SIGSTOP && (look == END_STOPPED || look == END_DYING)))
			continue;
		found[n_found++] = (pid_t)pid;
	}
	(void)closedir(d);
	for (size_t i = 0; i < n_found; i++)
		n += kill(found[i], signo) == 0;
	return n;
}

/* Whether no process of B is left, where they have marks. The CPU time of those that init reaps still counts. */
static bool is_over(const struct init *in, const struct init_background *b)
{
	DIR *d = open_proc(in);
	const struct dirent *de;
	struct end_stat st;
	uint64_t pid;
	bool over = b->has_status;

	while (over && (de = readdir(d)))
		if (parse_u64_n(de->d_name, strlen(de->d_name), 2, INT32_MAX, &pid) == 0 &&
		    background_owner(in, (pid_t)pid) == b)
			over = end_look_at(in, (pid_t)pid) == END_GONE &&
			       !(end_stat(in, (pid_t)pid, &st) && st.parent == 1);
	(void)closedir(d);
	return over;
}

/* Stops them one by one until none executes any more. False = they were faster. */
static bool stop_tree(const struct init *in, const struct init_background *of)
{
	const struct timespec moment = {.tv_nsec = STOP_PAUSE_NS};

	for (int i = 0; i < STOP_TRIES; i++) {
		if (signal_tree(in, of, SIGSTOP) == 0)
			return true;
		(void)nanosleep(&moment, NULL);
	}
	return false;
}

static void go_on(const struct init *in)
{
	for (size_t i = 0; i < PROTO_BACKGROUND_MAX; i++) {
		const struct init_background *b = &in->background.at[i];
		if (b->state == BACKGROUND_FREE)
			continue;
		if (b->reaper > 0)
			(void)kill(b->reaper, SIGCONT);
		if (b->state == BACKGROUND_RUNNING && b->frozen_ns == 0)
			(void)signal_tree(in, b, SIGCONT);
	}
}

void background_stop_others(const struct init *in)
{
	if (in->background.n > 0 && stop_tree(in, NULL))
		return;
	(void)kill(-1, SIGSTOP); /* all at once, so that none forks meanwhile */
	go_on(in);
}

/* ---- states ---- */

static void to(struct init_background *b, enum background_state state)
{
	static const uint8_t allowed[] = {
	    [BACKGROUND_FREE] = 1u << BACKGROUND_RUNNING,
	    [BACKGROUND_RUNNING] = 1u << BACKGROUND_ENDING,
	    [BACKGROUND_ENDING] = 1u << BACKGROUND_FREE,
	};

	if (!(allowed[b->state] & (1u << state)))
		init_die("background state");
	b->state = state;
}

static struct init_background *find(struct init *in, uint32_t id)
{
	for (size_t i = 0; i < PROTO_BACKGROUND_MAX; i++)
		if (in->background.at[i].state != BACKGROUND_FREE && in->background.at[i].id == id)
			return &in->background.at[i];
	return NULL;
}

static void signal_group(const struct init_background *b, int signo)
{
	if (kill(-b->pid, signo) < 0) /* it has no group yet */
		(void)kill(b->pid, signo);
}

/* Stopped processes keep their places, so a fork bomb comes to the limit of processes and then to rest. */
static void kill_rest(struct init *in, struct init_background *b)
{
	if (!wall_stands(WALL_TREE))
		signal_group(b, SIGKILL);
	else if (stop_tree(in, b))
		b->killed += signal_tree(in, b, SIGKILL);
	if (b->reaper > 0)
		(void)kill(b->reaper, SIGCONT);
	b->again_at = init_now() + AGAIN_NS;
}

static void freeze(const struct init *in, struct init_background *b, bool frozen)
{
	const uint64_t t = init_now();
	const uint64_t rested = b->frozen_ns != 0 ? t - b->frozen_ns : 0;

	b->term_at += b->term_at != 0 ? rested : 0;
	b->kill_at += b->kill_at != 0 ? rested : 0;
	b->frozen_ns = frozen ? t : 0;
	b->again_at = !frozen || stop_tree(in, b) ? 0 : t + AGAIN_NS;
	if (!frozen)
		(void)signal_tree(in, b, SIGCONT);
}

static void end(struct init *in, struct init_background *b)
{
	if (b->state != BACKGROUND_RUNNING)
		return;
	to(b, BACKGROUND_ENDING);
	kill_rest(in, b);
}

static void finish(struct init *in, struct init_background *b)
{
	int errnum = 0;
	struct proto_init_ended e = {
	    .head = PROTO_HEAD(INIT_ENDED, proto_init_ended),
	    .run = b->id,
	    .end = WIFSIGNALED(b->status) ? PROTO_END_SIGNALED : PROTO_END_EXITED,
	    .value = WIFSIGNALED(b->status) ? WTERMSIG(b->status) : WEXITSTATUS(b->status),
	    .flags = b->flags,
	    .killed = b->killed,
	    .duration_ns = b->ended_ns - b->started_ns,
	    .cpu_ns = b->cpu_ns,
	    .max_rss = b->max_rss,
	};

	if (read(b->error, &errnum, sizeof(errnum)) == sizeof(errnum)) {
		e.end = PROTO_END_FAILED;
		e.value = errnum;
	}
	(void)fd_close(b->error);
	if (b->terminal > 0)
		b->terminal = close(b->terminal);
	to(b, BACKGROUND_FREE);
	in->background.n--;
	disk_changed(in);
	init_send(in, &e.head, NULL, 0);
}

/* ---- from the loop ---- */

void background_events(struct init *in)
{
	struct report r;

	while (in->background.n > 0 &&
	       read(in->background.reports[0], &r, sizeof(r)) == sizeof(r)) {
		struct init_background *b = find(in, r.id);
		if (!b)
			continue;
		if (r.kind == REPORT_BEGAN) {
			b->pid = r.pid;
			if (b->signo != 0)
				signal_group(b, b->signo);
			if (b->frozen_ns != 0)
				freeze(in, b, true);
		} else if (r.kind == REPORT_ENDED) {
			b->has_status = true;
			b->status = r.status;
			b->ended_ns = init_now();
			end(in, b);
		} else {
			b->cpu_ns = r.cpu_ns;
			b->max_rss = r.max_rss;
		}
	}
}

static bool marked_reaped(struct init *in, pid_t pid, int status, const struct rusage *use)
{
	const struct init_background *whose = in->background.ended;

	for (size_t i = 0; i < PROTO_BACKGROUND_MAX && whose; i++) {
		struct init_background *b = &in->background.at[i];
		if (b != whose || b->state == BACKGROUND_FREE)
			continue;
		b->cpu_ns += cpu_of(use);
		b->max_rss = MAX(b->max_rss, (uint64_t)use->ru_maxrss * 1024);
		if (pid != b->pid)
			return true;
		b->pid = 0;
		b->has_status = true;
		b->status = status;
		b->ended_ns = init_now();
		end(in, b);
		return true;
	}
	return false;
}

bool background_reaped(struct init *in, pid_t pid, int status, const struct rusage *use)
{
	if (background_looks(in))
		return marked_reaped(in, pid, status, use);
	for (size_t i = 0; i < PROTO_BACKGROUND_MAX; i++) {
		struct init_background *b = &in->background.at[i];
		if (b->state == BACKGROUND_FREE || b->reaper != pid)
			continue;
		background_events(in); /* what it has written before */
		if (b->state == BACKGROUND_RUNNING)
			to(b, BACKGROUND_ENDING);
		if (!b->has_status) { /* somebody has killed the reaper */
			b->status = SIGKILL;
			b->ended_ns = init_now();
			if (b->pid > 0)
				(void)kill(-b->pid, SIGKILL);
		}
		/* also what sudo has started for it may be left */
		if (!b->has_status || root_user_is_there(in))
			in->strangers = in->strangers || in->session.state == SESSION_NONE;
		finish(in, b);
		return true;
	}
	return false;
}

void background_tick(struct init *in)
{
	const uint64_t t = in->background.n > 0 ? init_now() : 0;

	for (size_t i = 0; i < PROTO_BACKGROUND_MAX && t > 0; i++) {
		struct init_background *b = &in->background.at[i];
		if (b->state == BACKGROUND_ENDING && b->reaper == 0 && is_over(in, b)) {
			/* A process that gave up its mark may be left. */
			in->strangers = in->strangers || in->session.state == SESSION_NONE;
			finish(in, b);
		} else if (b->state == BACKGROUND_ENDING && t >= b->again_at) {
			kill_rest(in, b);
		} else if (b->frozen_ns != 0) {
			if (b->again_at != 0 && t >= b->again_at)
				freeze(in, b, true);
		} else if (b->state == BACKGROUND_RUNNING && b->kill_at != 0 && t >= b->kill_at) {
			end(in, b);
		} else if (b->state == BACKGROUND_RUNNING && b->term_at != 0 && t >= b->term_at) {
			b->term_at = 0;
			b->kill_at = t + MIN(b->grace_ns, UINT64_MAX / 4);
			b->flags |= PROTO_ENDED_TIMEOUT;
			if (b->pid > 0)
				signal_group(b, SIGTERM);
		}
	}
}

uint64_t background_next(const struct init *in)
{
	uint64_t next = 0;

	for (size_t i = 0; i < PROTO_BACKGROUND_MAX && in->background.n > 0; i++) {
		const struct init_background *b = &in->background.at[i];
		if (b->state == BACKGROUND_ENDING || b->frozen_ns != 0)
			next = init_sooner(next, b->again_at);
		else if (b->state == BACKGROUND_RUNNING)
			next = init_sooner(next, init_sooner(b->term_at, b->kill_at));
	}
	return next;
}

void background_end_all(struct init *in, uint32_t flag)
{
	for (size_t i = 0; i < PROTO_BACKGROUND_MAX; i++) {
		struct init_background *b = &in->background.at[i];
		if (b->state != BACKGROUND_RUNNING)
			continue;
		b->flags |= flag;
		end(in, b);
	}
}

/* ---- from the front ---- */

bool background_signal(struct init *in, const struct proto_init_signal *f)
{
	struct init_background *b = find(in, f->run);

	if (!b || b->state != BACKGROUND_RUNNING)
		return b != NULL;
	if (f->signo == SIGKILL) {
		b->flags |= PROTO_ENDED_KILLED;
		end(in, b);
	} else if (f->signo > PROTO_SIGNAL_MAX) {
		freeze(in, b, f->signo == PROTO_SIGNAL_FREEZE);
	} else if (b->pid > 0) {
		signal_group(b, f->signo);
	} else {
		b->signo = f->signo;
	}
	return true;
}

bool background_resize(struct init *in, const struct proto_init_signal *f)
{
	const struct init_background *b = find(in, f->run);

	if (f->rows == 0 && f->columns == 0)
		return false;
	if (f->signo != 0 || !terminal_is_size(f->rows, f->columns))
		init_die("size of a terminal");
	if (b && b->terminal > 0)
		terminal_resize(b->terminal, f->rows, f->columns);
	return true;
}

static int make_reports(struct init *in)
{
	int *p = in->background.reports;

	if (p[0] > 0)
		return 0;
	return pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
}

/* Opens what B and its reaper have in common. */
static int open_fds(struct init *in, struct init_background *b, struct run_child *c, int error[2])
{
	int r = background_marks(in) ? 0 : make_reports(in);

	if (r == 0 && c->f->rows > 0)
		r = c->terminal =
		    background_marks(in) ? -ENOTSUP : terminal_open(c->f->rows, c->f->columns);
	if (r >= 0 && pipe2(error, O_CLOEXEC | O_NONBLOCK) < 0)
		r = -errno;
	if (r < 0 && c->terminal > 0)
		(void)close(c->terminal);
	if (r < 0)
		return r;
	*b = (struct init_background){.id = c->f->run, .error = error[0], .terminal = c->terminal};
	c->error = error[1];
	return 0;
}

static int start(struct init *in, struct init_background *b, struct run_child *c)
{
	int error[2];
	int r = open_fds(in, b, c, error);
	const bool marks = background_marks(in);

	if (r < 0)
		return r;
	b->started_ns = b->ended_ns = init_now();
	b->grace_ns = c->f->grace_ns;
	if (c->f->timeout_ns > 0 && c->f->timeout_ns < UINT64_MAX / 4)
		b->term_at = b->started_ns + c->f->timeout_ns;
	const pid_t pid = init_fork(in, in->config.oom_score);
	if (pid == 0 && marks)
		marked(c);
	if (pid == 0)
		reaper(c, in->background.reports[1]);
	r = pid < 0 ? -errno : 0;
	(void)close(error[1]);
	if (r < 0) {
		(void)close(error[0]);
		if (b->terminal > 0)
			(void)close(b->terminal);
		return r;
	}
	*(marks ? &b->pid : &b->reaper) = pid;
	to(b, BACKGROUND_RUNNING);
	in->background.n++;
	return 0;
}

int background_start(struct init *in, struct run_child *c)
{
	struct init_background *b = NULL;

	for (size_t i = 0; i < PROTO_BACKGROUND_MAX && !b; i++)
		if (in->background.at[i].state == BACKGROUND_FREE)
			b = &in->background.at[i];
	if (!b)
		return -EAGAIN;
	const int r = disk_run_begins(in);
	return r < 0 ? r : start(in, b, c);
}
