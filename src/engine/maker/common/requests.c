/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/common/requests.h"

#include "base/fdio.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

int request_receive(int channel, union proto_frame *ret)
{
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	const ssize_t n = fd_recv(channel, ret, sizeof(*ret), fds, &n_fds, MSG_DONTWAIT);

	if (n < 0)
		return (int)n;
	fd_close_many(fds, n_fds);
	if (n == 0)
		return -EPIPE;
	return proto_check(ret, (size_t)n, n_fds, PROTO_PARTY_F, PROTO_PARTY_M) < 0 ? -EPROTO : 0;
}

/* ---- the checks, one for each request ---- */

static bool check_create(const union proto_frame *f, uint32_t slots)
{
	const struct proto_mon_create *c = &f->create;

	return c->slot < slots && c->warm <= 1 && c->egress <= 1 && c->root <= 1 &&
	       c->helper_of <= slots && c->helper_of != c->slot + 1 &&
	       c->level < PROTO_LEVELS_MAX &&
	       strnlen(c->image, sizeof(c->image)) < sizeof(c->image) &&
	       (!c->root || (!c->persist[0] && !c->helper_of)) &&
	       (!c->persist[0] || (proto_key_ok(c->persist) && !c->helper_of)) &&
	       proto_limits_ok(&c->limits);
}

static bool check_destroy(const union proto_frame *f, uint32_t slots)
{
	return f->slot.slot < slots &&
	       !(f->slot.flags & ~(uint32_t)(PROTO_SLOT_UNUSED | PROTO_SLOT_COUNT));
}

static bool check_usage(const union proto_frame *f, uint32_t slots)
{
	return f->slot.slot < slots || f->slot.slot == PROTO_SLOT_ALL;
}

static bool check_warm(const union proto_frame *f, uint32_t slots)
{
	return f->slot.slot < slots && f->slot.flags == 0;
}

static bool check_limit(const union proto_frame *f, uint32_t slots)
{
	return f->limit.slot < slots && proto_limit_ok(&f->limit);
}

static bool check_forget(const union proto_frame *f, uint32_t slots UNUSED)
{
	return proto_key_ok(f->forget.persist);
}

static bool check_keep(const union proto_frame *f, uint32_t slots)
{
	return f->keep.slot < slots && proto_key_ok(f->keep.persist);
}

static bool check_disk(const union proto_frame *f, uint32_t slots UNUSED)
{
	const bool makes = f->disk.what == PROTO_DISK_NEW;

	return f->disk.what < PROTO_DISK_MAX_ && proto_key_ok(f->disk.persist) &&
	       (makes ? f->disk.bytes <= PROTO_DISK_MAX : f->disk.bytes == 0);
}

/* Only a process that has a limit on all sandboxes knows what is too much. */
static bool check_charged(const union proto_frame *f UNUSED, uint32_t slots UNUSED)
{
	return true;
}

#define BOTH(f)    check_##f
#define MONITOR(f) check_##f
#define FRONT(f)   NULL
#define OTHER      NULL
static bool (*const checks[PROTO_TYPE_MAX_])(const union proto_frame *f, uint32_t slots) = {
#define M(name, from, to, type, fds, served, what) [PROTO_##name] = served,
#include "engine/protocol/messages.tbl.h"
#undef M
};
#undef BOTH
#undef MONITOR
#undef FRONT
#undef OTHER

/* Every request to a maker is served by one, and nothing else is. */
#define BOTH(f)    true
#define MONITOR(f) true
#define FRONT(f)   false
#define OTHER      false
#define M(name, from, to, type, fds, served, what)                                                 \
	_Static_assert((PROTO_PARTY_##to == PROTO_PARTY_M) == (served), #name);
#include "engine/protocol/messages.tbl.h"
#undef M

int request_check(const union proto_frame *f, uint32_t slots)
{
	return checks[f->head.type] && checks[f->head.type](f, slots) ? 0 : -EINVAL;
}

_Static_assert(offsetof(struct proto_mon_create, slot) == offsetof(struct proto_mon_slot, slot) &&
		   offsetof(struct proto_mon_limit, slot) ==
		       offsetof(struct proto_mon_slot, slot) &&
		   offsetof(struct proto_mon_keep, slot) == offsetof(struct proto_mon_slot, slot) &&
		   offsetof(struct proto_mon_forget, seq) ==
		       offsetof(struct proto_mon_slot, slot) &&
		   offsetof(struct proto_mon_disk, seq) == offsetof(struct proto_mon_slot, slot),
	       "request_unsupported() reads what all of them begin with");

struct proto_mon_unsupported request_unsupported(const union proto_frame *f)
{
	return (struct proto_mon_unsupported){
	    .head = PROTO_HEAD(MON_UNSUPPORTED, proto_mon_unsupported),
	    .type = f->head.type,
	    .of = f->slot.slot,
	};
}
