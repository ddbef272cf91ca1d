/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that the image room starts: own process group, nothing inherited but what is said, gone
 * when we are gone. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <sys/types.h>

struct child {
	pid_t pid; /* also its process group; 0 = none */
	int out;   /* owned: its standard output */
	int err;   /* owned: its standard error */
};

#define CHILD_INIT ((struct child){.out = -1, .err = -1})

struct child_options {
	const char *cwd;        /* NULL: stay */
	const char *const *env; /* additions "NAME=value", NULL-terminated; NULL: none */
};

/* ARGV[0] is looked up in PATH; -ENOENT when it is not installed. */
int child_start(const char *const *argv, const struct child_options *o,
		struct child *ret) MUST_CHECK;
/* Waits; the exit status, or 128 + signal. */
int child_wait(struct child *c) MUST_CHECK;
/* TERM to the group. */
void child_stop(const struct child *c);
void child_kill(const struct child *c);
/* KILL to the group, reap, close. Fine on an initial or waited-for one. */
void child_done(struct child *c);

/* Runs to the end and collects the output (stderr is dropped). -ECHILD when it fails. */
int child_output(const char *const *argv, struct buf *out) MUST_CHECK;
