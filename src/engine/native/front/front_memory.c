/* SPDX-License-Identifier: Apache-2.0 */
/* When memory is short, idle sandboxes give back the interpreters that wait, least recently used
 * first, and the pool shrinks to its least. State and files are never touched.
 *
 * Short = less than HOST_PART of this host's memory is available, or the sandboxes together are
 * near SANDBOX_TOTAL_MEMORY (counted by the kernel, asked of the monitor). One look in LOOK_NS
 * while there is something that could be given back, or a total to keep. */
#include "engine/native/front/front.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>

#define LOOK_NS    (2 * NS_PER_S)
#define SHORT_NS   (NS_PER_S / 4) /* while it is short */
#define HOST_PART  16             /* 1/16 of the host's memory is to stay available */
#define TOTAL_PART 8              /* 1/8 below the total: idle ones give back */
#define FULL_PART  16             /* 1/16 below the total: no new sandbox */
#define EVICT_MAX  8              /* sandboxes a look */

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

static bool total_is_near(const struct native_press *p, uint64_t part)
{
	return p->total_bytes > 0 && p->used_bytes > p->total_bytes - p->total_bytes / part;
}

static int on_look(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	struct native_engine *g = user;
	struct native_press *p = &g->press;
	struct proto_mon_slot all = {.head = PROTO_HEAD(MON_USAGE, proto_mon_slot),
				     .slot = PROTO_SLOT_ALL};
	bool is_short = host_is_short() || total_is_near(p, TOTAL_PART);

	p->timer = sd_event_source_disable_unref(p->timer);
	if (is_short) {
		native_pool_press(g);
		native_idle_evict(g, EVICT_MAX);
	}
	if (p->total_bytes > 0 && !g->dead)
		(void)!chan_send(g->monitor, &all.head, NULL, 0);
	if (p->total_bytes > 0 || g->idle.first)
		arm(g, is_short ? SHORT_NS : LOOK_NS);
	return 0;
}

/* Without memory for the timer nobody looks: the kernel's own limits hold all the same. */
static void arm(struct native_engine *g, uint64_t wait_ns)
{
	if (!g->press.timer && !g->closing)
		(void)!sd_event_add_time_relative(g->loop, &g->press.timer, CLOCK_MONOTONIC,
						  wait_ns / NS_PER_US, wait_ns / NS_PER_US / 8,
						  on_look, g);
}

void native_press_note(struct native_engine *g)
{
	arm(g, LOOK_NS);
}

void native_press_used(struct native_engine *g, uint64_t bytes)
{
	g->press.used_bytes = bytes;
}

int native_press_check(struct native_engine *g, struct err *e)
{
	const struct native_press *p = &g->press;

	if (p->total_bytes > 0) /* also where no sandbox has an interpreter to give back */
		native_press_note(g);
	if (!total_is_near(p, FULL_PART))
		return 0;
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "all sandboxes together use %llu of %llu MiB",
		       (unsigned long long)(p->used_bytes >> 20),
		       (unsigned long long)(p->total_bytes >> 20));
}

void native_press_close(struct native_engine *g)
{
	g->press.timer = sd_event_source_disable_unref(g->press.timer);
}
