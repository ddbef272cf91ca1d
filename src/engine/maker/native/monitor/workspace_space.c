/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: workspace_space.h. */
#include "engine/maker/native/monitor/workspace_space.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/walls.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_store.h"
#include "engine/maker/native/monitor/workspace_worker.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#define MIB          (UINT64_C(1) << 20)
#define SECTOR_BYTES 512u /* of st_blocks, stat(2) */

#define REOPEN_PART 4 /* disks are opened again when a quarter more than the reserve is free */

/* A new disk needs this much beside what its file system takes for itself. */
#define LEAST_BYTES (16 * MIB)
/* What a disk that rests may take without being asked, and what is kept for the next one. A program that writes
 * 1 GB/s needs a third of a second for it, and two looks and the worker take less. */
#define AHEAD_MAX    (512 * MIB)
#define PLENTY       16 /* with room for so many more of its size, a new disk gets its size at once */
#define EXTRA_PART   32 /* of what is left: what another new disk gets at first beyond the least */
#define EXTRA_HALVES 32
#define BURST        16            /* so many new disks shall get the least before the next look, */
#define BURST_PART   4             /* from this part of what is left at most */
#define HUNGRY(n)    ((n) / 4 * 3) /* of that: a disk with less gets more */
#define WORTH_BYTES  (4 * MIB)     /* a change of less is not worth a worker */
/* A sandbox with ballast and less room than this is told that it is stopped, and with more than that it goes on. */
#define STOPPED_BYTES (2 * MIB)
#define GOING_BYTES   (16 * MIB)
/* Blocks that a session has freed: how many are worth a worker. */
#define STALE_BYTES (64 * MIB)

/* The next look comes when the reserve, or the share of a disk, could be used up at the earliest. */
#define FASTEST_BYTES (UINT64_C(4) << 30) /* a second */
#define LOOK_MIN_NS   (20 * NS_PER_MS)
#define LOOK_FULL_NS  (200 * NS_PER_MS)
#define LOOK_MAX_NS   (10 * NS_PER_S)
#define LOOK_NONE_NS  (30 * NS_PER_S) /* without any disk */

/* All disks together. */
struct sums {
	uint64_t free, reserve; /* of the host */
	uint64_t has;           /* blocks of the disks */
	uint64_t claims;        /* those that are being made with what they may promise */
	uint64_t making;        /* of them: those that are being made */
	uint64_t ending;        /* of them: stored ones that end, and still write */
	uint64_t sizes;
	uint32_t n;       /* disks of live sandboxes */
	uint32_t folders; /* of live sandboxes */
	uint32_t new; /* disks that no look has given a share yet, those that are being made, too */
	bool stopped; /* one of them was stopped at the last look */
};

/* A disk while blocks are shared out. */
struct share {
	struct monitor_sandbox *sandbox;
	uint64_t room;   /* what the sandbox can take now */
	uint64_t most;   /* with the ballast */
	uint64_t wanted; /* what it gets */
	bool grows;      /* it took blocks since the last look, or would have */
	bool hungry;
};

bool space_has_disk(const struct monitor_sandbox *b)
{
	return b->state == SANDBOX_LIVE && b->disk.image >= 0;
}

bool space_has_folder(const struct monitor_sandbox *b)
{
	return b->state == SANDBOX_LIVE && b->disk.folder;
}

static uint64_t blocks_of(const struct disk *d)
{
	struct stat st;

	return fstat(d->image, &st) < 0 ? 0 : MIN((uint64_t)st.st_blocks * SECTOR_BYTES, d->size);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* ---- what there is ---- */

static int open_dir(const char *state_dir)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/workspaces", state_dir) >= sizeof(path))
		return -1;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int measure(struct monitor *m, struct sums *ret)
{
	struct space *p = &m->space;
	struct statvfs v;

	*ret = (struct sums){0};
	if (p->dir < 0)
		p->dir = open_dir(m->config->state_dir);
	if (p->dir < 0 || fstatvfs(p->dir, &v) < 0)
		return -1;
	ret->free = (uint64_t)v.f_bavail * v.f_frsize;
	ret->reserve = proto_disk_reserve((uint64_t)v.f_blocks * v.f_frsize);
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++) {
		const struct monitor_sandbox *b = &m->sandboxes[i];
		const uint64_t claim = less(b->disk.size, b->disk.ballast);
		ret->folders += space_has_folder(b);
		if (space_has_disk(b)) {
			ret->n++;
			ret->new += b->disk.new;
			ret->stopped = ret->stopped || (b->disk.stopped && b->disk.ballast > 0);
			ret->has += blocks_of(&b->disk);
			ret->claims += claim;
			ret->sizes += b->disk.size;
		} else if (b->disk.stored && b->disk.image >= 0) {
			ret->has += blocks_of(&b->disk);
			ret->ending += claim;
		} else if (b->state != SANDBOX_FREE) {
			ret->new += b->disk.promised > 0;
			ret->making += b->disk.promised;
		}
	}
	monitor_disks_measure(m, &ret->has, &ret->making);
	ret->claims += ret->making + ret->ending;
	ret->sizes += ret->making;
	return 0;
}

