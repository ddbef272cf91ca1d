/* SPDX-License-Identifier: Apache-2.0 */
/* Warm stateless runs report their own end (RT_NAMED_END in frames.h), so that the front need not
 * wait while the kernel frees their memory. The run writes its exit status into its process name and
 * stops itself. It never executes again: init keeps its pid in in->leaving and kills it later.
 *
 * The deferral. Freeing a science interpreter takes the kernel 2 ms, and so does forking the next one;
 * neither can be interrupted. On a machine with two CPUs that delays the front, which lists files
 * and answers, and the client. So init defers both for DEFER_NS, or when the next run comes. Leaving
 * processes are killed before any submitted code executes again. If the client of a session sends
 * the next run at once, that run would have to wait for the fork. Then init forks at once, and only
 * the freeing waits.
 *
 * Submitted code can write such a process name itself. It gains what os._exit() gives: the run ends
 * with a status of its choice, and all its processes are killed. */
#include "asked.h"
#include "root_user.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "frames.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFER_NS UINT64_C(3000000)
#define BACK_TO_BACK_NS                                                                            \
	(2 * DEFER_NS) /* a client that sends the next run sooner than this does not pause */

#define STAT_MAX    256  /* bytes of /proc/PID/stat; the fields that are used come first */
#define STATUS_MAX  2048 /* bytes of /proc/PID/status */
#define STAT_PARENT 1    /* fields from the state to that of the parent, proc(5) */
#define STAT_FLAGS  6
#define STAT_START  19
#define FLAG_FORKED 0x40 /* PF_FORKNOEXEC of linux/sched.h: no execve(2) since the fork */

bool end_is_leaving(const struct init *in, pid_t pid)
{
	for (size_t i = 0; i < INIT_LEAVING_MAX; i++)
		if (in->leaving[i].pid == pid && pid > 0)
			return true;
	return false;
}

bool end_reaped(struct init *in, pid_t pid)
{
	for (size_t i = 0; i < INIT_LEAVING_MAX; i++)
		if (in->leaving[i].pid == pid && pid > 0) {
			in->leaving[i].pid = 0;
			return true;
		}
	return false;
}

bool end_any(const struct init *in)
{
	for (size_t i = 0; i < INIT_LEAVING_MAX; i++)
		if (in->leaving[i].pid > 0)
			return true;
	return false;
}

bool end_any_stopped(const struct init *in)
{
	for (size_t i = 0; i < INIT_LEAVING_MAX; i++)
		if (in->leaving[i].pid > 0 && !in->leaving[i].killed)
			return true;
	return false;
}

bool end_leave(struct init *in, pid_t pid)
{
	for (size_t i = 0; i < INIT_LEAVING_MAX && pid > 0; i++)
		if (in->leaving[i].pid == 0) {
			in->leaving[i] = (struct init_leaving){.pid = pid};
			return true;
		}
	return false;
}

void deferral_begin(struct init *in)
{
	in->told_at = init_now();
	in->defer_until = in->told_at + DEFER_NS;
}

void deferral_look(struct init *in, bool stateful)
{
	in->back_to_back =
	    stateful && in->told_at != 0 && init_now() - in->told_at < BACK_TO_BACK_NS;
}

void deferral_end(struct init *in)
{
	in->defer_until = 0;
	for (size_t i = 0; i < INIT_LEAVING_MAX; i++) {
		struct init_leaving *l = &in->leaving[i];
		if (l->pid > 0 && !l->killed)
			(void)kill(l->pid, SIGKILL);
		l->killed = true;
	}
}

void deferral_work(struct init *in)
{
	if (in->defer_until != 0 &&
	    (in->run.state == RUN_WAITING || checkpoints_busy(in) || init_now() >= in->defer_until))
		deferral_end(in);
}

