/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine as the front sees it: the engine object and the life of sandboxes. */
#include "engine/native/client.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/native/native.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define CLOSE_WAIT_MS    2000
#define HELLO_WAIT_MS    5000
#define DESCRIPTORS_LEFT 64

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

static const char *const step_texts[PROTO_STEP_MAX_] = {
#define S(name, what) [PROTO_STEP_##name] = what,
#include "engine/native/steps.tbl.h"
#undef S
};

static struct native_engine *engine_of(struct engine *g)
{
	struct native_engine *n = (struct native_engine *)g;

	ASSERT(n->magic == CLIENT_MAGIC);
	return n;
}

static struct native_sandbox *sandbox_of(struct engine_sandbox *s)
{
	return (struct native_sandbox *)s;
}

/* ---- the end of a sandbox ---- */

static void sandbox_free(struct native_sandbox *s)
{
	struct native_sandbox **at = &s->g->orphans;

	while (*at && *at != s)
		at = &(*at)->next_orphan;
	if (*at)
		*at = s->next_orphan;
	if (!s->gone)
		s->g->slots[s->slot] = NULL;
	s->init = chan_free(s->init);
	s->oom = fd_close(s->oom);
	s->peak = fd_close(s->peak);
	s->egress = fd_close(s->egress);
	s->later = sd_event_source_disable_unref(s->later);
	s->patience = sd_event_source_disable_unref(s->patience);
	s->claim = sd_event_source_disable_unref(s->claim);
	native_idle_note(s); /* whatever its state: it is idle no more */
	free(s);
}

static void ask_destroy(const struct native_sandbox *s)
{
	struct proto_mon_slot d = {.head = PROTO_HEAD(MON_DESTROY, proto_mon_slot),
				   .slot = s->slot,
				   .flags = s->pooled ? PROTO_SLOT_UNUSED : 0};

	if (!s->gone && !s->g->dead)
		(void)!chan_send(s->g->monitor, &d.head, NULL,
				 0); /* a channel that ended says so itself */
}

/* Tells whoever waits for S that it is over. */
static void tell_waiters(struct native_sandbox *s, enum engine_end end, const struct err *e)
{
	native_run_abort(s, end, NULL);
	native_files_abort(s, e);
	native_freeze_abort(s, e);
	native_points_abort(s, e);
}

static void fail_create(struct native_sandbox *s, const struct err *e)
{
	engine_create_fn cb = s->create_cb;

	s->create_cb = NULL;
	s->state = NATIVE_LOST;
	s->init = chan_free(s->init);
	if (cb)
		cb(NULL, NULL, e, s->create_user);
}

