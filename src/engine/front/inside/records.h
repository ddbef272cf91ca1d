/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows besides text (runtime/python/rich.py). Its bundles are records in the file of the result, behind the
 * text: the file is sparse, so a run without any pays nothing. Two marks in stdout enclose the text of a record where it
 * was shown. The marks are removed here. Everything is the sandbox's to write: a forged mark takes the next record or
 * none, and numbers are bounded. */
#pragma once

#include "base/attr.h"
#include "engine/engine.h"

#define RECORDS_AT    (32u << 20)
#define RECORD_MAGIC  "CRR1"
#define RECORD_HEAD   12u                        /* magic, kind, bytes that follow */
#define RECORD_MAX    ((2u << 20) + (64u << 10)) /* nothing of ours writes a longer one */
#define RECORDS_MAX   1000u                      /* of one run */
#define RECORDS_BYTES (4u << 20) /* of one run; one turn of the loop may have to read them all */
#define RECORD_MARK   13u

struct records {
	int fd; /* borrowed; -1: none is read */
	uint64_t at;
	unsigned n, marks;
	uint64_t bytes;
	char held[RECORD_MARK]; /* the beginning of what may be a mark */
	size_t n_held;
	void (*on_text)(void *user, const char *data, size_t len);
	void (*on_record)(void *user, const void *data, size_t len); /* engine_run_spec.on_record */
	void *user;
};

/* Output of stdout: text goes on without marks, a mark takes the next record. */
void records_take_output(struct records *r, const char *data, size_t len);
/* The run has ended: the rest of the output, and records without a mark. */
void records_end_output(struct records *r);
void records_take_rest(struct records *r);
/* Whether the file has records behind its text. */
bool records_follow(int fd);
/* Bytes of a piece of that text. Fewer than LEN: the text ends there, and the rest is the hole before the records. lseek(2)
 * would find the hole, but it waits for a lock of the file, which a run can hold for hundreds of milliseconds
 * with fallocate(2). */
size_t records_text_in(const char *data, size_t len);
