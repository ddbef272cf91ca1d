/* SPDX-License-Identifier: Apache-2.0 */
/* A command of this face in a sandbox, from its start to its end: a background process that nobody else follows. Loop only. */
#pragma once

#include "faces/e2b/templates.h"

#define TASK_OWN_ENV_MAX 4 /* variables of ours in a command that is not root's */

struct e2b_task;

struct e2b_task_spec {
	struct sandbox *sandbox;
	const struct e2b_setup *setup; /* its variables; borrowed for the call */
	bool root;
	const char *cwd; /* absolute */
	const char *const *argv;
	const char *name;    /* for people; NULL = none */
	uint64_t timeout_ns; /* 0 = none */
	const struct caller *who;
	/* A line of its output; NULL = nobody asks. */
	void (*line)(const char *text, size_t len, bool is_error, void *user);
	/* Called once, unless it is stopped, and the task is gone. E: it could not be run, or did not exit with 0. */
	void (*end)(const struct err *e, void *user);
	void *user;
};

/* END is not called before it has returned. */
int e2b_task_start(struct e2b *f, const struct e2b_task_spec *spec, struct e2b_task **ret,
		   struct err *e) MUST_CHECK;
/* Kills it. NULL is fine; returns NULL. */
struct e2b_task *e2b_task_stop(struct e2b_task *t);
/* Starts a command that stays; nobody is told of its end. */
int e2b_task_leave(const struct e2b_task_spec *spec, struct err *e) MUST_CHECK;
/* Ends all; END of each is told so (CANCELLED). */
void e2b_tasks_done(struct e2b *f);
