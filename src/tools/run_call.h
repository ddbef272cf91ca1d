/* SPDX-License-Identifier: Apache-2.0 */
/* A tool call that runs something: finds or makes the sandbox, runs, reports progress, and kills
 * the run if the client cancels. Each family writes its own answer. Private to this folder. */
#pragma once

#include "sandbox/contexts.h"
#include "tools/common.h"

#define RUN_CALL_ARGV_MAX 6   /* including the NULL at the end */
#define RUN_CALL_TAIL     256 /* bytes of output that are searched for the last line */

struct run_call {
	struct tools *tools;
	struct mcp_call *call;
	char id[SANDBOX_ID_MAX + 1]; /* as the caller gave it; "" = a new sandbox */
	struct sandbox *sandbox;     /* reference, or NULL */
	struct run_request request;  /* code and argv must stay valid until the run has started */
	char *text;                  /* owned: code or command */
	size_t text_len;
	char context[CONTEXT_NAME_MAX + 1]; /* of request.context */
	char *input;                        /* owned: text of its standard input, or NULL */
	const char *blanked;                /* what was blanked in the text of a command, or NULL */
	bool background; /* the text starts something in the background, as far as one can see */
	const char *argv[RUN_CALL_ARGV_MAX]; /* room for request.argv */
	char **words;                        /* more room for request.argv; owned, one allocation */
	bool known;                          /* the sandbox must exist; none is made */
	bool made;                           /* the sandbox was made by this call */
	bool last;                           /* the caller wanted to go on where it worked last */
	char before[SANDBOX_ID_MAX + 1]; /* where it worked last before this call; "" = nowhere */
	/* Called just before the run, when the sandbox is there. It may change the request. May
	 * be NULL. */
	void (*prepare)(struct run_call *c);
	/* Called at the end with RESULT or E. It must finish the call; C is freed after it
	 * returns. */
	void (*finish)(struct run_call *c, const struct run_result *result, const struct err *e);
	bool live; /* report output to the client as it comes, and become a task if the run takes
		    * long */
	/* Private to run_call.c. */
	char tail[RUN_CALL_TAIL]; /* the last bytes of output */
	size_t tail_len;
	struct run *run;
	uint64_t start_ns;
	uint64_t told_ns; /* when a report of progress with output was sent; 0 = none yet */
	bool report_due;  /* the timer below is set for new output */
	sd_event_source *heartbeat;
};

/* NULL: no memory, and the call is finished. TEXT is copied, also from a spill file. */
struct run_call *run_call_new(struct tools *tools, struct mcp_call *call, const char *id,
			      const struct mcp_text_ref *text);
/* Frees a call that was not started; the caller must finish the MCP call. */
void run_call_free(struct run_call *c);
/* What an answer about a run is made of, on a thread if it is large. Larger structures begin with it. */
struct run_answer {
	struct run *run; /* reference */
	const struct run_result *result;
	struct tools_links links;
};
/* SIZE zeroed bytes that begin with a struct run_answer. NULL: no memory, and the call is finished. */
void *run_answer_new(struct run_call *c, const struct run_result *result,
		     enum tools_link_kind links, size_t size);
/* Finishes the call with what MAKE makes of A, and frees A with free(3). */
void run_answer_send(struct mcp_call *call, struct run_answer *a, json_t *(*make)(void *user));

/* Starts the call. From here on C frees itself. */
void run_call_start(struct run_call *c);
