/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine as the front sees it: the engine object, and what the monitor says. */
#include "engine/native/front/front.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/reap.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

#define CLOSE_WAIT_MS 1000

_Static_assert((int)PROTO_CAP_MEMORY == (int)ENGINE_CAP_MEMORY &&
		   (int)PROTO_CAP_CPU == (int)ENGINE_CAP_CPU &&
		   (int)PROTO_CAP_PIDS == (int)ENGINE_CAP_PIDS &&
		   (int)PROTO_CAP_DISK == (int)ENGINE_CAP_DISK &&
		   (int)PROTO_CAP_OWN_UID == (int)ENGINE_CAP_OWN_UID &&
		   (int)PROTO_CAP_PERSISTENT == (int)ENGINE_CAP_PERSISTENT &&
		   (int)PROTO_CAP_WARM == (int)ENGINE_CAP_WARM &&
		   (int)PROTO_CAP_ON_DISK == (int)ENGINE_CAP_ON_DISK,
	       "one set of bits");
_Static_assert(PROTO_IMAGE_MAX == ENGINE_NAME_MAX && PROTO_PATH_MAX == ENGINE_PATH_MAX &&
		   PROTO_LIST_MAX == ENGINE_FILES_MAX &&
		   PROTO_CHECKPOINTS_MAX == ENGINE_CHECKPOINTS_MAX &&
		   PROTO_LEVELS_MAX == ENGINE_LEVELS_MAX &&
		   PROTO_RUNTIME_MAX == ENGINE_RUNTIME_SIZE,
	       "one set of bounds");
_Static_assert(PROTO_EGRESS_PORT == ENGINE_EGRESS_PORT, "one port");

/* ---- messages of the monitor ---- */

static struct native_sandbox *in_slot(const struct native_engine *g, uint32_t slot)
{
	return slot < g->max ? g->slots[slot] : NULL;
}

static int on_created(struct native_engine *g, const union proto_frame *f, int *fds, size_t n)
{
	return native_created(g, &f->created, fds, n);
}

static int on_gone(struct native_engine *g, const union proto_frame *f, int *fds UNUSED,
		   size_t n UNUSED)
{
	struct native_sandbox *s = in_slot(g, f->gone.slot);

	if (!s)
		return -EPROTO;
	native_gone(s, f->gone.cpu_ns);
	return 0;
}

static int on_forgotten(struct native_engine *g, const union proto_frame *f, int *fds UNUSED,
			size_t n UNUSED)
{
	return native_forgotten(g, &f->forgotten);
}

static int on_used(struct native_engine *g, const union proto_frame *f, int *fds UNUSED,
		   size_t n UNUSED)
{
	const struct engine_usage u = {
	    .memory_bytes = f->used.memory_bytes, .cpu_ns = f->used.cpu_ns, .pids = f->used.pids};
	struct native_sandbox *s = in_slot(g, f->used.slot);

	if (f->used.slot == PROTO_SLOT_ALL)
		native_memory_used(g, f->used.memory_bytes);
	else if (s)
		inside_used(&s->base, &u);
	return 0;
}

static int on_limited(struct native_engine *g, const union proto_frame *f, int *fds UNUSED,
		      size_t n UNUSED)
{
	struct native_sandbox *s = in_slot(g, f->limited.slot);

	if (s)
		inside_changed(&s->base, f->limited.errnum, f->limited.what,
			       f->limited.memory_bytes);
	return 0;
}

static int on_warmed(struct native_engine *g, const union proto_frame *f, int *fds, size_t n)
{
	struct native_sandbox *s = in_slot(g, f->warmed.slot);

	if (s)
		inside_warmed(&s->base, n == 1 ? TAKE_FD(fds[0]) : -1, f->warmed.soon != 0);
	return 0;
}

/* Type, length and number of descriptors were checked before (messages.tbl.h). The front trusts the
 * monitor, so its messages are allowed at any time; MON_HELLO was taken by native_open(). */
static int (*const messages[PROTO_TYPE_MAX_])(struct native_engine *g, const union proto_frame *f,
					      int *fds, size_t n) = {
    [PROTO_MON_CREATED] = on_created,     [PROTO_MON_GONE] = on_gone,
    [PROTO_MON_FORGOTTEN] = on_forgotten, [PROTO_MON_USED] = on_used,
    [PROTO_MON_WARMED] = on_warmed,       [PROTO_MON_LIMITED] = on_limited,
};

static int on_message(const union proto_frame *f, int *fds, size_t n, void *user)
{
	return messages[f->head.type] ? messages[f->head.type](user, f, fds, n) : -EPROTO;
}

static void on_monitor_end(int error UNUSED, void *user)
{
	struct native_engine *g = user;
	struct err e = ERR_INIT;

	g->dead = true;
	(void)err_set(&e, ERR_ENGINE_UNAVAILABLE, 0, "the monitor has ended");
	native_forget_abort(g, &e);
	for (uint32_t i = 0; i < g->max; i++)
		if (g->slots[i])
			native_gone(g->slots[i], 0);
}

/* ---- questions about one sandbox ---- */

static int tell(struct engine_sandbox *base, const struct proto_head *m)
{
	const struct native_sandbox *s = native_sandbox_of(base);
	struct native_engine *g = native_engine_of(base->engine);

	return s->gone || g->dead ? -EPIPE : channel_send(g->monitor, m, NULL, 0);
}

static int ask(struct engine_sandbox *base, struct proto_mon_slot *m)
{
	m->slot = native_sandbox_of(base)->slot;
	return tell(base, &m->head);
}

