/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the maker, while the privileges of whoever started the program are still there. */
#include "engine/front/front.h"

#include "base/fdio.h"
#include "base/text.h"
#include "base/walls.h"
#include "engine/protocol/proto.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHANNEL_FD 3

NORETURN static void exec_monitor(const char *const argv[], int channel)
{
	char *env[] = {walls_variable(), NULL};
	union { /* execve(2) takes non-const strings but does not write to them */
		const char *const *in;
		char *const *out;
	} words = {.in = argv};
	sigset_t none;

	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* In a session of its own, so that signals of the terminal do not reach it. */
	if (setsid() < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		_exit(1);
	if (channel == CHANNEL_FD ? fd_set_cloexec(channel, false) < 0
				  : dup2(channel, CHANNEL_FD) < 0)
		_exit(1);
	if (fd_close_from(CHANNEL_FD + 1) < 0)
		_exit(1);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execve("/proc/self/exe", words.out, env);
	_exit(1);
}

/* Leaves the message in the socket, for front_open(). */
static int peek_hello(int fd, struct proto_mon_hello *ret, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, FRONT_HELLO_WAIT_MS) <= 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, ETIMEDOUT, "the monitor does not answer");
	ssize_t n = recv(fd, ret, sizeof(*ret), MSG_PEEK | MSG_DONTWAIT);
	if (n != (ssize_t)sizeof(*ret) || ret->head.type != PROTO_MON_HELLO ||
	    ret->version != PROTO_VERSION)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the monitor ended at its start");
	if (ret->err_code != ERR_NONE) {
		ret->text[sizeof(ret->text) - 1] = '\0';
		(void)err_set(
		    e, ret->err_code < ERR_CODE_MAX_ ? (enum err_code)ret->err_code : ERR_INTERNAL,
		    0, "%s", ret->text);
		e->errnum = ret->errnum;
		return ret->errnum > 0 ? -ret->errnum : -EIO;
	}
	return 0;
}

/* What the process that makes the sandboxes has found out about the levels. */
static void take_levels(struct engine_levels *l, const struct proto_mon_hello *hello)
{
	l->possible &= hello->levels;
	for (unsigned i = 0; i < l->n; i++)
		if (!l->at[i].runtime[0])
			(void)snprintf(l->at[i].runtime, sizeof(l->at[i].runtime), "%.*s",
				       (int)sizeof(hello->runtime) - 1, hello->runtime);
}

int front_start(struct front_engine *g, const char *const argv[],
		const struct engine_config *config, struct err *e)
{
	struct proto_mon_hello hello = {0};
	int pair[2];

	if (config->max_sandboxes < 1 || config->max_sandboxes > PROTO_SLOTS_MAX ||
	    config->state_dir[0] != '/')
		return err_set(e, ERR_SETTING_INVALID, EINVAL, "monitor settings");
	/* The front holds three descriptors per sandbox and two per run. If this fails, TOO_MANY_FILES just
	 * comes earlier. */
	fd_raise_limit();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, ERR_SYSTEM, errno, "socketpair");
	_cleanup_fd_ int mine = pair[0];
	_cleanup_fd_ int other = pair[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_set(e, ERR_SYSTEM, errno,
			       "a process cannot be started, see 'ulimit -u' and the limit of "
			       "tasks of the service");
	if (pid == 0)
		exec_monitor(argv, other);
	fd_close_many(&other, 1); /* so that we see EOF when the monitor ends */
	int r = peek_hello(mine, &hello, e);
	if (r < 0) {
		(void)kill(pid, SIGTERM);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	g->monitor_fd = TAKE_FD(mine);
	g->monitor_pid = pid;
	g->base.front_uid = hello.front_uid;
	g->base.enforced = hello.enforced & g->base.ops->caps;
	g->base.best_effort = hello.best_effort;
	take_levels(&g->base.levels, &hello);
	return 0;
}

void front_init(struct front_engine *g, const struct engine_config *config)
{
	g->monitor_fd = g->images = -1;
	list_init(&g->forgets);
	list_init(&g->disks);
	list_init(&g->memory.askers);
	list_init(&g->orphans);
	list_init(&g->pool.sandboxes);
	g->pool.min = g->pool.want = config->pool;
	g->pool.max = config->pool > 0 ? MAX(config->pool, config->pool_max) : 0;
	g->pool.idle_ns = config->idle_ns;
	g->memory.total_bytes = config->total_bytes;
}
