/* SPDX-License-Identifier: Apache-2.0 */
/* A tool call that runs something: finds or makes the sandbox, runs, tells progress, and kills the
 * run when the client cancels. What the families make of the end is theirs. For this folder alone.
 */
#pragma once

#include "tools/common.h"

#define RUN_CALL_ARGV_MAX 6   /* NULL included */
#define RUN_CALL_TAIL     256 /* bytes of output in which the last line is looked for */

struct run_call {
	struct tools *tools;
	struct mcp_call *call;
	char id[SANDBOX_ID_MAX + 1]; /* as given; "" = a new sandbox */
	struct sandbox *sandbox;     /* reference, once there is one */
	struct run_request
	    request; /* code or argv belong to the caller until the run has started */
	char *text;  /* owned: code or command */
	size_t text_len;
	const char *argv[RUN_CALL_ARGV_MAX]; /* room for request.argv */
	char **words;                        /* more room for it: owned, one allocation */
	bool known;                          /* the sandbox must be there already */
	bool made;                           /* the sandbox was made by this call */
	/* May change the request when the sandbox is there, just before it runs; may be NULL. */
	void (*prepare)(struct run_call *c);
	/* The end: RESULT or E. Must finish the call; C is freed after it has returned. */
	void (*finish)(struct run_call *c, const struct run_result *result, const struct err *e);
	bool live; /* tell the client what comes out meanwhile, and go on as a task when it takes
		      long */
	/* Private to run_call.c. */
	char tail[RUN_CALL_TAIL]; /* the last bytes of output */
	size_t tail_len;
	struct run *run;
	uint64_t start_ns;
	sd_event_source *heartbeat;
};

/* NULL: the call was finished for want of memory. TEXT is copied (from its spill file, if need be).
 */
struct run_call *run_call_new(struct tools *tools, struct mcp_call *call, const char *id,
			      const struct mcp_text_ref *text);
/* Before it was started: the call is the caller's to finish. */
void run_call_free(struct run_call *c);
/* From here on C ends by itself. */
void run_call_start(struct run_call *c);
