/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of the sandbox, to which it can go back.
 *
 * A checkpoint has two halves. The files are a copy in a file system that is mounted nowhere, so no
 * run has a name for it. The variables, if the session has any, are its backup (session_state.c), and
 * the session gets another one. A restore leaves both as they are: it copies the files back, and a fork
 * of the kept backup becomes the session process. Threads, children and connections are not part of it.
 *
 *   SAVE      FORKING until the session has a backup, then COPYING; the backup is kept
 *   RESTORE   FORKING: the kept backup forks; then COPYING; the fork becomes the session process.
 *             With PARK the session is set aside, and the files are as they were saved, so nothing is copied.
 *             With RETURN the session that was set aside comes back, and nothing forks (contexts.c).
 *   DROP      COPYING, which removes the files
 *   LAYER     COPYING: what the root user has changed is written to a pipe (layer.c)
 *
 * A child of init copies the files, in the cgroup of the runs, so that the copy counts as memory of
 * the sandbox. The kernel kills this child first when that memory is used up. Another child undoes a
 * copy that failed (UNDOING), and everything is as it was.
 *
 * A run has the uid of a kept fork and can kill it. The checkpoint is LOST then, which the answer to
 * the next request for it says. A run can do nothing else to a kept fork: it is stopped and not
 * dumpable. */
#include "init.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "frames.h"
#include "root_user.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORK_WAIT_NS (SESSION_FORK_WAIT_NS + 500000000u)
#define COPY_WAIT_NS UINT64_C(50000000000) /* twice that is less than the front's patience */
#define FIRST_TO_DIE 1000                  /* oom_score_adj of the copier */

void checkpoints_start(struct init *in)
{
	in->checkpoints =
	    (struct init_checkpoints){.store = -1, .fork_channel = -1, .report = -1, .layer = -1};
	for (size_t i = 0; i < PROTO_CHECKPOINTS_MAX; i++)
		in->checkpoints.at[i].channel = -1;
}

bool checkpoints_busy(const struct init *in)
{
	return in->checkpoints.phase != CHECKPOINTS_IDLE;
}

bool checkpoints_forking(const struct init *in)
{
	return in->checkpoints.phase == CHECKPOINTS_FORKING && in->checkpoints.fork_channel >= 0;
}

bool checkpoints_replace(const struct init *in)
{
	return checkpoints_busy(in) && in->checkpoints.f.op == PROTO_CHECKPOINT_RESTORE;
}

bool checkpoints_any(const struct init *in)
{
	for (size_t i = 0; i < PROTO_CHECKPOINTS_MAX; i++)
		if (in->checkpoints.at[i].state == CHECKPOINT_LIVE)
			return true;
	return false;
}

bool checkpoints_keep(const struct init *in, pid_t pid)
{
	const struct init_checkpoints *p = &in->checkpoints;

	if (pid > 0 && (pid == p->fork || pid == p->copier))
		return true;
	for (size_t i = 0; i < PROTO_CHECKPOINTS_MAX; i++)
		if (p->at[i].state == CHECKPOINT_LIVE && p->at[i].pid == pid)
			return true;
	return false;
}

uint64_t checkpoints_next(const struct init *in)
{
	return in->checkpoints.phase == CHECKPOINTS_IDLE ? 0 : in->checkpoints.until;
}

/* ---- the kept interpreters ---- */

static void lose_interpreter(struct init_checkpoint *at)
{
	if (at->state != CHECKPOINT_LIVE)
		return;
	(void)kill(at->pid, SIGKILL);
	at->channel = fd_close(at->channel);
	at->pid = 0;
	at->state = CHECKPOINT_LOST;
}

static void drop_fork(struct init_checkpoints *p)
{
	if (p->fork > 0)
		(void)kill(p->fork, SIGKILL);
	p->fork = 0;
	p->fork_channel = fd_close(p->fork_channel);
}

