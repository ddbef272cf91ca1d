/* SPDX-License-Identifier: Apache-2.0 */
/* Before the front is the front: start the monitor, then give up every privilege. */
#include "engine/native/native.h"

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

#define HELLO_WAIT_MS 5000
#define CHANNEL_FD    3
#define FRONT_USER    "caisson"

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
	/* A session of its own: signals of the front's terminal do not reach it. */
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

/* The first message stays in the socket: native_open() takes it. */
static int peek_hello(int fd, struct proto_mon_hello *ret, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, HELLO_WAIT_MS) <= 0)
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

/* The front holds three descriptors a sandbox and two a run; the usual soft limit of 1,024 exists
 * for select(2), which nothing here uses. Not fatal: then the typed error comes earlier. */
static void raise_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

int native_monitor_start(const struct native_monitor_config *config, int *ret_fd, struct err *e)
{
	struct proto_mon_hello hello;
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
	fd_close_many(&other, 1); /* its end must be seen */
	int r = peek_hello(mine, &hello, e);
	if (r < 0) {
		(void)kill(pid, SIGTERM);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	*ret_fd = TAKE_FD(mine);
	return 0;
}

int native_front_uid(int monitor_fd, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	struct proto_mon_hello hello = {0};
	int r = peek_hello(monitor_fd, &hello, e);

	if (r < 0)
		return r;
	*ret_uid = getuid();
	*ret_gid = getgid();
	if (geteuid() != 0)
		return 0;
	const struct passwd *pw = getpwnam(FRONT_USER);
	if (pw && pw->pw_uid != 0) {
		*ret_uid = pw->pw_uid;
		*ret_gid = pw->pw_gid;
	} else if (hello.front_uid != 0) {
		*ret_uid = hello.front_uid;
		*ret_gid = hello.front_uid;
	} else {
		return err_set(e, ERR_INTERNAL, 0, "the monitor keeps no uid for the front");
	}
	return 0;
}

static int change_ids(uid_t uid, gid_t gid)
{
	uid_t u[3];
	gid_t g[3];

	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -errno;
	if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
		return -errno;
	for (int i = 0; i < 3; i++)
		if (u[i] != uid || g[i] != gid)
			return -EPERM;
	return getgroups(0, NULL) == 0 ? 0 : -EPERM;
}

static int drop_caps(bool was_root)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		if (data[i].effective || data[i].permitted || data[i].inheritable)
			return -EPERM;
	/* Nothing comes back: not by exec (no_new_privs), not by changing the uid. */
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || (was_root && setuid(0) == 0))
		return -EPERM;
	return 0;
}

int native_drop_front_privileges(int monitor_fd, struct err *e)
{
	uid_t uid;
	gid_t gid;
	bool root = geteuid() == 0;
	int r = native_front_uid(monitor_fd, &uid, &gid, e);

	if (r < 0)
		return r;
	for (unsigned long cap = 0; root && cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return err_set(e, ERR_SYSTEM, errno, "capability bounding set");
	if (root)
		r = change_ids(uid, gid);
	if (r == 0)
		r = drop_caps(root);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "privileges cannot be given up") : 0;
}
