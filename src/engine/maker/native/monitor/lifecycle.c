/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox from request to end, as the monitor sees it. The states and what leads from one to the
 * other are in the table `next`; its picture is in monitor.h. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "base/walls.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* oom_score_adj of runs: when the host runs out of memory, they are killed before other processes. */
#define RUN_OOM_SCORE 800u

#define ASKED_MAX_NS (5 * NS_PER_S) /* wait for blocks that others may give up */

struct monitor_sandbox_asked {
	struct turn turn; /* of m->space.asked */
	uint64_t since;
	struct proto_mon_create create;
};

enum monitor_sandbox_event {
	SANDBOX_ASKS, /* it waits until it is tried again */
	SANDBOX_TRIED,
	SANDBOX_MAKER_FORKED,
	SANDBOX_MAKER_DONE,   /* it ended well: init exists */
	SANDBOX_MAKER_FAILED, /* no init is left */
	SANDBOX_DESTROY,      /* the front, or the end of the sandbox that this one helps */
	SANDBOX_INIT_ENDED,   /* init was reaped and nobody helps this sandbox */
	SANDBOX_INIT_FIRST,   /* init was reaped, but sandboxes that help this one are left */
	SANDBOX_HELPERS_GONE, /* the last of them is gone */
	SANDBOX_EVENT_MAX_,
};

/* What follows a state; 0 = the event cannot happen in that state. */
#define TO(state) (1 + (state))
static const uint8_t next[SANDBOX_STATE_MAX_][SANDBOX_EVENT_MAX_] = {
    [SANDBOX_FREE] = {[SANDBOX_ASKS] = TO(SANDBOX_ASKED),
		      [SANDBOX_MAKER_FORKED] = TO(SANDBOX_MAKING),
		      [SANDBOX_DESTROY] = TO(SANDBOX_FREE)},
    [SANDBOX_ASKED] = {[SANDBOX_TRIED] = TO(SANDBOX_FREE), [SANDBOX_DESTROY] = TO(SANDBOX_FREE)},
    [SANDBOX_MAKING] = {[SANDBOX_MAKER_DONE] = TO(SANDBOX_LIVE),
			[SANDBOX_MAKER_FAILED] = TO(SANDBOX_FREE),
			[SANDBOX_DESTROY] = TO(SANDBOX_DOOMED)},
    [SANDBOX_DOOMED] = {[SANDBOX_MAKER_DONE] = TO(SANDBOX_ENDING),
			[SANDBOX_MAKER_FAILED] = TO(SANDBOX_FREE),
			[SANDBOX_DESTROY] = TO(SANDBOX_DOOMED)},
    [SANDBOX_LIVE] = {[SANDBOX_DESTROY] = TO(SANDBOX_ENDING),
		      [SANDBOX_INIT_ENDED] = TO(SANDBOX_FREE),
		      [SANDBOX_INIT_FIRST] = TO(SANDBOX_WAITING)},
    [SANDBOX_ENDING] = {[SANDBOX_DESTROY] = TO(SANDBOX_ENDING),
			[SANDBOX_INIT_ENDED] = TO(SANDBOX_FREE),
			[SANDBOX_INIT_FIRST] = TO(SANDBOX_WAITING)},
    [SANDBOX_WAITING] =
	{[SANDBOX_DESTROY] = TO(SANDBOX_WAITING), [SANDBOX_HELPERS_GONE] = TO(SANDBOX_FREE)},
};

/* The only place that changes a state. Returns the state before. */
static enum monitor_sandbox_state move(struct monitor_sandbox *b, enum monitor_sandbox_event event)
{
	const enum monitor_sandbox_state before = b->state;

