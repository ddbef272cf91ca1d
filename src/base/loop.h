/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop of a process, measured. Everything that the front does for its clients happens on one
 * thread, so one long turn makes everybody wait.
 *
 * A turn is one callback of sd-event. Where one callback serves many in a row (the connections of an HTTP
 * server), each of them is a turn of its own: the callback says so with loop_next_turn().
 *
 * A turn of LOOP_SLOW_MS or more is logged ("slow_turn") with what ran. CAISSON_WATCH_TURNS=MS in the
 * environment lowers that; test builds (-Dremovable_walls=true) have LOOP_WATCH_MS without it. Only then
 * does each turn also cost some system calls, and the line tells how long the thread computed (cpu_ms), how often it
 * slept, and how long it waited for something other than a CPU (waited_ms): a long turn with neither was not ours,
 * because the machine gave the CPU to another process.
 *
 * One loop a process, on one thread. */
#pragma once

#include "base/attr.h"

#include <stdint.h>
#include <systemd/sd-event.h>

#define LOOP_BUCKETS  10    /* one more counts what is longer than all bounds */
#define LOOP_SLOW_MS  1000u /* a turn this long is logged in every build */
#define LOOP_WATCH_MS 20u

struct loop_stats {
	uint64_t turns[LOOP_BUCKETS + 1]; /* by length, each bucket alone */
	uint64_t sum_ns;
};

extern const uint32_t loop_bounds_ms[LOOP_BUCKETS]; /* upper bounds of the buckets */

/* Everybody waits while a loop waits for a CPU, so the calling thread gets it before the programs of sandboxes and before
 * threads that compute: short slices (base/slice.h), and a nice value that is lower by LOOP_FIRST if the process may. A loop
 * seldom wants a CPU for long. What the kernel refuses stays as it was. For the main thread, before privileges are given up. */
#define LOOP_FIRST 10 /* less nice than before */
void loop_goes_first(void);
/* The nice value for threads that give way to the loop. It may not be asked for once the process is confined. */
int loop_threads_nice(void);
/* As sd_event_loop(3), and counts. */
int loop_run(sd_event *loop) MUST_CHECK;
/* The counts of this process until now. */
const struct loop_stats *loop_stats(void);
/* Ends the present turn and begins another one. Returns the time, as now_ns(). */
uint64_t loop_next_turn(void);
/* Says what this turn does, for the log: WHAT (http, tool, engine, timer …) and which one. A second call
 * in the same turn adds to the first: "http /mcp, method tools/call, tool sandbox_run_python". Both are copied. */
void loop_work(const char *what, const char *which);