int native_change(struct engine_sandbox *base, const struct engine_limits *l)
{
	const struct engine_limits *now = &base->policy.limits;
	struct proto_mon_limit m = {
	    .head = PROTO_HEAD(MON_LIMIT, proto_mon_limit),
	    .slot = native_sandbox_of(base)->slot,
	    .what = (l->memory_bytes != now->memory_bytes ? PROTO_LIMIT_MEMORY : 0) |
		    (l->cpu_milli != now->cpu_milli ? PROTO_LIMIT_CPU : 0) |
		    (l->pids != now->pids ? PROTO_LIMIT_PIDS : 0),
	    .memory_bytes = l->memory_bytes,
	    .cpu_milli = l->cpu_milli,
	    .pids = l->pids,
	};

	/* The monitor takes a wrong message for a broken front, and ends. */
	return proto_limit_ok(&m) ? tell(base, &m.head) : -EINVAL;
}

int native_usage(struct engine_sandbox *s)
{
	struct proto_mon_slot m = {.head = PROTO_HEAD(MON_USAGE, proto_mon_slot)};

	return ask(s, &m);
}

int native_warm(struct engine_sandbox *s)
{
	struct proto_mon_slot m = {.head = PROTO_HEAD(MON_WARM, proto_mon_slot)};

	return ask(s, &m);
}

void native_destroy(struct engine_sandbox *s)
{
	struct proto_mon_slot m = {.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot),
				   .flags = (s->pooled ? PROTO_SLOT_UNUSED : 0) |
					    (s->run ? PROTO_SLOT_COUNT : 0)};

	(void)!ask(s, &m); /* a channel that ended says so itself */
}

void native_ready(struct engine_sandbox *s)
{
	native_pool_room(native_engine_of(s->engine));
}

void native_idle(struct engine_sandbox *s)
{
	native_memory_note(native_engine_of(s->engine));
}

/* ---- the end ---- */

/* The monitor ends every sandbox and then itself when its channel ends; the socket closes when it is
 * done. Returns false if that takes long, which is no reason to wait: it needs nobody. */
static bool wait_for_monitor(const struct native_engine *g)
{
	int fd = channel_fd(g->monitor);
	uint64_t end = now_ns() + CLOSE_WAIT_MS * NS_PER_MS;
	union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds;

	(void)shutdown(fd, SHUT_WR);
	for (uint64_t now; (now = now_ns()) < end;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (poll(&p, 1, (int)((end - now) / NS_PER_MS)) <= 0)
			continue;
		n_fds = 0;
		ssize_t n = fd_recv(fd, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);
		fd_close_many(fds, n_fds);
		if (n == 0 || (n < 0 && n != -EAGAIN))
			return true;
	}
	return false;
}

void native_close(struct engine *base)
{
	struct native_engine *g = native_engine_of(base);
	struct err e = ERR_INIT;
	bool ends = true;

	native_pool_close(g);
	native_memory_close(g);
	if (g->monitor && !g->dead)
		ends = wait_for_monitor(g);
	g->dead = true;
	(void)err_set(&e, ERR_CANCELLED, 0, "the engine was closed");
	native_forget_abort(g, &e);
	for (uint32_t i = 0; g->slots && i < g->max; i++)
		if (g->slots[i])
			inside_cancel(&g->slots[i]->base, &e);
	while (!list_is_empty(&g->orphans))
		inside_cancel(&list_first(&g->orphans, struct native_sandbox, orphan)->base, &e);
	g->monitor = channel_free(g->monitor);
	g->monitor_fd = fd_close(g->monitor_fd);
	if (ends)
		reap_child(g->monitor_pid, CLOSE_WAIT_MS * NS_PER_MS);
	g->images = fd_close(g->images);
	free(g->slots);
}

/* ---- the beginning ---- */

static int take_hello(struct native_engine *g, struct err *e)
{
	union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	struct pollfd p = {.fd = g->monitor_fd, .events = POLLIN};

	if (poll(&p, 1, FRONT_HELLO_WAIT_MS) <= 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, ETIMEDOUT, "the monitor does not answer");
	ssize_t n = fd_recv(g->monitor_fd, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);
	if (n < 0 || proto_check(&f, (size_t)n, n_fds, PROTO_PARTY_M, PROTO_PARTY_F) < 0 ||
	    f.head.type != PROTO_MON_HELLO || f.hello.version != PROTO_VERSION ||
	    f.hello.slots == 0 || f.hello.slots > PROTO_SLOTS_MAX) {
		fd_close_many(fds, n_fds);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the monitor ended at its start");
	}
	g->images = n_fds > 0 ? TAKE_FD(fds[0]) : -1;
	g->base.enforced = f.hello.enforced;
	g->base.best_effort = f.hello.best_effort;
	g->max = f.hello.slots;
	return 0;
}

int native_open(struct engine *base, struct err *e)
{
	struct native_engine *g = native_engine_of(base);
	struct rlimit nofile;
	int r = take_hello(g, e);

	if (r < 0)
		return r;
	ASSERT(g->max > 0);
	g->slots = calloc(g->max, sizeof(struct native_sandbox *));
	if (!g->slots)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "engine");
	r = channel_new(base->loop, TAKE_FD(g->monitor_fd), PROTO_PARTY_M, on_message,
			on_monitor_end, g, &g->monitor);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "event loop");
	g->nofile =
	    getrlimit(RLIMIT_NOFILE, &nofile) == 0 ? MIN(nofile.rlim_cur, (rlim_t)INT_MAX) : 64;
	return 0;
}

const struct engine_ops native_ops = {
    .name = "native",
    NATIVE_FRONT_OPS,
    .change = native_change,
    .begin = native_begin,
    .probe = native_engine_probe,
};
