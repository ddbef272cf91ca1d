/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox from request to end, as the monitor sees it. The states and what leads from one to the
 * other are in the table `next`; its picture is in monitor.h. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "base/walls.h"
#include "engine/native/monitor/monitor.h"
#include "engine/native/monitor/workspace_store.h"
#include "engine/native/sys.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* oom_score_adj of runs: when the host runs out of memory, they are killed before other processes. */
#define RUN_OOM_SCORE 800u

enum box_event {
	BOX_MAKER_FORKED,
	BOX_MAKER_DONE,   /* it ended well: init exists */
	BOX_MAKER_FAILED, /* no init is left */
	BOX_DESTROY,      /* the front, or the end of the sandbox that this one helps */
	BOX_INIT_ENDED,   /* init was reaped and nobody helps this sandbox */
	BOX_INIT_FIRST,   /* init was reaped, but sandboxes that help this one are left */
	BOX_HELPERS_GONE, /* the last of them is gone */
	BOX_EVENT_MAX_,
};

/* What follows a state; 0 = the event cannot happen in that state. */
#define TO(state) (1 + (state))
static const uint8_t next[BOX_STATE_MAX_][BOX_EVENT_MAX_] = {
    [BOX_FREE] = {[BOX_MAKER_FORKED] = TO(BOX_MAKING), [BOX_DESTROY] = TO(BOX_FREE)},
    [BOX_MAKING] = {[BOX_MAKER_DONE] = TO(BOX_LIVE),
		    [BOX_MAKER_FAILED] = TO(BOX_FREE),
		    [BOX_DESTROY] = TO(BOX_DOOMED)},
    [BOX_DOOMED] = {[BOX_MAKER_DONE] = TO(BOX_ENDING),
		    [BOX_MAKER_FAILED] = TO(BOX_FREE),
		    [BOX_DESTROY] = TO(BOX_DOOMED)},
    [BOX_LIVE] = {[BOX_DESTROY] = TO(BOX_ENDING),
		  [BOX_INIT_ENDED] = TO(BOX_FREE),
		  [BOX_INIT_FIRST] = TO(BOX_WAITING)},
    [BOX_ENDING] = {[BOX_DESTROY] = TO(BOX_ENDING),
		    [BOX_INIT_ENDED] = TO(BOX_FREE),
		    [BOX_INIT_FIRST] = TO(BOX_WAITING)},
    [BOX_WAITING] = {[BOX_DESTROY] = TO(BOX_WAITING), [BOX_HELPERS_GONE] = TO(BOX_FREE)},
};

/* The only place that changes a state. Returns the state before. */
static enum box_state move(struct box *b, enum box_event event)
{
	const enum box_state before = b->state;

	ASSERT(next[before][event] != 0);
	b->state = (enum box_state)(next[before][event] - 1);
	return before;
}

static void answer(struct monitor *m, uint32_t slot, enum proto_step step, int errnum)
{
	struct proto_mon_created c = {.head = PROTO_HEAD(MON_CREATED, proto_mon_created),
				      .slot = slot,
				      .step = step,
				      .errnum = errnum};

	monitor_send(m, &c.head, NULL, 0);
}

/* Gives back all that the box in SLOT holds. */
static void release(struct monitor *m, uint32_t slot)
{
	struct box *b = &m->boxes[slot];

	if (b->helper_of)
		m->boxes[b->helper_of - 1].helpers--;
	b->helper_of = 0;
	b->channel = fd_close(b->channel);
	zygote_forget(m, slot);
	cgroup_fds_close(&b->fds);
	m->cgroup.ops->remove(&m->cgroup, slot);
	b->lock = image_lock_unref(b->lock);
	if (b->image) {
		b->image->boxes--;
		if (!(b->wanted & PROTO_SLOT_UNUSED))
			b->image->used_at = now_ns();
	}
	b->image = NULL;
	b->wanted = 0;
	b->loop = SESSION_LOOP_NONE;
}

