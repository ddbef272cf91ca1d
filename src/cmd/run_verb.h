/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of `caisson run` share: run.c starts and ends runs and saves their files,
 * prompt.c (-i) reads what to run next. One event loop; all of it lives as long as cmd_run(). */
#pragma once

#include "app/app.h"
#include "base/buf.h"

#define RUN_SCRIPT_MAX (16u << 20) /* bytes of a script or of one statement */

struct prompt;

struct run_verb {
	struct app app;
	bool interactive;
	const char *file; /* NULL: start with a prompt */
	const char *out;
	struct buf code;
	struct outdir *outdir;
	struct prompt *prompt;   /* NULL: one run */
	struct sandbox *sandbox; /* reference */
	struct run *run;         /* while it runs */
	struct artifact *artifacts;
	size_t n_artifacts, next_artifact;
	bool interrupted; /* the current run was told to end */
	int status;
	struct err err;                    /* why it failed; code is ERR_NONE if it did not */
	void (*saved)(struct run_verb *v); /* called when a run has ended and its files are saved */
};

/* Runs CODE in the sandbox, with a prompt as part of the stateful session. Calls saved() at the end. */
int run_verb_start(struct run_verb *v, const struct buf *code, struct err *e) MUST_CHECK;
/* Ends the loop. The verb reports E. */
void run_verb_fail(struct run_verb *v, const struct err *e);

/* ---- prompt.c -------------------------------------------------------------------------------- */

/* Sets saved(). */
int prompt_new(struct run_verb *v, struct err *e) MUST_CHECK;
struct prompt *prompt_free(struct prompt *p); /* NULL is fine */
/* Tells the person how a run ended, if that was not normal. */
void prompt_tell(struct prompt *p, const struct run_result *result);
/* Handles Ctrl-C. False: the verb must end. */
bool prompt_interrupt(struct prompt *p);