	ASSERT(next[before][event] != 0);
	b->state = (enum monitor_sandbox_state)(next[before][event] - 1);
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

/* Gives back all that the sandbox in SLOT holds. */
static void release(struct monitor *m, uint32_t slot)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];

	if (b->helper_of)
		m->sandboxes[b->helper_of - 1].helpers--;
	b->helper_of = 0;
	b->channel = fd_close(b->channel);
	zygote_forget(m, slot);
	cgroup_fds_close(&b->fds);
	m->cgroup.ops->remove(&m->cgroup, slot);
	b->lock = image_lock_unref(b->lock);
	if (b->image) {
		b->image->sandboxes--;
		if (!(b->wanted & PROTO_SLOT_UNUSED))
			b->image->used_at = now_ns();
	}
	b->image = NULL;
	b->wanted = 0;
	b->root = ids_give_root(&m->ids, b->root);
	space_removed(b);
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
		   (q->egress ? PROTO_CONFIG_EGRESS : 0) | (q->root ? PROTO_CONFIG_ROOT : 0) |
		   (q->persist[0] ? PROTO_CONFIG_STORED : 0) |
		   (q->persist[0] && !m->root ? PROTO_CONFIG_FOLDER : 0),
	    .n_procs = g->n,
	    .poll_memory = !(m->cgroup.enforced & PROTO_CAP_MEMORY),
	    .oom_score = RUN_OOM_SCORE,
	};

	/* Nothing can raise the limit later: then RLIMIT_NPROC is exactly that. */
	if (!(m->cgroup.later & PROTO_LIMIT_PIDS))
		c.limits.pids_most = 0;
	fds[n++] = m->liveness_read;
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
static int make_warm_channel(struct monitor_sandbox *b)
{
	int pair[2], on = 1;

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
	struct monitor_sandbox *b = &m->sandboxes[c->slot];

	b->uid = c->persist[0] && !m->root
		     ? ids_stored(&m->ids, m->config->max_sandboxes, c->persist)
		     : ids_slot(&m->ids, c->slot);
	if (c->root && ids_take_root(&m->ids, &b->root) < 0)
		return -EUSERS;
	if (c->helper_of == 0)
		return 0;
	struct monitor_sandbox *parent = &m->sandboxes[c->helper_of - 1];
	if (parent->state != SANDBOX_LIVE || parent->helper_of)
		return -ESRCH;
	*ret = (int)syscall(SYS_pidfd_open, parent->init, 0);
	if (*ret < 0)
		return -errno;
	b->uid = parent->uid;
	b->helper_of = c->helper_of;
	parent->helpers++;
	return 0;
}

/* The disk that a workspace gets. */
struct disk_choice {
	bool any;       /* else it is in memory, or a folder */
	int template;   /* of a session; -1 = it is stored */
	uint64_t grant; /* space_grant() */
};

/* Whether C cannot be made without blocks of the host that nobody else may take. A stored workspace that is there can
 * be opened without; the next look gives it its share. */
static bool needs_room(const struct monitor *m, const struct proto_mon_create *c)
{
	if (c->persist[0])
		return m->root && !workspace_is_there(m->config->state_dir, c->persist);
	return m->disks.dir >= 0;
}

/* Without a grant a maker opens a stored workspace, but makes none. -EAGAIN: it is worth to wait. */
static int choose_disk(struct monitor *m, const struct proto_mon_create *c, bool may_wait,
		       struct disk_choice *ret)
{
	const bool stored = c->persist[0] != 0;

	*ret = (struct disk_choice){.any = stored ? m->root : m->disks.dir >= 0, .template = -1};
	if (!ret->any && !stored)
		return 0;
	const int r = space_grant(m, &c->limits, &ret->grant);
	if (r == -EAGAIN && may_wait && needs_room(m, c))
		return r;
	if (stored)
		return 0;
	if (r < 0)
		return -ENOSPC;
	ret->template = session_disks_template(m, &c->limits);
	return MIN(ret->template, 0);
}

/* Sets *RET to the maker's end of what the file of the disk comes through. */
static int expect_disk(struct monitor_sandbox *b, const struct proto_mon_create *c,
		       const struct disk_choice *choice, int *ret)
{
	int pair[2];

	b->disk.folder = !choice->any && c->persist[0] != 0;
	if (!choice->any)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	b->disk.arrival = pair[0];
	b->disk.promised = choice->grant;
	b->disk.stored = c->persist[0] != 0;
	*ret = pair[1];
	return 0;
}