/* Sends the first message to init before init exists: it waits in the socket. */
static int send_config(struct monitor *m, int channel, const struct proto_mon_create *q,
		       const struct cgroup_fds *g, int warm, bool soon)
{
	int fds[PROTO_FDS_MAX];
	size_t n = 0;
	struct proto_init_config c = {
	    .head = PROTO_HEAD(INIT_CONFIG, proto_init_config),
	    .limits = q->limits,
	    .fds = (g->kill >= 0 ? PROTO_CONFIG_KILL : 0) | (warm >= 0 ? PROTO_CONFIG_WARM : 0) |
		   (warm >= 0 && soon ? PROTO_CONFIG_SOON : 0) |
		   (q->egress ? PROTO_CONFIG_EGRESS : 0) |
		   (q->persist[0] ? PROTO_CONFIG_STORED : 0) |
		   (q->persist[0] && !m->root ? PROTO_CONFIG_FOLDER : 0),
	    .n_procs = g->n,
	    .poll_memory = !(m->cgroup.enforced & PROTO_CAP_MEMORY),
	    .oom_score = RUN_OOM_SCORE,
	};

	/* Nothing can raise the limit later: then RLIMIT_NPROC is exactly that. */
	if (!(m->cgroup.later & PROTO_LIMIT_PIDS))
		c.limits.pids_most = 0;
	fds[n++] = m->lifeline_read;
	fds[n++] = m->filter;
	if (g->kill >= 0)
		fds[n++] = g->kill;
	for (uint32_t i = 0; i < g->n; i++)
		fds[n++] = g->join[i];
	if (warm >= 0)
		fds[n++] = warm;
	ssize_t sent = fd_send(channel, &c, sizeof(c), fds, n, MSG_DONTWAIT);
	return sent < 0 ? (int)sent : 0;
}

/* Makes the channel between init and a warm interpreter. Returns init's end; -1: the sandbox stays cold. */
static int make_warm_channel(struct box *b)
{
	int pair[2];

	int on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	/* Set now: the first frame may come before init looks, and it carries the sender's pid only if the
	 * option was set when it was sent (unix(7)). */
	(void)setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	b->warm = pair[1];
	return pair[0];
}

/* A helper has the uid of the sandbox that it helps. *RET is a pidfd of that one's init: the monitor may
 * reap the init before the maker uses it, and its pid may be reused then. */
static int choose_uid(struct monitor *m, const struct proto_mon_create *c, int *ret)
{
	struct box *b = &m->boxes[c->slot];

	b->uid = c->persist[0] && !m->root
		     ? ids_stored(&m->ids, m->config->max_sandboxes, c->persist)
		     : ids_slot(&m->ids, c->slot);
	if (c->helper_of == 0)
		return 0;
	struct box *parent = &m->boxes[c->helper_of - 1];
	if (parent->state != BOX_LIVE || parent->helper_of)
		return -ESRCH;
	*ret = (int)syscall(SYS_pidfd_open, parent->init, 0);
	if (*ret < 0)
		return -errno;
	b->uid = parent->uid;
	b->helper_of = c->helper_of;
	parent->helpers++;
	return 0;
}

/* Sets *RET to the template of the disk that the workspace gets; -1: it gets none. */
static int choose_disk(struct monitor *m, const struct proto_mon_create *c, int *ret)
{
	*ret = -1;
	if (m->disks.dir < 0 || c->persist[0])
		return 0;
	if (session_disks_full(&m->disks))
		return -ENOSPC;
	*ret = session_disks_template(m, &c->limits);
	return MIN(*ret, 0);
}

/* The maker of box SLOT was forked as PID. */
static void note_maker(struct monitor *m, uint32_t slot, struct template *t, pid_t pid, int front)
{
	struct box *b = &m->boxes[slot];

	/* copies for init wait in its socket */
	fd_close_many(b->fds.join, b->fds.n);
	b->fds.n = 0;
	b->fds.kill = fd_close(b->fds.kill);
	b->channel = front;
	b->image = t;
	t->boxes++;
	b->lock = image_lock_ref(t->lock);
	b->maker = pid;
	(void)move(b, BOX_MAKER_FORKED);
	m->n_making++;
	reap_watch(m, slot, false);
	KILL_POINT(MAKER_FORKED);
}

