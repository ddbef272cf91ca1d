/* SPDX-License-Identifier: Apache-2.0 */
/* Start, loop and messages of PID 1. Theory of operation: init.h. */
#include "asked.h"
#include "file_places.h"
#include "health.h"
#include "root_user.h"

#include "base/attr.h"
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define KERNEL_ROOM     (UINT64_C(64) << 20) /* of the memory limit, for gVisor's own memory */
#define KERNEL_PART     4                    /* at most this part of it */
#define FRAMES_PER_TURN 16
#define LOW_FDS         3  /* init never has 0, 1 or 2: a run's streams take these numbers */
#define HIGH_FDS        16 /* above every number that the maker gives to init */

static struct init init; /* static, so that the stack stays small */

void init_die(const char *why)
{
	(void)why; /* for a debugger: PID 1 has no log */
	_exit(1);
}

void assert_failed(const char *expr, const char *file, int line)
{
	(void)file;
	(void)line;
	init_die(expr);
}

void init_send(struct init *in, const struct proto_head *frame, const int *fds, size_t n)
{
	/* May block: a front that does not read harms only itself. If it ends, send gives EPIPE. */
	if (fd_send(in->channel, frame, frame->size, fds, n, 0) < 0)
		init_die("channel");
}

void init_open_score(struct init *in)
{
	in->oom_score = openat(in->proc, "self/oom_score_adj", O_RDWR | O_CLOEXEC);
}

/* The child inherits the score, so it need not be dumpable for a moment to write its own: a process of the session could
 * then open its memory, which has no filter yet. To lower a score to what it was needs no privilege, proc(5). */
pid_t init_fork(const struct init *in, uint32_t score)
{
	char was[16];
	char text[16];
	const ssize_t n = in->oom_score >= 0 ? pread(in->oom_score, was, sizeof(was), 0) : -1;

	if (n > 0 && snprintf(text, sizeof(text), "%u", score) > 0)
		(void)!pwrite(in->oom_score, text, strlen(text), 0);
	const pid_t pid = fork();
	const int errnum = errno;
	if (n > 0 && pid != 0)
		(void)!pwrite(in->oom_score, was, (size_t)n, 0);
	errno = errnum;
	return pid;
}

/* ---- messages from the front ---- */

/* A handler borrows the N descriptors at FDS. -1 = the message is not a possible one. */
typedef int message_handler(struct init *in, const union proto_frame *f, const int *fds, size_t n);

static int on_run(struct init *in, const union proto_frame *f, const int *fds, size_t n)
{
	run_start(in, &f->run, fds, n);
	return 0;
}

static int on_signal(struct init *in, const union proto_frame *f, const int *fds UNUSED,
		     size_t n UNUSED)
{
	run_signal(in, &f->signal);
	return 0;
}

static int on_warm(struct init *in, const union proto_frame *f, const int *fds, size_t n)
{
	int channel = n == 1 ? fcntl(fds[0], F_DUPFD_CLOEXEC, LOW_FDS) : -1;

	warm_arrived(in, channel, f->warm.soon != 0);
	return 0;
}

static int on_rest(struct init *in, const union proto_frame *f UNUSED, const int *fds UNUSED,
		   size_t n UNUSED)
{
	warm_rest(in);
	return 0;
}

/* In a container init watches memory where nobody outside can count it. The container's control group may hold
 * the same limit all the same, and its kill would be taken for a signal of the run. The kernel of gVisor is a process in
 * that group: the whole sandbox would be killed. So init ends a run earlier. */
static void watch_early(struct init *in)
{
	if (!in->inward && !(in->contained && in->config.poll_memory))
		return;
	uint64_t *limit = &in->config.limits.memory_bytes;

	in->config.poll_memory = 1;
	*limit -= *limit / KERNEL_PART < KERNEL_ROOM ? *limit / KERNEL_PART : KERNEL_ROOM;
}

static int on_limit(struct init *in, const union proto_frame *f, const int *fds UNUSED,
		    size_t n UNUSED)
{
	in->config.limits.memory_bytes = f->init_limit.memory_bytes;
	in->config.limits.pids = f->init_limit.pids;
	watch_early(in);
	return 0;
}

