/* SPDX-License-Identifier: Apache-2.0 */
/* What programs print when a limit or the closed network has stopped them. Used for hints only: the
 * text comes from the sandbox. */
#pragma once

#include "sandbox/sandbox.h"

#define SIGNS_TAIL 4096u /* last bytes of a stream that are searched */

enum sign {
	SIGN_NO_NETWORK,
	SIGN_NO_MEMORY,
	SIGN_OPEN_FILES, /* the limit of open files of a process */
	SIGN_PROCESSES,  /* the limit of processes and threads */
	SIGN_NO_FILE,
	SIGN_NO_SPACE,  /* on the disk of a sandbox */
	SIGN_TOO_LARGE, /* an installation, for a setting that the text names */
	SIGN_NO_INDEX,  /* the package index does not answer */
	SIGN_NO_NAME,   /* a variable that is not defined */
	SIGN_NO_INPUT,  /* input() found the end of standard input */
};

/* The end of OUTPUT, with a newline for every byte that is not printable ASCII. */
void signs_tail(const struct run_output *output, char ret[SIGNS_TAIL + 1]);
bool signs_in(const char *text, enum sign sign);
/* Writes which setting is the limit that SIGN is about; false = SIGN is about none, or it is not in
 * TEXT. */
bool signs_limit(const char *text, const struct sandbox *s, char *ret, size_t size);