/* Forks the maker; on success the box is MAKING and owns what it needs. DISK: as of choose_disk(). */
static int start_maker(struct monitor *m, uint32_t slot, struct template *t,
		       const struct proto_mon_create *c, int disk)
{
	struct box *b = &m->boxes[slot];
	bool warm = c->warm && m->config->warm;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	_cleanup_fd_ int front = pair[0];
	_cleanup_fd_ int inside = pair[1];
	_cleanup_fd_ int interpreter = warm ? make_warm_channel(b) : -1;
	_cleanup_fd_ int helped = -1;
	int r = choose_uid(m, c, &helped);
	if (r < 0)
		return r;
	r = send_config(m, front, c, &b->fds, interpreter,
			t->zygotes.current.state == ZYGOTE_READY);
	if (r < 0)
		return r;
	m->reports[slot] = (struct report){
	    .step = PROTO_STEP_FORK, .errnum = EIO, .uid = b->uid, .loop = SESSION_LOOP_NONE};
	struct maker k = {
	    .t = t,
	    .ids = &m->ids,
	    .state_dir = m->config->state_dir,
	    .persist = c->persist,
	    .disks = m->disks.dir,
	    .disk_template = disk,
	    .limits = &c->limits,
	    .root = m->root,
	    .own_devices = m->own_devices,
	    .uid = b->uid,
	    .lifeline = m->lifeline_write,
	    .helped = helped,
	    .channel = inside,
	    .program = m->init_program,
	    .report = &m->reports[slot],
	    .fds = &b->fds,
	};
	pid_t pid = sys_clone(0, SIGCHLD, b->fds.into);
	if (pid < 0)
		return pid;
	if (pid == 0)
		maker_run(&k);
	note_maker(m, slot, t, pid, TAKE_FD(front));
	return 0;
}

void box_create(struct monitor *m, const struct proto_mon_create *asked)
{
	struct proto_mon_create request = *asked;
	const struct proto_mon_create *c = &request;
	struct box *b = &m->boxes[c->slot];
	struct report *why = &m->reports[m->config->max_sandboxes];
	struct template *t;

	KILL_POINT(CREATE_TAKEN);
	proto_leave_out_walls(&request.limits);
	int disk;
	int r = choose_disk(m, c, &disk);
	if (r < 0) {
		answer(m, c->slot, PROTO_STEP_DISK, -r);
		return;
	}
	if (template_get(m, c->image, &t, why) < 0) {
		answer(m, c->slot, why->step, why->errnum);
		return;
	}
	r = m->cgroup.ops->make(&m->cgroup, c->slot, &c->limits, &b->fds);
	if (r < 0) {
		answer(m, c->slot, PROTO_STEP_CGROUP, -r);
		return;
	}
	KILL_POINT(CGROUP_MADE);
	r = start_maker(m, c->slot, t, c, disk);
	if (r < 0) {
		release(m, c->slot);
		answer(m, c->slot, r == -ESRCH ? PROTO_STEP_HELPER : PROTO_STEP_FORK, -r);
	}
}

static void announce(struct monitor *m, uint32_t slot)
{
	struct box *b = &m->boxes[slot];
	int fds[4];
	size_t n = 0;
	struct proto_mon_created c = {.head = PROTO_HEAD(MON_CREATED, proto_mon_created),
				      .slot = slot};

	if (b->image) {
		c.image_dev = b->image->dev;
		c.image_ino = b->image->ino;
		c.image_ctime_ns = b->image->ctime_ns;
	}
	fds[n++] = b->channel;
	if (b->fds.oom >= 0) {
		fds[n++] = b->fds.oom;
		c.fds |= PROTO_CREATED_OOM;
	}
	if (b->fds.peak >= 0) {
		fds[n++] = b->fds.peak;
		c.fds |= PROTO_CREATED_PEAK;
	}
	if (b->fds.cpu >= 0) {
		fds[n++] = b->fds.cpu;
		c.fds |= PROTO_CREATED_CPU;
	}
	monitor_send(m, &c.head, fds, n);
	KILL_POINT(CREATED_SENT);
	b->channel = fd_close(b->channel);
	cgroup_fds_close(&b->fds);
}

