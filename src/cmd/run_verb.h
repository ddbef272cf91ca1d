/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of `caisson run` share: run.c starts and ends runs and saves their files,
 * prompt.c
 * (-i) reads what to run next. One event loop; everything lives as long as cmd_run(). */
#pragma once

#include "app/app.h"
#include "base/buf.h"

#define RUN_SCRIPT_MAX (16u << 20) /* bytes of a script or of one statement */

struct prompt;

struct run_verb {
	struct app app;
	bool interactive;
	const char *file; /* NULL: a prompt at once */
	const char *out;
	struct buf code;
	struct outdir *outdir;
	struct prompt *prompt;   /* NULL: one run */
	struct sandbox *sandbox; /* reference */
	struct run *run;         /* while it runs */
	struct artifact *artifacts;
	size_t n_artifacts, next_artifact;
	bool interrupted; /* the run that is on was told to end */
	int status;
	struct err err;                    /* why it failed, when code is not NONE */
	void (*saved)(struct run_verb *v); /* a run is over and its files are where they belong */
};

/* Runs CODE in the verb's sandbox, as part of the session when there is a prompt; saved() follows.
 */
int run_verb_start(struct run_verb *v, const struct buf *code, struct err *e) MUST_CHECK;
/* Ends the loop; the verb says E. */
void run_verb_fail(struct run_verb *v, const struct err *e);

/* ---- prompt.c -------------------------------------------------------------------------------- */

/* Takes over saved(). */
int prompt_new(struct run_verb *v, struct err *e) MUST_CHECK;
struct prompt *prompt_free(struct prompt *p); /* NULL is fine */
/* Says what a person must know about the end of a run. */
void prompt_tell(struct prompt *p, const struct run_result *result);
/* Ctrl-C. False: there is nobody to go on for, the verb ends. */
bool prompt_interrupt(struct prompt *p);
