/* SPDX-License-Identifier: Apache-2.0 */
#include "image/child.h"

#include "base/fdio.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Runs in the child, between fork and exec. Never returns. */
NORETURN static void become(const char *const *argv, const struct child_options *o, int out,
			    int err, int report, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setpgid(0, 0);
	/* On SIGTERM, mmdebstrap unmounts and removes what it made. */
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(127);
	if (o && o->cwd && chdir(o->cwd) < 0)
		_exit(127);
	for (size_t i = 0; o && o->env && o->env[i]; i++) {
		char *pair = strdup(o->env[i]);

		if (!pair || putenv(pair) != 0)
			_exit(127);
	}
	char **args;

	/* execvp(3) does not change the strings, although their type says so. */
	memcpy(&args, &argv, sizeof(args));
	(void)execvp(argv[0], args);
	int saved = errno;

	int r UNUSED = fd_write_all(report, &saved, sizeof(saved));

	_exit(127);
}

int child_start(const char *const *argv, const struct child_options *o, struct child *ret)
{
	int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1};
	int r = 0;
	int failed = 0;
	pid_t self = getpid();
	pid_t pid = -1;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0)
		r = -errno;
	if (r >= 0) {
		pid = fork();
		if (pid == 0)
			become(argv, o, out[1], err[1], report[1], self);
		r = pid < 0 ? -errno : 0;
	}
	fd_close_many((int[]){out[1], err[1], report[1]}, 3);
	if (r >= 0) {
		(void)setpgid(pid, pid);
		*ret = (struct child){.pid = pid, .out = out[0], .err = err[0]};
		out[0] = err[0] = -1;
		if (fd_read_exact(report[0], &failed, sizeof(failed)) == 0) {
			child_done(ret);
			r = -failed;
		}
	}
	fd_close_many((int[]){out[0], err[0], report[0]}, 3);
	return r;
}

int child_wait(struct child *c)
{
	int status = 0;

	while (waitpid(c->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	c->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void child_stop(const struct child *c)
{
	if (c->pid > 0)
		(void)kill(-c->pid, SIGTERM);
}

void child_kill(const struct child *c)
{
	if (c->pid > 0)
		(void)kill(-c->pid, SIGKILL);
}

void child_done(struct child *c)
{
	int saved = errno;

	if (c->pid > 0) {
		child_kill(c);
		int status UNUSED = child_wait(c);
	}
	fd_close_many((int[]){c->out, c->err}, 2);
	*c = CHILD_INIT;
	errno = saved;
}

int child_output(const char *const *argv, struct buf *out)
{
	_cleanup_(child_done) struct child c = CHILD_INIT;
	int r = child_start(argv, NULL, &c);

	if (r < 0)
		return r;
	/* Nobody reads the child's error output. It has few lines, and a pipe holds 64 KiB. */
	r = fd_read_file(c.out, out);
	if (r < 0)
		return r;
	r = child_wait(&c);
	return r == 0 ? 0 : -ECHILD;
}