static bool read_proc(const struct init *in, pid_t pid, const char *name, char *text, size_t size)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%d/%s", pid, name);
	int fd = openat(in->proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
	(void)fd_close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* /proc/PID/stat after the process name, which the run chooses: "S ppid pgrp ...", proc(5). */
static const char *stat_of(const struct init *in, pid_t pid, char text[STAT_MAX])
{
	const char *end = read_proc(in, pid, "stat", text, STAT_MAX) ? strrchr(text, ')') : NULL;

	return end && end[1] == ' ' ? end + 2 : NULL;
}

/* Whether SIGNO waits for the process whose status STATE is: proc(5), ShdPnd, 16 hexadecimal digits. */
static bool gets_soon(const char *state, int signo)
{
	static const char key[] = "\nShdPnd:\t";
	const char *pending = strstr(state, key);

	if (!pending || strcspn(pending + sizeof(key) - 1, "\n") != 16)
		return false;
	const char digit = pending[sizeof(key) - 1 + 15 - (unsigned)(signo - 1) / 4];
	return (digit <= '9' ? digit - '0' : digit - 'a' + 10) & 1 << (signo - 1) % 4;
}

/* An intermediate process of a fork stays a zombie while the session process, its parent, is stopped. A process of the
 * zygote that is on its way into the sandbox has a bounding set of capabilities, until RT_ENTER: proc(5), status. */
enum end_look end_look_at(const struct init *in, pid_t pid)
{
	char text[STATUS_MAX];

	if (!read_proc(in, pid, "status", text, sizeof(text)))
		return END_GONE;
	const char *state =
	    strstr(text, "\nState:\t"); /* the name, before it, cannot have a newline */
	if (!state)
		return END_GONE;
	/* of a process whose first thread has ended others may live */
	const char *threads = strstr(state, "\nThreads:\t");
	const bool many =
	    threads && (threads[10] > '1' || (threads[10] == '1' && threads[11] != '\n'));
	if ((state[8] == 'Z' || state[8] == 'X') && !many)
		return END_GONE;
	const char *bounding = strstr(state, "\nCapBnd:\t");
	if (!in->contained && bounding && !root_user_bounds(in, bounding + 9) &&
	    bounding[9 + strspn(bounding + 9, "0")] != '\n')
		return END_ENTERING;
	if (gets_soon(state, SIGKILL))
		return END_DYING;
	/* On a busy machine a process may wait long for a processor before it stops. */
	if (gets_soon(state, SIGSTOP) || strchr("Tt", state[8]))
		return END_STOPPED;
	return state[8] == 'D' ? END_WAITING : END_ALIVE;
}

/* The number after KEY and N tabulators in TEXT, of proc(5), status. */
static bool number_after(const char *text, const char *key, int n, uint64_t *ret)
{
	const char *at = strstr(text, key);

	at = at ? at + strlen(key) : NULL;
	for (int i = 0; at && i < n; i++) {
		at = strchr(at, '\t');
		at += at ? 1 : 0;
	}
	return at && parse_u64_n(at, strcspn(at, "\t\n"), 0, UINT32_MAX, ret) == 0;
}

bool end_users(const struct init *in, pid_t pid, uid_t ret[2])
{
	char text[STATUS_MAX];
	uint64_t filter;
	uint64_t real;
	uint64_t saved;

	if (!read_proc(in, pid, "status", text, sizeof(text)) ||
	    !number_after(text, "\nSeccomp:\t", 0, &filter) || filter != SECCOMP_MODE_FILTER ||
	    !number_after(text, "\nUid:\t", 0, &real) || !number_after(text, "\nUid:\t", 2, &saved))
		return false;
	ret[0] = (uid_t)real;
	ret[1] = (uid_t)saved;
	return true;
}

/* The number in field N of proc(5) after the state, whose N is 0. */
static bool field_of(const char *at, int n, uint64_t *ret)
{
	for (int i = 0; at && i < n; i++) {
		at = strchr(at, ' ');
		at += at ? 1 : 0;
	}
	return at && parse_u64_n(at, strcspn(at, " "), 0, UINT64_MAX, ret) == 0;
}

bool end_stat(const struct init *in, pid_t pid, struct end_stat *ret)
{
	char text[STAT_MAX];
	const char *at = stat_of(in, pid, text);
	uint64_t parent;

	if (!at || !field_of(at, STAT_PARENT, &parent) || !field_of(at, STAT_START, &ret->start))
		return false;
	ret->parent = (pid_t)parent;
	return true;
}

bool end_has_executed(const struct init *in, pid_t pid)
{
	char text[STAT_MAX];
	const char *at = stat_of(in, pid, text);
	uint64_t flags;

	/* gVisor's kernel tells no flags: 0. */
	return field_of(at, STAT_FLAGS, &flags) && flags != 0 && !(flags & FLAG_FORKED);
}

static bool read_end(const struct init *in, pid_t pid, struct end *ret)
{
	char path[32];
	char name[RT_END_LEN + 1]; /* with the newline of /proc/PID/comm */
	uint64_t status;
	uint64_t rss;

	(void)snprintf(path, sizeof(path), "%d/comm", pid);
	int fd = openat(in->proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, name, sizeof(name)) : -1;
	(void)fd_close(fd);
	if (n != (ssize_t)sizeof(name) || name[0] != RT_END_FORMAT[0] ||
	    parse_u64_n(name + RT_END_STATUS_AT, RT_END_STATUS, 0, UINT8_MAX, &status) < 0 ||
	    parse_u64_n(name + RT_END_RSS_AT, RT_END_RSS, 0, UINT64_MAX / 1024, &rss) < 0)
		return false;
	ret->status = (int)status;
	ret->max_rss = rss * 1024;
	return true;
}

/* CPU time of all threads, also of ended ones, as the kernel counts it. */
static uint64_t cpu_of(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool end_look(struct init *in, struct end *ret)
{
	pid_t pid = in->run.pid;
	siginfo_t what = {0};

	if (in->run.form != RUN_WARM || pid <= 0 ||
	    waitid(P_PID, (id_t)pid, &what, WSTOPPED | WNOHANG) < 0 || what.si_pid != pid ||
	    !read_end(in, pid, ret))
		return false;
	ret->cpu_ns = cpu_of(pid);
	if (end_leave(in, pid))
		return true;
	(void)kill(pid, SIGCONT); /* the list is full: the process exits and init reaps it */
	return false;
}
