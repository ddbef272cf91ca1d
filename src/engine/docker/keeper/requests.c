/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the messages of the front and checks every field before anything is done, as the monitor of the
 * native engine does. A message that fails a check comes from a broken front: it ends the connection,
 * the keeper and every sandbox. */
#include "base/fdio.h"
#include "base/parse.h"
#include "engine/docker/keeper/keeper.h"

#include <string.h>
#include <sys/socket.h>

#define FRAMES_PER_TURN 64

/* A key becomes a part of a path in the state folder. */
static bool is_key(const char key[PROTO_PERSIST_MAX])
{
	const size_t len = strnlen(key, PROTO_PERSIST_MAX);

	return len > 0 && len < PROTO_PERSIST_MAX && key[0] != '-' &&
	       strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static int on_create(struct keeper *k, const union proto_frame *f)
{
	const struct proto_mon_create *c = &f->create;
	const size_t len = strnlen(c->image, sizeof(c->image));

	if (c->slot >= k->config->max_sandboxes || k->cells[c->slot].state != CELL_FREE ||
	    c->warm > 1 || c->egress > 1 || c->helper_of > k->config->max_sandboxes ||
	    c->helper_of == c->slot + 1 || len == sizeof(c->image) ||
	    !parse_is_image_ref(c->image, len) || !proto_limits_ok(&c->limits) ||
	    c->level >= k->config->levels.n || k->about.level[c->level] != DOCKER_RUNTIME_GOOD)
		return -EINVAL;
	if (c->persist[0] && (!is_key(c->persist) || c->helper_of))
		return -EINVAL;
	cell_create(k, c);
	return 0;
}

static int on_destroy(struct keeper *k, const union proto_frame *f)
{
	if (f->slot.slot >= k->config->max_sandboxes)
		return -EINVAL;
	cell_destroy(k, f->slot.slot);
	return 0;
}

static int on_usage(struct keeper *k, const union proto_frame *f)
{
	if (f->slot.slot >= k->config->max_sandboxes && f->slot.slot != PROTO_SLOT_ALL)
		return -EINVAL;
	cell_usage(k, f->slot.slot);
	return 0;
}

static int on_warm(struct keeper *k, const union proto_frame *f)
{
	if (f->slot.slot >= k->config->max_sandboxes)
		return -EINVAL;
	cell_warm(k, f->slot.slot);
	return 0;
}

static int on_limit(struct keeper *k, const union proto_frame *f)
{
	if (f->limit.slot >= k->config->max_sandboxes || !proto_limit_ok(&f->limit))
		return -EINVAL;
	cell_limit(k, &f->limit);
	return 0;
}

static int on_forget(struct keeper *k, const union proto_frame *f)
{
	struct proto_mon_forgotten m = {.head = PROTO_HEAD(MON_FORGOTTEN, proto_mon_forgotten),
					.seq = f->forget.seq};

	if (!is_key(f->forget.persist))
		return -EINVAL;
	m.errnum = -keep_forget(k, f->forget.persist);
	keeper_send(k, &m.head, NULL, 0);
	return 0;
}

static int (*const requests[PROTO_TYPE_MAX_])(struct keeper *k, const union proto_frame *f) = {
    [PROTO_MON_CREATE] = on_create, [PROTO_MON_DESTROY] = on_destroy, [PROTO_MON_USAGE] = on_usage,
    [PROTO_MON_WARM] = on_warm,     [PROTO_MON_FORGET] = on_forget,   [PROTO_MON_LIMIT] = on_limit,
};

int keeper_take(struct keeper *k)
{
	static union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds;

	for (int i = 0; i < FRAMES_PER_TURN; i++) {
		n_fds = 0;
		ssize_t n = fd_recv(k->channel, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);
		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
		fd_close_many(fds, n_fds);
		if (n == 0)
			return -EPIPE;
		if (proto_check(&f, (size_t)n, n_fds, PROTO_PARTY_F, PROTO_PARTY_M) < 0 ||
		    !requests[f.head.type])
			return -EPROTO;
		int r = requests[f.head.type](k, &f);
		if (r < 0)
			return r;
	}
	return 0;
}
