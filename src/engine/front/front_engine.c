/* SPDX-License-Identifier: Apache-2.0 */
/* The engine object of the front, and what its maker says. */
#include "engine/front/front.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/reap.h"
#include "base/text.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

#define CLOSE_WAIT_MS 1000

_Static_assert(PROTO_IMAGE_MAX == ENGINE_NAME_MAX && PROTO_PATH_MAX == ENGINE_PATH_MAX &&
		   PROTO_LIST_MAX == ENGINE_FILES_MAX &&
		   PROTO_CHECKPOINTS_MAX == ENGINE_CHECKPOINTS_MAX &&
		   PROTO_LEVELS_MAX == ENGINE_LEVELS_MAX &&
		   PROTO_RUNTIME_MAX == ENGINE_RUNTIME_SIZE,
	       "one set of bounds");
_Static_assert(PROTO_EGRESS_PORT == ENGINE_EGRESS_PORT, "one port");

/* ---- messages of the monitor ---- */

static struct front_sandbox *in_slot(const struct front_engine *g, uint32_t slot)
{
	return slot < g->max ? g->slots[slot] : NULL;
}

static int on_created(struct front_engine *g, const union proto_frame *f, int *fds, size_t n)
{
	return front_created(g, &f->created, fds, n);
}

static int on_gone(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
		   size_t n UNUSED)
{
	struct front_sandbox *s = in_slot(g, f->gone.slot);

	if (!s)
		return -EPROTO;
	front_gone(s, f->gone.cpu_ns);
	return 0;
}

static int on_forgotten(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
			size_t n UNUSED)
{
	return front_forgotten(g, &f->forgotten);
}

static int on_disk_had(struct front_engine *g, const union proto_frame *f, int *fds, size_t n)
{
	return front_disk_had(g, &f->disk_had, n == 1 ? TAKE_FD(fds[0]) : -1);
}

static int on_used(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
		   size_t n UNUSED)
{
	const struct engine_usage u = {
	    .memory_bytes = f->used.memory_bytes, .cpu_ns = f->used.cpu_ns, .pids = f->used.pids};
	struct front_sandbox *s = in_slot(g, f->used.slot);

	if (f->used.slot == PROTO_SLOT_ALL)
		front_memory_used(g, f->used.memory_bytes);
	else if (s)
		inside_used(&s->base, &u);
	return 0;
}

static int on_limited(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
		      size_t n UNUSED)
{
	struct front_sandbox *s = in_slot(g, f->limited.slot);

	if (s)
		inside_changed(&s->base, f->limited.errnum, f->limited.what,
			       f->limited.memory_bytes);
	return 0;
}

static int on_kept(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
		   size_t n UNUSED)
{
	struct front_sandbox *s = in_slot(g, f->kept.slot);

	if (s)
		inside_kept(&s->base, f->kept.errnum);
	return 0;
}

static int on_warmed(struct front_engine *g, const union proto_frame *f, int *fds, size_t n)
{
	struct front_sandbox *s = in_slot(g, f->warmed.slot);

	if (s)
		inside_warmed(&s->base, n == 1 ? TAKE_FD(fds[0]) : -1, f->warmed.soon != 0);
	return 0;
}

/* ---- what the maker lacks: whoever asked gets the answer that it cannot be had ---- */

/* Without these two there is no maker. */
static int lacks_create(struct front_engine *g UNUSED, uint32_t slot UNUSED)
{
	return -EPROTO;
}

static int lacks_destroy(struct front_engine *g UNUSED, uint32_t slot UNUSED)
{
	return -EPROTO;
}

static int lacks_usage(struct front_engine *g, uint32_t slot)
{
	struct front_sandbox *s = in_slot(g, slot);

	if (slot == PROTO_SLOT_ALL)
		front_memory_used(g, 0);
	else if (s)
		inside_used(&s->base, &(struct engine_usage){0});
	return 0;
}

static int lacks_forget(struct front_engine *g, uint32_t seq)
{
	const struct proto_mon_forgotten m = {.seq = seq, .errnum = ENOTSUP};

	return front_forgotten(g, &m);
}

static int lacks_warm(struct front_engine *g, uint32_t slot)
{
	struct front_sandbox *s = in_slot(g, slot);

	if (s)
		inside_warmed(&s->base, -1, false);
	return 0;
}

static int lacks_limit(struct front_engine *g, uint32_t slot)
{
	struct front_sandbox *s = in_slot(g, slot);

	if (s)
		inside_changed(&s->base, ENOTSUP, 0, 0);
	return 0;
}