static bool asks_for(const struct init_checkpoints *p, uint32_t flag)
{
	return p->f.op == PROTO_CHECKPOINT_RESTORE && p->f.flags & flag;
}

/* KINDS: PROTO_KIND_* */
static void answer_with(struct init *in, int errnum, uint32_t flags, uint32_t kinds)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (errnum != 0 && asks_for(p, PROTO_CHECKPOINT_RETURN))
		parked_end(in);                  /* its files are not there */
	if (errnum == ENOSPC && in->disk.counts) /* a folder of the host has no limit of its own */
		errnum = PROTO_E_HOST_FULL;
	struct proto_init_checkpointed a = {
	    .head = PROTO_HEAD(INIT_CHECKPOINTED, proto_init_checkpointed),
	    .seq = p->f.seq,
	    .errnum = errnum,
	    .flags = flags,
	    .kinds = kinds,
	    .skipped = p->count.skipped,
	    .files = p->count.files,
	    .bytes = p->count.bytes,
	};

	KILL_POINT(CHECKPOINT_DONE);
	drop_fork(p);
	disk_changed(in);
	p->phase = CHECKPOINTS_IDLE;
	init_send(in, &a.head, NULL, 0);
}

static void answer(struct init *in, int errnum, uint32_t flags)
{
	answer_with(in, errnum, flags, 0);
}

/* ---- the copier: a child (copier.c) ---- */

static int start_copier(struct init *in, bool undo)
{
	struct init_checkpoints *p = &in->checkpoints;
	int out[2];

	if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	pid_t pid = init_fork(in, FIRST_TO_DIE);
	if (pid == 0)
		copier_main(in, undo, out[1]);
	int r = pid < 0 ? -errno : 0;
	(void)close(out[1]);
	if (r < 0) {
		(void)close(out[0]);
		return r;
	}
	p->copier = pid;
	p->report = out[0];
	p->phase = undo ? CHECKPOINTS_UNDOING : CHECKPOINTS_COPYING;
	p->until = init_now() + COPY_WAIT_NS;
	return 0;
}

static void copy_now(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;
	uint64_t noise;

	/* a name that no run can have taken */
	int r = getrandom(&noise, sizeof(noise), 0) == sizeof(noise) ? 0 : -EIO;
	(void)snprintf(p->aside, sizeof(p->aside), ".caisson-%016llx", (unsigned long long)noise);
	p->direct = false;
	if (r == 0)
		r = start_copier(in, false);
	if (r < 0)
		answer(in, -r, 0);
}

/* ---- the end of a request ---- */

static void saved(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;
	struct init_session *s = &in->session;
	struct init_checkpoint *at = &p->at[p->f.place];
	bool live = s->backup > 0;
	uint32_t flags =
	    (live ? PROTO_CHECKPOINT_KEPT : 0U) | (s->lost ? PROTO_CHECKPOINT_LOST : 0U);
	const uint32_t kinds = session_kinds(in);

	*at = (struct init_checkpoint){.state = live ? CHECKPOINT_LIVE : CHECKPOINT_FILES,
				       .channel = -1};
	if (live) {
		at->carries = s->carries;
		at->pid = session_part(in, &at->channel);
	}
	s->lost = false; /* it is being told */
	answer_with(in, 0, flags, kinds);
}

static void restored(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;
	uint32_t flags = p->fork > 0 ? PROTO_CHECKPOINT_KEPT : 0;
	const uint32_t kinds = session_kinds(in);

	if (asks_for(p, PROTO_CHECKPOINT_RETURN) && session_return(in)) {
		answer(in, 0, PROTO_CHECKPOINT_KEPT);
		return;
	}
	if (asks_for(p, PROTO_CHECKPOINT_PARK))
		session_park(in, p->fork, p->fork_channel, p->at[p->f.place].carries);
	else
		session_adopt(in, p->fork, p->fork_channel, p->at[p->f.place].carries);
	in->session.lost = in->session.behind = in->session.from_disk = false;
	if (p->fork > 0)
		variables_mark(0);
	else
		variables_ended(0);
	p->fork = 0;
	p->fork_channel = -1;
	answer_with(in, 0, flags, kinds);
}

