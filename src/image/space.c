/* SPDX-License-Identifier: Apache-2.0 */
/* Three processes: A makes the namespaces and waits until the caller has mapped the accounts; B is the first process of the new PID
 * namespace and reaps; C executes the program. A kills nothing: if it ends, B is killed, and with B everything in the namespace. */
#include "image/space.h"

#include "base/fdio.h"
#include "base/text.h"
#include "image/subuids.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"
#define ENDED     127

/* What fails before the program runs. */
enum stage { STAGE_NONE, STAGE_SPACES, STAGE_ACCOUNT, STAGE_PROC, STAGE_LIMITS, STAGE_EXECUTE };

struct trouble {
	enum stage stage;
	int errnum;
};

struct start {
	const char *const *argv;
	const struct space_options *o;
	int out; /* owned by the caller */
	int report; /* to the caller: '1' once there are namespaces, then a struct trouble if something fails */
	int go; /* from the caller: a byte once the accounts are mapped */
};

uid_t space_owner(void)
{
	return geteuid() == 0 ? SPACE_IDS_FIRST : (uid_t)-1;
}

NORETURN static void give_up(const struct start *s, enum stage stage)
{
	const struct trouble t = {.stage = stage, .errnum = errno};
	int r UNUSED = fd_write_all(s->report, &t, sizeof(t));

	_exit(ENDED);
}

static int limit(int what, uint64_t most)
{
	const struct rlimit l = {.rlim_cur = most, .rlim_max = most};

	return most == 0 ? 0 : setrlimit((__rlimit_resource_t)what, &l);
}

NORETURN static void execute(const struct start *s)
{
	char **argv, **env;

	if (limit(RLIMIT_FSIZE, s->o->file_max) < 0 || limit(RLIMIT_NPROC, s->o->processes_max) < 0)
		give_up(s, STAGE_LIMITS);
	if (dup2(s->out, 1) < 0 || dup2(s->out, 2) < 0 || chdir(s->o->cwd) < 0)
		give_up(s, STAGE_EXECUTE);
	/* execvpe(3) does not change the strings, although its type says so. */
	memcpy(&argv, &s->argv, sizeof(argv));
	memcpy(&env, &s->o->env, sizeof(env));
	(void)execvpe(argv[0], argv, env);
	give_up(s, STAGE_EXECUTE);
}

/* B. Its end is that of everything in the namespace. */
NORETURN static void be_first(const struct start *s)
{
	int status = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		give_up(s, STAGE_PROC);
	const pid_t program = fork();

	if (program == 0)
		execute(s);
	if (program < 0)
		give_up(s, STAGE_EXECUTE);
	(void)fd_close(s->report);
	for (;;) {
		const pid_t pid = waitpid(-1, &status, 0);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			_exit(ENDED);
		if (pid == program)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	}
}