static int lacks_keep(struct front_engine *g, uint32_t slot)
{
	struct front_sandbox *s = in_slot(g, slot);

	if (s)
		inside_kept(&s->base, ENOTSUP);
	return 0;
}

static int lacks_disk(struct front_engine *g, uint32_t seq)
{
	const struct proto_mon_disk_had m = {.seq = seq, .errnum = ENOTSUP};

	return front_disk_had(g, &m, -1);
}

/* Nobody waits for an answer. */
static int lacks_charged(struct front_engine *g UNUSED, uint32_t of UNUSED)
{
	return 0;
}

#define BOTH(f)    lacks_##f
#define MONITOR(f) lacks_##f
#define FRONT(f)   NULL
#define OTHER      NULL
static int (*const lacks[PROTO_TYPE_MAX_])(struct front_engine *g, uint32_t of) = {
#define M(name, from, to, type, fds, served, what) [PROTO_##name] = served,
#include "engine/protocol/messages.tbl.h"
#undef M
};
#undef BOTH
#undef MONITOR
#undef FRONT
#undef OTHER

static int on_unsupported(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
			  size_t n UNUSED)
{
	const uint32_t type = f->unsupported.type;

	return type < PROTO_TYPE_MAX_ && lacks[type] ? lacks[type](g, f->unsupported.of) : -EPROTO;
}

/* ---- its disk ---- */

static void log_space(const struct engine_space *s)
{
	static const char *const what[] = {"enough", "short", "full"};

	LOG_OFTEN(LOG_LEVEL_WARNING, "host_disk", LOG_S("space", what[s->state]),
		  LOG_U("free_bytes", s->free_bytes), LOG_U("reserve_bytes", s->reserve_bytes),
		  LOG_U("promised_bytes", s->promised_bytes));
}

static int on_space(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
		    size_t n UNUSED)
{
	struct engine_space *s = &g->base.space;
	const enum engine_space_state before = s->state;

	if (f->space.state >= PROTO_SPACE_MAX_)
		return -EPROTO;
	*s = (struct engine_space){
	    .known = true,
	    .state = (enum engine_space_state)f->space.state,
	    .disks = f->space.disks,
	    .free_bytes = f->space.free_bytes,
	    .reserve_bytes = f->space.reserve_bytes,
	    .promised_bytes = f->space.promised_bytes,
	};
	if (s->state != before)
		log_space(s);
	return 0;
}

static int on_zygote(struct front_engine *g UNUSED, const union proto_frame *f, int *fds UNUSED,
		     size_t n UNUSED)
{
	const struct proto_mon_zygote *z = &f->zygote;

	if (memchr(z->image, '\0', sizeof(z->image)) == NULL)
		return -EPROTO;
	inside_zygote_failed(z->image, z->said);
	return 0;
}

static int on_ration(struct front_engine *g, const union proto_frame *f, int *fds UNUSED,
		     size_t n UNUSED)
{
	struct front_sandbox *s = in_slot(g, f->ration.slot);

	if (f->ration.ration >= PROTO_RATION_MAX_)
		return -EPROTO;
	if (s)
		inside_rationed(&s->base, (enum engine_ration)f->ration.ration);
	return 0;
}

/* Type, length and number of descriptors were checked before (messages.tbl.h). The front trusts the
 * monitor, so its messages are allowed at any time; MON_HELLO was taken by front_open(). */
#define BOTH(f)    NULL
#define MONITOR(f) NULL
#define FRONT(f)   on_##f
#define OTHER      NULL
static int (*const messages[PROTO_TYPE_MAX_])(struct front_engine *g, const union proto_frame *f,
					      int *fds, size_t n) = {
#define M(name, from, to, type, fds, served, what) [PROTO_##name] = served,
#include "engine/protocol/messages.tbl.h"
#undef M
};

static int on_message(const union proto_frame *f, int *fds, size_t n, void *user)
{
	return messages[f->head.type] ? messages[f->head.type](user, f, fds, n) : -EPROTO;
}

static void on_monitor_end(int error UNUSED, void *user)
{
	struct front_engine *g = user;
	struct err *e = &g->base.lost;

	g->dead = true;
	(void)err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
		      "the process that makes sandboxes has ended (engine %s, pid %d); start the "
		      "server again",
		      g->base.ops->name, (int)g->monitor_pid);
	LOG_ERROR("engine_lost", LOG_S("error", e->text));
	front_forget_abort(g, e);
	front_disks_abort(g, e);
	front_memory_abort(g);
	for (uint32_t i = 0; i < g->max; i++)
		if (g->slots[i])
			front_gone(g->slots[i], 0);
	if (g->base.on_end && !g->base.closing)
		g->base.on_end(e, g->base.on_end_user);
}

