/* SPDX-License-Identifier: Apache-2.0 */
/* The structure of a run; only for run_life.c, run_execute.c and run_result.c. sandbox.h has the
 * calls for other code. */
#pragma once

#include "base/buf.h"
#include "sandbox/manager.h"
#include "sandbox/output.h"
#include "sandbox/shown.h"
#include "sandbox/whole_output.h"

#define RUN_EXIT_CODE_KILLED 137 /* a run that was killed: 128 + SIGKILL, as a shell counts */

enum run_phase {
	RUN_WAITING, /* in the sandbox's queue */
	RUN_SCANNING_BEFORE,
	RUN_EXECUTING,
	RUN_STORING, /* the files of its whole output get their names */
	RUN_SCANNING_AFTER,
};

struct run {
	struct list node; /* of the queue, or of those beside the run that is on */
	unsigned refs;
	struct budget_share waits; /* while it is in the queue */
	struct sandbox *sandbox;   /* reference */
	struct context *context;   /* of the sandbox; the default one if it is no stateful run */
	char context_name[CONTEXT_NAME_MAX + 1]; /* the context may end before the result is read */
	char id[RUN_ID_SIZE];
	enum run_phase phase;
	struct run_request request; /* its code, argv, env and cwd are the copies below, or NULL */
	char *code;
	char **argv, **env;
	char *cwd;
	int input_fd;              /* a sealed memory file: its request's input; -1 = none */
	struct budget_share input; /* the bytes of that file */
	struct budget_share place; /* BUDGET_PROCESSES, if it executes beside others */
	struct engine_run *handle; /* while executing */
	struct kept_output output[ENGINE_RESULT + 1];  /* by enum engine_stream */
	struct whole_output *whole[ENGINE_RESULT + 1]; /* owned; NULL = no file */
	struct shown_list shown;
	void (*stored)(struct run *r); /* called when no file is on its way; NULL = not asked */
	bool cancelled;
	bool interrupted;  /* run_cancel() has asked for its end */
	bool chosen_cwd;   /* it begins in the folder that the client asked for */
	bool began;        /* the engine has started it */
	uint64_t client;   /* who asked for it, as session_clients counts; 0 = it is not known */
	void *seen;        /* of the observer; NULL: it does not want to know */
	uint32_t ticket;   /* from begin() of accounting; 0 before it */
	uint64_t start_ns; /* when the engine was asked to start it */
	struct engine_run_result end;
	struct run_result result;   /* from run_report() on; points to what the run owns */
	int64_t start_file_ns;      /* file_clock_ns() at its start */
	struct artifact *artifacts; /* those in folders last */
	size_t n_artifacts, n_shallow;
	bool more_files;         /* not all files in folders were looked at */
	struct file_marks marks; /* of the files in folders, for the next run */
	bool before_known;       /* the sandbox's inventory is that of its start */
	int64_t start_wall_ns;   /* since 1970 */
	int64_t listed_wall_ns;  /* when the files were listed after it */
	bool forget;             /* the inventory after it may lack an upload */
	uint64_t *gone; /* owned: path_hash() of files that are no longer there, in order */
	size_t n_gone;
	bool gone_more; /* other files in folders may have gone */
	struct artifact *folders;
	size_t n_folders;
	bool has_folders;
};

/* run_life.c */
/* Copies code, argv, env and cwd of Q into R, for a run that must wait before the engine is called. The
 * engine copies what it needs itself. -ENOMEM. */
int run_keep_request(struct run *r, const struct run_request *q) MUST_CHECK;
/* Ends and frees R: writes the log, tells accounting and calls on_done. Either RESULT or E is NULL.
 * The sandbox is free, or has the next run of its queue, before on_done is called; so on_done may
 * start a run, and a queued run is never overtaken. */
void run_end(struct run *r, const struct run_result *result, const struct err *e);

/* run_execute.c: executes R, which is s->run already. Q is the request: R's own copy or the
 * caller's. After success R ends by run_end(). After an error R has not begun and on_done has not
 * been called. */
int run_execute(struct run *r, const struct run_request *q, struct err *e) MUST_CHECK;

/* run_result.c: ends R with a result made from R->end and its output. */
void run_report(struct run *r);
