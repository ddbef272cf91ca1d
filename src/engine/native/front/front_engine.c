/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine as the front sees it: the engine object, and what the monitor says. */
#include "engine/native/front/front.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "engine/native/native.h"

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define CLOSE_WAIT_MS 2000
#define HELLO_WAIT_MS 5000

_Static_assert((int)PROTO_CAP_MEMORY == (int)ENGINE_CAP_MEMORY &&
		   (int)PROTO_CAP_CPU == (int)ENGINE_CAP_CPU &&
		   (int)PROTO_CAP_PIDS == (int)ENGINE_CAP_PIDS &&
		   (int)PROTO_CAP_DISK == (int)ENGINE_CAP_DISK &&
		   (int)PROTO_CAP_OWN_UID == (int)ENGINE_CAP_OWN_UID &&
		   (int)PROTO_CAP_PERSISTENT == (int)ENGINE_CAP_PERSISTENT &&
		   (int)PROTO_CAP_WARM == (int)ENGINE_CAP_WARM,
	       "one set of bits");
_Static_assert(PROTO_IMAGE_MAX == ENGINE_NAME_MAX && PROTO_PATH_MAX == ENGINE_PATH_MAX &&
		   PROTO_LIST_MAX == ENGINE_FILES_MAX,
	       "one set of bounds");
_Static_assert(PROTO_POINTS_MAX == ENGINE_POINTS_MAX, "one set of bounds");
_Static_assert(PROTO_EGRESS_PORT == ENGINE_EGRESS_PORT, "one port");

struct native_engine *native_engine_of(struct engine *g)
{
	struct native_engine *n = (struct native_engine *)g;

	ASSERT(n->magic == CLIENT_MAGIC);
	return n;
}

/* ---- the monitor ---- */

static int on_monitor_message(const union proto_frame *f, const int *fds, size_t n, void *user)
{
	struct native_engine *g = user;
	struct native_sandbox *s;
	int own[PROTO_FDS_MAX] = {0};

	memcpy(own, fds, n * sizeof(*fds));
	switch (f->head.type) {
	case PROTO_MON_CREATED:
		return native_created(g, &f->created, own, n);
	case PROTO_MON_GONE:
		s = f->gone.slot < g->max ? g->slots[f->gone.slot] : NULL;
		if (!s)
			return -EPROTO;
		s->cpu_ns = f->gone.cpu_ns;
		native_gone(s);
		return 0;
	case PROTO_MON_FORGOTTEN:
		return native_forgotten(g, &f->forgotten);
	case PROTO_MON_USED:
		if (f->used.slot == PROTO_SLOT_ALL) {
			native_press_used(g, f->used.memory_bytes);
			return 0;
		}
		s = f->used.slot < g->max ? g->slots[f->used.slot] : NULL;
		if (s)
			native_used(s, &f->used);
		return 0;
	case PROTO_MON_WARMED:
		s = f->warmed.slot < g->max ? g->slots[f->warmed.slot] : NULL;
		if (s)
			native_clean_came(s, &f->warmed, own, n);
		else
			fd_close_many(own, n);
		return 0;
	default:
		fd_close_many(own, n);
		return -EPROTO;
	}
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
			native_gone(g->slots[i]);
}

static uint32_t native_caps(struct engine *base)
{
	return native_engine_of(base)->enforced | ENGINE_CAP_FREEZE | ENGINE_CAP_BRANCH;
}

/* ---- the end ---- */

/* The monitor ends when its channel does, and everything with it; its own end closes the other
 * side. */
static void wait_for_monitor(struct native_engine *g)
{
	int fd = chan_fd(g->monitor);
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
			return;
	}
}