/* The maker of sandbox SLOT was forked as PID. */
static void note_maker(struct monitor *m, uint32_t slot, struct template *t, pid_t pid, int front)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];

	fd_close_many(b->fds.join, b->fds.n); /* copies for init wait in its socket */
	b->fds.n = 0;
	b->fds.kill = fd_close(b->fds.kill);
	b->channel = front;
	b->image = t;
	t->sandboxes++;
	b->lock = image_lock_ref(t->lock);
	b->maker = pid;
	(void)move(b, SANDBOX_MAKER_FORKED);
	m->n_making++;
	reap_watch(m, slot, false);
	KILL_POINT(MAKER_FORKED);
}

/* Forks the maker; on success the sandbox is MAKING and owns what it needs. DISK: as of choose_disk(). */
static int start_maker(struct monitor *m, uint32_t slot, struct template *t,
		       const struct proto_mon_create *c, const struct disk_choice *disk)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];
	bool warm = c->warm && m->config->warm;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	_cleanup_fd_ int front = pair[0];
	_cleanup_fd_ int inside = pair[1];
	_cleanup_fd_ int interpreter = warm ? make_warm_channel(b) : -1;
	_cleanup_fd_ int helped = -1;
	_cleanup_fd_ int disk_to = -1;
	int r = choose_uid(m, c, &helped);
	r = r < 0 ? r : expect_disk(b, c, disk, &disk_to);
	if (r < 0)
		return r;
	r = send_config(m, front, c, &b->fds, interpreter,
			t->zygotes.current.state == ZYGOTE_READY);
	if (r < 0)
		return r;
	m->reports[slot] = (struct report){
	    .step = PROTO_STEP_FORK, .errnum = EIO, .uid = b->uid, .loop = DISK_LOOP_NONE};
	struct maker k = {
	    .t = t,
	    .ids = &m->ids,
	    .state_dir = m->config->state_dir,
	    .persist = c->persist,
	    .disks = m->disks.dir,
	    .disk_template = disk->template,
	    .disk_grant = disk->grant,
	    .disk_to = disk_to,
	    .limits = &c->limits,
	    .root = m->root,
	    .own_devices = m->own_devices,
	    .uid = b->uid,
	    .root_user = b->root,
	    .liveness = m->liveness_write,
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

/* -EAGAIN: it has to wait, and nothing was done. Else the front was answered, or will be. */
static int create(struct monitor *m, const struct proto_mon_create *c, bool may_wait)
{
	struct monitor_sandbox *b = &m->sandboxes[c->slot];
	struct report *why = &m->reports[m->config->max_sandboxes];
	struct template *t;
	struct disk_choice disk;

	int r = choose_disk(m, c, may_wait, &disk);
	if (r == -EAGAIN && may_wait)
		return r;
	if (r < 0) {
		answer(m, c->slot, PROTO_STEP_DISK, -r);
		return 0;
	}
	if (template_get(m, c->image, &t, why) < 0) {
		answer(m, c->slot, why->step, why->errnum);
		return 0;
	}
	r = m->cgroup.ops->make(&m->cgroup, c->slot, &c->limits, &b->fds);
	if (r < 0) {
		answer(m, c->slot, PROTO_STEP_CGROUP, -r);
		return 0;
	}
	KILL_POINT(CGROUP_MADE);
	r = start_maker(m, c->slot, t, c, &disk);
	if (r < 0) {
		release(m, c->slot);
		answer(m, c->slot, r == -ESRCH ? PROTO_STEP_HELPER : PROTO_STEP_FORK, -r);
	}
	return 0;
}

/* AGAIN: it was the next one, and still is. */
static void wait_for_space(struct monitor *m, struct monitor_sandbox_asked *a, bool again)
{
	struct monitor_sandbox *b = &m->sandboxes[a->create.slot];

	b->asked = a;
	(again ? turns_put_back : turns_add)(&m->space.asked, &a->turn);
	m->space.waiting++;
	(void)move(b, SANDBOX_ASKS);
}

static struct monitor_sandbox_asked *stop_waiting(struct monitor *m, struct monitor_sandbox *b)
{
	struct monitor_sandbox_asked *a = b->asked;

	b->asked = NULL;
	list_remove(&a->turn.node);
	m->space.waiting--;
	return a;
}

void monitor_sandbox_create(struct monitor *m, const struct proto_mon_create *asked)
{
	struct monitor_sandbox_asked *a = calloc(1, sizeof(*a));
	struct proto_mon_create request = *asked;

	KILL_POINT(CREATE_TAKEN);
	proto_leave_out_walls(&request.limits);
	if (a)
		*a = (struct monitor_sandbox_asked){{.who = request.payer}, now_ns(), request};
	const bool behind = a && m->space.waiting > 0 && needs_room(m, &request);
	if ((behind || create(m, &request, a != NULL) == -EAGAIN) && a)
		wait_for_space(m, a, false);
	else
		free(a);
}

void monitor_sandboxes_go_on(struct monitor *m, bool last)
{
	const uint64_t now = now_ns();

	for (struct turn *t = turns_next(&m->space.asked); t; t = turns_next(&m->space.asked)) {
		struct monitor_sandbox_asked *a = list_entry(t, struct monitor_sandbox_asked, turn);
		struct monitor_sandbox *b = &m->sandboxes[a->create.slot];
		(void)stop_waiting(m, b);
		(void)move(b, SANDBOX_TRIED);
		if (create(m, &a->create, !last && now - a->since < ASKED_MAX_NS) == -EAGAIN) {
			wait_for_space(m, a, true);
			return;
		}
		turns_served(&m->space.asked, &a->turn);
		free(a);
	}
}

static void announce(struct monitor *m, uint32_t slot)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];
	int fds[4];
	size_t n = 0;
	struct proto_mon_created c = {.head = PROTO_HEAD(MON_CREATED, proto_mon_created),
				      .slot = slot};

	if (b->image) {
		c.image_dev = b->image->dev;
		c.image_ino = b->image->ino;
		c.image_ctime_ns = b->image->ctime_ns;
	}
	const struct {
		int fd;
		uint32_t bit;
	} given[] = {{b->channel, 0},
		     {b->fds.oom, PROTO_CREATED_OOM},
		     {b->fds.peak, PROTO_CREATED_PEAK},
		     {b->fds.cpu, PROTO_CREATED_CPU}};
	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		if (given[i].fd >= 0) {
			fds[n++] = given[i].fd;
			c.fds |= given[i].bit;
		}
	monitor_send(m, &c.head, fds, n);
	KILL_POINT(CREATED_SENT);
	b->channel = fd_close(b->channel);
	cgroup_fds_close(&b->fds);
}