/* The workspace of a session is about to become a stored one. */
static int on_keep(struct init *in, const union proto_frame *f UNUSED, const int *fds UNUSED,
		   size_t n UNUSED)
{
	in->flushes = true;
	variables_keep();
	if (contexts_state(in, 0) != SESSION_NONE)
		variables_mark(0);
	return 0;
}

static int on_store(struct init *in, const union proto_frame *f UNUSED, const int *fds UNUSED,
		    size_t n UNUSED)
{
	variables_store(in);
	return 0;
}

static int on_file(struct init *in, const union proto_frame *f, const int *fds, size_t n)
{
	const bool root =
	    !(f->file.flags & PROTO_FILE_USERS) && root_user_files_begin(in, f->file.path);
	const int r = files_handle(in, &f->file, n == 1 ? fds[0] : -1);

	root_user_files_end(root);
	return r;
}

static int on_move(struct init *in, const union proto_frame *f, const int *fds UNUSED,
		   size_t n UNUSED)
{
	const bool root =
	    !(f->move.flags & PROTO_FILE_USERS) && root_user_files_begin(in, f->move.to);
	const int r = files_move(in, &f->move);

	root_user_files_end(root);
	return r;
}

static int on_set(struct init *in, const union proto_frame *f, const int *fds UNUSED,
		  size_t n UNUSED)
{
	const bool root = root_user_files_begin(in, f->set.path);
	const int r = files_set(in, &f->set);

	root_user_files_end(root);
	return r;
}

static int on_watch(struct init *in, const union proto_frame *f, const int *fds UNUSED,
		    size_t n UNUSED)
{
	return watch_handle(in, &f->watch);
}

static int on_checkpoint(struct init *in, const union proto_frame *f, const int *fds, size_t n)
{
	return checkpoints_handle(in, &f->checkpoint, n ? fds[0] : -1);
}

static int on_forget(struct init *in, const union proto_frame *f, const int *fds UNUSED,
		     size_t n UNUSED)
{
	const uint32_t context = f->forget_context.context;
	const bool uses = run_is_on(in) && in->run.form == RUN_STATEFUL;

	if (context >= PROTO_CONTEXTS_MAX || (uses && context == in->contexts.current))
		return -1;
	contexts_end(in, context);
	return 0;
}

static int on_health(struct init *in UNUSED, const union proto_frame *f, const int *fds UNUSED,
		     size_t n UNUSED)
{
	if (f->health.port == 0 || f->health.port > 65535)
		return -1;
	health_begin(f->health.port);
	return 0;
}

/* Every message that the front may send. The most descriptors, the size and who may send it are in
 * messages.tbl.h; proto_check() has judged those. */
/* clang-format off */
static const struct message {
	size_t least_fds;
	message_handler *handle;
	const char *name;      /* for a debugger */
} messages[PROTO_TYPE_MAX_] = {
    /*                         fds                  handler         what happens during a run */
    [PROTO_INIT_RUN]        = {PROTO_RUN_BASE_FDS,  on_run,        "run"},        /* EBUSY; a background process: at once */
    [PROTO_INIT_SIGNAL]     = {0,                   on_signal,     "signal"},     /* at once */
    [PROTO_INIT_FILE]       = {0,                   on_file,       "file"},       /* at once */
    [PROTO_INIT_MOVE]       = {0,                   on_move,       "move"},       /* at once */
    [PROTO_INIT_SET]        = {0,                   on_set,        "set"},        /* at once */
    [PROTO_INIT_WATCH]      = {0,                   on_watch,      "watch"},      /* at once */
    [PROTO_INIT_WARM]       = {0,                   on_warm,       "warm"},       /* at once */
    [PROTO_INIT_REST]       = {0,                   on_rest,       "rest"},       /* after it */
    [PROTO_INIT_CHECKPOINT] = {0,                   on_checkpoint, "checkpoint"}, /* EBUSY */
    [PROTO_INIT_LIMIT]      = {0,                   on_limit,      "limit"},      /* at once */
    [PROTO_INIT_KEEP]       = {0,                   on_keep,       "keep"},       /* at once */
    [PROTO_INIT_FORGET]     = {0,                   on_forget,     "forget"},     /* at once; not of its own session */
    [PROTO_INIT_HEALTH]     = {0,                   on_health,     "health"},     /* at once */
    [PROTO_INIT_STORE]      = {0,                   on_store,      "store"},      /* EBUSY */
};
/* clang-format on */