/* The session that was set aside comes back, so no fork is needed. */
static bool returns(const struct init *in)
{
	return asks_for(&in->checkpoints, PROTO_CHECKPOINT_RETURN) && parked_any(in);
}

static void copied(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;

	switch (p->f.op) {
	case PROTO_CHECKPOINT_SAVE:
		saved(in);
		break;
	case PROTO_CHECKPOINT_RESTORE:
		if (p->f.flags & PROTO_CHECKPOINT_FILES_ONLY || returns(in) ||
		    p->at[p->f.place].state == CHECKPOINT_FILES || p->fork > 0)
			restored(in);
		else /* what was to be the session process has ended meanwhile */
			answer(in, ESTALE, PROTO_CHECKPOINT_PARTIAL);
		break;
	case PROTO_CHECKPOINT_LAYER:
		answer(in, 0, 0);
		break;
	default:
		p->at[p->f.place] = (struct init_checkpoint){.channel = -1};
		answer(in, 0, 0);
		break;
	}
}

static bool wants_room(int errnum)
{
	return errnum == ENOSPC || errnum == EDQUOT || errnum == ENOMEM || errnum == ESRCH;
}

/* The files are what they were before a RESTORE that has failed: once more, with more room. */
static void retry_or_answer(struct init *in, int errnum)
{
	struct init_checkpoints *p = &in->checkpoints;

	p->direct = wants_room(errnum);
	if (!p->direct || start_copier(in, false) < 0)
		answer(in, errnum, 0);
}

static void failed(struct init *in, const struct copier_report *r)
{
	struct init_checkpoints *p = &in->checkpoints;
	bool restore = p->f.op == PROTO_CHECKPOINT_RESTORE;

	p->error = -r->error;
	if (p->f.op == PROTO_CHECKPOINT_DROP || p->f.op == PROTO_CHECKPOINT_LAYER)
		answer(in, p->error, 0);
	else if (restore && p->direct)
		answer(in, p->error, PROTO_CHECKPOINT_PARTIAL);
	else if (restore && !r->touched)
		retry_or_answer(in, p->error);
	else if (start_copier(in, true) < 0)
		answer(in, p->error, restore ? PROTO_CHECKPOINT_PARTIAL : 0);
}

/* Of a copier that could not say it itself: too slow, killed (for want of memory, or by somebody:
 * the front can tell), ended by another signal, or broken. */
static int end_of(const struct init_checkpoints *p, int status)
{
	if (!WIFSIGNALED(status))
		return -EIO;
	if (WTERMSIG(status) != SIGKILL)
		return -EINTR;
	return init_now() >= p->until ? -ETIMEDOUT : -ESRCH;
}

/* What the copier says of itself, the first time that it does. */
static struct copier_report take_report(struct init_checkpoints *p, int status)
{
	struct copier_report r;

	if (read(p->report, &r, sizeof(r)) != sizeof(r))
		r = (struct copier_report){.error = end_of(p, status), .touched = 1};
	p->report = fd_close(p->report);
	p->copier = 0;
	return r;
}

static void undone(struct init *in, const struct copier_report *r)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (p->f.op == PROTO_CHECKPOINT_SAVE)
		answer(in, p->error, 0);
	else if (r->error < 0)
		answer(in, p->error, PROTO_CHECKPOINT_PARTIAL);
	else
		retry_or_answer(in, p->error);
}

static void copier_ended(struct init *in, int status)
{
	struct init_checkpoints *p = &in->checkpoints;
	struct copier_report r = take_report(p, status);

	if (p->phase == CHECKPOINTS_UNDOING) {
		undone(in, &r);
		return;
	}
	p->count = r.count;
	if (r.error == 0)
		copied(in);
	else
		failed(in, &r);
}

