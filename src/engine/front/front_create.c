/* SPDX-License-Identifier: Apache-2.0 */
/* How a sandbox begins and ends in the front: its slot, and what is asked of the maker. */
#include "engine/front/front.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/parse.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>

/* Descriptors that are left to runs and connections when no sandbox can be made any more. */
#define DESCRIPTORS_LEFT 64

/* ---- answers of the monitor ---- */

int front_created(struct front_engine *g, const struct proto_mon_created *m, int *fds, size_t n)
{
	struct front_sandbox *s = m->slot < g->max ? g->slots[m->slot] : NULL;
	size_t at = 1;
	int oom = -1, peak = -1;

	if (!s || s->base.state != INSIDE_ASKED || (m->step == PROTO_STEP_NONE) != (n > 0))
		return -EPROTO;
	if (m->step != PROTO_STEP_NONE) {
		struct err e = ERR_INIT;
		inside_step_error(&e, m->step, m->errnum);
		g->slots[s->slot] = NULL;
		s->gone = true;
		front_pool_room(g);
		inside_refused(&s->base, &e);
		return 0;
	}
	if ((m->fds & PROTO_CREATED_OOM) && at < n) {
		oom = TAKE_FD(fds[at]);
		at++;
	}
	if ((m->fds & PROTO_CREATED_PEAK) && at < n) {
		peak = TAKE_FD(fds[at]);
		at++;
	}
	int cpu = (m->fds & PROTO_CREATED_CPU) && at < n ? TAKE_FD(fds[at]) : -1;
	if (m->fds & PROTO_CREATED_UNCOUNTED) {
		s->base.unheld = s->base.policy.enforced &
				 (ENGINE_CAP_MEMORY | ENGINE_CAP_CPU | ENGINE_CAP_PIDS);
		s->base.policy.enforced &= ~s->base.unheld;
		s->base.policy.best_effort |= s->base.unheld;
	}
	s->image_dev = m->image_dev;
	s->image_ino = m->image_ino;
	s->base.policy.image_id[0] = m->image_dev;
	s->base.policy.image_id[1] = m->image_ino;
	s->base.policy.image_id[2] = m->image_ctime_ns;
	inside_started(&s->base, TAKE_FD(fds[0]), &(struct inside_counters){oom, peak, cpu});
	return 0;
}

void front_gone(struct front_sandbox *s, uint64_t cpu_ns)
{
	struct front_engine *g = front_engine_of(s->base.engine);

	g->slots[s->slot] = NULL;
	s->gone = true;
	list_prepend(&g->orphans, &s->orphan);
	front_pool_room(g);
	inside_gone(&s->base, cpu_ns);
}

void front_release(struct engine_sandbox *base)
{
	struct front_sandbox *s = front_sandbox_of(base);
	struct front_engine *g = front_engine_of(base->engine);

	list_remove(&s->orphan);
	if (!s->gone)
		g->slots[s->slot] = NULL;
	free(s);
}

/* ---- creation ---- */

static int free_slot(struct front_engine *g, uint32_t *ret)
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

/* A new sandbox must leave DESCRIPTORS_LEFT descriptors for the runs of the others and for
 * connections. The kernel gives out the lowest free descriptor, so the one at that mark is free only
 * if fewer are in use. */
static int check_descriptors(const struct front_engine *g, struct err *e)
{
	int want = (int)g->nofile - MIN(DESCRIPTORS_LEFT, (int)g->nofile / 4);
	int fd = fcntl(channel_fd(g->monitor), F_DUPFD_CLOEXEC, want);

	if (fd >= 0)
		(void)close(fd);
	return fd == want ? 0 : err_set(e, ERR_TOO_MANY_FILES, EMFILE, "a sandbox cannot be made");
}

static int check_create(struct front_engine *g, const struct engine_create *c,
			struct proto_limits *l, struct err *e)
{
	const struct engine_limits *in = &c->limits;
	uint32_t missing = in->explicit_mask & ~g->base.enforced;