void native_lose(struct native_sandbox *s, const char *why)
{
	struct err e = ERR_INIT;

	s->init = chan_free(s->init);
	ask_destroy(s);
	(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox is gone: %s", why);
	if (s->state == NATIVE_CREATING) {
		fail_create(s, &e);
	} else if (s->state == NATIVE_READY) {
		s->state = NATIVE_LOST;
		tell_waiters(s, ENGINE_END_LOST, &e);
		if (s->lost_cb && s->state == NATIVE_LOST)
			s->lost_cb(&s->base, why, s->lost_user);
	}
}

static void finish_destroy(struct native_sandbox *s)
{
	engine_done_fn cb = s->destroy_cb;
	void *user = s->destroy_user;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the sandbox was closed");
	tell_waiters(s, ENGINE_END_KILLED, &e);
	sandbox_free(s);
	if (cb)
		cb(NULL, user);
}

/* The slot is free and nothing of S is left. */
static void sandbox_is_gone(struct native_sandbox *s)
{
	s->g->slots[s->slot] = NULL;
	s->gone = true;
	s->next_orphan = s->g->orphans;
	s->g->orphans = s;
	native_pool_room(s->g);
	switch (s->state) {
	case NATIVE_ENDING:
		finish_destroy(s);
		break;
	case NATIVE_CREATING:
	case NATIVE_READY:
		native_lose(s, "it ended on its own");
		break;
	case NATIVE_LOST:
	default:
		break;
	}
}

/* A failed creation leaves an object that nobody owns: it goes with its slot. */
static void sandbox_gone_message(struct native_sandbox *s)
{
	bool unowned = s->state == NATIVE_CREATING || (s->state == NATIVE_LOST && !s->created);

	KILL_POINT(GONE_TAKEN);
	sandbox_is_gone(s);
	if (unowned)
		sandbox_free(s);
}

static int on_later(sd_event_source *source UNUSED, void *user)
{
	finish_destroy(user);
	return 0;
}

static void native_destroy(struct engine_sandbox *base, engine_done_fn cb, void *user)
{
	struct native_sandbox *s = sandbox_of(base);

	ASSERT(s->state != NATIVE_ENDING && s->state != NATIVE_CREATING);
	s->destroy_cb = cb;
	s->destroy_user = user;
	s->state = NATIVE_ENDING;
	native_idle_note(s);
	if (!s->gone && !s->g->dead) {
		ask_destroy(s);
		KILL_POINT(DESTROY_SENT);
		return;
	}
	if (sd_event_add_defer(s->g->loop, &s->later, on_later, s) < 0)
		finish_destroy(
		    s); /* no memory for waiting: the promise about order yields to not leaking */
}

static void native_on_lost(struct engine_sandbox *base, engine_lost_fn cb, void *user)
{
	struct native_sandbox *s = sandbox_of(base);

	s->lost_cb = cb;
	s->lost_user = user;
}

/* ---- creation ---- */

static void maybe_created(struct native_sandbox *s)
{
	engine_create_fn cb = s->create_cb;

	if (!s->created || !s->ready || s->state != NATIVE_CREATING)
		return;
	s->state = NATIVE_READY;
	s->create_cb = NULL;
	cb(&s->base, &s->policy, NULL, s->create_user);
	native_idle_note(s);
	native_pool_room(s->g);
}

/* What an errno says more precisely than "unavailable". */
static enum err_code step_code(uint32_t step, int errnum)
{
	switch (errnum) {
	case ENOENT:
		return step == PROTO_STEP_IMAGE ? ERR_IMAGE_MISSING : ERR_ENGINE_UNAVAILABLE;
	case EMFILE:
	case ENFILE:
		return ERR_TOO_MANY_FILES;
	case ENOSPC:
	case EDQUOT:
		return ERR_STORE_FULL;
	case EROFS:
		return ERR_STORE_READ_ONLY;
	case EBUSY:
		return step == PROTO_STEP_STORED ? ERR_SANDBOX_IN_USE : ERR_ENGINE_UNAVAILABLE;
	case ESRCH:
		return step == PROTO_STEP_HELPER ? ERR_SANDBOX_LOST : ERR_ENGINE_UNAVAILABLE;
	case ENOMEM:
		return ERR_OUT_OF_MEMORY;
	default:
		return ERR_ENGINE_UNAVAILABLE;
	}
}

static void step_error(struct err *e, uint32_t step, int errnum)
{
	const char *what =
	    step < PROTO_STEP_MAX_ && step_texts[step] ? step_texts[step] : "an unknown step";
	enum err_code code = step_code(step, errnum);

	if (code == ERR_IMAGE_MISSING)
		(void)err_set(e, code, 0, "the image is not there");
	else if (code == ERR_SANDBOX_IN_USE)
		(void)err_set(e, code, 0, "another engine has the sandbox open");
	else if (code == ERR_STORE_FULL)
		(void)err_set(e, code, errnum, "the disk of this machine is full");
	else if (step == PROTO_STEP_STORED && errnum == ENOPKG)
		(void)err_set(e, code, 0, "a stored workspace needs mke2fs (package e2fsprogs)");
	else
		(void)err_set(e, code, errnum > 0 ? errnum : EIO, "a sandbox cannot be made (%s)",
			      what);
}

/* Whether FD is what a sandbox with egress must give: a listening TCP socket. Whatever comes in is
 * distrusted by whoever accepts it. */
static bool is_listener(int fd)
{
	int domain = 0;
	int type = 0;
	int listening = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening &&
	       fd_set_nonblock(fd, true) == 0;
}

static int on_ready(struct native_sandbox *s, int *fds, size_t n)
{
	if (s->ready || n != s->wants_egress || (n > 0 && !is_listener(fds[0]))) {
		fd_close_many(fds, n);
		return -EPROTO;
	}
	if (n > 0)
		s->egress = TAKE_FD(fds[0]);
	s->ready = true;
	KILL_POINT(READY_TAKEN);
	maybe_created(s);
	return 0;
}

static int native_take_egress(struct engine_sandbox *base)
{
	return TAKE_FD(sandbox_of(base)->egress);
}

static int on_init_message(const union proto_frame *f, const int *fds, size_t n, void *user)
{
	struct native_sandbox *s = user;
	int own[PROTO_FDS_MAX] = {0};

	memcpy(own, fds, n * sizeof(*fds));
	switch (f->head.type) {
	case PROTO_INIT_READY:
		return on_ready(s, own, n);
	case PROTO_INIT_FAILED: {
		struct err e = ERR_INIT;
		if (s->ready || s->state != NATIVE_CREATING)
			return -EPROTO;
		step_error(&e, f->failed.step, f->failed.errnum);
		ask_destroy(s);
		s->created = false; /* nobody will own it */
		fail_create(s, &e);
		return 0;
	}
	case PROTO_INIT_ENDED:
		return native_run_ended(s, &f->ended);
	case PROTO_INIT_FILED:
		return native_filed(s, &f->filed, own, n);
	case PROTO_INIT_COLD:
		native_clean_lost(s, f->cold.awaited != 0);
		return 0;
	case PROTO_INIT_POINTED:
		return native_pointed(s, &f->pointed);
	default:
		fd_close_many(own, n);
		return -EPROTO;
	}
}

static void on_init_end(int error, void *user)
{
	struct native_sandbox *s = user;

	if (s->state == NATIVE_CREATING)
		s->created = false;
	if (s->state == NATIVE_ENDING)
		return; /* the monitor says when it is gone */
	native_lose(s, error == -EPIPE ? "its first process ended" : "it broke the protocol");
}

static int on_created(struct native_engine *g, const struct proto_mon_created *m, int *fds,
		      size_t n)
{
	struct native_sandbox *s = m->slot < g->max ? g->slots[m->slot] : NULL;
	size_t at = 1;

	if (!s || s->created || s->init || (m->step == PROTO_STEP_NONE) != (n > 0)) {
		fd_close_many(fds, n);
		return -EPROTO;
	}
	if (m->step != PROTO_STEP_NONE) {
		struct err e = ERR_INIT;
		step_error(&e, m->step, m->errnum);
		g->slots[s->slot] = NULL;
		s->gone = true;
		native_pool_room(g);
		fail_create(s, &e);
		sandbox_free(s);
		return 0;
	}
	if ((m->fds & PROTO_CREATED_OOM) && at < n) {
		s->oom = TAKE_FD(fds[at]);
		at++;
	}
	if ((m->fds & PROTO_CREATED_PEAK) && at < n)
		s->peak = TAKE_FD(fds[at]);
	s->created = true;
	s->image_dev = m->image_dev;
	s->image_ino = m->image_ino;
	s->policy.image_id[0] = m->image_dev;
	s->policy.image_id[1] = m->image_ino;
	s->policy.image_id[2] = m->image_ctime_ns;
	KILL_POINT(CREATED_TAKEN);
	int r = chan_new(g->loop, TAKE_FD(fds[0]), PROTO_PARTY_I, on_init_message, on_init_end, s,
			 &s->init);
	fd_close_many(fds, n);
	if (r < 0) {
		s->created = false;
		native_lose(s, strerror(-r));
	}
	return 0;
}

static int free_slot(struct native_engine *g, uint32_t *ret)
{
	for (uint32_t i = 0; i < g->max; i++) {
		uint32_t slot = (g->next_slot + i) % g->max;
		if (g->slots[slot])
			continue;
		g->next_slot = (slot + 1) % g->max;
		*ret = slot;
		return 0;
	}
	return -EAGAIN;
}

/* New sandboxes leave descriptors to the runs of those that there are, and to connections. They are
 * given out from below: when the one at the top of the rest is free, all above are. */
static int check_descriptors(const struct native_engine *g, struct err *e)
{
	int want = (int)g->nofile - MIN(DESCRIPTORS_LEFT, (int)g->nofile / 4);
	int fd = fcntl(chan_fd(g->monitor), F_DUPFD_CLOEXEC, want);

	if (fd >= 0)
		(void)close(fd);
	return fd == want ? 0 : err_set(e, ERR_TOO_MANY_FILES, EMFILE, "a sandbox cannot be made");
}

static int check_create(struct native_engine *g, const struct engine_create *c,
			struct proto_limits *l, struct err *e)
{
	const struct engine_limits *in = &c->limits;
	uint32_t missing = in->explicit_mask & ~g->enforced;

	if (g->dead)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			       "the monitor has ended; start the server again");
	if (!parse_is_image_name(c->image, strnlen(c->image, sizeof(c->image))))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "image name");
	if (c->persist_id && native_check_stored(g, c, e) < 0)
		return -EINVAL;
	if (c->helper_of && (c->helper_of->engine != &g->base ||
			     native_check_ready(sandbox_of(c->helper_of), e) < 0))
		return err_set(e, ERR_SANDBOX_LOST, EPIPE, "the sandbox to help has ended");
	if (missing)
		return err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, 0,
			       "this host cannot enforce the limit of %s",
			       missing & ENGINE_CAP_MEMORY ? "memory"
			       : missing & ENGINE_CAP_CPU  ? "CPU time"
			       : missing & ENGINE_CAP_PIDS ? "processes"
			       : missing & ENGINE_CAP_DISK ? "the workspace"
							   : "this setting");
	if (check_descriptors(g, e) < 0)
		return -EMFILE;
	if (native_press_check(g, e) < 0)
		return -ENOMEM;
	*l = (struct proto_limits){
	    .memory_bytes = in->memory_bytes,
	    .workspace_bytes = in->workspace_bytes,
	    .tmp_bytes = in->tmp_bytes,
	    .cpu_milli = in->cpu_milli,
	    .pids = in->pids,
	    .workspace_inodes = in->workspace_inodes,
	    .nofile = in->nofile,
	};
	if (!proto_limits_ok(l))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "a limit is outside its bounds");
	return 0;
}