int front_refuse_dead(const struct front_engine *g, struct err *e)
{
	if (g->base.lost.code == ERR_NONE)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the engine was closed");
	*e = g->base.lost;
	return -EPIPE;
}

/* ---- questions about one sandbox ---- */

static int tell(struct engine_sandbox *base, const struct proto_head *m)
{
	const struct front_sandbox *s = front_sandbox_of(base);
	struct front_engine *g = front_engine_of(base->engine);

	return s->gone || g->dead ? -EPIPE : channel_send(g->monitor, m, NULL, 0);
}

static int ask(struct engine_sandbox *base, struct proto_mon_slot *m)
{
	m->slot = front_sandbox_of(base)->slot;
	return tell(base, &m->head);
}

int front_change(struct engine_sandbox *base, const struct engine_limits *l)
{
	const struct engine_limits *now = &base->policy.limits;
	struct proto_mon_limit m = {
	    .head = PROTO_HEAD(MON_LIMIT, proto_mon_limit),
	    .slot = front_sandbox_of(base)->slot,
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

int front_usage(struct engine_sandbox *s)
{
	struct proto_mon_slot m = {.head = PROTO_HEAD(MON_USAGE, proto_mon_slot)};

	return ask(s, &m);
}

int front_warm(struct engine_sandbox *s)
{
	struct proto_mon_slot m = {.head = PROTO_HEAD(MON_WARM, proto_mon_slot)};

	return ask(s, &m);
}

int front_keep(struct engine_sandbox *base, const char *persist_id)
{
	struct proto_mon_keep m = {.head = PROTO_HEAD(MON_KEEP, proto_mon_keep),
				   .slot = front_sandbox_of(base)->slot};

	if (!proto_key_ok(persist_id))
		return -EINVAL;
	(void)!text_copy(m.persist, sizeof(m.persist), persist_id);
	const int r = tell(base, &m.head);
	KILL_POINT(DISK_KEEP_SENT);
	return r;
}

void front_destroy(struct engine_sandbox *s)
{
	struct proto_mon_slot m = {.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot),
				   .flags = (s->pooled ? PROTO_SLOT_UNUSED : 0) |
					    (s->run || s->n_background > 0 ? PROTO_SLOT_COUNT : 0)};

	(void)!ask(s, &m); /* a channel that ended says so itself */
}

void front_ready(struct engine_sandbox *s)
{
	front_pool_room(front_engine_of(s->engine));
}

void front_idle(struct engine_sandbox *s)
{
	front_memory_note(front_engine_of(s->engine));
}

/* ---- the end ---- */

/* The monitor ends every sandbox and then itself when its channel ends; the socket closes when it is
 * done. Returns false if that takes long, which is no reason to wait: it needs nobody. */
static bool wait_for_monitor(const struct front_engine *g)
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

void front_close(struct engine *base)
{
	struct front_engine *g = front_engine_of(base);
	struct err e = ERR_INIT;
	bool ends = true;

	front_pool_close(g);
	front_memory_close(g);
	if (g->monitor && !g->dead)
		ends = wait_for_monitor(g);
	g->dead = true;
	(void)err_set(&e, ERR_CANCELLED, 0, "the engine was closed");
	front_forget_abort(g, &e);
	front_disks_abort(g, &e);
	for (uint32_t i = 0; g->slots && i < g->max; i++)
		if (g->slots[i])
			inside_cancel(&g->slots[i]->base, &e);
	while (!list_is_empty(&g->orphans))
		inside_cancel(&list_first(&g->orphans, struct front_sandbox, orphan)->base, &e);
	g->monitor = channel_free(g->monitor);
	g->monitor_fd = fd_close(g->monitor_fd);
	if (ends)
		reap_child(g->monitor_pid, CLOSE_WAIT_MS * NS_PER_MS);
	g->images = fd_close(g->images);
	free(g->slots);
}

/* ---- the beginning ---- */

static int take_hello(struct front_engine *g, struct err *e)
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
	g->base.enforced = f.hello.enforced & g->base.ops->caps;
	g->base.best_effort = f.hello.best_effort;
	g->max = f.hello.slots;
	return 0;
}

int front_open(struct engine *base, struct err *e)
{
	struct front_engine *g = front_engine_of(base);
	struct rlimit nofile;
	int r = take_hello(g, e);

	if (r < 0)
		return r;
	ASSERT(g->max > 0);
	g->slots = calloc(g->max, sizeof(struct front_sandbox *));
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
