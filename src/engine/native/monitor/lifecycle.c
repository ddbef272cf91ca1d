/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox from request to end, as the monitor sees it:
 *   FREE -create-> MAKING -maker ended well-> LIVE -destroy-> ENDING -init reaped-> FREE
 * A maker that failed, or an init that ends on its own, leads to FREE from wherever it was. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "engine/native/monitor/monitor.h"
#include "engine/native/monitor/workspace_store.h"
#include "engine/native/sys.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* What runs get: they are to die before anything else on this host does. */
#define RUN_OOM_SCORE 800u

static void answer(struct monitor *m, uint32_t slot, enum proto_step step, int errnum)
{
	struct proto_mon_created c = {.head = PROTO_HEAD(MON_CREATED, proto_mon_created),
				      .slot = slot,
				      .step = step,
				      .errnum = errnum};

	monitor_send(m, &c.head, NULL, 0);
}

static void box_reset(struct monitor *m, uint32_t slot)
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
		if (!b->unused)
			b->image->used_at = now_ns();
	}
	b->image = NULL;
	b->state = BOX_FREE;
	b->doomed = false;
	b->unused = false;
	b->count = false;
}

/* The first message to init waits in its socket before init exists. */
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
		   (q->persist[0] && !m->root ? PROTO_CONFIG_FOLDER : 0),
	    .n_procs = g->n,
	    .poll_memory = !(m->cgroup.enforced & PROTO_CAP_MEMORY),
	    .oom_score = RUN_OOM_SCORE,
	};

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

/* The channel between init and a clean interpreter; init's end, or -1: then the sandbox is a cold
 * one. */
static int make_warm_channel(struct box *b)
{
	int pair[2];

	int on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	/* now: the first frame may come before init looks, and brings its pid only then (unix(7))
	 */
	(void)setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	b->warm = pair[1];
	return pair[0];
}

/* A helper has the uid of the sandbox that it helps. A pidfd, because the monitor may reap that one
 * before the maker has looked. */
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

/* Forks the maker; on success the box is MAKING and owns what it needs. */
static int start_maker(struct monitor *m, uint32_t slot, struct template *t,
		       const struct proto_mon_create *c)
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
			t->nursery.current.state == ZYGOTE_READY);
	if (r < 0)
		return r;
	m->reports[slot] = (struct report){.step = PROTO_STEP_FORK, .errnum = EIO, .uid = b->uid};
	struct maker k = {
	    .t = t,
	    .ids = &m->ids,
	    .state_dir = m->config->state_dir,
	    .persist = c->persist,
	    .limits = &c->limits,
	    .root = m->root,
	    .own_devices = m->own_devices,
	    .uid = b->uid,
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
	/* init has its own copies, waiting in its socket */
	fd_close_many(b->fds.join, b->fds.n);
	b->fds.n = 0;
	b->fds.kill = fd_close(b->fds.kill);
	b->channel = TAKE_FD(front);
	b->image = t;
	t->boxes++;
	b->lock = image_lock_ref(t->lock);
	b->maker = pid;
	b->state = BOX_MAKING;
	m->n_making++;
	reap_watch(m, slot, false);
	KILL_POINT(MAKER_FORKED);
	return 0;
}

void sandbox_create(struct monitor *m, const struct proto_mon_create *asked)
{
	struct proto_mon_create request = *asked;
	const struct proto_mon_create *c = &request;
	struct box *b = &m->boxes[c->slot];
	struct report *why = &m->reports[m->config->max_sandboxes];
	struct template *t;

	KILL_POINT(CREATE_TAKEN);
	plan_leave_out(&request.limits);
	if (template_get(m, c->image, &t, why) < 0) {
		answer(m, c->slot, why->step, why->errnum);
		return;
	}
	int r = m->cgroup.ops->make(&m->cgroup, c->slot, &c->limits, &b->fds);
	if (r < 0) {
		answer(m, c->slot, PROTO_STEP_CGROUP, -r);
		return;
	}
	KILL_POINT(CGROUP_MADE);
	r = start_maker(m, c->slot, t, c);
	if (r < 0) {
		box_reset(m, c->slot);
		answer(m, c->slot, r == -ESRCH ? PROTO_STEP_HELPER : PROTO_STEP_FORK, -r);
	}
}

static void announce(struct monitor *m, uint32_t slot)
{
	struct box *b = &m->boxes[slot];
	int fds[3];
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
	monitor_send(m, &c.head, fds, n);
	KILL_POINT(CREATED_SENT);
	b->channel = fd_close(b->channel);
	cgroup_fds_close(&b->fds);
}

/* A helper lives in what its parent has: a parent that has ended is gone when its last helper is.
 * PARENT: as box.helper_of. */
static void helper_gone(struct monitor *m, uint32_t parent)
{
	if (parent && m->boxes[parent - 1].state == BOX_WAITING)
		sandbox_gone(m, parent - 1);
}

