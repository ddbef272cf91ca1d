/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote of an image, seen from the monitor: started with the first warm sandbox, asked for
 * clean interpreters, started anew when it has died, renewed on a schedule, dropped when nobody
 * needs it. What it is: runtime/zygote/extension.h; what it is told: runtime/frames.h.
 *
 *   NONE -want-> STARTING -its first frame-> READY -its channel ends-> NONE (not again before
 *   retry_at)
 *
 * A sandbox that comes while it is not READY waits in a queue with its end of the interpreter
 * channel and runs cold meanwhile; after FAILURES_MAX failures in a row the queue is given up.
 * Renewal: forks share layout of memory and hash seed with the zygote, so one that is old or has
 * forked often gets a successor beside it, which takes its place when it is READY. Nobody waits for
 * that. A zygote is root of Z and runs no submitted code; it is believed nothing but that it is
 * there, and that it has answered. */
#pragma once

#include "engine/inside/proto.h"

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
	uint32_t in_flight; /* questions without an answer */
	uint32_t forks;     /* clean interpreters that it was asked for */
	uint64_t born_at;
};

/* What a template knows of its zygotes. */
struct zygotes {
	struct zygote current;
	struct zygote successor; /* STARTING or READY beside `current` */
	pid_t retired;           /* killed, not reaped yet; 0 = none */
	uint32_t failures;       /* in a row */
	uint64_t retry_at;
	uint32_t first, last; /* queue of boxes that wait: slot + 1, linked by box.warm_next */
};

/* The sandbox in SLOT, which is live, is to get a clean interpreter; its box has the channel. */
void zygote_want(struct monitor *m, struct template *t, uint32_t slot);
/* The box's channel and its place in the queue are given up. */
void zygote_forget(struct monitor *m, uint32_t slot);
/* Z, one of T's, has said something or ended. */
void zygote_event(struct monitor *m, struct template *t, struct zygote *z);
/* Whether PID was a zygote. */
bool zygote_reaped(struct monitor *m, pid_t pid);
/* Starts, promotes and drops what is due. Returns when it wants to be called again (CLOCK_MONOTONIC
 * ns), 0 = never. */
uint64_t zygote_tick(struct monitor *m);
/* The template goes: so do its zygotes. Sandboxes keep the interpreters they have. */
void zygote_stop(struct monitor *m, struct template *t);
