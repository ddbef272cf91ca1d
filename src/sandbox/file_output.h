/* SPDX-License-Identifier: Apache-2.0 */
/* The open file of a file_writer (file_writer.c), and what a thread does with it. It outlives its writer while the thread
 * is at work. */
#pragma once

#include "budget/budgets.h"
#include "sandbox/sandbox.h"

struct file_writer;

struct file_output {
	struct file_writer *writer; /* NULL: it is gone */
	int fd;
	bool busy;  /* the thread has DATA, and sets ERROR, HOST_FULL and SIZE */
	char *data; /* owned */
	size_t len;
	uint64_t size; /* of the file after a failure */
	int error;     /* 0 or -errno */
	bool host_full;
	bool flushed; /* all bytes are on the disk */
	struct budgets *budgets;
	struct budget_share room; /* of the bytes that wait: DATA, and those of the writer */
	char who[SANDBOX_OWNER_MAX + 1];
};

/* On a thread (base/workers.h); USER is a struct file_output. */

/* Writes DATA and frees it. */
void file_output_write(void *user);
/* The bytes of a stored sandbox are on the disk before anybody is told that they are there. */
void file_output_flush(void *user);
/* While the file is open for writing, nobody can execute it: so this comes before the commit. */
void file_output_close(void *user);
