/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor against a front that has been taken over: the input is what the front sends, and what
 * processes and the host do meanwhile (monitor_world.h). Whatever comes, the monitor signals nobody
 * but the processes that it has made and not reaped, tells each sandbox's begin and end once, gives
 * nobody another's channel, and has nothing left at its end.
 *
 * The input: one byte (bit 0: host root), then steps. A step is one byte, low half what happens,
 * high half which one. Messages of the front have more bytes (steps.h). */
#include "base/fdio.h"
#include "base/rand.h"
#include "frames.h"
#include "fuzz.h"
#include "monitor_world.h"
#include "steps.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#define STEPS_MAX 64
#define LATER     8 /* in the high half: what happened is not looked at yet */

static struct monitor m;
static int front;

/* ---- the front ---- */

static void fill_create(union proto_frame *f, uint32_t slot, unsigned about)
{
	f->create = (struct proto_mon_create){
	    .head = PROTO_HEAD(MON_CREATE, proto_mon_create),
	    .slot = slot,
	    .warm = about & 1U,
	    .egress = about >> 1 & 1U,
	    .helper_of = about >> 2 & 7U,
	    .limits = WORLD_LIMITS,
	};
	f->create.image[0] = (char)('a' + (about >> 5 & 3U));
	f->create.persist[0] = about & 128U ? 'k' : '\0';
}

static void fill_destroy(union proto_frame *f, uint32_t slot, unsigned about)
{
	f->slot = (struct proto_mon_slot){
	    .head = PROTO_HEAD(MON_DESTROY, proto_mon_slot), .slot = slot, .flags = about & 3U};
}

static void fill_warm(union proto_frame *f, uint32_t slot, unsigned about)
{
	f->slot = (struct proto_mon_slot){
	    .head = PROTO_HEAD(MON_WARM, proto_mon_slot), .slot = slot, .flags = about & 1U};
	if (about & 2U)
		f->limit = (struct proto_mon_limit){.head = PROTO_HEAD(MON_LIMIT, proto_mon_limit),
						    .slot = slot,
						    .what = about >> 2U & 15U,
						    .memory_bytes = UINT64_C(64) << 20,
						    .cpu_milli = 500,
						    .pids = 20};
}

static void fill_usage(union proto_frame *f, uint32_t slot, unsigned about)
{
	f->slot = (struct proto_mon_slot){.head = PROTO_HEAD(MON_USAGE, proto_mon_slot),
					  .slot = about & 1U ? PROTO_SLOT_ALL : slot};
	if (about & 2U)
		f->charged =
		    (struct proto_mon_charged){.head = PROTO_HEAD(MON_CHARGED, proto_mon_charged),
					       .bytes = (uint64_t)slot << (about >> 2U)};
}

static void fill_forget(union proto_frame *f, uint32_t slot, unsigned about)
{
	f->forget = (struct proto_mon_forget){.head = PROTO_HEAD(MON_FORGET, proto_mon_forget),
					      .seq = slot};
	f->forget.persist[0] = (char)about;
	if (about & 64U) {
		f->disk = (struct proto_mon_disk){.head = PROTO_HEAD(MON_DISK, proto_mon_disk),
						  .seq = slot,
						  .what = about & 7U,
						  .bytes = (uint64_t)(about & 8U) << (about & 63U)};
		f->disk.persist[0] = (char)(about & 63U);
	}
	if (about & 128U) { /* no key begins so */
		f->keep = (struct proto_mon_keep){.head = PROTO_HEAD(MON_KEEP, proto_mon_keep),
						  .slot = slot};
		f->keep.persist[0] = (char)(about & 127U);
	}
}

/* Nothing is right about it but its length, which is that of a request. */
static void fill_raw(union proto_frame *f, uint32_t slot UNUSED, unsigned about)
{
	memset(f, (int)about, sizeof(*f));
	f->head.size = sizeof(f->slot);
}

static void (*const fills[])(union proto_frame *, uint32_t, unsigned) = {
    fill_create, fill_destroy, fill_warm, fill_usage, fill_forget, fill_raw,
};

static void say(unsigned what, unsigned which, struct input *in)
{
	static union proto_frame f;
	const unsigned about = input_take(in), at = input_take(in),
		       len = input_take(in) % STEP_PATCH_MAX;

	memset(&f, 0, sizeof(f));
	fills[what](&f, which % LATER, about);
	input_send(in, front, &f, at, len);
}

/* ---- processes ---- */

static struct report *report_of(pid_t maker)
{
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		if (m.sandboxes[i].maker == maker)
			return &m.reports[i];
	return NULL;
}