int native_create_new(struct native_engine *g, const struct engine_create *c, engine_create_fn cb,
		      void *user, struct err *e, struct native_sandbox **ret)
{
	struct proto_mon_create m = {.head = PROTO_HEAD(MON_CREATE, proto_mon_create)};
	int r = check_create(g, c, &m.limits, e);

	if (r < 0)
		return r;
	if (free_slot(g, &m.slot) < 0)
		return err_set(e, ERR_MAX_SESSIONS, EAGAIN,
			       "all %u sandboxes of this engine are in use", g->max);
	struct native_sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "sandbox");
	s->base.engine = &g->base;
	s->g = g;
	s->slot = m.slot;
	s->warm = c->warm;
	m.warm = c->warm;
	m.egress = c->egress;
	m.helper_of = c->helper_of ? sandbox_of(c->helper_of)->slot + 1 : 0;
	s->clean = c->warm ? NATIVE_CLEAN_THERE : NATIVE_CLEAN_NONE;
	s->state = NATIVE_CREATING;
	s->oom = s->peak = s->egress = -1;
	s->wants_egress = c->egress;
	s->create_cb = cb;
	s->create_user = user;
	s->ops_last = &s->ops;
	s->usages_last = &s->usages;
	s->policy = (struct engine_policy){
	    .limits = c->limits, .enforced = g->enforced, .best_effort = g->best_effort};
	if (c->persist_id && !(g->enforced & ENGINE_CAP_PERSISTENT)) {
		s->policy.enforced &= ~(uint32_t)ENGINE_CAP_DISK;
		s->policy.best_effort |= ENGINE_CAP_DISK;
	}
	(void)!text_copy(m.persist, sizeof(m.persist), c->persist_id ? c->persist_id : "");
	(void)!text_copy(m.image, sizeof(m.image), c->image);
	g->slots[m.slot] = s;
	r = chan_send(g->monitor, &m.head, NULL, 0);
	if (r < 0) {
		sandbox_free(s);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "the monitor does not answer");
	}
	KILL_POINT(CREATE_SENT);
	*ret = s;
	return 0;
}

