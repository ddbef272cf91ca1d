/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pressure: when memory is short, the sandboxes that were idle longest give back their spare
 * interpreters, and the pool shrinks to its minimum. Variables and files are never touched.
 *
 * Memory is short when less than 1/HOST_PART of this host's memory is available, or when all
 * sandboxes together are near SANDBOX_TOTAL_MEMORY (the kernel counts it, the monitor reads it). A
 * timer looks every LOOK_NS while there is something to give back, or a total to keep. */
#include "engine/native/front/front.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>

#define LOOK_NS    (2 * NS_PER_S)
#define SHORT_NS   (NS_PER_S / 4) /* instead of LOOK_NS while memory is short */
#define HOST_PART  16             /* 1/16 of the host's memory should stay available */
#define TOTAL_PART 8              /* from 1/8 below the total, idle sandboxes give back */
#define FULL_PART  16             /* from 1/16 below the total, no sandbox is made */
#define EVICT_MAX  8              /* sandboxes that give back at one look */

static void arm(struct native_engine *g, uint64_t wait_ns);

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

static bool total_is_near(const struct native_memory *p, uint64_t part)
{
	return p->total_bytes > 0 && p->used_bytes > p->total_bytes - p->total_bytes / part;
}

static int on_look(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct native_engine *g = user;
	struct native_memory *p = &g->memory;
	struct proto_mon_slot all = {.head = PROTO_HEAD(MON_USAGE, proto_mon_slot),
				     .slot = PROTO_SLOT_ALL};
	bool is_short = host_is_short() || total_is_near(p, TOTAL_PART);

	p->timer = sd_event_source_disable_unref(p->timer);
	if (is_short) {
		native_pool_shrink(g);
		inside_rest(&g->base, EVICT_MAX);
	}
	if (p->total_bytes > 0 && !g->dead)
		(void)!channel_send(g->monitor, &all.head, NULL, 0);
	if (p->total_bytes > 0 || !list_is_empty(&g->base.idle.sandboxes))
		arm(g, is_short ? SHORT_NS : LOOK_NS);
	return 0;
}

/* Without memory for the timer nobody looks; the kernel's limits still hold. */
static void arm(struct native_engine *g, uint64_t wait_ns)
{
	if (!g->memory.timer && !g->base.closing)
		(void)!sd_event_add_time_relative(g->base.loop, &g->memory.timer, CLOCK_MONOTONIC,
						  wait_ns / NS_PER_US, wait_ns / NS_PER_US / 8,
						  on_look, g);
}

void native_memory_note(struct native_engine *g)
{
	arm(g, LOOK_NS);
}

void native_memory_used(struct native_engine *g, uint64_t bytes)
{
	g->memory.used_bytes = bytes;
}

int native_memory_check(struct native_engine *g, struct err *e)
{
	const struct native_memory *p = &g->memory;

	if (p->total_bytes > 0) /* also when no sandbox has an interpreter to give back */
		native_memory_note(g);
	if (!total_is_near(p, FULL_PART))
		return 0;
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "all sandboxes together use %llu of %llu MiB",
		       (unsigned long long)(p->used_bytes >> 20),
		       (unsigned long long)(p->total_bytes >> 20));
}

void native_memory_close(struct native_engine *g)
{
	g->memory.timer = sd_event_source_disable_unref(g->memory.timer);
}