/* A maker ends, having made an init or not. */
static void maker_ends(unsigned which, int status, bool with_init, bool init_ends_first)
{
	const pid_t maker = world_pick(WORLD_MAKER, which);
	struct report *r = report_of(maker);

	if (maker == 0 || !r)
		return;
	const pid_t init = with_init ? world_fork(WORLD_INIT) : 0;
	r->pid = init > 0 ? init : 0;
	if (init > 0 && init_ends_first)
		world_exit(init, 0);
	world_exit(maker, init > 0 || status ? status : 1 << 8);
}

static void init_ends(unsigned which)
{
	const pid_t init = world_pick(WORLD_INIT, which);

	/* Without its maker's word nobody knows of it yet. */
	if (init != 0)
		world_exit(init, 0);
}

/* ---- zygotes ---- */

static void zygote_says(unsigned which, const void *frame, size_t len)
{
	const pid_t pid = world_pick(WORLD_ZYGOTE, which);

	if (pid != 0 && world_channel(pid) >= 0)
		(void)!fd_send(world_channel(pid), frame, len, NULL, 0,
			       MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void zygote_is_ready(unsigned which)
{
	const struct rt_zygote_ready ready = {
	    .h = {.kind = RT_ZYGOTE_READY}, .version = RT_VERSION, .threads = 1};

	zygote_says(which, &ready, sizeof(ready));
}

static void zygote_has_forked(unsigned which)
{
	const struct rt_head done = {.kind = RT_CLEAN_DONE, .error = which & 4U ? ENOMEM : 0};

	zygote_says(which, &done, sizeof(done));
}

static void zygote_ends(unsigned which)
{
	const pid_t pid = world_pick(WORLD_ZYGOTE, which);

	if (pid != 0)
		world_exit(pid, 0);
}

/* As the loop of monitor.c does after poll(). */
static void hear_zygotes(void)
{
	for (size_t i = 0; i < WORLD_IMAGES * (size_t)2; i++) {
		struct template *t = &m.templates[i / 2];
		struct zygote *z = i % 2 ? &t->zygotes.successor : &t->zygotes.current;
		char byte;

		if (z->state == ZYGOTE_NONE)
			continue;
		if (recv(z->channel, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
			zygote_event(&m, t, z);
	}
}

/* ---- the input ---- */

static void pass(unsigned which)
{
	if (which < LATER)
		world_pass(NS_PER_S << (2 * which));
	else
		world_fail_next(1U << (which - LATER));
}

enum { SAYS = ARRAY_SIZE(fills) }; /* what is below is a message */

static void happen(unsigned what, unsigned which, struct input *in)
{
	const unsigned who = which % LATER;

	if (what < SAYS)
		say(what, which, in);
	else if (what == SAYS)
		maker_ends(who, 0, true, false);
	else if (what == SAYS + 1)
		maker_ends(who, 1 << 8, who & 1U, false);
	else if (what == SAYS + 2)
		maker_ends(who, SIGKILL, who & 1U, who & 2U);
	else if (what == SAYS + 3)
		maker_ends(who, 0, true, true);
	else if (what == SAYS + 4)
		init_ends(who);
	else if (what == SAYS + 5)
		zygote_is_ready(who);
	else if (what == SAYS + 6)
		zygote_has_forked(who);
	else if (what == SAYS + 7)
		zygote_says(who, in->at, MIN((size_t)(in->end - in->at), (size_t)8));
	else if (what == SAYS + 8)
		zygote_ends(who);
	else
		pass(which);
}

/* One turn of the loop; false = the monitor ends. */
static bool turn(void)
{
	(void)zygote_tick(&m);
	if (m.space.waiting > 0)
		monitor_sandboxes_go_on(&m, false);
	world_check(&m);
	if (reap_children(&m) < 0)
		return false;
	world_check(&m);
	if (requests_take(&m) < 0)
		return false;
	hear_zygotes();
	world_check(&m);
	return true;
}

int fuzz_native_monitor(const uint8_t *data, size_t size)
{
	struct input in = {.at = data, .end = data + size};
	bool up = true;

	world_begin(&m, input_take(&in) & 1U, &front);
	for (unsigned i = 0; i < STEPS_MAX && up && in.at < in.end; i++) {
		const unsigned step = input_take(&in), what = step & 15U, which = step >> 4;

		happen(what, which, &in);
		if (!(which & LATER) || what > SAYS + 8)
			up = turn();
	}
	front = fd_close(front);
	world_end(&m);
	return 0;
}