static bool take_message(struct init *in)
{
	static union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(in->channel, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);

	if (n == -EAGAIN)
		return false;
	if (n <= 0)
		init_die("channel");
	if (proto_check(&f, (size_t)n, n_fds, PROTO_PARTY_F, PROTO_PARTY_I) < 0)
		init_die("message");
	const struct message *m = &messages[f.head.type];
	if (!m->handle || n_fds < m->least_fds)
		init_die("message");
	if (m->handle(in, &f, fds, n_fds) < 0)
		init_die(m->name);
	fd_close_many(fds, n_fds);
	return true;
}

/* ---- loop ---- */

static int timeout_of(const struct init *in, struct timespec *ret)
{
	struct timespec now;
	const uint64_t at = init_sooner(init_sooner(asked_next(), watch_next(in)),
					init_sooner(run_next(in), background_next(in)));

	if (files_pending(in) || disk_pending(in) || watch_pending(in)) {
		*ret = (struct timespec){0};
		return 1;
	}
	if (at == 0)
		return 0;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t now_at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	uint64_t left = at > now_at ? at - now_at : 0;
	*ret = (struct timespec){.tv_sec = (time_t)(left / 1000000000u),
				 .tv_nsec = (long)(left % 1000000000u)};
	return 1;
}

static void drain_children(const struct init *in)
{
	struct signalfd_siginfo info[8];

	while (read(in->children, info, sizeof(info)) == sizeof(info))
		;
}

/* What may be due after whatever has happened. */
static void work(struct init *in)
{
	run_waiting(in);
	if (in->strangers && !run_is_on(in))
		kill_strangers(in);
	deferral_work(in);
	checkpoints_choose(in); /* before session_prepare(), which forks its backup */
	variables_work(in);     /* it, too */
	/* Before warm_prepare(), because only one of the two may fork at a time. */
	session_prepare(in);
	warm_prepare(in);
	warm_tell(in);
	checkpoints_work(in);
	files_work(in);
	run_watch_disk(in);
	watch_work(in);
}

#define WATCHED 12U /* the first that is polled for watched folders */

/* What is there to be polled; -1 = nothing. */
static void look_at(const struct init *in, struct pollfd *p)
{
	p[3].fd = in->warm.channel;
	p[4].fd = in->warm.spare_channel;
	p[5].fd = in->session.backup_channel;
	p[6].fd = session_channel(in);
	p[7].fd = in->checkpoints.fork_channel;
	p[8].fd =
	    background_any(in) && in->background.reports[0] > 0 ? in->background.reports[0] : -1;
	p[9].fd = health_fd();
	p[10].fd = asked_socket();
	p[11].fd = asked_channel();
	for (size_t i = 0; i < WATCH_TREES; i++)
		p[WATCHED + i].fd = watch_fd(in, i);
}