static void kill_init(struct monitor *m, const struct box *b)
{
	session_disk_drop(m, b->init, b->loop);
	(void)kill(b->init, SIGKILL);
	KILL_POINT(INIT_KILLED);
}

/* Nothing of the sandbox runs any more, so this is its total; 0 = nothing here counts it. */
static uint64_t cpu_of(struct monitor *m, uint32_t slot)
{
	struct cgroup_use use = {0};

	(void)m->cgroup.ops->use(&m->cgroup, slot, &use);
	return use.cpu_ns;
}

static void helper_gone(struct monitor *m, uint32_t parent);

/* Nothing of the sandbox is left: its slot is free again, and the front hears of it. */
static void finish(struct monitor *m, uint32_t slot, enum box_event event)
{
	struct proto_mon_gone g = {.head = PROTO_HEAD(MON_GONE, proto_mon_gone), .slot = slot};
	struct box *b = &m->boxes[slot];
	const uint32_t parent = b->helper_of;

	KILL_POINT(INIT_REAPED);
	if (b->wanted & PROTO_SLOT_COUNT)
		g.cpu_ns = cpu_of(m, slot);
	(void)move(b, event);
	release(m, slot);
	KILL_POINT(CGROUP_REMOVED);
	monitor_send(m, &g.head, NULL, 0);
	KILL_POINT(GONE_SENT);
	helper_gone(m, parent);
}

/* A helper uses mounts of the sandbox that it helps. So a sandbox that has ended is gone only when
 * the last of its helpers is gone. PARENT: as box.helper_of. */
static void helper_gone(struct monitor *m, uint32_t parent)
{
	if (parent && m->boxes[parent - 1].state == BOX_WAITING &&
	    m->boxes[parent - 1].helpers == 0)
		finish(m, parent - 1, BOX_HELPERS_GONE);
}

static void maker_failed(struct monitor *m, uint32_t slot, int status)
{
	struct box *b = &m->boxes[slot];
	const struct report r = m->reports[slot];
	const uint32_t parent = b->helper_of;

	/* The maker may have died (killed from outside) after it had cloned init. */
	if (r.pid > 0 && !reap_is_early(m, r.pid))
		(void)kill(r.pid, SIGKILL);
	(void)move(b, BOX_MAKER_FAILED);
	release(m, slot);
	answer(m, slot, r.step, r.errnum);
	helper_gone(m, parent);
	if (WIFSIGNALED(status)) /* it could not remove the workspace that it was making */
		workspace_sweep(m);
}

void box_made(struct monitor *m, uint32_t slot, int status)
{
	struct box *b = &m->boxes[slot];
	const struct report *r = &m->reports[slot];

	KILL_POINT(MAKER_ENDED);
	m->n_making--;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || r->pid <= 0) {
		maker_failed(m, slot, status);
		return;
	}
	b->init = r->pid;
	b->uid = r->uid;
	b->loop = r->loop;
	(void)move(b, BOX_MAKER_DONE);
	if (b->loop != SESSION_LOOP_NONE)
		session_disks_added(m, b->loop);
	announce(m, slot);
	if (reap_is_early(m, b->init)) {
		b->init = 0;
		box_gone(m, slot);
		return;
	}
	reap_watch(m, slot, true);
	if (b->state == BOX_ENDING)
		kill_init(m, b);
	else if (b->warm >= 0 && b->image)
		zygote_want(m, b->image, slot);
	else
		zygote_forget(m, slot); /* closes the channel: init learns that it stays cold */
}

static void end_helpers(struct monitor *m, uint32_t slot)
{
	for (uint32_t i = 0; m->boxes[slot].helpers > 0 && i < m->config->max_sandboxes; i++)
		if (m->boxes[i].helper_of == slot + 1)
			box_destroy(m, i, 0);
}

void box_destroy(struct monitor *m, uint32_t slot, uint32_t flags)
{
	struct box *b = &m->boxes[slot];

	KILL_POINT(DESTROY_TAKEN);
	if (b->state != BOX_FREE) /* else it ended on its own while the request was on its way */
		b->wanted = (b->wanted & PROTO_SLOT_COUNT) | flags;
	end_helpers(m, slot);
	if (move(b, BOX_DESTROY) == BOX_LIVE)
		kill_init(m, b);
}

