/* SPDX-License-Identifier: Apache-2.0 */
/* Private to process.c and process_input.c. */
#pragma once

#include "sandbox/process.h"

#include "base/buf.h"

/* One page: the kernel bounds the pages of all pipes of the front, pipe(7). The rest of the input waits here. */
#define PROCESS_PIPE_BYTES 4096

struct stream {
	char *data;           /* owned: a ring of SIZE bytes, the newest LEN of them are used */
	size_t size, len, at; /* AT: where the next byte goes */
	uint64_t total;
	struct budget_share share;
};

struct process {
	struct list node;          /* of sandbox.processes */
	unsigned refs;             /* one of the list, one of the engine while it lives */
	struct sandbox *sandbox;   /* reference while it lives */
	struct engine_run *handle; /* NULL: it has ended */
	char id[PROCESS_ID_SIZE];
	char name[PROCESS_NAME_MAX + 1];
	char *command;
	struct stream out, err;
	int input;         /* -1 = none, or closed */
	bool last;         /* nothing follows what is in UNREAD */
	struct buf unread; /* input for which the pipe has no room */
	struct budget_share unread_share;
	sd_event_source *room; /* tells when it has; NULL: nothing is unread */
	struct budget_share share;
	struct list watches;
	bool paced, held; /* a paced watcher was there; its output is held */
	struct err failure;
	struct engine_run_result end;
	uint64_t started_ms, started_ns;
	void *credential; /* reference while it lives, or NULL */
	/* of its terminal; 0 = it has none */
	uint32_t rows, columns;         /* as a client wanted it last */
	uint32_t set_rows, set_columns; /* as init was told last */
	sd_event_source *resize;        /* when init may be told again; NULL: now */
};

/* process.c */
void process_tell(struct process *p); /* those who watch it */

/* process_input.c */
void process_close_input(struct process *p);
