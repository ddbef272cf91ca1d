/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the messages of the front, checks every field before anything is done, and dispatches them
 * by the table of messages (engine/maker/common/requests.h). The front has made the same checks with better
 * error texts. So a message that fails one comes from a broken front, and it ends the connection, the
 * monitor and every sandbox. */
#include "engine/maker/common/requests.h"
#include "base/parse.h"
#include "engine/maker/native/monitor/monitor.h"

#include <string.h>

#define FRAMES_PER_TURN 64
#define LEFT_PART       64 /* 1/64 of the memory of all sandboxes is always theirs */

/* ---- checks of what only the monitor knows: 0 or -EINVAL ---- */

static int check_create(const struct monitor *m, const struct proto_mon_create *c)
{
	return m->sandboxes[c->slot].state == SANDBOX_FREE && c->level == 0 &&
		       (!c->root || monitor_has_root(m)) &&
		       parse_is_image_name(c->image, strnlen(c->image, sizeof(c->image)))
		   ? 0
		   : -EINVAL;
}

static int check_charged(const struct monitor *m, const struct proto_mon_charged *e)
{
	return m->config->total_bytes > 0 && e->bytes <= m->config->total_bytes ? 0 : -EINVAL;
}

/* A request may cross the end of a sandbox on the wire. So MON_DESTROY, MON_WARM, MON_LIMIT and MON_KEEP may name a sandbox
 * in any state, and the functions of lifecycle.c do what the state allows. */
int requests_check(const struct monitor *m, const union proto_frame *f)
{
	const int r = request_check(f, m->config->max_sandboxes);

	if (r < 0)
		return r;
	if (f->head.type == PROTO_MON_CREATE)
		return check_create(m, &f->create);
	return f->head.type == PROTO_MON_CHARGED ? check_charged(m, &f->charged) : 0;
}

/* ---- the table ---- */

static void serve_create(struct monitor *m, const union proto_frame *f)
{
	monitor_sandbox_create(m, &f->create);
}

static void serve_destroy(struct monitor *m, const union proto_frame *f)
{
	monitor_sandbox_destroy(m, f->slot.slot, f->slot.flags);
}

static void serve_warm(struct monitor *m, const union proto_frame *f)
{
	monitor_sandbox_warm(m, f->slot.slot);
}

static void serve_usage(struct monitor *m, const union proto_frame *f)
{
	monitor_sandbox_usage(m, f->slot.slot);
}

static void serve_limit(struct monitor *m, const union proto_frame *f)
{
	monitor_sandbox_limit(m, &f->limit);
}

static void serve_charged(struct monitor *m, const union proto_frame *f)
{
	const uint64_t total = m->config->total_bytes;

	/* v1 refuses a limit below what is in use; the front says it again at its next look. */
	(void)!m->cgroup.ops->limit_all(&m->cgroup,
					MAX(total - f->charged.bytes, total / LEFT_PART));
}

static void serve_forget(struct monitor *m, const union proto_frame *f)
{
	monitor_sandbox_forget(m, &f->forget);
}

static void serve_keep(struct monitor *m, const union proto_frame *f)
{
	monitor_sandbox_keep(m, &f->keep);
}

static void serve_disk(struct monitor *m, const union proto_frame *f)
{
	monitor_disk(m, &f->disk);
}

#define BOTH(f)    serve_##f
#define MONITOR(f) serve_##f
#define FRONT(f)   NULL
#define OTHER      NULL
static void (*const requests[PROTO_TYPE_MAX_])(struct monitor *m, const union proto_frame *f) = {
#define M(name, from, to, type, fds, served, what) [PROTO_##name] = served,
#include "engine/protocol/messages.tbl.h"
#undef M
};

int requests_take(struct monitor *m)
{
	union proto_frame f;

	for (int i = 0; i < FRAMES_PER_TURN; i++) {
		int r = request_receive(m->channel, &f);
		r = r < 0 ? r : requests_check(m, &f);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		if (requests[f.head.type]) {
			requests[f.head.type](m, &f);
			continue;
		}
		const struct proto_mon_unsupported no = request_unsupported(&f);
		monitor_send(m, &no.head, NULL, 0);
	}
	return 0;
}
