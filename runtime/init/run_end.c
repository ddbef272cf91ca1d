/* SPDX-License-Identifier: Apache-2.0 */
/* Warm stateless runs report their own end (RT_NAMED_END in frames.h), so that the front need not
 * wait while the kernel frees their memory. The run writes its exit status into its process name and
 * stops itself. It never executes again: init keeps its pid in in->leaving and kills it later.
 *
 * The calm. Freeing a science interpreter takes the kernel 2 ms, and so does forking the next one;
 * neither can be interrupted. On a machine with two CPUs that delays the front, which lists files
 * and answers, and the client. So init does both CALM_NS later, or when the next run comes. Leaving
 * processes are killed before any submitted code executes again. If the client of a session sends
 * the next run at once, that run would have to wait for the fork. Then init forks at once, and only
 * the freeing waits.
 *
 * Submitted code can write such a process name itself. It gains what os._exit() gives: the run ends
 * with a status of its choice, and all its processes are killed. */
#include "init.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "frames.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALM_NS UINT64_C(3000000)
#define HASTY_NS                                                                                   \
	(2 * CALM_NS) /* a client that sends the next run sooner than this does not pause */

#define STAT_MAX    256  /* bytes of /proc/PID/stat; the fields that are used come first */
#define STAT_FLAGS  6    /* fields from the state to the process flags, proc(5) */
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

void calm_begin(struct init *in)
{
	in->told_at = init_now();
	in->calm_until = in->told_at + CALM_NS;
}

void calm_look(struct init *in, bool stateful)
{
	in->hasty = stateful && in->told_at != 0 && init_now() - in->told_at < HASTY_NS;
}

void end_stop(const struct init *in)
{
	for (size_t i = 0; i < INIT_LEAVING_MAX; i++)
		if (in->leaving[i].pid > 0 && !in->leaving[i].killed)
			(void)kill(in->leaving[i].pid, SIGSTOP);
}

void calm_end(struct init *in)
{
	in->calm_until = 0;
	for (size_t i = 0; i < INIT_LEAVING_MAX; i++) {
		struct init_leaving *l = &in->leaving[i];
		if (l->pid > 0 && !l->killed)
			(void)kill(l->pid, SIGKILL);
		l->killed = true;
	}
}

void calm_work(struct init *in)
{
	if (in->calm_until != 0 &&
	    (in->run.state == RUN_WAITING || checkpoints_busy(in) || init_now() >= in->calm_until))
		calm_end(in);
}

/* /proc/PID/stat after the process name, which the run chooses: "S ppid pgrp ...", proc(5). */
static const char *stat_of(const struct init *in, pid_t pid, char text[STAT_MAX])
{
	char path[32];

	(void)snprintf(path, sizeof(path), "%d/stat", pid);
	int fd = openat(in->proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, STAT_MAX - 1) : -1;
	(void)fd_close(fd);
	text[n > 0 ? n : 0] = '\0';
	const char *end = strrchr(text, ')');
	return end && end[1] == ' ' ? end + 2 : NULL;
}

/* An intermediate process of a fork stays a zombie while the holder, its parent, is stopped. */
bool end_is_zombie(const struct init *in, pid_t pid)
{
	char text[STAT_MAX];
	const char *at = stat_of(in, pid, text);

	return at ? *at == 'Z' : text[0] == '\0';
}

bool end_has_executed(const struct init *in, pid_t pid)
{
	char text[STAT_MAX];
	const char *at = stat_of(in, pid, text);
	uint64_t flags;

	for (int i = 0; at && i < STAT_FLAGS; i++) {
		at = strchr(at, ' ');
		at += at ? 1 : 0;
	}
	/* gVisor's kernel tells no flags: 0. */
	return at && parse_u64_n(at, strcspn(at, " "), 0, UINT32_MAX, &flags) == 0 && flags != 0 &&
	       !(flags & FLAG_FORKED);
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
