/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pressure: when memory is short, the sandboxes that were idle longest give back their spare
 * interpreters, and the pool shrinks to its minimum. Variables and files are never touched.
 *
 * Memory is short when less than 1/HOST_PART of this host's memory is available, or when all
 * sandboxes together are near SANDBOX_TOTAL_MEMORY. The kernel counts what their processes use, and the
 * monitor reads it. It charges uploads into workspaces in memory to the front, which writes them; so
 * they are counted here, and the monitor lowers the kernel's limit by them. A timer looks every LOOK_NS while there is something to give back, or a total to keep. */
#include "engine/front/front.h"

#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS    (2 * NS_PER_S)
#define SHORT_NS   (NS_PER_S / 4) /* instead of LOOK_NS while memory is short */
#define HOST_PART  16             /* 1/16 of the host's memory should stay available */
#define TOTAL_PART 8              /* from 1/8 below the total, idle sandboxes give back */
#define FULL_PART  16             /* from 1/16 below the total, no sandbox is made */
#define WRITE_PART 64             /* from 1/64 below the total, no upload is written */
#define TELL_PART  128            /* the monitor is told of uploads from 1/128 of the total */
#define EVICT_MAX  8              /* sandboxes that give back at one look */

struct front_asker {
	struct list node;
	engine_memory_fn cb;
	void *user;
};

static void arm(struct front_engine *g, uint64_t wait_ns);

static int ask(struct front_engine *g)
{
	const struct proto_mon_slot all = {.head = PROTO_HEAD(MON_USAGE, proto_mon_slot),
					   .slot = PROTO_SLOT_ALL};

	return g->dead ? -EPIPE : channel_send(g->monitor, &all.head, NULL, 0);
}

/* "Key:   N kB" of /proc/meminfo, in KiB; 0 = not there. */
static uint64_t value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t kib;

	if (!at)
		return 0;
	at += strlen(key);
	at += strspn(at, " ");
	return parse_u64_n(at, strspn(at, "0123456789"), 0, UINT64_MAX, &kib) == 0 ? kib : 0;
}

static bool host_is_short(void)
{
	char text[512]; /* the first lines are enough */

	_cleanup_fd_ int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n <= 0)
		return false;
	text[n] = '\0';
	uint64_t all = value_of(text, "MemTotal:");
	return value_of(text, "MemAvailable:") < all / HOST_PART;
}

static bool total_is_near(const struct front_memory *p, uint64_t part)
{
	return p->total_bytes > 0 &&
	       p->used_bytes + p->written > p->total_bytes - p->total_bytes / part;
}

/* The monitor may not have been able to lower the limit, so it is told again at every look. */
static void tell_written(struct front_engine *g)
{
	struct front_memory *p = &g->memory;
	struct proto_mon_charged f = {
	    .head = PROTO_HEAD(MON_CHARGED, proto_mon_charged),
	    .bytes = MIN(p->written, p->total_bytes),
	};

	if (g->dead || (p->written == 0 && p->told == 0))
		return;
	if (channel_send(g->monitor, &f.head, NULL, 0) == 0)
		p->told = p->written;
}

static void written_changed(struct front_engine *g)
{
	const struct front_memory *p = &g->memory;
	const uint64_t by = MAX(p->written, p->told) - MIN(p->written, p->told);

	if (p->total_bytes > 0 && by >= p->total_bytes / TELL_PART)
		tell_written(g);
}

static int on_look(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct front_engine *g = user;
	struct front_memory *p = &g->memory;
	bool is_short = host_is_short() || total_is_near(p, TOTAL_PART);

	loop_work("timer", "memory");
	p->timer = sd_event_source_disable_unref(p->timer);
	if (is_short) {
		front_pool_shrink(g);
		inside_rest(&g->base, EVICT_MAX);
	}
	if (p->total_bytes > 0 && ask(g) == 0)
		tell_written(g);
	if (p->total_bytes > 0 || !list_is_empty(&g->base.idle.sandboxes))
		arm(g, is_short ? SHORT_NS : LOOK_NS);
	return 0;
}

/* Without memory for the timer nobody looks; the kernel's limits still hold. */
static void arm(struct front_engine *g, uint64_t wait_ns)
{
	if (!g->memory.timer && !g->base.closing)
		(void)!sd_event_add_time_relative(g->base.loop, &g->memory.timer, CLOCK_MONOTONIC,
						  wait_ns / NS_PER_US, wait_ns / NS_PER_US / 8,
						  on_look, g);
}

void front_memory_note(struct front_engine *g)
{
	arm(g, LOOK_NS);
}

static void tell_askers(struct front_engine *g, uint64_t bytes)
{
	struct front_asker *a;

	while ((a = list_pop_first(&g->memory.askers, struct front_asker, node))) {
		a->cb(bytes, a->user);
		free(a);
	}
}

void front_memory_used(struct front_engine *g, uint64_t bytes)
{
	g->memory.used_bytes = bytes;
	tell_askers(g, bytes);
}

int front_memory_ask(struct engine *base, engine_memory_fn cb, void *user)
{
	struct front_engine *g = front_engine_of(base);
	struct front_asker *a = malloc(sizeof(*a));
	const int r = a ? ask(g) : -ENOMEM;

	if (r < 0) {
		free(a);
		return r;
	}
	*a = (struct front_asker){.cb = cb, .user = user};
	list_append(&g->memory.askers, &a->node);
	return 0;
}

static int all_used(const struct front_memory *p, struct err *e)
{
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "all sandboxes together use %llu of %llu MiB",
		       (unsigned long long)((p->used_bytes + p->written) >> 20),
		       (unsigned long long)(p->total_bytes >> 20));
}

int front_memory_count(struct engine *base, uint64_t bytes, struct err *e)
{
	struct front_memory *p = &front_engine_of(base)->memory;

	if (p->total_bytes > 0 && bytes > 0 &&
	    p->used_bytes + p->written + bytes > p->total_bytes - p->total_bytes / WRITE_PART)
		return all_used(p, e);
	p->written += bytes;
	written_changed(front_engine_of(base));
	return 0;
}

void front_memory_uncount(struct engine *base, uint64_t bytes)
{
	struct front_engine *g = front_engine_of(base);

	g->memory.written -= bytes;
	written_changed(g);
}

int front_memory_check(struct front_engine *g, struct err *e)
{
	const struct front_memory *p = &g->memory;

	if (p->total_bytes > 0) /* also when no sandbox has an interpreter to give back */
		front_memory_note(g);
	if (!total_is_near(p, FULL_PART))
		return 0;
	return all_used(p, e);
}

void front_memory_close(struct front_engine *g)
{
	g->memory.timer = sd_event_source_disable_unref(g->memory.timer);
	front_memory_abort(g);
}

void front_memory_abort(struct front_engine *g)
{
	tell_askers(g, 0);
}