/* What all claims together may be. */
static uint64_t total(const struct sums *s)
{
	return less(s->free + s->has, s->reserve);
}

static uint64_t left_of(const struct sums *s)
{
	return s->free < s->reserve ? 0 : less(total(s), s->claims);
}

uint64_t space_left(struct monitor *m)
{
	struct sums s;

	return !wall_stands(WALL_PROMISES) || measure(m, &s) < 0 ? UINT64_MAX : left_of(&s);
}

/* ---- closing: for the moment when somebody else has taken the reserve ---- */

static void close_disk(struct disk *d, bool closed)
{
	if (d->closed != closed)
		worker_close_disk(d->loop, d->image, d->size, closed);
	d->closed = closed;
}

static void close_all(struct monitor *m)
{
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++)
		if (space_has_disk(&m->sandboxes[i]))
			close_disk(&m->sandboxes[i].disk, true);
}

/* ---- sharing ---- */

/* Gives LEFT to those that are hungry. Returns what they could not take. */
static uint64_t pour(struct share *list, uint32_t n, uint64_t left)
{
	uint32_t takers = 1;

	/* each round fills at least one disk, or uses up what is left */
	while (takers > 0 && left >= MIB) {
		takers = 0;
		for (uint32_t i = 0; i < n; i++)
			takers += list[i].hungry && list[i].wanted < list[i].most;
		const uint64_t each = takers > 0 ? MAX(left / takers, MIB) : 0;
		for (uint32_t i = 0; i < n && left > 0; i++) {
			if (!list[i].hungry || list[i].wanted >= list[i].most)
				continue;
			const uint64_t more = MIN(MIN(each, left), list[i].most - list[i].wanted);
			list[i].wanted += more;
			left -= more;
		}
	}
	return left;
}

/* Those that rest keep what they have, if it is not needed. */
static void keep(struct share *list, uint32_t n, uint64_t left)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t more = MIN(less(list[i].room, list[i].wanted), left);
		if (list[i].hungry)
			continue;
		list[i].wanted += more;
		left -= more;
	}
}

/* What is kept for disks that come before the next look, of GRANTS. A sandbox that is being filled needs it more. */
static uint64_t keep_for_next(const struct share *list, uint32_t n, uint64_t grants,
			      const struct space *p)
{
	uint64_t next = MIN(p->least * BURST, grants / BURST_PART);

	for (uint32_t i = 0; i < n; i++)
		if (list[i].hungry && list[i].grows)
			next = 0;
	return MAX(next, p->least * MAX(p->waiting, 1u));
}

static bool all_fit(const struct share *list, uint32_t n, uint64_t grants)
{
	for (uint32_t i = 0; i < n && grants > 0; i++)
		grants = less(grants, list[i].most);
	return grants > 0;
}

static void share_out(struct share *list, uint32_t n, uint64_t grants, const struct space *p)
{
	const uint64_t each = less(grants, p->least * p->waiting) / (n + 1);
	const uint64_t base = MIN(AHEAD_MAX, MAX(each / 2, MIN(grants / (n + 1), LEAST_BYTES)));
	uint64_t shared = 0;
	const bool fit = all_fit(list, n, less(grants, p->least * BURST));

	for (uint32_t i = 0; i < n; i++) {
		list[i].wanted = fit ? list[i].most : MIN(base, list[i].most);
		list[i].hungry = !fit && list[i].room < HUNGRY(base) && list[i].room < list[i].most;
		shared += list[i].wanted;
	}
	const uint64_t left = less(grants, shared + keep_for_next(list, n, grants, p));
	keep(list, n, pour(list, n, left));
}

