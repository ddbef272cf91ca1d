/* SPDX-License-Identifier: Apache-2.0 */
/* Warm runs: init's side of the interpreter channels (docs/runtime-frames.md).
 *
 *   clean interpreter  NONE --RT_HELLO--> COMING --RT_READY--> CLEAN
 *   spare              NONE --RT_FORK--> FORKING --RT_READY--> READY, one at a time, between runs
 *
 * The first spare is the clean interpreter itself, so a sandbox that is made for one run costs one
 * fork. So is the spare of a clean interpreter that a run waited for. SPENT_WAIT_NS after that run init asks the front for another clean interpreter (INIT_COLD);
 * a run that comes sooner asks at once. A warm run takes the spare, or waits for the one that is
 * being forked. Any error on a channel ends that interpreter. A run that needed it asks for another
 * (warm_ask), at most ASK_MAX times, and then starts cold: same behaviour, later. */
#include "init.h"

#include "base/attr.h"
#include "base/fdio.h"
#include "frames.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Most sandboxes that are used for one run are destroyed sooner. So the zygote does not fork for a
 * sandbox that is about to end. */
#define SPENT_WAIT_NS UINT64_C(100000000)

struct rt_run_frame {
	struct rt_run run;
	char text[RT_ENV_MAX + RT_CWD_MAX];
};

int warm_pair(int pair[2])
{
	int on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	return setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ? -errno : 0;
}

