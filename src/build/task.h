/* SPDX-License-Identifier: Apache-2.0 */
/* A command of a build in a sandbox, from its start to its end: a background process that nobody else follows. Loop only. */
#pragma once

#include "build/builds.h"

#define BUILD_HOME     "/home/user"
#define BUILD_LINE_MAX 2000u /* bytes of a line of output; the rest of it is left out */

#define TASK_OWN_ENV_MAX 4 /* variables of ours in a command that is not root's */

struct build_task;

struct build_task_spec {
	struct sandbox *sandbox;
	json_t *env; /* object of texts, borrowed for the call; NULL = none */
	bool root;
	const char *cwd; /* absolute */
	const char *const *argv;
	const char *name;       /* for people; NULL = none */
	uint64_t timeout_ns;    /* 0 = none */
	const void *credential; /* of the caller, who may lose it: sandbox/process.h */
	/* A line of its output; NULL = nobody asks. */
	void (*line)(const char *text, size_t len, bool is_error, void *user);
	/* Called once, unless it is stopped, and the task is gone. E: it could not be run, or did not exit with 0. */
	void (*end)(const struct err *e, void *user);
	void *user;
};

/* END is not called before it has returned. */
int build_task_start(struct builds *b, const struct build_task_spec *spec, struct build_task **ret,
		     struct err *e) MUST_CHECK;
/* Kills it. NULL is fine; returns NULL. */
struct build_task *build_task_stop(struct build_task *t);
/* Starts a command that stays; nobody is told of its end. */
int build_task_leave(const struct build_task_spec *spec, struct err *e) MUST_CHECK;