static void kill_init(struct monitor *m, struct monitor_sandbox *b)
{
	session_disk_drop(m, b);
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
static void finish(struct monitor *m, uint32_t slot, enum monitor_sandbox_event event)
{
	struct proto_mon_gone g = {.head = PROTO_HEAD(MON_GONE, proto_mon_gone), .slot = slot};
	struct monitor_sandbox *b = &m->sandboxes[slot];
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
 * the last of its helpers is gone. PARENT: as sandbox.helper_of. */
static void helper_gone(struct monitor *m, uint32_t parent)
{
	if (parent && m->sandboxes[parent - 1].state == SANDBOX_WAITING &&
	    m->sandboxes[parent - 1].helpers == 0)
		finish(m, parent - 1, SANDBOX_HELPERS_GONE);
}

void monitor_sandbox_put_away(struct monitor *m, uint32_t slot)
{
	m->sandboxes[slot].helpers--;
	helper_gone(m, slot + 1);
}

static void maker_failed(struct monitor *m, uint32_t slot, int status)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];
	const struct report r = m->reports[slot];
	const uint32_t parent = b->helper_of;
	/* The sandbox that it would have helped is going, and its file system was shut: nothing else is the reason. */
	const bool late = parent && m->sandboxes[parent - 1].state != SANDBOX_LIVE;

	/* The maker may have died (killed from outside) after it had cloned init. */
	if (r.pid > 0 && !reap_is_early(m, r.pid))
		(void)kill(r.pid, SIGKILL);
	(void)move(b, SANDBOX_MAKER_FAILED);
	release(m, slot);
	answer(m, slot, late ? PROTO_STEP_HELPER : r.step, late ? ESRCH : r.errnum);
	helper_gone(m, parent);
	if (WIFSIGNALED(status)) /* it could not remove the workspace that it was making */
		workspace_sweep(m);
}