bool checkpoints_reaped(struct init *in, pid_t pid, int status)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (pid == p->copier) {
		copier_ended(in, status);
		return true;
	}
	if (pid == p->fork) {
		p->fork = 0;
		p->fork_channel = fd_close(p->fork_channel);
		return true;
	}
	for (size_t i = 0; i < PROTO_CHECKPOINTS_MAX; i++)
		if (p->at[i].state == CHECKPOINT_LIVE && p->at[i].pid == pid) {
			lose_interpreter(&p->at[i]);
			return true;
		}
	return false;
}

/* ---- requests ---- */

/* The kept one forks what is to be the session process. */
static int start_fork(struct init *in, struct init_checkpoint *at)
{
	struct init_checkpoints *p = &in->checkpoints;
	struct rt_fork k = {.h = {.kind = RT_FORK}};
	int pair[2];

	if (warm_pair(pair) < 0)
		return -EMFILE;
	(void)kill(at->pid, SIGCONT);
	ssize_t sent = fd_send(at->channel, &k, sizeof(k), &pair[1], 1, MSG_DONTWAIT);
	(void)close(pair[1]);
	p->fork_channel = pair[0];
	return sent < 0 ? -ESTALE : 0;
}

static void fork_kept(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;
	struct init_checkpoint *at = &p->at[p->f.place];
	int r = at->state == CHECKPOINT_LIVE ? start_fork(in, at) : -ESTALE;

	if (r == -ESTALE)
		lose_interpreter(at);
	if (r < 0)
		answer(in, -r, 0);
}

static void start_restore(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;
	struct init_checkpoint *at = &p->at[p->f.place];
	bool files_only = p->f.flags & PROTO_CHECKPOINT_FILES_ONLY;

	if (at->state == CHECKPOINT_FREE) {
		answer(in, ENOENT, 0);
	} else if (at->state == CHECKPOINT_FILES || files_only || returns(in)) {
		copy_now(in);
	} else if (at->state == CHECKPOINT_LOST) {
		answer(in, ESTALE, 0);
	} else {
		fork_kept(in);
	}
}

static void fork_failed(struct init *in)
{
	lose_interpreter(&in->checkpoints.at[in->checkpoints.f.place]);
	answer(in, ESTALE, 0);
}

void checkpoints_events(struct init *in, short fork)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (!fork || p->fork_channel < 0)
		return;
	if (p->phase != CHECKPOINTS_FORKING) { /* it has ended, or speaks although nobody asked */
		drop_fork(p);
		return;
	}
	struct rt_backed backed;
	pid_t pid = warm_take_frame(p->fork_channel, RT_BACKED, &backed, sizeof(backed));
	if (pid == 0)
		return;
	if (pid < 0 || pid == p->at[p->f.place].pid) { /* submitted code can answer for its fork */
		fork_failed(in);
		return;
	}
	p->fork = pid;
	(void)kill(p->at[p->f.place].pid, SIGSTOP);
	(void)kill(pid, SIGSTOP);
	if (asks_for(p, PROTO_CHECKPOINT_PARK))
		restored(in);
	else
		copy_now(in);
}

static bool is_default(const struct init *in)
{
	return in->contexts.current == 0;
}

/* The variables to be saved are those of a sandbox that rested. */
static bool reads_first(const struct init *in)
{
	return variables_there(in) && !(in->checkpoints.f.flags & PROTO_CHECKPOINT_FILES_ONLY);
}

void checkpoints_choose(struct init *in)
{
	const struct init_checkpoints *p = &in->checkpoints;

	if (p->phase != CHECKPOINTS_FORKING || p->fork_channel >= 0 || !contexts_choose(in, 0) ||
	    p->f.op != PROTO_CHECKPOINT_SAVE)
		return;
	if (reads_first(in)) { /* they are read when there is an interpreter for that */
		if (in->warm.spare_state == SPARE_READY)
			(void)variables_wanted(in, 0);
		else if (in->warm.spare_state == SPARE_NONE && in->warm.channel < 0 &&
			 !in->warm.soon)
			warm_ask(in);
	}
	session_wanted(in);
}