/* ---- work ---- */

static struct space_plan *plan_for(struct monitor *m, struct monitor_sandbox *b, unsigned what)
{
	struct space *p = &m->space;
	struct space_plan *w = &p->plan[p->n_plan++];

	*w = (struct space_plan){.slot = (uint32_t)(b - m->sandboxes),
				 .serial = b->disk.serial,
				 .what = what,
				 .loop = b->disk.loop,
				 .image = b->disk.image,
				 .size = b->disk.size,
				 .stored = b->disk.stored,
				 .ballast = b->disk.ballast,
				 .closed = b->disk.closed};
	return w;
}

static void plan_claim(struct monitor *m, const struct share *s)
{
	struct disk *d = &s->sandbox->disk;
	struct space_plan *w = plan_for(m, s->sandbox, WORKER_CLAIM);

	/* what is in use, and what it may take */
	w->claim = less(d->size, s->most) + s->wanted;
	if (w->claim > less(d->size, d->ballast)) { /* promised from now on */
		d->ballast = less(d->size, w->claim);
		d->backed = false;
	}
	d->closed = false; /* the worker opens it */
}

/* Takes first, then gives: so the sum is right at every moment. */
static void plan_shares(struct monitor *m, const struct share *list, uint32_t n)
{
	bool worth = false;

	for (uint32_t i = 0; i < n; i++)
		worth = worth || list[i].sandbox->disk.closed ||
			list[i].room > list[i].wanted + WORTH_BYTES ||
			list[i].wanted > list[i].room + WORTH_BYTES;
	for (int give = 0; worth && give < 2; give++)
		for (uint32_t i = 0; i < n; i++)
			if ((list[i].wanted > list[i].room) == (give != 0) &&
			    (list[i].wanted != list[i].room || list[i].sandbox->disk.closed))
				plan_claim(m, &list[i]);
}

/* Blocks are short, or were: shares them out. Returns how soon a share could be used up. */
static uint64_t share(struct monitor *m, const struct sums *s)
{
	_cleanup_free_ struct share *list = calloc(s->n, sizeof(*list));
	uint64_t in_use = s->making + s->ending;
	uint64_t least = UINT64_MAX;
	uint32_t n = 0;

	for (uint32_t i = 0; list && i < m->config->max_sandboxes && n < s->n; i++) {
		struct monitor_sandbox *b = &m->sandboxes[i];
		struct share *one = &list[n];
		if (!space_has_disk(b))
			continue;
		if (worker_room(b->init, b->disk.loop, &one->room) < 0) {
			/* Its init has not come so far yet, or is ending. A new disk has little at first, so
			 * the next look must come soon. */
			in_use += less(b->disk.size, b->disk.ballast);
			if (b->disk.ballast > 0)
				least = 0;
			continue;
		}
		b->disk.new = false;
		b->disk.stopped = one->room < (b->disk.stopped ? GOING_BYTES : STOPPED_BYTES);
		one->sandbox = b;
		one->most = MIN(one->room + b->disk.ballast, b->disk.size);
		const uint64_t used = b->disk.size - one->most;
		one->grows = b->disk.stopped || (b->disk.used > 0 && used > b->disk.used);
		b->disk.used = used;
		in_use += used;
		n += one->most > 0;
	}
	share_out(list, n, less(total(s), in_use), &m->space);
	for (uint32_t i = 0; i < n; i++)
		if (list[i].wanted > list[i].room || list[i].sandbox->disk.ballast > 0)
			least = MIN(least, MAX(list[i].room, list[i].wanted));
	plan_shares(m, list, n);
	return MAX(least / (FASTEST_BYTES / NS_PER_S), LOOK_MIN_NS);
}

