/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a sandbox, seen from the front: what is asked of the monitor, and the two
 * answers that make it ready. */
#include "engine/native/front/front.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/parse.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

static const char *const step_texts[PROTO_STEP_MAX_] = {
#define S(name, what) [PROTO_STEP_##name] = what,
#include "engine/inside/steps.tbl.h"
#undef S
};

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

int native_take_egress(struct engine_sandbox *base)
{
	return TAKE_FD(native_sandbox_of(base)->egress);
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
		native_ask_destroy(s);
		s->created = false; /* nobody will own it */
		native_fail_create(s, &e);
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

int native_created(struct native_engine *g, const struct proto_mon_created *m, int *fds, size_t n)
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
		native_fail_create(s, &e);
		native_sandbox_free(s);
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
	int want = (int)g->nofile - MIN(NATIVE_DESCRIPTORS_LEFT, (int)g->nofile / 4);
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
			     native_check_ready(native_sandbox_of(c->helper_of), e) < 0))
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
	m.helper_of = c->helper_of ? native_sandbox_of(c->helper_of)->slot + 1 : 0;
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
		native_sandbox_free(s);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "the monitor does not answer");
	}
	KILL_POINT(CREATE_SENT);
	*ret = s;
	return 0;
}

int native_create(struct engine *base, const struct engine_create *c, engine_create_fn cb,
		  void *user, struct err *e)
{
	struct native_engine *g = native_engine_of(base);

	if (!g->dead && native_pool_serves(c) && native_pool_take(g, c, cb, user))
		return 0;
	struct native_sandbox *s;
	int r = native_create_new(g, c, cb, user, e, &s);
	if (r == 0)
		native_pool_note(g, c);
	return r;
}

void native_prepare(struct engine *base, const struct engine_create *c)
{
	native_pool_note(native_engine_of(base), c);
}