void sandbox_made(struct monitor *m, uint32_t slot, int status)
{
	struct box *b = &m->boxes[slot];
	const struct report *r = &m->reports[slot];

	KILL_POINT(MAKER_ENDED);
	m->n_making--;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || r->pid <= 0) {
		/* An init that exists although its maker died (killed from outside) must not
		 * outlive it. */
		if (r->pid > 0 && !reap_is_early(m, r->pid))
			(void)kill(r->pid, SIGKILL);
		uint32_t step = r->step;
		uint32_t parent = b->helper_of;
		int errnum = r->errnum;
		box_reset(m, slot);
		answer(m, slot, step, errnum);
		helper_gone(m, parent);
		if (WIFSIGNALED(status)) /* it could not remove what it was making aside */
			stored_sweep(m);
		return;
	}
	b->init = r->pid;
	b->uid = r->uid;
	b->state = BOX_LIVE;
	announce(m, slot);
	if (reap_is_early(m, b->init)) {
		b->init = 0;
		sandbox_gone(m, slot);
		return;
	}
	reap_watch(m, slot, true);
	if (b->doomed)
		sandbox_destroy(m, slot, b->unused ? PROTO_SLOT_UNUSED : 0);
	else if (b->warm >= 0 && b->image)
		zygote_want(m, b->image, slot);
	else
		zygote_forget(m, slot); /* closes the channel: init hears that it stays cold */
}

static void end_helpers(struct monitor *m, uint32_t slot)
{
	for (uint32_t i = 0; m->boxes[slot].helpers > 0 && i < m->config->max_sandboxes; i++)
		if (m->boxes[i].helper_of == slot + 1)
			sandbox_destroy(m, i, 0);
}

void sandbox_destroy(struct monitor *m, uint32_t slot, uint32_t flags)
{
	struct box *b = &m->boxes[slot];

	KILL_POINT(DESTROY_TAKEN);
	if (b->state != BOX_FREE) {
		b->unused = flags & PROTO_SLOT_UNUSED;
		b->count |= (flags & PROTO_SLOT_COUNT) != 0;
	}
	end_helpers(m, slot);
	switch (b->state) {
	case BOX_MAKING:
		b->doomed = true;
		break;
	case BOX_LIVE:
		(void)kill(b->init, SIGKILL);
		KILL_POINT(INIT_KILLED);
		b->state = BOX_ENDING;
		break;
	case BOX_FREE: /* it ended on its own while the request was on its way */
	case BOX_ENDING:
	case BOX_WAITING:
	default:
		break;
	}
}

/* Nothing of it runs any more, so this is all of it; 0 = nothing counts it. */
static uint64_t cpu_of(struct monitor *m, uint32_t slot)
{
	struct cgroup_use use = {0};

	(void)m->cgroup.ops->use(&m->cgroup, slot, &use);
	return use.cpu_ns;
}

void sandbox_gone(struct monitor *m, uint32_t slot)
{
	struct proto_mon_gone g = {.head = PROTO_HEAD(MON_GONE, proto_mon_gone), .slot = slot};
	struct box *b = &m->boxes[slot];
	uint32_t parent = b->helper_of;

	zygote_forget(m, slot);           /* nobody is there to be given an interpreter */
	b->count |= b->state == BOX_LIVE; /* on its own: a run may be in it */
	if (b->helpers > 0) {
		b->state = BOX_WAITING;
		end_helpers(m, slot);
		return;
	}
	KILL_POINT(INIT_REAPED);
	if (b->count)
		g.cpu_ns = cpu_of(m, slot);
	box_reset(m, slot);
	KILL_POINT(CGROUP_REMOVED);
	monitor_send(m, &g.head, NULL, 0);
	KILL_POINT(GONE_SENT);
	helper_gone(m, parent);
}

void sandbox_forget(struct monitor *m, const struct proto_mon_forget *f)
{
	struct proto_mon_forgotten a = {.head = PROTO_HEAD(MON_FORGOTTEN, proto_mon_forgotten),
					.seq = f->seq};
	int r = stored_forget(m->config->state_dir, f->persist);

	if (r == 0) {
		KILL_POINT(STORED_DEAD);
		stored_sweep(m);
	}
	a.errnum = -r;
	monitor_send(m, &a.head, NULL, 0);
	KILL_POINT(STORED_FORGOTTEN);
}

void sandbox_warm(struct monitor *m, uint32_t slot)
{
	struct box *b = &m->boxes[slot];
	struct proto_mon_warmed w = {.head = PROTO_HEAD(MON_WARMED, proto_mon_warmed),
				     .slot = slot};
	_cleanup_fd_ int interpreter = -1;

	if (b->state == BOX_LIVE && b->image && m->config->warm) {
		zygote_forget(m, slot); /* an older request of it */
		interpreter = make_warm_channel(b);
		b->image->used_at = now_ns();
		w.soon = b->image->nursery.current.state == ZYGOTE_READY;
	}
	monitor_send(m, &w.head, &interpreter, interpreter >= 0 ? 1 : 0);
	if (interpreter >= 0)
		zygote_want(m, b->image, slot);
}

void sandbox_usage(struct monitor *m, uint32_t slot)
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
