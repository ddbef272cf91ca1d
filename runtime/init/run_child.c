/* SPDX-License-Identifier: Apache-2.0 */
/* A cold run between fork and exec. init has one thread, so any function may be called here. The
 * child executes Python or a command. It keeps descriptors 0 to 2 and 3, which is the source of the
 * Python code or the channel on which a command reports, and closes all others. */
#include "root_user.h"

#include "base/kill_points.h"
#include "base/walls.h"
#include "frames.h"
#include "texts.h"
#include "walls/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIGH_FD     16  /* above every descriptor that a run gets */
#define KEPT_FDS    256 /* only in a test build that leaves the descriptors open */
#define ERROR_FD    (RUN_CODE_FD + 1)
#define RESULT_FD   (RUN_CODE_FD + 3) /* COLD_RESULT_FD of runtime/python/notebook.py */
#define STACK_BYTES (UINT64_C(8) << 20)
#define DATA_FACTOR 4 /* programs reserve more private memory than they use */
#define DATA_SPARE                                                                                 \
	(UINT64_C(1) << 30) /* what a warm interpreter has reserved, however little a run may use */
#define NPROC_SPARE 8 /* room for init and the waiting interpreters, which have the same uid */
#define CORE_BYTES                                                                                 \
	1 /* core(5): 0 does not keep a core from a pipe of kernel.core_pattern, 1 does */
#define LOCK_BYTES  (UINT64_C(1) << 20) /* pages that cannot be swapped, of all its processes */
#define SIGNALS_MAX UINT64_C(4096)      /* queued signals and timers, of all its processes */
#define QUEUE_BYTES UINT64_C(819200)    /* POSIX message queues, of all its processes */

_Noreturn static void give_up(int error, int errnum)
{
	(void)!write(error, &errnum, sizeof(errnum));
	_exit(127);
}

/* A limit whose soft and hard values are the same. */
static struct rt_rlimit same(uint32_t resource, uint64_t value)
{
	return (struct rt_rlimit){.resource = resource, .cur = value, .max = value};
}

/* gVisor's kernel refuses limits that it does not enforce, even to set what is set. Returns how many are
 * left. */
static uint32_t keep_settable(struct rt_rlimit *l, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct rlimit now;
		__rlimit_resource_t what = (__rlimit_resource_t)l[i].resource;
		if (getrlimit(what, &now) == 0 && setrlimit(what, &now) == 0)
			l[kept++] = l[i];
	}
	return kept;
}

uint32_t run_limits(const struct init *in, struct rt_rlimit *ret)
{
	const struct proto_limits *l = &in->config.limits;
	uint64_t data = l->memory_bytes * DATA_FACTOR + DATA_SPARE;
	uint32_t n = 0;

	/* A limit of 1 byte prevents both kinds of core dump. The kernel refuses to pipe one to a
	 * handler (its guard against recursion, fs/coredump.c), and no file of 1 byte is written.
	 * The filter forbids changing it. */
	if (wall_stands(WALL_CORE))
		ret[n++] = same(RLIMIT_CORE, CORE_BYTES);
	if (wall_stands(WALL_MEMLOCK))
		ret[n++] = same(RLIMIT_MEMLOCK, LOCK_BYTES);
	if (wall_stands(WALL_SIGPENDING))
		ret[n++] = same(RLIMIT_SIGPENDING, SIGNALS_MAX);
	ret[n++] = same(RLIMIT_MSGQUEUE, QUEUE_BYTES);
	ret[n++] = same(RLIMIT_NOFILE, l->nofile);
	/* In containers, uid 1000 is the same user in all of them, and the control group counts. */
	/* A control group counts, too, where `pids` may change later: nothing here could raise a lower limit
	 * of an interpreter that lives. */
	if (!in->contained)
		ret[n++] =
		    same(RLIMIT_NPROC, (l->pids_most ? l->pids_most : l->pids) + NPROC_SPARE);
	ret[n++] =
	    (struct rt_rlimit){.resource = RLIMIT_STACK, .cur = STACK_BYTES, .max = RLIM_INFINITY};
	if (in->config.poll_memory)
		ret[n++] = same(RLIMIT_DATA, data);
	/* no file system enforces the disk limit: then one file alone must not exceed it */
	if (in->config.fds & PROTO_CONFIG_FOLDER)
		ret[n++] = same(RLIMIT_FSIZE, l->workspace_bytes);
	return in->contained ? keep_settable(ret, n) : n;
}

static void limit(int error, const struct rt_rlimit *l)
{
	struct rlimit now;
	__rlimit_resource_t what = (__rlimit_resource_t)l->resource;

	if (getrlimit(what, &now) < 0)
		give_up(error, errno);
	/* Raising a hard limit needs a capability that init has dropped, so a lower one stays. */
	if (now.rlim_max > l->max)
		now.rlim_max = l->max;
	now.rlim_cur = l->cur < now.rlim_max ? l->cur : now.rlim_max;
	if (setrlimit(what, &now) < 0)
		give_up(error, errno);
}

static void set_limits(const struct run_child *c)
{
	struct rt_rlimit l[RT_RLIMITS_MAX];
	uint32_t n = run_limits(c->in, l);

	for (uint32_t i = 0; i < n; i++)
		limit(c->error, &l[i]);
}

/* Duplicates FD above all targets, so that no dup2(2) overwrites a descriptor that is still needed. */
static int lift(int error, int fd)
{
	if (fd < 0)
		return -1;
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
	if (high < 0)
		give_up(error, errno);
	return high;
}

/* Only in a test build without this wall: the run inherits all descriptors of init. */
static void keep_all(void)
{
	for (int fd = RESULT_FD; fd < KEPT_FDS; fd++)
		(void)fcntl(fd, F_SETFD, 0);
}

