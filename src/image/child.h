/* SPDX-License-Identifier: Apache-2.0 */
/* Starts programs: each in its own process group, with nothing inherited except what the options
 * name, and killed when this process ends. */
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
	const char *const *env; /* added variables "NAME=value", NULL-terminated; NULL: none */
};

/* ARGV[0] is looked up in PATH; -ENOENT: it is not installed. */
int child_start(const char *const *argv, const struct child_options *o,
		struct child *ret) MUST_CHECK;
/* Waits. Returns the exit status, or 128 + signal. */
int child_wait(struct child *c) MUST_CHECK;
/* Sends SIGTERM to the process group. */
void child_stop(const struct child *c);
void child_kill(const struct child *c);
/* Sends SIGKILL to the process group, reaps the child, closes the descriptors. Also fine for a
 * child that never started or was waited for. */
void child_done(struct child *c);

/* Runs the program to its end and collects its output; its error output is dropped. -ECHILD: it
 * failed. */
int child_output(const char *const *argv, struct buf *out) MUST_CHECK;