	if (g->dead)
		return front_refuse_dead(g, e);
	const size_t len = strnlen(c->image, sizeof(c->image));
	if (g->any_reference ? !parse_is_image_ref(c->image, len)
			     : !parse_is_image_name(c->image, len))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "image name");
	if (c->persist_id && front_check_stored(g, c, e) < 0)
		return -EINVAL;
	if (c->helper_of &&
	    (c->helper_of->engine != &g->base || inside_check_ready(c->helper_of, e) < 0))
		return err_set(e, ERR_SANDBOX_LOST, EPIPE, "the sandbox to help has ended");
	if (c->root && (c->persist_id || c->helper_of))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL,
			       "a sandbox that is stored has no root user");
	if (c->root && !(g->base.enforced & ENGINE_CAP_ROOT))
		return err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, 0,
			       "a sandbox with a root user needs the native engine, a server that "
			       "root started, and control groups");
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
	if (front_memory_check(g, e) < 0)
		return -ENOMEM;
	*l = (struct proto_limits){
	    .memory_bytes = in->memory_bytes,
	    .workspace_bytes = in->workspace_bytes,
	    .tmp_bytes = in->tmp_bytes,
	    .cpu_milli = in->cpu_milli,
	    .pids = in->pids,
	    .workspace_inodes = in->workspace_inodes,
	    .nofile = in->nofile,
	    .pids_most = in->pids_most > in->pids ? in->pids_most : 0,
	};
	if (!proto_limits_ok(l))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "a limit is outside its bounds");
	return 0;
}

/* FNV-1a. Two users with the same number share their turns. */
static uint32_t payer_of(const char *owner)
{
	uint32_t h = 2166136261u;

	for (; owner && *owner; owner++)
		h = (h ^ (unsigned char)*owner) * 16777619u;
	return h;
}

int front_create_new(struct front_engine *g, const struct engine_create *c, engine_create_fn cb,
		     void *user, struct err *e, struct front_sandbox **ret)
{
	struct proto_mon_create m = {.head = PROTO_HEAD(MON_CREATE, proto_mon_create)};
	unsigned level = 0;
	int r = check_create(g, c, &m.limits, e);

	if (r == 0 && engine_levels_find(&g->base.levels, c->level, &level, e) < 0) {
		/* What a caller names is looked at before: here, a stored sandbox has a level that
		 * the operator has removed. It gets no other one in secret. */
		e->code = ERR_LEVEL_UNAVAILABLE;
		r = -EINVAL;
	}
	if (r < 0)
		return r;
	if (free_slot(g, &m.slot) < 0)
		return err_set(e, ERR_MAX_SESSIONS, EAGAIN,
			       "all %u sandboxes of this engine are in use", g->max);
	struct front_sandbox *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "sandbox");
	inside_new(&g->base, &s->base, c, cb, user);
	list_init(&s->orphan);
	list_init(&s->pooled);
	s->slot = m.slot;
	s->base.policy.level = g->base.levels.at[level];
	if (!c->root)
		s->base.policy.enforced &= ~(uint32_t)ENGINE_CAP_ROOT;
	m.level = level;
	m.warm = c->warm;
	m.egress = c->egress;
	m.root = c->root;
	m.payer = payer_of(c->owner);
	m.helper_of = c->helper_of ? front_sandbox_of(c->helper_of)->slot + 1 : 0;
	if (c->persist_id)
		s->base.policy.enforced |= ENGINE_CAP_ON_DISK;
	if (c->persist_id && !(g->base.enforced & ENGINE_CAP_PERSISTENT)) {
		s->base.policy.enforced &= ~(uint32_t)ENGINE_CAP_DISK;
		s->base.policy.best_effort |= ENGINE_CAP_DISK;
	}
	(void)!text_copy(m.persist, sizeof(m.persist), c->persist_id ? c->persist_id : "");
	(void)!text_copy(m.image, sizeof(m.image), c->image);
	g->slots[m.slot] = s;
	r = channel_send(g->monitor, &m.head, NULL, 0);
	if (r < 0) {
		inside_free(&s->base);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "the monitor does not answer");
	}
	KILL_POINT(CREATE_SENT);
	*ret = s;
	return 0;
}

int front_create(struct engine *base, const struct engine_create *c, engine_create_fn cb,
		 void *user, struct err *e)
{
	struct front_engine *g = front_engine_of(base);

	if (!g->dead && front_pool_serves(g, c) && front_pool_take(g, c, cb, user))
		return 0;
	struct front_sandbox *s;
	int r = front_create_new(g, c, cb, user, e, &s);
	if (r == 0)
		front_pool_note(g, c);
	return r;
}