static void set_fds(struct run_child *c)
{
	c->error = lift(c->error, c->error);
	int given = wall_stands(WALL_STDIN) ? c->stdin_fd : inotify_init1(0);
	int in = lift(c->error, given);
	int out = lift(c->error, c->out);
	int err = lift(c->error, c->err);
	/* Python runs have a source, commands may have a channel for reports. */
	int third = lift(c->error, c->code >= 0 ? c->code : c->result);
	int result = lift(c->error, c->code >= 0 ? c->result : -1);
	int args = lift(c->error, c->args);

	if ((in >= 0 && dup2(in, 0) < 0) || dup2(out, 1) < 0 || dup2(err, 2) < 0 ||
	    (third >= 0 && dup2(third, RUN_CODE_FD) < 0))
		give_up(c->error, errno);
	if (dup3(c->error, ERROR_FD, O_CLOEXEC) < 0 || dup3(args, ERROR_FD + 1, O_CLOEXEC) < 0)
		give_up(c->error, errno);
	c->error = ERROR_FD;
	c->args = ERROR_FD + 1;
	if (result >= 0 && dup2(result, RESULT_FD) < 0)
		give_up(c->error, errno);
	if (third < 0)
		(void)close(RUN_CODE_FD);
	if (!wall_stands(WALL_DESCRIPTORS))
		keep_all();
	else if (syscall(SYS_close_range, result >= 0 ? RESULT_FD + 1 : RESULT_FD, FDS_LAST, 0) < 0)
		give_up(c->error, errno);
}

static void join_groups(const struct run_child *c)
{
	for (uint32_t i = 0; i < c->in->n_procs; i++)
		if (write(c->in->procs[i], "0", 1) != 1)
			give_up(c->error, errno);
}

struct strings {
	char *cwd;
	char **argv;
	char **env;
};

/* Adds the variables of the sandbox's own packages. The environment is TEXT from AT to its end. */
static size_t extend(char *text, size_t size, size_t at, uint32_t *more)
{
	return at + venv_extend(text + at, size - at, VENV_ROOM, more);
}

/* Splits the NUL-terminated strings of `args`: working folder, argv, environment. */
static void read_args(const struct run_child *c, struct strings *ret)
{
	size_t size = c->f->args_size;
	size_t n = 1 + (size_t)c->f->argc + c->f->envc;
	uint32_t more = 0;
	char *text = malloc(size + VENV_ROOM);
	char **list = calloc(n + 3, sizeof(char *));

	if (!text || !list)
		give_up(c->error, ENOMEM);
	if (pread(c->args, text, size, 0) != (ssize_t)size || text[size - 1] != '\0')
		give_up(c->error, EPROTO);
	char *p = text;
	size_t at = 0;
	for (size_t i = 0; i < n + more; i++) {
		if (i == 1 + (size_t)c->f->argc)
			size = extend(text, size, (size_t)(p - text), &more);
		if (p == text + size)
			give_up(c->error, EPROTO);
		list[at++] = p;
		p += strlen(p) + 1;
		if (i == c->f->argc) /* the last string of argv; string 0 is the folder */
			list[at++] = NULL;
	}
	ret->cwd = list[0];
	ret->argv = list + 1;
	ret->env = list + 1 + c->f->argc + 1;
}

static void tie(const struct run_child *c)
{
	if (c->in->landlock >= 0 && wall_stands(WALL_LANDLOCK)) {
		int r = landlock_apply(c->in->landlock);
		if (r < 0)
			give_up(c->error, -r);
	}
}

static const char *python_text(const struct proto_init_run *f)
{
	const bool display = f->python & PROTO_PYTHON_DISPLAY;

	if (f->python & PROTO_PYTHON_NOTEBOOK)
		return display ? runtime_notebook_display_text : runtime_notebook_text;
	return display ? runtime_display_text : runtime_boot_text;
}

_Noreturn static void become(const struct run_child *c, const struct strings *s)
{
	static char python[] = "python3";
	static char flag[] = "-c";
	/* execve(2) takes non-const strings but does not write to them */
	char *text = (char *)(uintptr_t)python_text(c->f);
	int r = wall_stands(WALL_FILTER) ? filter_load(c->in->filter, c->in->n_filter) : 0;

	if (r < 0)
		give_up(c->error, -r);
	if (c->f->fds & PROTO_RUN_CODE) {
		char **argv = calloc((size_t)c->f->argc + 4, sizeof(char *));

		if (!argv)
			give_up(c->error, ENOMEM);
		argv[0] = python;
		argv[1] = flag;
		argv[2] = text;
		memcpy(argv + 3, s->argv, c->f->argc * sizeof(char *));
		(void)execve(c->in->python, argv, s->env);
	} else if (s->argv[0]) {
		environ = s->env; /* execvp(3) uses PATH of environ */
		(void)execvp(s->argv[0], s->argv);
	}
	give_up(c->error, errno);
}

void run_child(const struct run_child *given)
{
	struct run_child c = *given;
	struct strings s = {0};
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() < 0)
		give_up(c.error, errno);
	join_groups(&c);
	tie(&c);
	set_fds(&c);
	if (c.terminal > 0 && ioctl(0, TIOCSCTTY, 0) < 0)
		give_up(c.error, errno);
	set_limits(&c);
	read_args(&c, &s);
	const int r = c.f->root                                                ? root_user_become()
		      : root_user_is_there(c.in) && wall_stands(WALL_ROOT_OWN) ? root_user_leave()
									       : 0;
	if (r < 0)
		give_up(c.error, -r);
	if (!s.cwd || chdir(s.cwd) < 0)
		give_up(c.error, errno);
	KILL_POINT(RUN_TIED);
	become(&c, &s);
}