/* A, between fork and the program. */
NORETURN static void become(const struct start *s, pid_t parent)
{
	const int network = s->o->no_network ? CLONE_NEWNET : 0;
	const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;
	int status = 0;
	char byte = '1';

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setpgid(0, 0);
	if (null < 0 || dup2(null, 0) < 0 ||
	    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
		    network) < 0)
		give_up(s, STAGE_SPACES);
	if (fd_write_all(s->report, &byte, 1) < 0 || fd_read_exact(s->go, &byte, 1) < 0)
		_exit(ENDED);
	if (setresgid(0, 0, 0) < 0 || setgroups(0, NULL) < 0 || setresuid(0, 0, 0) < 0)
		give_up(s, STAGE_ACCOUNT);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of account would have cleared it */
	if (getppid() != parent)
		_exit(ENDED);
	const pid_t first = fork();

	if (first == 0)
		be_first(s);
	if (first < 0)
		give_up(s, STAGE_SPACES);
	(void)fd_close(s->report);
	(void)fd_close(s->out);
	while (waitpid(first, &status, 0) < 0)
		if (errno != EINTR)
			_exit(ENDED);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int write_map(pid_t pid, const char *name, uint32_t first)
{
	char path[64], map[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	(void)snprintf(map, sizeof(map), "0 %u %u\n", first, SPACE_IDS);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_all(fd, map, strlen(map));
}

/* newuidmap(1) and newgidmap(1) are setuid root: they map what /etc/subuid grants. */
static int run_idmap(const char *program, pid_t pid, uint32_t own, const char *file)
{
	struct passwd *pw = getpwuid(geteuid());
	_cleanup_(buf_done) struct buf out = BUF_INIT(4096);
	uint32_t first = 0, count = 0;
	char pid_text[16], own_text[16], first_text[16], count_text[16];
	const char *const argv[] = {program, pid_text,   "0",        own_text, "1",
				    "1",     first_text, count_text, NULL};

	if (subuids_find(file, pw ? pw->pw_name : "", geteuid(), &first, &count) < 0)
		return -EPERM;
	(void)snprintf(pid_text, sizeof(pid_text), "%d", pid);
	(void)snprintf(own_text, sizeof(own_text), "%u", own);
	(void)snprintf(first_text, sizeof(first_text), "%u", first);
	(void)snprintf(count_text, sizeof(count_text), "%u", MIN(count, SPACE_IDS - 1));
	return child_output(argv, &out);
}

static int map_accounts(pid_t pid)
{
	int r;

	if (geteuid() == 0) {
		r = write_map(pid, "uid_map", SPACE_IDS_FIRST);
		return r < 0 ? r : write_map(pid, "gid_map", SPACE_IDS_FIRST);
	}
	r = run_idmap(NEWUIDMAP, pid, geteuid(), "/etc/subuid");
	return r < 0 ? r : run_idmap(NEWGIDMAP, pid, getegid(), "/etc/subgid");
}

int space_check(struct err *e)
{
	struct passwd *pw = getpwuid(geteuid());
	char command[SUBUIDS_COMMAND_MAX];
	uint32_t first, count;

	if (geteuid() == 0 ||
	    (subuids_find("/etc/subuid", pw ? pw->pw_name : "", geteuid(), &first, &count) == 0 &&
	     subuids_find("/etc/subgid", pw ? pw->pw_name : "", geteuid(), &first, &count) == 0 &&
	     access(NEWUIDMAP, X_OK) == 0))
		return 0;
	subuids_command("/etc", pw ? pw->pw_name : "NAME", command);
	return err_set(
	    e, ERR_IMAGE_BUILD_FAILED, 0,
	    "user '%s' has no range in /etc/subuid and /etc/subgid, or newuidmap is not "
	    "installed (apt-get install uidmap), which building from a Dockerfile needs. Ask "
	    "an administrator for '%s', or build as root",
	    pw ? pw->pw_name : "?", command);
}

static int explain(const struct trouble *t, const char *program, struct err *e)
{
	if (t->stage == STAGE_EXECUTE && t->errnum == ENOENT) {
		(void)err_set(e, ERR_IMAGE_BUILD_FAILED, ENOENT, "%s is not installed", program);
		return -ENOENT;
	}
	static const char *const what[] = {
	    [STAGE_NONE] = "the builder did not start",
	    [STAGE_SPACES] = "the builder cannot have namespaces of its own; this kernel or "
			     "container forbids user namespaces ('caisson doctor' says more)",
	    [STAGE_ACCOUNT] = "the builder cannot have accounts of its own",
	    [STAGE_PROC] =
		"the builder cannot have a /proc of its own; in a container, build outside "
		"and import the image",
	    [STAGE_LIMITS] = "the builder's limits cannot be set",
	    [STAGE_EXECUTE] = "the builder cannot be executed",
	};

	return err_set(e, ERR_IMAGE_BUILD_FAILED, t->errnum, "%s",
		       what[t->stage <= STAGE_EXECUTE ? t->stage : STAGE_NONE]);
}

/* Lets A go on once its accounts are mapped, and waits until the program is executed. */
static int follow(pid_t pid, int report, int go, const char *program, struct err *e)
{
	struct trouble t = {0};
	char byte;

	if (fd_read_exact(report, &byte, 1) < 0)
		return explain(&t, program, e);
	if (byte != '1') { /* the first byte of a trouble */
		memcpy(&t, &byte, 1);
		int r UNUSED = fd_read_exact(report, (char *)&t + 1, sizeof(t) - 1);

		return explain(&t, program, e);
	}
	int r = map_accounts(pid);

	if (r < 0)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, -r,
			       "the builder's accounts cannot be mapped (newuidmap, or a container "
			       "that has too few accounts)");
	r = fd_write_all(go, "1", 1);
	if (r < 0)
		return explain(&t, program, e);
	return fd_read_exact(report, &t, sizeof(t)) == 0 ? explain(&t, program, e) : 0;
}

int space_start(const char *const *argv, const struct space_options *o, struct child *ret,
		struct err *e)
{
	int out[2] = {-1, -1}, report[2] = {-1, -1}, go[2] = {-1, -1};
	struct child c = CHILD_INIT;
	int r = 0;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "cannot make a pipe");
	if (r >= 0) {
		const struct start s = {
		    .argv = argv, .o = o, .out = out[1], .report = report[1], .go = go[0]};
		const pid_t self = getpid();

		c.pid = fork();
		if (c.pid == 0) {
			fd_close_many((int[]){out[0], report[0], go[1]}, 3);
			become(&s, self);
		}
		if (c.pid < 0)
			r = err_set(e, ERR_SYSTEM, errno, "cannot start the builder");
		else
			(void)setpgid(c.pid, c.pid);
	}
	fd_close_many((int[]){out[1], report[1], go[0]}, 3);
	c.out = out[0];
	if (r >= 0)
		r = follow(c.pid, report[0], go[1], argv[0], e);
	fd_close_many((int[]){report[0], go[1]}, 2);
	if (r < 0) {
		c.pid = MAX(c.pid, 0);
		child_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}