void box_gone(struct monitor *m, uint32_t slot)
{
	struct box *b = &m->boxes[slot];

	zygote_forget(m, slot);   /* there is nothing left to give an interpreter to */
	if (b->state == BOX_LIVE) /* it ended on its own: a run may have been in it */
		b->wanted |= PROTO_SLOT_COUNT;
	if (b->helpers == 0) {
		finish(m, slot, BOX_INIT_ENDED);
		return;
	}
	(void)move(b, BOX_INIT_FIRST);
	end_helpers(m, slot);
}

void box_forget(struct monitor *m, const struct proto_mon_forget *f)
{
	struct proto_mon_forgotten a = {.head = PROTO_HEAD(MON_FORGOTTEN, proto_mon_forgotten),
					.seq = f->seq};
	int r = workspace_forget(m->config->state_dir, f->persist);

	if (r == 0) {
		KILL_POINT(STORED_DEAD);
		workspace_sweep(m);
	}
	a.errnum = -r;
	monitor_send(m, &a.head, NULL, 0);
	KILL_POINT(STORED_FORGOTTEN);
}

void box_warm(struct monitor *m, uint32_t slot)
{
	struct box *b = &m->boxes[slot];
	struct proto_mon_warmed w = {.head = PROTO_HEAD(MON_WARMED, proto_mon_warmed),
				     .slot = slot};
	_cleanup_fd_ int interpreter = -1;

	if (b->state == BOX_LIVE && b->image && m->config->warm) {
		zygote_forget(m, slot); /* an older request of the same box */
		interpreter = make_warm_channel(b);
		b->image->used_at = now_ns();
		w.soon = b->image->zygotes.current.state == ZYGOTE_READY;
	}
	monitor_send(m, &w.head, &interpreter, interpreter >= 0 ? 1 : 0);
	if (interpreter >= 0)
		zygote_want(m, b->image, slot);
}

/* The limits that L names, as they are enforced. */
static int set_limits(struct monitor *m, const struct proto_mon_limit *l, uint32_t *ret_failed)
{
	struct proto_limits limits = {
	    .memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .pids = l->pids};
	const uint32_t missing = l->what & ~m->cgroup.later;

	if (m->boxes[l->slot].state != BOX_LIVE)
		return -ESRCH;
	*ret_failed = missing & ~(missing - 1); /* the lowest bit */
	if (missing)
		return -ENOTSUP;
	proto_leave_out_walls(&limits);
	*ret_failed = PROTO_LIMIT_MEMORY; /* what EBUSY is about */
	return m->cgroup.ops->limit(&m->cgroup, l->slot, l->what, &limits);
}

void box_limit(struct monitor *m, const struct proto_mon_limit *l)
{
	struct proto_mon_limited a = {.head = PROTO_HEAD(MON_LIMITED, proto_mon_limited),
				      .slot = l->slot};
	struct cgroup_use use = {0};
	const int r = set_limits(m, l, &a.what);

	if (r == -EBUSY)
		(void)m->cgroup.ops->use(&m->cgroup, l->slot, &use);
	a.errnum = -r;
	a.memory_bytes = use.memory_bytes;
	monitor_send(m, &a.head, NULL, 0);
}

void box_usage(struct monitor *m, uint32_t slot)
{
	struct cgroup_use use = {0};
	struct proto_mon_used u = {.head = PROTO_HEAD(MON_USED, proto_mon_used), .slot = slot};

	if (slot == PROTO_SLOT_ALL)
		use.memory_bytes = m->cgroup.ops->use_all(&m->cgroup);
	else if (m->boxes[slot].state == BOX_LIVE)
		(void)m->cgroup.ops->use(&m->cgroup, slot, &use);
	u.memory_bytes = use.memory_bytes;
	u.cpu_ns = use.cpu_ns;
	u.pids = use.pids;
	monitor_send(m, &u.head, NULL, 0);
}
