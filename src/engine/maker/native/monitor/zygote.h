/* SPDX-License-Identifier: Apache-2.0 */
/* The zygotes of images, as the monitor sees them. A zygote is the image's Python with its modules
 * loaded; warm interpreters are forked from it. The monitor starts it with the first warm sandbox of an
 * image, requests interpreters, starts it again after it has died, renews it, and drops it when the image
 * is idle. The zygote itself: runtime/zygote/extension.h; its messages: runtime/frames.h.
 *
 *   NONE --requested--> STARTING --its first frame--> READY --its channel ends--> NONE
 *                                                     (not started again before retry_at)
 *
 * A sandbox that asks while no zygote is READY waits in a queue and runs cold meanwhile. After
 * FAILURES_MAX failures in a row the queue is given up.
 *
 * Renewal: forks share the memory layout and the hash seed of their zygote. So a zygote that is old or
 * has forked often gets a successor, which takes its place when it is READY. No sandbox waits for that.
 *
 * A zygote is root of Z, but it runs no submitted code. The monitor believes nothing that it says
 * except that it has started and that it has answered a request. */
#pragma once

#include "engine/protocol/proto.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct monitor;
struct template;

enum zygote_state { ZYGOTE_NONE, ZYGOTE_STARTING, ZYGOTE_READY };
struct zygote {
	enum zygote_state state;
	pid_t pid; /* 0 = reaped, or never started */
	int channel;
	uint32_t in_flight; /* requests without an answer */
	uint32_t forks;     /* interpreters that were requested of it */
	uint64_t born_at;
	int said; /* STARTING: a memory file, its standard error; or -1 */
};

/* The zygotes of one template, and the sandboxes that wait for one. */
struct zygotes {
	struct zygote current;
	struct zygote successor; /* STARTING or READY beside `current` */
	pid_t retired;           /* killed, not reaped yet; 0 = none */
	uint32_t failures;       /* in a row */
	bool told;               /* the front knows that none can be started */
	uint64_t retry_at;
	uint32_t first,
	    last; /* queue of sandboxes that wait: slot + 1, linked by sandbox.warm_next */
};

/* Requests an interpreter for the sandbox in SLOT, which is LIVE and whose sandbox has the channel. */
void zygote_want(struct monitor *m, struct template *t, uint32_t slot);
/* Closes the channel of the sandbox and takes it out of the queue. */
void zygote_forget(struct monitor *m, uint32_t slot);
/* The channel of Z, a zygote of T, is readable or has ended. */
void zygote_event(struct monitor *m, struct template *t, struct zygote *z);
/* Notes the end of the zygote PID; false = PID was no zygote. */
bool zygote_reaped(struct monitor *m, pid_t pid);
/* Starts, promotes and drops zygotes that are due. Returns when to call it again (CLOCK_MONOTONIC, ns);
 * 0 = no need. */
uint64_t zygote_tick(struct monitor *m);
/* Ends the zygotes of T. Sandboxes keep the interpreters that they have. */
void zygote_stop(struct monitor *m, struct template *t);
