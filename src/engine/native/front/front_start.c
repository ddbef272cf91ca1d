/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the monitor, while the privileges of whoever started the program are still there. */
#include "engine/native/front/front.h"

#include "base/fdio.h"
#include "base/text.h"
#include "base/walls.h"
#include "engine/inside/proto.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHANNEL_FD 3

NORETURN static void exec_monitor(const struct native_monitor_config *c, int channel)
{
	char max[16];
	char zygote[3][24];
	char total[24];
	char *argv[] = {
	    (char *)(uintptr_t) "caisson",
	    (char *)(uintptr_t) "monitor",
	    (char *)(uintptr_t)c->state_dir,
	    max,
	    (char *)(uintptr_t)(c->warm ? "1" : "0"),
	    zygote[0],
	    zygote[1],
	    zygote[2],
	    total,
	    NULL,
	};
	char *env[] = {walls_variable(), NULL};
	sigset_t none;

	(void)snprintf(max, sizeof(max), "%u", c->max_sandboxes);
	(void)snprintf(zygote[0], sizeof(zygote[0]), "%llu", (unsigned long long)c->zygote.idle_s);
	(void)snprintf(zygote[1], sizeof(zygote[1]), "%llu", (unsigned long long)c->zygote.age_s);
	(void)snprintf(zygote[2], sizeof(zygote[2]), "%llu", (unsigned long long)c->zygote.forks);
	(void)snprintf(total, sizeof(total), "%llu", (unsigned long long)c->total_bytes);
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
	(void)execve("/proc/self/exe", argv, env);
	_exit(1);
}

/* Leaves the message in the socket, for native_open(). */
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

/* The front holds three descriptors per sandbox and two per run. The usual soft limit of 1,024 exists
 * for select(2), which nothing here uses. If this fails, TOO_MANY_FILES just comes earlier. */
static void raise_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int start_monitor(const struct native_monitor_config *config, int *ret_fd,
			 uid_t *ret_front_uid, struct err *e)
{
	struct proto_mon_hello hello = {0};
	int pair[2];

	if (config->max_sandboxes < 1 || config->max_sandboxes > PROTO_SLOTS_MAX ||
	    config->state_dir[0] != '/')
		return err_set(e, ERR_SETTING_INVALID, EINVAL, "monitor settings");
	raise_descriptors();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, ERR_SYSTEM, errno, "socketpair");
	_cleanup_fd_ int mine = pair[0];
	_cleanup_fd_ int other = pair[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_set(e, ERR_SYSTEM, errno, "fork");
	if (pid == 0)
		exec_monitor(config, other);
	fd_close_many(&other, 1); /* so that we see EOF when the monitor ends */
	int r = peek_hello(mine, &hello, e);
	if (r < 0) {
		(void)kill(pid, SIGTERM);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	*ret_fd = TAKE_FD(mine);
	*ret_front_uid = hello.front_uid;
	return 0;
}

void native_init(struct native_engine *g)
{
	g->monitor_fd = g->images = -1;
	list_init(&g->forgets);
	list_init(&g->orphans);
	list_init(&g->pool.sandboxes);
}

int native_begin(struct engine *base, const struct engine_config *config, struct err *e)
{
	struct native_engine *g = native_engine_of(base);
	const struct native_monitor_config monitor = {
	    .state_dir = config->state_dir,
	    .max_sandboxes = config->max_sandboxes,
	    .warm = config->warm,
	    .zygote = {.idle_s = config->zygote.idle_s,
		       .age_s = config->zygote.age_s,
		       .forks = config->zygote.forks},
	    .total_bytes = config->total_bytes,
	};

	native_init(g);
	g->pool.min = g->pool.want = config->pool;
	g->pool.max = config->pool > 0 ? MAX(config->pool, config->pool_max) : 0;
	g->pool.idle_ns = config->idle_ns;
	g->memory.total_bytes = config->total_bytes;
	return start_monitor(&monitor, &g->monitor_fd, &base->front_uid, e);
}