static int native_create(struct engine *base, const struct engine_create *c, engine_create_fn cb,
			 void *user, struct err *e)
{
	struct native_engine *g = engine_of(base);

	if (!g->dead && native_pool_serves(c) && native_pool_take(g, c, cb, user))
		return 0;
	struct native_sandbox *s;
	int r = native_create_new(g, c, cb, user, e, &s);
	if (r == 0)
		native_pool_note(g, c);
	return r;
}

static void native_prepare(struct engine *base, const struct engine_create *c)
{
	native_pool_note(engine_of(base), c);
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
		return on_created(g, &f->created, own, n);
	case PROTO_MON_GONE:
		s = f->slot.slot < g->max ? g->slots[f->slot.slot] : NULL;
		if (!s)
			return -EPROTO;
		sandbox_gone_message(s);
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
			sandbox_gone_message(g->slots[i]);
}

static uint32_t native_caps(struct engine *base)
{
	return engine_of(base)->enforced | ENGINE_CAP_FREEZE | ENGINE_CAP_BRANCH;
}

/* ---- end of the engine ---- */

static void cancel(struct native_sandbox *s, const struct err *e)
{
	native_run_abort(s, ENGINE_END_KILLED, e);
	native_files_abort(s, e);
	native_freeze_abort(s, e);
	native_points_abort(s, e);
	if (s->create_cb)
		fail_create(s, e);
	if (s->destroy_cb)
		s->destroy_cb(e, s->destroy_user);
	s->destroy_cb = NULL;
	sandbox_free(s);
}

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
	struct native_engine *g = engine_of(base);
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
			cancel(g->slots[i], &e);
	while (g->orphans)
		cancel(g->orphans, &e);
	g->monitor = chan_free(g->monitor);
	g->loop = sd_event_unref(g->loop);
	free(g->slots);
	g->images = fd_close(g->images);
	g->magic = 0;
	free(g);
}

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
							   : DESCRIPTORS_LEFT;
	g->loop = sd_event_ref(loop);
	g->slots = TAKE_PTR(slots);
	*ret = &TAKE_PTR(g)->base;
	return 0;
}
