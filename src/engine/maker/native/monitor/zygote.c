/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/native/monitor/zygote.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/native/monitor/monitor.h"
#include "frames.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define IN_FLIGHT_MAX                                                                              \
	4 /* requests; the rest waits in the queue, for a zygote forks one at a time */
#define INNER_ID     1000     /* uid and gid of runs in their sandbox */
#define RETRY_NS     NS_PER_S /* after the first failure; doubles with each one */
#define RETRY_SHIFT  6u       /* at most: 64 s */
#define FAILURES_MAX 3        /* in a row; then the queue is given up */

/* ---- the queue ---- */

void zygote_forget(struct monitor *m, uint32_t slot)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];
	struct zygotes *n = b->waits_for ? &b->waits_for->zygotes : NULL;

	b->warm = fd_close(b->warm);
	if (!n)
		return;
	b->waits_for = NULL;
	uint32_t before = 0;
	for (uint32_t at = n->first; at != 0; before = at, at = m->sandboxes[at - 1].warm_next) {
		if (at != slot + 1)
			continue;
		if (before == 0)
			n->first = b->warm_next;
		else
			m->sandboxes[before - 1].warm_next = b->warm_next;
		if (n->last == at)
			n->last = before;
		break;
	}
	b->warm_next = 0;
}

static void forget_all(struct monitor *m, struct zygotes *n)
{
	while (n->first != 0)
		zygote_forget(m, n->first - 1);
}

static void enqueue(struct monitor *m, struct template *t, uint32_t slot)
{
	struct zygotes *n = &t->zygotes;
	struct monitor_sandbox *b = &m->sandboxes[slot];

	b->waits_for = t;
	b->warm_next = 0;
	if (n->first == 0)
		n->first = slot + 1;
	else
		m->sandboxes[n->last - 1].warm_next = slot + 1;
	n->last = slot + 1;
}

/* Sends RT_CLEAN for the sandbox in SLOT. */
static int ask(struct monitor *m, struct zygote *z, uint32_t slot)
{
	struct monitor_sandbox *b = &m->sandboxes[slot];
	int leaves[CGROUP_PROCS_MAX];
	int fds[2 + CGROUP_PROCS_MAX];
	struct rt_clean c = {.h = {.kind = RT_CLEAN}, .uid = INNER_ID, .gid = INNER_ID};

	_cleanup_fd_ int pidfd = (int)syscall(SYS_pidfd_open, b->init, 0);
	if (pidfd < 0)
		return -errno;
	c.n_leaves = cgroup_open_keep(&m->cgroup, slot, leaves);
	fds[0] = pidfd;
	fds[1] = b->warm;
	memcpy(fds + 2, leaves, c.n_leaves * sizeof(int));
	ssize_t n = fd_send(z->channel, &c, sizeof(c), fds, 2 + c.n_leaves, MSG_DONTWAIT);
	fd_close_many(leaves, c.n_leaves);
	return n < 0 ? (int)n : 0;
}

static void ask_next(struct monitor *m, struct zygotes *n)
{
	struct zygote *z = &n->current;

	while (z->state == ZYGOTE_READY && n->first != 0 && z->in_flight < IN_FLIGHT_MAX) {
		uint32_t slot = n->first - 1;
		int r = ask(m, z, slot);
		if (r == -EAGAIN)
			return;
		zygote_forget(m, slot);
		if (r < 0)
			continue;
		z->in_flight++;
		z->forks++;
		KILL_POINT(CLEAN_ASKED);
	}
}

/* ---- ends ---- */

static void end(struct zygote *z)
{
	if (z->pid > 0)
		(void)kill(z->pid, SIGKILL);
	if (z->state != ZYGOTE_NONE)
		z->channel = fd_close(z->channel);
	if (z->state == ZYGOTE_STARTING)
		z->said = fd_close(z->said);
	z->state = ZYGOTE_NONE;
	z->in_flight = 0;
}

/* Once: it is tried again and again, and all its sandboxes are cold meanwhile. */
static void tell_front(struct monitor *m, struct zygotes *n, const struct zygote *z)
{
	struct proto_mon_zygote f = {.head = PROTO_HEAD(MON_ZYGOTE, proto_mon_zygote)};

	if (n->told || z->state == ZYGOTE_READY)
		return;
	n->told = true;
	(void)!text_copy(f.image, sizeof(f.image),
			 CONTAINER_OF(n, struct template, zygotes)->image);
	/* a traceback ends with its reason */
	if (!fd_read_last_words(z->state == ZYGOTE_STARTING ? z->said : -1, f.said, sizeof(f.said)))
		(void)!text_copy(f.said, sizeof(f.said), "nothing");
	monitor_send(m, &f.head, NULL, 0);
}

/* Z has ended or must end. The processes that it has forked live on. */
static void lost(struct monitor *m, struct zygotes *n, struct zygote *z)
{
	uint32_t shift = MIN(n->failures, RETRY_SHIFT);

	tell_front(m, n, z);
	end(z);
	n->failures++;
	n->retry_at = now_ns() + (RETRY_NS << shift);
	if (n->failures >= FAILURES_MAX && n->current.state == ZYGOTE_NONE &&
	    n->successor.state == ZYGOTE_NONE)
		forget_all(m, n);
}

/* The successor becomes the current zygote: at once when there is none, else when the successor is READY
 * and the current one owes no answer. */
