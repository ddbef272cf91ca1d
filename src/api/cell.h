/* SPDX-License-Identifier: Apache-2.0 */
/* One cell, for cells.c: masking, bounds, and its two forms, JSON and a row of the history. */
#pragma once

#include "api/mask.h"
#include "base/list.h"
#include "sandbox/output.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

#include <jansson.h>

#define CELL_STREAMS    (ENGINE_RESULT + 1)
#define CELL_NAME_SIZE  65
#define CELL_FILES_MAX  64u /* names of files of one run */
#define CELL_FILE_BYTES (256u << 10)
#define CELL_KEPT_BYTES (1u << 20) /* of the files of one run that are kept */

enum cell_status {
	CELL_QUEUED,
	CELL_RUNNING,
	CELL_ENDED,
};

struct cell_stream {
	struct mask *mask;       /* owned; NULL: there are no secrets */
	struct kept_output kept; /* masked */
	struct buf pending;      /* masked, for those who watch */
	uint64_t told;           /* bytes that they got */
	uint64_t from;           /* where in the stream `pending` begins */
};

struct cell_file {
	char *name; /* owned; UTF-8 or not */
	uint64_t size;
	bool wanted; /* its content is kept */
};

struct cells;

struct cell {
	struct list node; /* in cells.live */
	struct cells *cells;
	struct run *of_run; /* NULL: it has ended */
	struct sandbox *of; /* reference */
	enum cell_status status;
	char run[RUN_ID_SIZE];
	char sandbox[SANDBOX_ID_MAX + 1];
	char owner[SANDBOX_OWNER_MAX + 1];
	const char *how; /* static */
	char by[CELL_NAME_SIZE];
	enum engine_run_kind kind;
	uint64_t started_ms;
	uint64_t flushed_ns;
	struct mask_set *secrets; /* owned, or NULL */
	uint64_t work;            /* steps of masking */
	bool silent;              /* without memory for masks no output is kept */
	bool cut;                 /* those who watch get no more output */
	bool cut_told;
	char *code; /* owned; UTF-8 */
	bool code_cut;
	struct cell_stream streams[CELL_STREAMS];
	/* Since its end: */
	bool failed; /* it could not be run; `error` says why */
	char *error; /* owned */
	const char *reason;
	int exit_code;
	uint64_t duration_ms, cpu_ms, peak_bytes;
	uint64_t total[CELL_STREAMS];
	struct cell_file *files; /* owned */
	size_t n_files;
	size_t at_file; /* the next one whose content is looked at */
	struct store_cell_file kept[STORE_CELL_FILES];
	size_t n_kept;
	uint64_t kept_bytes;
};

/* NULL: no memory. */
struct cell *cell_new(struct run *r, const struct run_request *q);
void cell_free(struct cell *l);
/* The environment of its sandbox has changed: a run that has written nothing yet may get the new one. */
void cell_renew_secrets(struct cell *l);
/* WATCHED: also for cell_take_output(). */
void cell_add_output(struct cell *l, enum engine_stream stream, const void *data, size_t len,
		     bool watched);
bool cell_has_output(const struct cell *l);
/* The output of STREAM that those who watch have not got yet, as an event; NULL: there is none. END: also the beginning
 * of a character that never came. */
json_t *cell_take_output(struct cell *l, int stream, bool end);
void cell_end(struct cell *l, const struct run_result *result, const struct err *e);
/* The name of the next file whose content is to be kept; NULL: there is none. cell_take_file() follows: FD is taken, -1 =
 * it could not be opened. */
const char *cell_next_file(struct cell *l);
void cell_take_file(struct cell *l, int fd, const struct engine_file *info);

json_t *cell_json(const struct cell *l);
/* Moves L into a row, which store_note_cell() takes. NULL: no memory. ALL: with output and files. */
struct store_cell *cell_row(struct cell *l, bool all);