_Noreturn static void loop(struct init *in)
{
	struct pollfd p[] = {
	    {.fd = in->liveness, .events = POLLIN},
	    {.fd = in->children, .events = POLLIN},
	    {.fd = in->channel, .events = POLLIN},
	    /* The loop fills these in; -1 = there is none. */
	    {.events = POLLIN}, /* clean interpreter */
	    {.events = POLLIN}, /* spare */
	    {.events = POLLIN}, /* backup of the session */
	    {.events = POLLIN}, /* session process */
	    {.events = POLLIN}, /* fork of a checkpoint */
	    {.events = POLLIN}, /* reapers of background processes */
	    {.events = POLLIN}, /* health */
	    {.events = POLLIN}, /* requests of programs */
	    {.events = POLLIN}, /* the porter, which takes them */
	    {.events = POLLIN}, /* watched folders, from here on */
	    {.events = POLLIN},
	    {.events = POLLIN},
	    {.events = POLLIN},
	};
	_Static_assert(sizeof(p) / sizeof(p[0]) == WATCHED + WATCH_TREES, "one for each tree");

	for (;;) {
		struct timespec left;
		look_at(in, p);
		const struct timespec *wait = timeout_of(in, &left) ? &left : NULL;
		if (ppoll(p, sizeof(p) / sizeof(p[0]), wait, NULL) < 0 && errno != EINTR)
			init_die("poll");
		if (p[0].revents) /* nobody writes to the liveness pipe, so this is end of file */
			init_die("monitor");
		if (p[1].revents)
			drain_children(in);
		warm_events(in, p[3].revents, p[4].revents);
		session_events(in, p[5].revents, p[6].revents);
		checkpoints_events(in, p[7].revents);
		if (p[8].revents)
			background_events(in);
		if (p[9].revents)
			health_answer();
		asked_events(in, p[10].revents, p[11].revents);
		for (size_t i = 0; i < WATCH_TREES; i++)
			if (p[WATCHED + i].revents)
				watch_events(in, i);
		run_reap(in);
		run_tick(in);
		background_tick(in);
		for (int i = 0; p[2].revents && i < FRAMES_PER_TURN; i++)
			if (!take_message(in))
				break;
		work(in);
	}
}

/* ---- start ---- */

static int read_filter(struct init *in, int fd)
{
	ssize_t n = pread(fd, in->filter, sizeof(in->filter), 0);

	if (n <= 0 || (size_t)n % sizeof(in->filter[0]) != 0)
		return -EINVAL;
	in->n_filter = (uint16_t)((size_t)n / sizeof(in->filter[0]));
	return 0;
}

static int take_config(struct init *in)
{
	static union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(in->channel, &f, sizeof(f), fds, &n_fds, 0);
	size_t at = 0;

	if (n < 0)
		return (int)n;
	if (proto_check(&f, (size_t)n, n_fds, PROTO_PARTY_M, PROTO_PARTY_I) < 0 ||
	    f.head.type != PROTO_INIT_CONFIG || f.config.n_procs > INIT_FDS_MAX)
		return -EPROTO;
	bool has_kill = f.config.fds & PROTO_CONFIG_KILL;
	bool has_warm = f.config.fds & PROTO_CONFIG_WARM;
	const uint32_t least = (uint32_t)PROTO_CONFIG_BASE_FDS + (has_kill ? 1U : 0U) +
			       (has_warm ? 1U : 0U) + f.config.n_procs;
	/* gVisor leaves out descriptors that it cannot take, and a folder is one: then there are no
	 * checkpoints. */
	bool has_store = (f.config.fds & PROTO_CONFIG_STORE) && n_fds == least + 1;
	if (n_fds != least + (has_store ? 1U : 0U))
		return -EPROTO;
	in->config = f.config;
	in->liveness = fds[at++];
	int filter = fds[at++];
	in->kill = has_kill ? fds[at++] : -1;
	for (in->n_procs = 0; in->n_procs < f.config.n_procs; in->n_procs++)
		in->procs[in->n_procs] = fds[at++];
	int warm = has_warm ? fds[at++] : -1;
	int r = read_filter(in, filter);
	(void)close(filter);
	session_start(in);
	checkpoints_start(in);
	if (has_store)
		in->checkpoints.store = fds[at];
	warm_start(in, warm, f.config.fds & PROTO_CONFIG_SOON);
	return r;
}

/* The channel of a contained init: the engine listens at PATH, which is in a folder that only this
 * container has, and stops listening once somebody has connected. */
static int connect_to(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(at.sun_path))
		return -ENAMETOOLONG;
	(void)memcpy(at.sun_path, path, strlen(path));
	_cleanup_fd_ int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0 || connect(sock, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return -errno;
	const int high = fcntl(sock, F_DUPFD_CLOEXEC, HIGH_FDS);
	return high < 0 ? -errno : high;
}

