/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_process: the state of a call, and its answers. Private to extras_process*.c. */
#pragma once

#include "sandbox/process.h"
#include "sandbox/sandbox_work.h"
#include "tools/extras.h"

#define PROCESS_CALL_WORDS 64
#define PROCESS_CALL_PORTS 8

struct process_call;

/* What a call can do. ACT returns 0 with c->process, or an error. */
struct process_action {
	const char *name;
	const char *audit; /* NULL: it changes nothing */
	unsigned wait_s;   /* how long it waits if the caller does not say */
	bool makes;        /* the session need not be there */
	bool waits_output; /* output ends its wait, not only the end of the process */
	int (*act)(struct process_call *c, const json_t *arguments, struct err *e);
	const char *hint; /* what to do if ACT says INVALID_ARGUMENT */
};

struct process_call {
	struct tool_call base;
	const struct process_action *action;
	const json_t *arguments;     /* borrowed until the call is finished */
	char id[SANDBOX_ID_MAX + 1]; /* "" = a new session */
	char *command;               /* owned */
	struct sandbox_options env;
	char text[PROCESS_CALL_WORDS]; /* what was done, for the first line; "" = nothing to say */
	bool made;                     /* the call made its session */
	bool follows;                  /* `since` was given */
	uint64_t since[2];
	uint64_t wait_ns;
	struct process *process; /* reference, or NULL */
	struct process_wait *wait;
	struct engine_port ports[PROCESS_CALL_PORTS]; /* of the sandbox, that are told */
	size_t n_ports;
	void (*finish)(struct process_call *c); /* when they are known */
	struct err error;
};

void process_call_free(struct process_call *c);

/* extras_process_answer.c: each finishes the call, and all but the last free C. */
void process_call_answer(struct process_call *c);     /* about c->process, later */
void process_call_answer_now(struct process_call *c); /* the same at once, without ports */
void process_call_list(struct process_call *c);
/* The sandbox has no process ID: names those that it has. */
void process_call_fail_unknown(const struct process_call *c, const char *id);
