/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the output of one run: the pipes of stdout and stderr, and the shared memory that holds the
 * last output of an interpreter (base/output_tail.h). */
#pragma once

#include "engine/front/inside/inside.h"
#include "engine/front/inside/records.h"

struct output_tail;

struct inside_output {
	struct engine_run *run; /* for on_output; killed after kill_at bytes */
	sd_event *loop;         /* borrowed */
	int fd[3];              /* by enum engine_stream; the reading ends, -1 = closed */
	sd_event_source *source[3];
	sd_event_source *pause[3];  /* timer: the stream is looked at again when it ends */
	struct output_tail *tail;   /* output that needs no system call, NULL = none */
	sd_event_source *tail_look; /* timer */
	bool kept;                  /* the pipes are the session's */
	uint64_t total[3];          /* bytes read */
	uint64_t late[3];           /* the first of these: what was in a kept pipe before the run */
	uint64_t max[3];            /* bytes to deliver; 0 = all */
	uint64_t kill_at;           /* engine_run_spec.output_kill */
	bool endless;               /* of a background process */
	unsigned looks;             /* that need no pause after them: may_look_again() */
	uint64_t looked_ns;
	bool flooded;           /* the run was killed for its output */
	bool held;              /* engine_hold_output() */
	bool ended;             /* it is drained, whoever would hold it */
	struct records records; /* what stdout marks; without on_record there are no marks */
	void (*on_output)(struct engine_run *, enum engine_stream, const void *, size_t, void *);
	void (*on_record)(struct engine_run *, const void *, size_t, void *);
	void *user;
};

void inside_output_init(struct inside_output *o, struct engine_run *r, sd_event *loop,
			const struct engine_run_spec *spec);
/* Makes the pipe of stream S and reads it from now on. *RET_WRITE is the run's end. KEPT (may be NULL) is a pipe that
 * stays: it is made if it is not there yet, and what is in it already is read first. -errno. */
int inside_output_pipe(struct inside_output *o, enum engine_stream s, struct inside_pipe *kept,
		       int *ret_write) MUST_CHECK;
void inside_pipe_close(struct inside_pipe *p);
/* HOLD: nothing is read until it is let go. */
void inside_output_hold(struct inside_output *o, bool hold);
/* The run has ended: delivers the rest, also if it was held. */
void inside_output_drain(struct inside_output *o);
void inside_output_done(struct inside_output *o);