static int take_null(void)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (int i = 0; i < LOW_FDS; i++)
		if (dup2(null, i) < 0)
			return -errno;
	if (null >= LOW_FDS)
		(void)close(null);
	return 0;
}

/* In a container: its mounts are complete, and nothing was given to init but the path of its channel. */
static int begin_contained(struct init *in, const char *path)
{
	in->contained = true;
	in->dev = in->store = in->ballast = in->packages = in->image = in->lock = in->egress = -1;
	if (syscall(SYS_close_range, LOW_FDS, FDS_LAST, 0) < 0 && errno != ENOSYS)
		return -errno;
	in->channel = connect_to(path);
	return in->channel < 0 ? in->channel : take_null();
}

/* Moves the descriptors that the maker gave, and puts /dev/null on 0, 1 and 2. */
static int take_channel(struct init *in)
{
	/* A descriptor that the maker left out is not open, which gives -1 here. */
	in->channel = fcntl(0, F_DUPFD_CLOEXEC, HIGH_FDS);
	in->dev = fcntl(PROTO_START_DEV, F_DUPFD_CLOEXEC, HIGH_FDS);
	in->store = fcntl(PROTO_START_STORE, F_DUPFD_CLOEXEC, HIGH_FDS);
	in->packages = fcntl(PROTO_START_PACKAGES, F_DUPFD_CLOEXEC, HIGH_FDS);
	in->image = fcntl(PROTO_START_IMAGE, F_DUPFD_CLOEXEC, HIGH_FDS);
	in->lock = fcntl(PROTO_START_LOCK, F_DUPFD_CLOEXEC, HIGH_FDS);
	in->egress = -1;
	if (syscall(SYS_close_range, LOW_FDS, PROTO_START_END - 1, 0) < 0)
		return -errno;
	return in->channel < 0 ? -errno : take_null();
}

static int start_signals(struct init *in)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -errno;
	in->children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return in->children < 0 ? -errno : 0;
}

static int start(struct init *in, enum proto_step *step)
{
	*step = PROTO_STEP_INIT_CONFIG;
	int r = take_config(in);
	KILL_POINT(INIT_CONFIGURED);
	if (r == 0)
		r = start_signals(in);
	return r < 0 ? r : init_setup(in, step);
}

static void tell_failed(struct init *in, enum proto_step step, int errnum)
{
	struct proto_init_failed f = {
	    .head = PROTO_HEAD(INIT_FAILED, proto_init_failed), .step = step, .errnum = errnum};

	init_send(in, &f.head, NULL, 0);
}

static void tell_ready(struct init *in)
{
	struct proto_init_ready ready = {.head = PROTO_HEAD(INIT_READY, proto_init_ready),
					 .landlock = in->landlock >= 0};
	const int fd = in->egress >= 0 ? in->egress : 0;
	const bool sends = in->egress >= 0 || in->contained;
	ssize_t n = fd_send(in->channel, &ready, sizeof(ready), &fd, sends, 0);

	in->inward = n == -EINVAL && in->contained;
	if (in->inward && in->egress >= 0) {
		tell_failed(in, PROTO_STEP_EGRESS, EOPNOTSUPP);
		_exit(1);
	}
	if (!in->inward && n < 0)
		init_die("channel");
	if (in->inward) {
		ready.inward = 1;
		init_send(in, &ready.head, NULL, 0);
	}
	watch_early(in);
}

int main(int argc, char *argv[])
{
	struct init *in = &init;
	enum proto_step step = PROTO_STEP_NONE;

	(void)prctl(PR_SET_NAME, "caisson-init", 0, 0, 0);
	if ((argc == 2 ? begin_contained(in, argv[1]) : take_channel(in)) < 0)
		init_die("channel");
	(void)!slice_short(
	    getpriority(PRIO_PROCESS, 0)); /* each file that goes in or out waits for init */
	int r = start(in, &step);
	if (r < 0) {
		tell_failed(in, step, -r);
		return 1;
	}
	tell_ready(in);
	if (in->contained)
		zygote_begin(in);
	KILL_POINT(INIT_READY);
	in->egress = fd_close(in->egress);
	loop(in);
}
