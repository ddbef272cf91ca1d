/* SPDX-License-Identifier: Apache-2.0 */
/* A child process for work on bytes from outside: archives, answers of registries, JSON.
 *
 * It has no capabilities and cannot get any. Landlock lets it change files only beneath one folder.
 * What it reports is a struct of fixed size, and the caller judges each field of it.
 *
 *   WORKER_LOCAL    has no network (if the kernel permits that) but named unix sockets, and keeps
 *                   its uid, because the files that it makes belong to the caller
 *   WORKER_NETWORK  is `nobody` if root started it, and reads of the host only what TLS and names
 *                   need */
#pragma once

#include "image/image.h"

#include <stddef.h>
#include <sys/types.h>

enum worker_kind { WORKER_LOCAL, WORKER_NETWORK };

struct worker {
	enum worker_kind kind;
	int write;  /* folder that it may change; borrowed; -1 = none */
	int source; /* folder that it may read; borrowed; -1 = none */
	/* Runs in the child; REPORT is what the caller gets. A failure is reported too. */
	int (*fn)(void *ctx, void *report, struct err *e);
	void *ctx;
};

/* A worker that was started. */
struct worker_process {
	pid_t pid; /* 0 = it has ended */
	int pipe;  /* owned: readable when it reports or has ended; for poll(2) */
};
#define WORKER_PROCESS_INIT ((struct worker_process){.pipe = -1})

int worker_begin(const struct worker *work, struct worker_process *ret, struct err *e) MUST_CHECK;
/* Waits for the next report. 1: one of worker_tell(); 0: it has ended well, with its last report; an error: it has failed, or the
 * watch was cancelled. REPORT has LEN bytes and is written on success only. */
int worker_next(struct worker_process *p, const struct image_watch *w, void *report, size_t len,
		struct err *e) MUST_CHECK;
/* Kills it if it has not ended. */
void worker_end(struct worker_process *p);
/* In the worker: tells what REPORT, the one of FN, has so far. */
int worker_tell(const void *report) MUST_CHECK;

/* Runs the worker to its end. REPORT has LEN bytes, at most PIPE_BUF less an error; it is written
 * on success only. When the watch is cancelled, the child is killed. */
int worker_run(const struct worker *work, const struct image_watch *w, void *report, size_t len,
	       struct err *e) MUST_CHECK;

#define WORKER_REPORT_MAX 2048 /* bytes */
