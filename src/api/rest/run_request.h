/* SPDX-License-Identifier: Apache-2.0 */
/* What the body of a call asks for: a run. Only for rest_runs.c. */
#pragma once

#include "api/rest/rest.h"

/* The words of a run, behind those of ours, and the folder where it begins. */
struct run_words {
	const char *argv[6];
	char place[SANDBOX_PLACE_MAX + sizeof(WORKSPACE)];
};

/* Whether the body asks for a possible run. False after it has answered, and C is gone. */
bool run_request_check(struct rest_call *c) MUST_CHECK;
/* Everything but the callbacks. TEXT: the code or the command. *Q borrows it, the body, and W. */
void run_request_fill(struct rest_call *c, const char *text, struct run_request *q,
		      struct run_words *w);
