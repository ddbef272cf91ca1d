/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/native/monitor/zygote.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "engine/native/monitor/monitor.h"
#include "frames.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define IN_FLIGHT_MAX 4 /* the rest waits here: a zygote forks one at a time */
#define INNER_ID      1000
#define RETRY_NS      NS_PER_S /* after the first failure; doubled with each */
#define RETRY_SHIFT   6        /* at most: 64 s */

void zygote_forget(struct monitor *m, uint32_t slot)
{
	struct box *b = &m->boxes[slot];
	struct zygote *z = b->waits_for ? &b->waits_for->zygote : NULL;

	b->warm = fd_close(b->warm);
	if (!z)
		return;
	b->waits_for = NULL;
	uint32_t before = 0;
	for (uint32_t at = z->first; at != 0; before = at, at = m->boxes[at - 1].warm_next) {
		if (at != slot + 1)
			continue;
		if (before == 0)
			z->first = b->warm_next;
		else
			m->boxes[before - 1].warm_next = b->warm_next;
		if (z->last == at)
			z->last = before;
		break;
	}
	b->warm_next = 0;
}

static void forget_all(struct monitor *m, struct zygote *z)
{
	while (z->first != 0)
		zygote_forget(m, z->first - 1);
}

/* Its end, whoever began it. What it has forked lives on. */
static void zygote_lost(struct monitor *m, struct zygote *z)
{
	uint32_t shift = MIN(z->failures, RETRY_SHIFT);

	if (z->pid > 0)
		(void)kill(z->pid, SIGKILL);
	z->channel = fd_close(z->channel);
	z->state = ZYGOTE_NONE;
	z->in_flight = 0;
	z->failures++;
	z->retry_at = now_ns() + (RETRY_NS << shift);
	forget_all(m, z);
}

/* RT_CLEAN for the box in SLOT. */
static int ask(struct monitor *m, struct zygote *z, uint32_t slot)
{
	struct box *b = &m->boxes[slot];
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

static void ask_next(struct monitor *m, struct zygote *z)
{
	while (z->state == ZYGOTE_READY && z->first != 0 && z->in_flight < IN_FLIGHT_MAX) {
		uint32_t slot = z->first - 1;
		int r = ask(m, z, slot);
		if (r == -EAGAIN)
			return;
		zygote_forget(m, slot);
		if (r == 0)
			z->in_flight++;
	}
}

void zygote_want(struct monitor *m, struct template *t, uint32_t slot)
{
	struct zygote *z = &t->zygote;
	struct box *b = &m->boxes[slot];

	if (z->state == ZYGOTE_NONE &&
	    (z->pid > 0 || now_ns() < z->retry_at || zygote_start(m, t) < 0)) {
		zygote_forget(m, slot);
		return;
	}
	b->waits_for = t;
	b->warm_next = 0;
	if (z->first == 0)
		z->first = slot + 1;
	else
		m->boxes[z->last - 1].warm_next = slot + 1;
	z->last = slot + 1;
	ask_next(m, z);
}

/* True = a frame that was due. */
static bool take_frame(struct zygote *z)
{
	union {
		struct rt_head h;
		struct rt_zygote_ready ready;
	} f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(z->channel, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);

	if (n == -EAGAIN)
		return true;
	if (n > 0)
		fd_close_many(fds, n_fds);
	if (n == sizeof(f.ready) && z->state == ZYGOTE_STARTING && f.h.kind == RT_ZYGOTE_READY &&
	    f.ready.version == RT_VERSION && f.ready.threads == 1) {
		z->state = ZYGOTE_READY;
		z->failures = 0;
		return true;
	}
	if (n != sizeof(f.h) || z->state != ZYGOTE_READY || f.h.kind != RT_CLEAN_DONE ||
	    z->in_flight == 0)
		return false;
	z->in_flight--; /* why one failed is init's to notice: its channel has ended */
	return true;
}

void zygote_event(struct monitor *m, struct template *t)
{
	if (take_frame(&t->zygote))
		ask_next(m, &t->zygote);
	else
		zygote_lost(m, &t->zygote);
}

bool zygote_reaped(struct monitor *m, pid_t pid)
{
	for (size_t i = 0; i < IMAGES_MAX; i++) {
		struct zygote *z = &m->templates[i].zygote;
		if (z->pid != pid)
			continue;
		z->pid = 0;
		if (z->state != ZYGOTE_NONE)
			zygote_lost(m, z);
		return true;
	}
	return false;
}

void zygote_stop(struct monitor *m, struct template *t)
{
	if (t->zygote.state != ZYGOTE_NONE)
		zygote_lost(m, &t->zygote);
	t->zygote.failures = 0;
	t->zygote.retry_at = 0;
}
