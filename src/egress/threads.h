/* SPDX-License-Identifier: Apache-2.0 */
/* A few threads for calls that may hang in the kernel for minutes and may be dropped meanwhile: jobs that base/workers.h, which
 * waits for all of them at the end of the server, could not have.
 *
 * WORK runs on a thread and uses only its job. DONE runs on the loop. A job that was dropped meanwhile gets no DONE: whichever side
 * finds it next calls FREE, so FREE uses only its job, too. */
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

enum egress_job_state { EGRESS_JOB_WAITS, EGRESS_JOB_TAKEN, EGRESS_JOB_DONE };

/* The first member of a job. All zero before egress_threads_run(); then for threads.c alone. */
struct egress_job {
	struct list node;
	enum egress_job_state state;
	bool dropped;
};

struct egress_threads_use {
	unsigned max; /* threads at most; they start with jobs and end after a minute without one */
	size_t stack_bytes; /* of each */
	void (*work)(struct egress_job *job);
	void (*done)(struct egress_job *job, void *user); /* JOB is its own; it may drop others */
	void (*free)(struct egress_job *job);
	void *user; /* of DONE */
};

struct egress_threads;

/* NULL: no memory. */
struct egress_threads *egress_threads_new(sd_event *loop, const struct egress_threads_use *use);
/* Every job has been done or dropped. Waits for no thread: the last one frees what they share. NULL is fine. */
void egress_threads_free(struct egress_threads *t);
/* If no thread can be made, the existing ones will do JOB. */
void egress_threads_run(struct egress_threads *t, struct egress_job *job);
/* Does a thread have JOB now? */
bool egress_threads_has(struct egress_threads *t, const struct egress_job *job);
void egress_threads_drop(struct egress_threads *t, struct egress_job *job);