pid_t warm_take_frame(int channel, unsigned kind, void *frame, size_t size)
{
	union {
		struct cmsghdr align;
		/* no room for descriptors, so the kernel installs none */
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct rt_head h = {0};
	struct iovec iov = {.iov_base = frame, .iov_len = size};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct ucred who = {0};
	ssize_t n = recvmsg(channel, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
			memcpy(&who, CMSG_DATA(c), sizeof(who));
	memcpy(&h, frame, sizeof(h));
	if (n != (ssize_t)size || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || h.kind != kind ||
	    who.pid <= 1)
		return -EPROTO;
	return who.pid;
}

static pid_t warm_take_head(int channel, unsigned kind)
{
	struct rt_head h;

	return warm_take_frame(channel, kind, &h, sizeof(h));
}

static void drop_spare(struct init_warm *w)
{
	w->spare_channel = fd_close(w->spare_channel);
	w->spare_state = SPARE_NONE;
	w->spare = 0;
}

/* Kills the clean interpreter and gives up the spare, whose process exits when its channel closes. */
static void drop_clean(struct init_warm *w)
{
	drop_spare(w);
	if (w->clean > 0)
		(void)kill(w->clean, SIGKILL);
	w->channel = fd_close(w->channel);
	w->soon = false;
	w->state = WARM_NONE;
	w->clean = 0;
}

void warm_start(struct init *in, int channel, bool soon)
{
	in->warm = (struct init_warm){
	    .channel = channel, .soon = soon, .spare_channel = -1, .told_cold = channel < 0};
}

void warm_arrived(struct init *in, int channel, bool soon)
{
	struct init_warm *w = &in->warm;

	if (w->channel >= 0 && (w->state != WARM_NONE || channel < 0)) {
		(void)fd_close(channel); /* the old clean interpreter still lives */
		return;
	}
	drop_clean(w);
	w->channel = channel;
	w->spent = w->spent && channel < 0;
	w->soon = channel >= 0 && soon;
	w->told_cold = channel < 0;
	w->rest = false;
}

void warm_rest(struct init *in)
{
	in->warm.rest = true;
}

static bool is_busy(const struct init *in)
{
	return in->warm.spare_state != SPARE_NONE || in->run.state != RUN_NONE ||
	       in->defer_until != 0;
}

uint64_t warm_next(const struct init *in)
{
	const struct init_warm *w = &in->warm;

	return w->spent && w->channel < 0 && !w->told_cold && !is_busy(in)
		   ? in->told_at + SPENT_WAIT_NS
		   : 0;
}

static void tell_cold(struct init *in, bool awaited)
{
	struct proto_init_cold cold = {.head = PROTO_HEAD(INIT_COLD, proto_init_cold),
				       .awaited = awaited};

	in->warm.told_cold = true;
	init_send(in, &cold.head, NULL, 0);
}

void warm_tell(struct init *in)
{
	const struct init_warm *w = &in->warm;

	if (w->channel >= 0 || w->told_cold)
		return;
	if (in->contained) {
		if (!run_is_on(in) && w->spare_state == SPARE_NONE && w->clean == 0)
			zygote_again(in);
		return;
	}
	if (w->spent && (is_busy(in) || init_now() < in->told_at + SPENT_WAIT_NS))
		return;
	tell_cold(in, false);
}

bool warm_is_lost(const struct init *in, const struct proto_init_run *f)
{
	const struct init_warm *w = &in->warm;
	bool needed =
	    f->kind != PROTO_RUN_STATEFUL || contexts_state(in, f->context) == SESSION_NONE;

	return f->warm != PROTO_WARM_NO && needed && w->channel < 0 && !w->soon &&
	       w->spare_state == SPARE_NONE;
}

void warm_ask(struct init *in)
{
	if (in->contained) {
		zygote_again(in);
		return;
	}
	tell_cold(in, true);
	in->warm.soon = true;
}

/* INIT_REST: ends the waiting interpreters, which own memory and can be made again. While one is being
 * forked, init does not know its pid yet, so it waits. */
static void let_go(struct init *in)
{
	struct init_warm *w = &in->warm;

	if (!w->rest || in->run.state != RUN_NONE || checkpoints_busy(in) ||
	    w->spare_state == SPARE_FORKING || in->session.state == SESSION_FORKING ||
	    in->session.state == SESSION_WAKING || (w->channel >= 0 && w->state != WARM_CLEAN))
		return;
	w->rest = false;
	session_rest(in);
	contexts_rest(in);
	if (in->contained) /* to make it again would take an import */
		return;
	w->told_cold = true;
	w->spent = false;
	drop_clean(w);
}

/* Sends what a spare needs to isolate itself; frames.h has the order of the descriptors. */
static int send_fork(struct init *in, int theirs, bool self)
{
	int fds[RT_FDS_MAX];
	size_t n = 0;
	struct rt_fork k = {.h = {.kind = RT_FORK},
			    .n_leaves = in->n_procs,
			    .has_ruleset = in->landlock >= 0,
			    .has_proc = 1,
			    .oom_score = in->config.oom_score,
			    .awaited = in->run.state == RUN_WAITING,
			    .self = self};

	k.n_rlimits = run_limits(in, k.rlimit);
	fds[n++] = theirs;
	if (in->landlock >= 0)
		fds[n++] = in->landlock;
	fds[n++] = in->proc;
	for (uint32_t i = 0; i < in->n_procs; i++)
		fds[n++] = in->procs[i];
	ssize_t sent = fd_send(in->warm.channel, &k, sizeof(k), fds, n, MSG_DONTWAIT);
	return sent < 0 ? (int)sent : 0;
}

void warm_give_up(struct init *in)
{
	drop_clean(&in->warm);
}

/* The clean interpreter was told to become the spare itself. */
static void become_spare(struct init *in)
{
	struct init_warm *w = &in->warm;

	w->forks = w->spent = true;
	w->shared = in->config.poll_memory ? watch_resident(in, w->clean) : 0;
	w->spare = w->clean;
	w->clean = 0;
	w->channel = fd_close(w->channel);
	w->state = WARM_NONE;
}

bool warm_spare_alone(const struct init *in)
{
	return in->warm.spare > 0 && in->warm.clean == 0;
}

bool warm_is_spent(const struct init *in)
{
	return in->warm.spent && in->warm.spare_state == SPARE_NONE;
}

void warm_prepare(struct init *in)
{
	struct init_warm *w = &in->warm;
	int pair[2];

	let_go(in);
	if (w->state != WARM_CLEAN || w->spare_state != SPARE_NONE ||
	    (run_is_on(in) && !session_wants_spare(in)) || in->session.state == SESSION_FORKING ||
	    in->defer_until != 0)
		return;
	if (warm_pair(pair) < 0)
		return;
	int r = send_fork(in, pair[1], !w->forks);
	(void)close(pair[1]);
	w->spare_channel = pair[0];
	w->spare_state = SPARE_FORKING;
	if (r < 0)
		drop_clean(w);
	else if (!w->forks)
		become_spare(in);
}

/* ---- a run ---- */

bool warm_can(const struct init *in, const struct proto_init_run *f)
{
	return f->warm && f->kind == PROTO_RUN_PYTHON && f->args_size <= RT_ENV_MAX - VENV_ROOM &&
	       (in->warm.soon || in->warm.state != WARM_NONE || in->warm.spare_state != SPARE_NONE);
}

bool warm_must_wait(const struct init *in, const struct proto_init_run *f)
{
	const struct init_warm *w = &in->warm;

	if (in->session.state == SESSION_FORKING || in->session.state == SESSION_WAKING ||
	    w->spare_state == SPARE_FORKING)
		return true;
	if (f->kind == PROTO_RUN_STATEFUL && f->context != in->contexts.current)
		return true;
	if (f->kind == PROTO_RUN_STATEFUL)
		return !session_can(in) &&
		       (in->session.state != SESSION_NONE || w->channel >= 0 || w->soon);
	return w->soon || (warm_can(in, f) && w->spare_state == SPARE_NONE);
}

/* `args` has the working folder before the environment; the frame has it after the environment. */
static int read_args(const struct proto_init_run *f, int args, struct rt_run_frame *t)
{
	static char text[RT_ENV_MAX];
	uint32_t more = 0;

	if (f->args_size > RT_ENV_MAX - VENV_ROOM)
		return -E2BIG;
	if (pread(args, text, f->args_size, 0) != (ssize_t)f->args_size ||
	    text[f->args_size - 1] != '\0')
		return -EPROTO;
	size_t cwd = strlen(text);
	if (cwd >= RT_CWD_MAX)
		return -ENAMETOOLONG;
	t->run = (struct rt_run){.h = {.kind = RT_RUN},
				 .env_len = f->args_size - (uint32_t)cwd - 1,
				 .cwd_len = (uint32_t)cwd};
	memcpy(t->text, text + cwd + 1, t->run.env_len);
	t->run.env_len = (uint32_t)venv_extend(t->text, t->run.env_len, VENV_ROOM, &more);
	memcpy(t->text + t->run.env_len, text, cwd);
	return 0;
}

int warm_send_run(int channel, const struct run_child *c)
{
	static struct rt_run_frame t;
	int null = c->stdin_fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	int fds[6] = {c->stdin_fd < 0 ? null : c->stdin_fd, c->out, c->err, c->code};
	size_t n = 4;
	if (c->result >= 0)
		fds[n++] = c->result;
	if (c->tail >= 0)
		fds[n++] = c->tail;
	int r = read_args(c->f, c->args, &t);

	if (r == 0) {
		t.run.flags |= c->f->kind == PROTO_RUN_STATEFUL ? RT_STATEFUL : RT_NAMED_END;
		if (c->f->python & PROTO_PYTHON_DISPLAY)
			t.run.flags |= RT_DISPLAY;
		if (c->f->python & PROTO_PYTHON_NOTEBOOK)
			t.run.flags |= RT_NOTEBOOK;
		if (c->f->python & PROTO_PYTHON_ERRORS)
			t.run.flags |= RT_ERRORS;
		if (c->tail >= 0)
			t.run.flags |= RT_TAIL;
		size_t len = sizeof(t.run) + t.run.env_len + t.run.cwd_len;
		ssize_t sent = fd_send(channel, &t, len, fds, n, MSG_DONTWAIT);
		r = sent < 0 ? (int)sent : 0;
	}
	(void)fd_close(null);
	return r;
}

pid_t warm_take(struct init *in, const struct run_child *c, int *ret_channel)
{
	struct init_warm *w = &in->warm;
	int r = warm_send_run(w->spare_channel, c);
	pid_t pid = r < 0 ? r : w->spare;

	if (r < 0 && w->spare > 0)
		(void)kill(w->spare, SIGKILL);
	if (r == 0 && ret_channel) {
		*ret_channel = w->spare_channel;
		w->spare_channel = -1;
	}
	drop_spare(w);
	return pid;
}

pid_t warm_take_for(struct init *in, unsigned kind, int fd, int *ret_channel)
{
	struct init_warm *w = &in->warm;
	const struct rt_head h = {.kind = kind};
	const ssize_t r = fd_send(w->spare_channel, &h, sizeof(h), &fd, 1, MSG_DONTWAIT);
	const pid_t pid = r < 0 ? (pid_t)r : w->spare;

	if (r < 0) {
		(void)kill(w->spare, SIGKILL);
	} else {
		*ret_channel = w->spare_channel;
		w->spare_channel = -1;
	}
	drop_spare(w);
	return pid;
}

/* ---- events ---- */

static void clean_event(struct init *in)
{
	struct init_warm *w = &in->warm;
	struct rt_head enter = {.kind = RT_ENTER};
	pid_t pid = warm_take_head(w->channel, w->state == WARM_NONE ? RT_HELLO : RT_READY);

	if (pid == 0)
		return;
	if (pid < 0 || w->state == WARM_CLEAN || (w->state == WARM_COMING && pid != w->clean)) {
		drop_clean(w);
		return;
	}
	if (w->state == WARM_COMING) {
		w->state = WARM_CLEAN;
		if (in->run.state == RUN_WAITING && !in->contained)
			w->forks = false;
		return;
	}
	w->clean = pid;
	w->soon = false;
	w->state = WARM_COMING;
	(void)kill(pid, SIGCONT); /* it was stopped if a run ended before init knew it */
	if (fd_send(w->channel, &enter, sizeof(enter), NULL, 0, MSG_DONTWAIT) < 0)
		drop_clean(w);
}

static void spare_event(struct init *in)
{
	struct init_warm *w = &in->warm;
	pid_t pid = warm_take_head(w->spare_channel, RT_READY);

	if (pid == 0)
		return;
	if (pid > 0 && w->spare_state == SPARE_FORKING) {
		w->spare = pid;
		w->spare_state = SPARE_READY;
		return;
	}
	/* The spare could not be made, or was killed. If making it failed, the clean interpreter is
	 * given up as well, so that init does not try again in a loop. */
	bool forking = w->spare_state == SPARE_FORKING;
	drop_spare(w);
	if (forking)
		drop_clean(w);
}

void warm_events(struct init *in, short clean, short spare)
{
	if (spare && in->warm.spare_channel >= 0)
		spare_event(in);
	if (clean && in->warm.channel >= 0)
		clean_event(in);
}

bool warm_reaped(struct init *in, pid_t pid)
{
	struct init_warm *w = &in->warm;

	if (pid == w->spare) {
		drop_spare(w);
		return true;
	}
	if (pid != w->clean)
		return false;
	w->clean = 0;
	drop_clean(w);
	return true;
}
