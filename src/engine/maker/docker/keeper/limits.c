/* SPDX-License-Identifier: Apache-2.0 */
/* Other limits for a container that runs: one call of the daemon.
 *
 * The sandbox may end, and another sandbox may get its slot, before the daemon answers. So the call has its own
 * object, which finds the sandbox again by the name of its container. */
#include "base/text.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <string.h>

struct change {
	struct list node; /* of the keeper */
	struct keeper *keeper;
	struct proto_mon_limit wanted;
	char name[KEEPER_NAME];
};

static void change_free(struct change *c)
{
	if (!c)
		return;
	list_remove(&c->node);
	c->keeper->n_changes--;
	free(c);
}

void limits_close(struct keeper *k)
{
	struct change *c;

	while ((c = list_first(&k->changes, struct change, node)))
		change_free(c);
}

static void answer(struct keeper *k, uint32_t slot, int errnum, uint32_t what, uint64_t used)
{
	struct proto_mon_limited a = {.head = PROTO_HEAD(MON_LIMITED, proto_mon_limited),
				      .slot = slot,
				      .errnum = errnum,
				      .what = what,
				      .memory_bytes = used};

	keeper_send(k, &a.head, NULL, 0);
}

/* A daemon that does not know the call, or refuses it, cannot change the limits. */
static void on_updated(int status, const char *body, size_t len, void *user)
{
	struct change *c = user;
	struct keeper *k = c->keeper;
	const struct docker_sandbox *b = &k->sandboxes[c->wanted.slot];

	if (status != 200 && status != 201)
		(void)container_fault(PROTO_STEP_DAEMON, status, body, len); /* writes why */
	if (b->state == SANDBOX_UP && streq(b->name, c->name))
		answer(k, b->slot,
		       status == 200 || status == 201 ? 0
		       : status == 0                  ? EIO
						      : ENOTSUP,
		       0, 0);
	change_free(c);
}

static uint32_t changeable(const struct keeper *k)
{
	const uint32_t caps = k->about.enforced;

	return (caps & ENGINE_CAP_MEMORY ? PROTO_LIMIT_MEMORY : 0) |
	       (caps & ENGINE_CAP_CPU ? PROTO_LIMIT_CPU : 0) |
	       (caps & ENGINE_CAP_PIDS ? PROTO_LIMIT_PIDS : 0);
}

void docker_sandbox_limit(struct keeper *k, const struct proto_mon_limit *l)
{
	struct docker_sandbox *b = &k->sandboxes[l->slot];
	struct proto_limits limits = {
	    .memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .pids = l->pids};
	const uint32_t missing = l->what & ~changeable(k);
	const uint64_t used = counters_memory(b);
	char path[KEEPER_NAME + 32];

	if (b->state != SANDBOX_UP || missing) {
		answer(k, l->slot, missing ? ENOTSUP : ESRCH, missing & ~(missing - 1), 0);
		return;
	}
	if ((l->what & PROTO_LIMIT_MEMORY) && !proto_memory_fits(used, l->memory_bytes)) {
		answer(k, l->slot, EBUSY, PROTO_LIMIT_MEMORY, used);
		return;
	}
	/* The front has one change under way for each sandbox at most; whatever it sends, there are no more calls. */
	if (k->n_changes >= k->config->max_sandboxes) {
		answer(k, l->slot, EBUSY, 0, 0);
		return;
	}
	struct change *c = calloc(1, sizeof(*c));
	proto_leave_out_walls(&limits);
	if (c) {
		*c = (struct change){.keeper = k, .wanted = *l};
		list_append(&k->changes, &c->node);
		k->n_changes++;
		(void)!text_copy(c->name, sizeof(c->name), b->name);
		c->wanted.memory_bytes = limits.memory_bytes;
		c->wanted.pids = limits.pids;
	}
	_cleanup_free_ char *json = c ? container_update_json(&c->wanted) : NULL;
	(void)snprintf(path, sizeof(path), "/containers/%s/update", b->name);
	if (json && daemon_start(k->daemon, "POST", path, json, CALL_S, on_updated, c) == 0)
		return;
	change_free(c);
	answer(k, l->slot, ENOMEM, 0, 0);
}
