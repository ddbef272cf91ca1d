/* SPDX-License-Identifier: Apache-2.0 */
/* A run, from the inside: for run_life.c, run_execute.c and run_result.c alone. sandbox.h has what
 * others may do with one. */
#pragma once

#include "base/buf.h"
#include "sandbox/manager.h"
#include "sandbox/output.h"

#define RUN_EXIT_CODE_KILLED 137 /* of a run that was ended, whoever did it */

enum run_phase {
	RUN_WAITING, /* in the sandbox's queue */
	RUN_SCANNING_BEFORE,
	RUN_EXECUTING,
	RUN_SCANNING_AFTER,
};

struct run {
	struct list node;        /* of the queue */
	struct sandbox *sandbox; /* reference */
	char id[RUN_ID_SIZE];
	enum run_phase phase;
	struct run_request request; /* its code, argv and cwd belong to us, or are NULL */
	char *code;
	char **argv;
	char *cwd;
	struct engine_run *handle;                    /* while executing */
	struct kept_output output[ENGINE_RESULT + 1]; /* by enum engine_stream */
	bool cancelled;
	bool began;        /* the engine has it, or had */
	uint32_t ticket;   /* of the ledger */
	uint64_t start_ns; /* when it began */
	struct engine_run_result end;
	struct artifact *artifacts;
	size_t n_artifacts;
	struct artifact *folders;
	size_t n_folders;
};

/* run_life.c */
/* The engine copies what it needs, but only when it is called: the code, argv and cwd of Q are
 * copied into R until then. -ENOMEM. */
int run_keep_request(struct run *r, const struct run_request *q) MUST_CHECK;
/* The end of R, which is freed: tells the log, the ledger and whoever asked for it. Either
 * RESULT or E is NULL. Frees the sandbox before it tells, so that the callback may start the next
 * run; whoever waits in the queue was there first. */
void run_end(struct run *r, const struct run_result *result, const struct err *e);

/* run_execute.c: begins R, which holds the sandbox; Q is what it was asked for, R's own copy or the
 * caller's. From here on R ends by run_end(); with an error, which has not been told, it did not
 * begin. */
int run_execute(struct run *r, const struct run_request *q, struct err *e) MUST_CHECK;

/* run_result.c: ends R with what R->end and its output came to. */
void run_report(struct run *r);
