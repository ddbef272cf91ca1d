/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `caisson run`. */
#pragma once

#include "base/err.h"
#include "sandbox/language.h"

#include <stdbool.h>
#include <stddef.h>

#define RUN_ARGS_MANY 64 /* how often an option may be repeated */

struct run_args {
	bool interactive;
	bool no_history;
	bool has_language;          /* --language was given */
	const char *file;           /* "-" is standard input; NULL: none */
	const char *code;           /* of -c, or NULL */
	enum run_language language; /* of the file or the code */
	const char *out;
	const char *in[RUN_ARGS_MANY + 1];
	const char *with[RUN_ARGS_MANY + 1];
	const char *env[RUN_ARGS_MANY + 1];
	char **rest; /* arguments of the file or the code, or the command; NULL after the last */
	int n_rest;
};

/* How many words of ARGV are ours: those up to the arguments of the program, `--` included. Short names of
 * settings in them get their long form. */
int run_args_ours(int argc, char **argv);

/* Reads the words that are left when settings were taken from ours. REST are the others. */
int run_args_read(int argc, char **argv, int n_rest, char **rest, struct run_args *ret,
		  struct err *e) MUST_CHECK;