static void promote(struct zygotes *n)
{
	struct zygote *old = &n->current;

	if (n->successor.state == ZYGOTE_NONE || n->retired > 0 ||
	    (old->state != ZYGOTE_NONE &&
	     (n->successor.state != ZYGOTE_READY || old->in_flight > 0)))
		return;
	end(old);
	n->retired = old->pid;
	n->current = n->successor;
	n->successor = (struct zygote){.channel = -1};
}

static bool is_due(const struct monitor *m, const struct zygote *z, uint64_t now)
{
	const struct native_zygote_config *c = &m->config->zygote;

	return z->state == ZYGOTE_READY &&
	       ((c->forks > 0 && z->forks >= c->forks) ||
		(c->age_s > 0 && now - z->born_at >= c->age_s * NS_PER_S));
}

static void start(struct monitor *m, struct template *t, struct zygote *z)
{
	if (zygote_start(m, t, z) < 0)
		lost(m, &t->zygotes, z);
}

void zygote_want(struct monitor *m, struct template *t, uint32_t slot)
{
	struct zygotes *n = &t->zygotes;
	uint64_t now = now_ns();

	if (n->current.state == ZYGOTE_NONE && n->failures >= FAILURES_MAX && now < n->retry_at) {
		zygote_forget(m, slot);
		return;
	}
	enqueue(m, t, slot);
	if (is_due(m, &n->current, now) && n->successor.state == ZYGOTE_NONE &&
	    n->successor.pid == 0 && now >= n->retry_at)
		start(m, t, &n->successor);
	ask_next(m, n); /* if there is none, zygote_tick() starts one */
}

/* ---- events ---- */

/* Returns whether the frame was one that may come now. */
static bool take_frame(struct zygotes *n, struct zygote *z)
{
	union {
		struct rt_head h;
		struct rt_zygote_ready ready;
	} f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t len = fd_recv(z->channel, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);

	if (len == -EAGAIN)
		return true;
	if (len > 0)
		fd_close_many(fds, n_fds);
	if (len == sizeof(f.ready) && z->state == ZYGOTE_STARTING && f.h.kind == RT_ZYGOTE_READY &&
	    f.ready.version == RT_VERSION && f.ready.threads == 1) {
		z->said = fd_close(z->said);
		z->state = ZYGOTE_READY;
		z->born_at = now_ns();
		n->failures = 0;
		n->told = false;
		return true;
	}
	if (len != sizeof(f.h) || z->state != ZYGOTE_READY || f.h.kind != RT_CLEAN_DONE ||
	    z->in_flight == 0)
		return false;
	z->in_flight--; /* also when the fork failed: init notices, because its channel ends */
	return true;
}

void zygote_event(struct monitor *m, struct template *t, struct zygote *z)
{
	struct zygotes *n = &t->zygotes;

	if (!take_frame(n, z))
		lost(m, n, z);
	promote(n);
	ask_next(m, n);
}

bool zygote_reaped(struct monitor *m, pid_t pid)
{
	for (size_t i = 0; i < IMAGES_MAX; i++) {
		struct zygotes *n = &m->templates[i].zygotes;
		struct zygote *both[] = {&n->current, &n->successor};
		if (n->retired == pid) {
			n->retired = 0;
			return true;
		}
		for (size_t k = 0; k < ARRAY_SIZE(both); k++) {
			if (both[k]->pid != pid)
				continue;
			both[k]->pid = 0;
			if (both[k]->state != ZYGOTE_NONE)
				lost(m, n, both[k]);
			return true;
		}
	}
	return false;
}

/* When T has no sandboxes and none was requested for zygote.idle_s seconds, its namespaces, its lock and
 * its zygote go. The next sandbox makes them again. */
static uint64_t drop_idle(struct monitor *m, struct template *t, uint64_t now)
{
	uint64_t idle_ns = m->config->zygote.idle_s * NS_PER_S;

	if (idle_ns == 0 || !t->image[0] || t->sandboxes > 0)
		return 0;
	if (now < t->used_at + idle_ns)
		return t->used_at + idle_ns;
	template_free(m, t);
	return 0;
}

static uint64_t tick_one(struct monitor *m, struct template *t, uint64_t now)
{
	struct zygotes *n = &t->zygotes;

	promote(n);
	if (n->current.state == ZYGOTE_NONE && n->first != 0) {
		if (n->current.pid > 0)
			return 0; /* it is dying: SIGCHLD will wake the loop */
		if (now < n->retry_at)
			return n->retry_at;
		start(m, t, &n->current);
		return n->first != 0 && n->current.state == ZYGOTE_NONE ? n->retry_at : 0;
	}
	ask_next(m, n);
	return drop_idle(m, t, now);
}

uint64_t zygote_tick(struct monitor *m)
{
	uint64_t now = now_ns();
	uint64_t next = 0;

	for (size_t i = 0; i < IMAGES_MAX; i++) {
		uint64_t at = tick_one(m, &m->templates[i], now);
		if (at != 0 && (next == 0 || at < next))
			next = at;
	}
	return next;
}

void zygote_stop(struct monitor *m, struct template *t)
{
	struct zygotes *n = &t->zygotes;

	end(&n->successor);
	end(&n->current);
	forget_all(m, n);
	n->failures = 0;
	n->retry_at = 0;
}