/* A stored sandbox that has not asked for its blocks, and sessions that have freed many and rest. */
static void plan_rest(struct monitor *m)
{
	bool trims = false; /* one at a time: shares wait for the same worker */

	for (uint32_t i = 0; i < m->config->max_sandboxes; i++) {
		struct monitor_sandbox *b = &m->sandboxes[i];
		struct disk *d = &b->disk;
		if (!space_has_disk(b))
			continue;
		if (d->stored && !d->backed) {
			d->backed = true;
			(void)plan_for(m, b, WORKER_BACK);
		}
		const uint64_t blocks = d->stored ? 0 : blocks_of(d);
		uint64_t room;
		if (!trims && blocks != 0 && blocks == d->seen && blocks != d->trimmed &&
		    blocks >= STALE_BYTES && worker_room(b->init, d->loop, &room) == 0 &&
		    less(blocks, less(d->size, d->ballast + room)) >= STALE_BYTES) {
			trims = true;
			d->trimmed = blocks; /* once, if nothing comes of it */
			(void)plan_for(m, b, WORKER_TRIM);
		}
		d->seen = blocks;
	}
}

/* The worker has opened each disk that it came to. If the host became full meanwhile, the next look closes them again;
 * the others are as they were. */
static void settle(struct monitor *m)
{
	struct space *p = &m->space;

	for (uint32_t i = 0; i < p->n_plan; i++) {
		const struct space_plan *w = &p->plan[i];
		struct disk *d = &m->sandboxes[w->slot].disk;
		/* the slot may have another sandbox meanwhile */
		if (!space_has_disk(&m->sandboxes[w->slot]) || d->serial != w->serial)
			continue;
		if (w->what == WORKER_CLAIM)
			d->ballast = w->ballast;
		if (w->what == WORKER_CLAIM)
			d->closed = !w->tried && (d->closed || w->closed);
		if (w->what == WORKER_TRIM)
			d->trimmed = blocks_of(d);
	}
	p->n_plan = 0;
}

bool space_reaped(struct monitor *m, pid_t pid)
{
	struct space *p = &m->space;

	if (p->returner > 0 && pid == p->returner) {
		p->returner = 0;
		p->look_at = now_ns();
		return true;
	}
	if (p->worker == 0 || pid != p->worker)
		return false;
	settle(m);
	p->worker = 0;
	p->look_at = now_ns() + LOOK_MIN_NS;
	return true;
}

/* ---- the look ---- */

static enum proto_space state_of(const struct space *p, const struct sums *s)
{
	if (p->full)
		return PROTO_SPACE_FULL;
	return s->stopped || less(total(s), s->claims) < 2 * LEAST_BYTES ? PROTO_SPACE_SHORT
									 : PROTO_SPACE_ENOUGH;
}

static void tell(struct monitor *m, const struct sums *s)
{
	const struct proto_mon_space now = {
	    .head = PROTO_HEAD(MON_SPACE, proto_mon_space),
	    .state = state_of(&m->space, s),
	    .disks = s->n,
	    .free_bytes = s->free,
	    .reserve_bytes = s->reserve,
	    .promised_bytes = less(s->claims, s->has),
	};

	if (memcmp(&now, &m->space.told, sizeof(now)) == 0)
		return;
	m->space.told = now;
	monitor_send(m, &now.head, NULL, 0);
}

static void note_full(struct monitor *m, const struct sums *s)
{
	struct space *p = &m->space;

	if (s->free < s->reserve)
		p->full = true;
	else if (p->full && s->free > s->reserve + s->reserve / REOPEN_PART)
		p->full = false;
	if (p->full)
		close_all(m);
}

/* There is room for all. */
static void forget_new(struct monitor *m)
{
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++)
		m->sandboxes[i].disk.new = false;
}

static bool any_closed_or_ballast(const struct monitor *m)
{
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++)
		if (space_has_disk(&m->sandboxes[i]) &&
		    (m->sandboxes[i].disk.closed || m->sandboxes[i].disk.ballast > 0))
			return true;
	return false;
}