static void native_close(struct engine *base)
{
	struct native_engine *g = native_engine_of(base);
	struct err e = ERR_INIT;

	g->closing = true;
	native_pool_close(g);
	native_idle_close(g);
	native_press_close(g);
	if (!g->dead)
		wait_for_monitor(g);
	g->dead = true;
	(void)err_set(&e, ERR_CANCELLED, 0, "the engine was closed");
	native_forget_abort(g, &e);
	for (uint32_t i = 0; i < g->max; i++)
		if (g->slots[i])
			native_cancel(g->slots[i], &e);
	while (g->orphans)
		native_cancel(g->orphans, &e);
	g->monitor = chan_free(g->monitor);
	g->loop = sd_event_unref(g->loop);
	free(g->slots);
	g->images = fd_close(g->images);
	g->magic = 0;
	free(g);
}

/* ---- the beginning ---- */

static const struct engine_ops native_ops = {
    .name = "native",
    .caps = native_caps,
    .prepare = native_prepare,
    .create = native_create,
    .destroy = native_destroy,
    .on_lost = native_on_lost,
    .take_egress = native_take_egress,
    .forget = native_forget,
    .run = native_run,
    .signal = native_signal,
    .open_file = native_open_file,
    .put_file = native_put_file,
    .commit_file = native_commit_file,
    .remove_file = native_remove_file,
    .list_files = native_list_files,
    .usage = native_usage,
    .freeze = native_freeze,
    .pool = native_pool_figures,
    .save_point = native_save_point,
    .restore_point = native_restore_point,
    .drop_point = native_drop_point,
    .close = native_close,
};

static int take_hello(int fd, struct native_engine *g, int *ret_images, struct err *e)
{
	union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, HELLO_WAIT_MS) <= 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, ETIMEDOUT, "the monitor does not answer");
	ssize_t n = fd_recv(fd, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);
	if (n < 0 || proto_check(&f, (size_t)n, n_fds, PROTO_PARTY_M, PROTO_PARTY_F) < 0 ||
	    f.head.type != PROTO_MON_HELLO || f.hello.version != PROTO_VERSION ||
	    f.hello.slots == 0 || f.hello.slots > PROTO_SLOTS_MAX) {
		fd_close_many(fds, n_fds);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the monitor ended at its start");
	}
	*ret_images = n_fds > 0 ? fds[0] : -1;
	g->enforced = f.hello.enforced;
	g->best_effort = f.hello.best_effort;
	g->max = f.hello.slots;
	return 0;
}

int native_open(sd_event *loop, const struct engine_config *config, struct engine **ret,
		struct err *e)
{
	_cleanup_fd_ int fd = config->monitor_fd;
	_cleanup_free_ struct native_engine *g = calloc(1, sizeof(*g));

	if (!g)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "engine");
	_cleanup_fd_ int images = -1;
	struct rlimit nofile;
	int r = take_hello(fd, g, &images, e);
	if (r < 0)
		return r;
	ASSERT(g->max > 0);
	_cleanup_free_ struct native_sandbox **slots =
	    calloc(g->max, sizeof(struct native_sandbox *));
	if (!slots)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "engine");
	r = chan_new(loop, TAKE_FD(fd), PROTO_PARTY_M, on_monitor_message, on_monitor_end, g,
		     &g->monitor);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "event loop");
	g->base.ops = &native_ops;
	g->magic = CLIENT_MAGIC;
	g->pool.min = g->pool.want = config->pool;
	g->pool.max = config->pool > 0 ? MAX(config->pool, config->pool_max) : 0;
	g->pool.idle_ns = config->idle_ns;
	g->idle.rest_ns = config->rest_ns;
	g->press.total_bytes = config->total_bytes;
	g->images = TAKE_FD(images);
	g->nofile = getrlimit(RLIMIT_NOFILE, &nofile) == 0 ? MIN(nofile.rlim_cur, (rlim_t)INT_MAX)
							   : NATIVE_DESCRIPTORS_LEFT;
	g->loop = sd_event_ref(loop);
	g->slots = TAKE_PTR(slots);
	*ret = &TAKE_PTR(g)->base;
	return 0;
}
