/* SPDX-License-Identifier: Apache-2.0 */
/* What the front asks for: one row a message. Whatever is not a request of the table, or fails a
 * check, ends the connection. */
#include "base/fdio.h"
#include "engine/native/monitor/monitor.h"

#include <sys/socket.h>

#define FRAMES_PER_TURN 64

static int on_create(struct monitor *m, const union proto_frame *f)
{
	int r = plan_check_create(m, &f->create);

	if (r == 0)
		sandbox_create(m, &f->create);
	return r;
}

static int on_destroy(struct monitor *m, const union proto_frame *f)
{
	if (f->slot.slot >= m->config->max_sandboxes ||
	    f->slot.flags > (PROTO_SLOT_UNUSED | PROTO_SLOT_COUNT))
		return -EINVAL;
	sandbox_destroy(m, f->slot.slot, f->slot.flags);
	return 0;
}

static int on_warm(struct monitor *m, const union proto_frame *f)
{
	if (f->slot.slot >= m->config->max_sandboxes || f->slot.flags != 0)
		return -EINVAL;
	sandbox_warm(m, f->slot.slot);
	return 0;
}

static int on_usage(struct monitor *m, const union proto_frame *f)
{
	if (f->slot.slot >= m->config->max_sandboxes && f->slot.slot != PROTO_SLOT_ALL)
		return -EINVAL;
	sandbox_usage(m, f->slot.slot);
	return 0;
}

static int on_forget(struct monitor *m, const union proto_frame *f)
{
	int r = plan_check_forget(&f->forget);

	if (r == 0)
		sandbox_forget(m, &f->forget);
	return r;
}

static int (*const handlers[PROTO_TYPE_MAX_])(struct monitor *, const union proto_frame *) = {
    [PROTO_MON_CREATE] = on_create, [PROTO_MON_DESTROY] = on_destroy, [PROTO_MON_USAGE] = on_usage,
    [PROTO_MON_FORGET] = on_forget, [PROTO_MON_WARM] = on_warm,
};

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
	if (proto_check(&f, (size_t)n, n_fds, PROTO_PARTY_F, PROTO_PARTY_M) < 0 ||
	    !handlers[f.head.type])
		return -EPROTO;
	return handlers[f.head.type](m, &f);
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