/* The session's backup is what a SAVE keeps; session_prepare() has it made, or gives up. */
static bool save_can_start(const struct init *in)
{
	return is_default(in) && !reads_first(in) &&
	       (in->session.state == SESSION_NONE || in->session.state == SESSION_READY);
}

/* The session has no backup yet. */
static void save_late(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (reads_first(in)) {         /* no interpreter came that could read them, and they stay */
		in->warm.soon = false; /* the next attempt asks again */
		answer(in, ETIME, 0);
	} else if (session_is_read(in)) { /* which has its own limit */
		p->until = in->session.until + FORK_WAIT_NS;
	} else {
		session_lose(in);
	}
}

void checkpoints_work(struct init *in)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (p->phase == CHECKPOINTS_IDLE)
		return;
	if (p->phase == CHECKPOINTS_FORKING && p->f.op == PROTO_CHECKPOINT_SAVE &&
	    save_can_start(in)) {
		if (in->session.state == SESSION_READY && in->session.backup == 0)
			answer(in, ENOMEM, 0); /* its variables cannot be kept */
		else
			copy_now(in);
	}
	if (p->phase == CHECKPOINTS_FORKING && p->f.op == PROTO_CHECKPOINT_RESTORE &&
	    p->fork_channel < 0 && is_default(in) && in->session.state != SESSION_FORKING &&
	    in->session.state != SESSION_WAKING && in->warm.spare_state != SPARE_FORKING)
		start_restore(in);
	if (p->phase == CHECKPOINTS_IDLE || init_now() < p->until)
		return;
	if (p->phase != CHECKPOINTS_FORKING)
		(void)kill(p->copier, SIGKILL);
	else if (p->f.op == PROTO_CHECKPOINT_RESTORE)
		fork_failed(in);
	else
		save_late(in);
}

/* The copier has the pipe from here on, and nobody else: its reader sees the end when the copier has ended. */
static void write_layer(struct init *in, int pipe)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (!root_user_is_there(in)) {
		answer(in, EINVAL, 0);
		return;
	}
	p->layer = pipe;
	copy_now(in);
	p->layer = -1; /* whoever took the message closes it */
}

int checkpoints_handle(struct init *in, const struct proto_init_checkpoint *f, int pipe)
{
	struct init_checkpoints *p = &in->checkpoints;

	if (f->op == 0 || f->op >= PROTO_CHECKPOINT_OP_MAX_ || f->place >= PROTO_CHECKPOINTS_MAX ||
	    (f->flags & ~PROTO_CHECKPOINT_RESTORE_FLAGS) != 0 || checkpoints_busy(in) ||
	    (pipe >= 0) != (f->op == PROTO_CHECKPOINT_LAYER))
		return -1;
	KILL_POINT(CHECKPOINT_TAKEN);
	p->f = *f;
	p->count = (struct tree_count){0};
	if (in->run.state != RUN_NONE || background_any(in)) {
		answer(in, EBUSY, 0);
	} else if (f->op == PROTO_CHECKPOINT_LAYER) {
		write_layer(in, pipe);
	} else if (p->store < 0) {
		answer(in, ENOTSUP, 0);
	} else if (f->op == PROTO_CHECKPOINT_DROP) {
		lose_interpreter(&p->at[f->place]);
		copy_now(in);
	} else if (f->op == PROTO_CHECKPOINT_SAVE && p->at[f->place].state != CHECKPOINT_FREE) {
		return -1;
	} else { /* one process forks at a time: checkpoints_work() goes on */
		p->phase = CHECKPOINTS_FORKING;
		p->until = init_now() + FORK_WAIT_NS;
	}
	return 0;
}
