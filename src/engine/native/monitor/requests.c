/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the messages of the front, checks every field before anything is done, and dispatches them
 * by one table. The front has made the same checks with better error texts. So a message that fails
 * one comes from a broken front, and it ends the connection, the monitor and every sandbox. */
#include "base/fdio.h"
#include "base/parse.h"
#include "engine/native/monitor/monitor.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define FRAMES_PER_TURN 64
#define LEFT_PART       64 /* 1/64 of the memory of all sandboxes is always theirs */

/* A key becomes a part of a path in the state folder: [a-z0-9-]{1,64}, and the first character is no
 * dash, so that no program takes the key for an option. */
static bool is_key(const char key[PROTO_PERSIST_MAX])
{
	size_t len = strnlen(key, PROTO_PERSIST_MAX);

	if (len == 0 || len == PROTO_PERSIST_MAX || key[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!(key[i] >= 'a' && key[i] <= 'z') && !(key[i] >= '0' && key[i] <= '9') &&
		    key[i] != '-')
			return false;
	return true;
}

/* ---- checks: 0 or -EINVAL ---- */

static int check_create(const struct monitor *m, const union proto_frame *f)
{
	const struct proto_mon_create *c = &f->create;
	size_t len = strnlen(c->image, sizeof(c->image));

	if (c->warm > 1 || len == sizeof(c->image) || !parse_is_image_name(c->image, len))
		return -EINVAL;
	if (c->level != 0 || c->egress > 1 || c->helper_of > m->config->max_sandboxes ||
	    c->helper_of == c->slot + 1)
		return -EINVAL;
	if (c->persist[0] && (!is_key(c->persist) || c->helper_of))
		return -EINVAL;
	return proto_limits_ok(&c->limits) ? 0 : -EINVAL;
}

static int check_destroy(const struct monitor *m UNUSED, const union proto_frame *f)
{
	return f->slot.flags & ~(uint32_t)(PROTO_SLOT_UNUSED | PROTO_SLOT_COUNT) ? -EINVAL : 0;
}

static int check_warm(const struct monitor *m UNUSED, const union proto_frame *f)
{
	return f->slot.flags ? -EINVAL : 0;
}

static int check_usage(const struct monitor *m, const union proto_frame *f)
{
	return f->slot.slot < m->config->max_sandboxes || f->slot.slot == PROTO_SLOT_ALL ? 0
											 : -EINVAL;
}

static int check_limit(const struct monitor *m UNUSED, const union proto_frame *f)
{
	return proto_limit_ok(&f->limit) ? 0 : -EINVAL;
}

static int check_elsewhere(const struct monitor *m, const union proto_frame *f)
{
	return m->config->total_bytes > 0 && f->elsewhere.bytes <= m->config->total_bytes ? 0
											  : -EINVAL;
}

static int check_forget(const struct monitor *m UNUSED, const union proto_frame *f)
{
	return is_key(f->forget.persist) ? 0 : -EINVAL;
}

/* ---- the table ---- */

static void on_create(struct monitor *m, const union proto_frame *f)
{
	box_create(m, &f->create);
}

static void on_destroy(struct monitor *m, const union proto_frame *f)
{
	box_destroy(m, f->slot.slot, f->slot.flags);
}

static void on_warm(struct monitor *m, const union proto_frame *f)
{
	box_warm(m, f->slot.slot);
}

static void on_usage(struct monitor *m, const union proto_frame *f)
{
	box_usage(m, f->slot.slot);
}

static void on_limit(struct monitor *m, const union proto_frame *f)
{
	box_limit(m, &f->limit);
}

static void on_elsewhere(struct monitor *m, const union proto_frame *f)
{
	const uint64_t total = m->config->total_bytes;

	/* v1 refuses a limit below what is in use; the front says it again at its next look. */
	(void)!m->cgroup.ops->limit_all(&m->cgroup,
					MAX(total - f->elsewhere.bytes, total / LEFT_PART));
}

static void on_forget(struct monitor *m, const union proto_frame *f)
{
	box_forget(m, &f->forget);
}

#define ANY_STATE ((1U << BOX_STATE_MAX_) - 1)

/* A request may cross the end of a sandbox on the wire. So MON_DESTROY, MON_WARM and MON_LIMIT may name a box
 * in any state, and the functions of lifecycle.c do what the state allows. */
static const struct request {
	unsigned states; /* bit N: the box of the slot may be in state N; 0 = CHECK looks at it */
	int (*check)(const struct monitor *m, const union proto_frame *f);
	void (*serve)(struct monitor *m, const union proto_frame *f); /* NULL = no request */
} requests[PROTO_TYPE_MAX_] = {
    [PROTO_MON_CREATE] = {1U << BOX_FREE, check_create, on_create},
    [PROTO_MON_DESTROY] = {ANY_STATE, check_destroy, on_destroy},
    [PROTO_MON_WARM] = {ANY_STATE, check_warm, on_warm},
    [PROTO_MON_USAGE] = {0, check_usage, on_usage},
    [PROTO_MON_LIMIT] = {ANY_STATE, check_limit, on_limit},
    [PROTO_MON_ELSEWHERE] = {0, check_elsewhere, on_elsewhere},
    [PROTO_MON_FORGET] = {0, check_forget, on_forget},
};

_Static_assert(offsetof(struct proto_mon_create, slot) == offsetof(struct proto_mon_slot, slot) &&
		   offsetof(struct proto_mon_limit, slot) == offsetof(struct proto_mon_slot, slot),
	       "requests_check() reads the slot of all of them");

int requests_check(const struct monitor *m, const union proto_frame *f)
{
	const struct request *r = &requests[f->head.type];
	const uint32_t slot = f->slot.slot;

	if (!r->serve)
		return -EPROTO;
	if (r->states != 0 &&
	    (slot >= m->config->max_sandboxes || !(r->states >> m->boxes[slot].state & 1)))
		return -EINVAL;
	return r->check(m, f);
}

/* One message; 0 = there may be more, -EAGAIN = none is there, else the connection has ended. */
static int take_message(struct monitor *m)
{
	union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(m->channel, &f, sizeof(f), fds, &n_fds, MSG_DONTWAIT);

	if (n < 0)
		return (int)n;
	fd_close_many(fds, n_fds);
	if (n == 0)
		return -EPIPE;
	if (proto_check(&f, (size_t)n, n_fds, PROTO_PARTY_F, PROTO_PARTY_M) < 0)
		return -EPROTO;
	int r = requests_check(m, &f);
	if (r == 0)
		requests[f.head.type].serve(m, &f);
	return r;
}

int requests_take(struct monitor *m)
{
	for (int i = 0; i < FRAMES_PER_TURN; i++) {
		int r = take_message(m);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
	}
	return 0;
}
