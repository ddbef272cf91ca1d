/* SPDX-License-Identifier: Apache-2.0 */
/* The process that removes the files of workspaces that nobody can use any more (folder.h). A workspace may have
 * a hundred thousand files; whoever serves the front must not wait for that. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <sys/types.h>

struct remover {
	const char *folder; /* absolute, borrowed; what is set aside in it goes */
	int (*prepare)(
	    const void *user); /* in the process, before it begins; NULL = nothing; < 0 = it ends */
	const void *user;
	pid_t pid;  /* 0 = none is under way */
	bool again; /* something was set aside after it had begun */
};

/* Starts it if there is the folder. While one is under way it is started again after its end. If it is killed, what is
 * left is removed by the next one. */
void remover_start(struct remover *r);
/* The child PID has ended and was reaped. False: it was not this one. */
bool remover_ended(struct remover *r, pid_t pid) MUST_CHECK;
/* For owners that do not reap their children: looks whether it has ended. */
void remover_look(struct remover *r);
/* Ends it. The owner reaps it if REAP is not set. */
void remover_kill(struct remover *r, bool reap);
