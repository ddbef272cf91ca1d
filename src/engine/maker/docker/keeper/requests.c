/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the messages of the front, checks every field before anything is done, and dispatches them by the
 * table of messages (engine/maker/common/requests.h). A message that fails a check comes from a broken front: it
 * ends the connection, the keeper and every sandbox. */
#include "engine/maker/common/requests.h"

#include "base/parse.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <string.h>

#define FRAMES_PER_TURN 64

static int check(const struct keeper *k, const union proto_frame *f)
{
	const struct proto_mon_create *c = &f->create;
	const int r = request_check(f, k->config->max_sandboxes);

	if (r < 0 || f->head.type != PROTO_MON_CREATE)
		return r;
	return k->sandboxes[c->slot].state == SANDBOX_FREE &&
		       parse_is_image_ref(c->image, strnlen(c->image, sizeof(c->image))) &&
		       c->level < k->config->levels.n &&
		       k->about.level[c->level] == DOCKER_RUNTIME_GOOD
		   ? 0
		   : -EINVAL;
}

static void serve_create(struct keeper *k, const union proto_frame *f)
{
	docker_sandbox_create(k, &f->create);
}

static void serve_destroy(struct keeper *k, const union proto_frame *f)
{
	docker_sandbox_destroy(k, f->slot.slot);
}

static void serve_usage(struct keeper *k, const union proto_frame *f)
{
	docker_sandbox_usage(k, f->slot.slot);
}

static void serve_limit(struct keeper *k, const union proto_frame *f)
{
	docker_sandbox_limit(k, &f->limit);
}

static void serve_forget(struct keeper *k, const union proto_frame *f)
{
	struct proto_mon_forgotten m = {.head = PROTO_HEAD(MON_FORGOTTEN, proto_mon_forgotten),
					.seq = f->forget.seq};

	m.errnum = -keep_forget(k, f->forget.persist);
	keeper_send(k, &m.head, NULL, 0);
}

#define BOTH(f)    serve_##f
#define MONITOR(f) NULL
#define FRONT(f)   NULL
#define OTHER      NULL
static void (*const requests[PROTO_TYPE_MAX_])(struct keeper *k, const union proto_frame *f) = {
#define M(name, from, to, type, fds, served, what) [PROTO_##name] = served,
#include "engine/protocol/messages.tbl.h"
#undef M
};

int keeper_take(struct keeper *k)
{
	static union proto_frame f;

	for (int i = 0; i < FRAMES_PER_TURN; i++) {
		int r = request_receive(k->channel, &f);
		r = r < 0 ? r : check(k, &f);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		if (requests[f.head.type]) {
			requests[f.head.type](k, &f);
			continue;
		}
		const struct proto_mon_unsupported no = request_unsupported(&f);
		keeper_send(k, &no.head, NULL, 0);
	}
	return 0;
}