void monitor_sandbox_made(struct monitor *m, uint32_t slot, int status)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];
	const struct report *r = &m->reports[slot];

	KILL_POINT(MAKER_ENDED);
	m->n_making--;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || r->pid <= 0) {
		maker_failed(m, slot, status);
		return;
	}
	b->init = r->pid;
	b->uid = r->uid;
	(void)move(b, SANDBOX_MAKER_DONE);
	space_added(m, b, r);
	announce(m, slot);
	if (reap_is_early(m, b->init)) {
		b->init = 0;
		monitor_sandbox_gone(m, slot);
		return;
	}
	reap_watch(m, slot, true);
	if (b->state == SANDBOX_ENDING)
		kill_init(m, b);
	else if (b->warm >= 0 && b->image)
		zygote_want(m, b->image, slot);
	else
		zygote_forget(m, slot); /* closes the channel: init learns that it stays cold */
}

static void end_helpers(struct monitor *m, uint32_t slot)
{
	for (uint32_t i = 0; m->sandboxes[slot].helpers > 0 && i < m->config->max_sandboxes; i++)
		if (m->sandboxes[i].helper_of == slot + 1)
			monitor_sandbox_destroy(m, i, 0);
}

void monitor_sandbox_destroy(struct monitor *m, uint32_t slot, uint32_t flags)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];

	KILL_POINT(DESTROY_TAKEN);
	if (b->state != SANDBOX_FREE) /* else it has ended by itself meanwhile */
		b->wanted = (b->wanted & PROTO_SLOT_COUNT) | flags;
	end_helpers(m, slot);
	const enum monitor_sandbox_state before = move(b, SANDBOX_DESTROY);
	if (before == SANDBOX_LIVE)
		kill_init(m, b);
	if (before != SANDBOX_ASKED)
		return;
	free(stop_waiting(m, b));
	b->wanted = 0;
	answer(m, slot, PROTO_STEP_DISK, ECANCELED);
}

void monitor_sandbox_gone(struct monitor *m, uint32_t slot)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];

	zygote_forget(m, slot);       /* there is nothing left to give an interpreter to */
	if (b->state == SANDBOX_LIVE) /* it ended on its own: a run may have been in it */
		b->wanted |= PROTO_SLOT_COUNT;
	if (b->helpers == 0) {
		finish(m, slot, SANDBOX_INIT_ENDED);
		return;
	}
	(void)move(b, SANDBOX_INIT_FIRST);
	end_helpers(m, slot);
}

void monitor_sandbox_forget(struct monitor *m, const struct proto_mon_forget *f)
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

void monitor_sandbox_warm(struct monitor *m, uint32_t slot)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];
	struct proto_mon_warmed w = {.head = PROTO_HEAD(MON_WARMED, proto_mon_warmed),
				     .slot = slot};
	_cleanup_fd_ int interpreter = -1;

	if (b->state == SANDBOX_LIVE && b->image && m->config->warm) {
		zygote_forget(m, slot); /* an older request of the same sandbox */
		interpreter = make_warm_channel(b);
		b->image->used_at = now_ns();
		w.soon = b->image->zygotes.current.state == ZYGOTE_READY;
	}
	monitor_send(m, &w.head, &interpreter, interpreter >= 0 ? 1 : 0);
	if (interpreter >= 0)
		zygote_want(m, b->image, slot);
}
