/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote of an image, seen from the monitor: started with the first warm sandbox, asked for
 * clean interpreters, started anew when it has died. What it is: runtime/zygote/zygote.h; what it
 * is told: runtime/frames.h.
 *
 *   NONE -want-> STARTING -its first frame-> READY -its channel ends-> NONE (and not again before
 * retry_at) A sandbox that comes while it starts waits in a queue with its end of the interpreter
 * channel and runs cold meanwhile. A zygote is root of Z and runs no submitted code; it is believed
 * nothing but that it is there, and that it has answered. */
#pragma once

#include "engine/native/proto.h"

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
	uint32_t failures;  /* in a row */
	uint64_t retry_at;
	uint32_t first, last; /* queue of boxes that wait: slot + 1, linked by box.warm_next */
};

/* The sandbox in SLOT, which is live, is to get a clean interpreter; its box has the channel. */
void zygote_want(struct monitor *m, struct template *t, uint32_t slot);
/* The box's channel and its place in the queue are given up. */
void zygote_forget(struct monitor *m, uint32_t slot);
void zygote_event(struct monitor *m, struct template *t);
/* Whether PID was a zygote. */
bool zygote_reaped(struct monitor *m, pid_t pid);
/* The template goes: so does its zygote. Sandboxes keep the interpreters they have. */
void zygote_stop(struct monitor *m, struct template *t);
