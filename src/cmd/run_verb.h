/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of `caisson run` share: run.c starts and ends runs and saves their files,
 * prompt.c (-i) reads what to run next. One event loop; all of it lives as long as cmd_run(). */
#pragma once

#include "app/app.h"
#include "base/buf.h"
#include "cmd/input_pipe.h"
#include "cmd/line_editor.h"
#include "cmd/run_args.h"
#include "cmd/run_inputs.h"
#include "sandbox/sandbox_options.h"

#define RUN_SCRIPT_MAX (16u << 20) /* bytes of a script or of one statement */

struct prompt;

struct run_verb {
	struct app app;
	struct run_args args;
	struct buf code;
	const char *script; /* path of the file in the sandbox, below the workspace; or NULL */
	const char **argv;  /* of the run; owned */
	char *script_place; /* argv[0] if there is a script; owned */
	struct run_inputs inputs;
	size_t next_input;
	struct buf packages;                /* for packages_install() */
	void (*staged)(struct run_verb *v); /* called when everything is in the sandbox */
	struct input_pipe *input;
	int input_fd; /* what the run reads as its standard input; -1: nothing */
	struct outdir *outdir;
	struct line_editor editor; /* of the prompt */
	struct prompt *prompt;     /* NULL: one run */
	struct sandbox *sandbox;   /* reference */
	struct run *run;           /* while it runs */
	char **artifacts;          /* owned: paths of files to save */
	size_t n_artifacts, next_artifact;
	bool interrupted; /* the current run was told to end */
	int unwritten;    /* -errno: standard output did not take what a run has printed */
	int status;
	struct err err;                    /* why it failed; code is ERR_NONE if it did not */
	void (*saved)(struct run_verb *v); /* called when a run has ended and its files are saved */
};

/* Runs CODE in the sandbox, with a prompt as part of the stateful session. Calls saved() at the end. */
int run_verb_start(struct run_verb *v, const struct buf *code, struct err *e) MUST_CHECK;
/* Ends the loop. The verb reports E. */
void run_verb_fail(struct run_verb *v, const struct err *e);

/* ---- run_stage.c ----------------------------------------------------------------------------- */

/* Opens what --in and --with name, before privileges are given up. */
int run_stage_prepare(struct run_verb *v, const struct run_args *a, struct err *e) MUST_CHECK;
/* RET has the environment; free it with sandbox_options_done(). */
int run_stage_options(const struct run_args *a, struct sandbox_options *ret,
		      struct err *e) MUST_CHECK;
/* Copies files into the sandbox and installs packages, then calls staged(). */
void run_stage(struct run_verb *v);

/* ---- prompt.c -------------------------------------------------------------------------------- */

/* Sets saved(). */
int prompt_new(struct run_verb *v, struct err *e) MUST_CHECK;
struct prompt *prompt_free(struct prompt *p); /* NULL is fine */
/* Tells the person how a run ended, if that was not normal. */
void prompt_tell(struct prompt *p, const struct run_result *result);
/* Handles Ctrl-C. False: the verb must end. */
bool prompt_interrupt(struct prompt *p);