uint64_t space_look(struct monitor *m)
{
	struct space *p = &m->space;
	const uint64_t now = now_ns();
	struct sums s;

	if (p->look_at == 0 || now < p->look_at)
		return p->look_at;
	if (!wall_stands(WALL_PROMISES) || measure(m, &s) < 0) {
		p->look_at = now + LOOK_NONE_NS;
		return p->look_at;
	}
	note_full(m, &s);
	if (p->waiting > 0) {
		monitor_sandboxes_go_on(m, p->full);
		if (measure(m, &s) < 0)
			s = (struct sums){0};
	}
	tell(m, &s);
	uint64_t wait = MIN(MAX(less(s.free, s.reserve) / (FASTEST_BYTES / NS_PER_S), LOOK_MIN_NS),
			    LOOK_MAX_NS);
	uint64_t shares_wait = UINT64_MAX;
	if (s.n + s.folders == 0 && s.making == 0 && s.ending == 0)
		wait = LOOK_NONE_NS;
	else if (p->full || p->worker > 0)
		wait = LOOK_FULL_NS;
	else if (p->waiting > 0 || s.claims + AHEAD_MAX > total(&s) || any_closed_or_ballast(m))
		shares_wait = share(m, &s); /* MIN() would plan twice */
	else
		forget_new(m);
	wait = MIN(wait, shares_wait);
	if (p->waiting > 0) {
		/* nobody can give anything, and nobody is about to have something to give */
		if (p->n_plan == 0 && p->worker == 0 && s.making == 0)
			monitor_sandboxes_go_on(m, true);
		wait = MIN(wait, LOOK_MIN_NS);
	}
	rations_tell(m);
	if (s.n > 0 && !p->full && p->worker == 0 && p->n_plan == 0)
		plan_rest(m);
	if (p->n_plan > 0 && p->worker == 0)
		p->worker = worker_start(m);
	if (p->worker == 0)
		settle(m); /* none could be started */
	p->look_at = now + wait;
	return p->look_at;
}

/* ---- sandboxes ---- */

int space_open(struct monitor *m)
{
	struct space *p = &m->space;

	*p = (struct space){.dir = -1, .look_at = now_ns()};
	turns_init(&p->asked);
	p->plan = mmap(NULL, sizeof(*p->plan) * m->config->max_sandboxes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p->plan == MAP_FAILED ? -errno : 0;
}

void space_begin(struct monitor *m)
{
	m->space.returner = worker_start_return(m);
}

/* Of many that are made at once each gets the least that it needs, as long as there is any: what all of them get
 * beyond it is a small part of what is left, since it is halved with each. The next look gives them their shares. */
static uint64_t first_claim(uint64_t left, uint64_t size, uint64_t least, uint32_t before)
{
	if (size <= left / (before + PLENTY))
		return size;
	const uint64_t extra = before < EXTRA_HALVES ? ((left - least) / EXTRA_PART) >> before : 0;
	return MIN(size, least + extra);
}

int space_grant(struct monitor *m, const struct proto_limits *l, uint64_t *ret)
{
	struct space *p = &m->space;
	const uint64_t size = disk_bytes(l);
	const uint64_t least = MIN(size, size - MIN(size, l->workspace_bytes) + LEAST_BYTES);
	struct sums s;

	*ret = size;
	if (!wall_stands(WALL_PROMISES) || measure(m, &s) < 0)
		return 0;
	p->look_at = now_ns();
	p->least = least;
	const uint64_t left = left_of(&s);
	*ret = left < least ? 0 : first_claim(left, size, least, s.new);
	if (*ret > 0)
		return 0;
	return s.free < s.reserve || s.n + s.new == 0 ? -ENOSPC : -EAGAIN;
}

void space_added(struct monitor *m, struct monitor_sandbox *b, const struct report *r)
{
	struct disk *d = &b->disk;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;
	char byte;

	m->space.look_at = now_ns();
	if (d->arrival < 0)
		return;
	if (r->loop != DISK_LOOP_NONE &&
	    fd_recv(d->arrival, &byte, 1, fds, &n, MSG_DONTWAIT) == 1 && n == 1)
		d->image = fds[0];
	else
		fd_close_many(fds, n);
	d->arrival = fd_close(d->arrival);
	d->serial = ++m->space.serial;
	d->loop = r->loop;
	d->size = r->disk_size;
	d->ballast = r->disk_ballast;
	d->promised = 0;
	d->new = d->ballast > 0;
	if (m->space.full && d->image >= 0)
		close_disk(d, true);
}

void space_removed(struct monitor_sandbox *b)
{
	(void)fd_close(b->disk.image);
	(void)fd_close(b->disk.arrival);
	b->disk = DISK_NONE;
}
