/* SPDX-License-Identifier: Apache-2.0 */
/* One cell, for cells.c: masking, bounds, and its two forms, JSON and a row of the history. */
#pragma once

#include "base/list.h"
#include "sandbox/contexts.h"
#include "sandbox/output.h"
#include "sandbox/sandbox.h"
#include "sandbox/secrets.h"
#include "sandbox/shown.h"
#include "store/store.h"

#include <jansson.h>

#define CELL_STREAMS    (ENGINE_RESULT + 1)
#define CELL_NAME_SIZE  65
#define CELL_FILES_MAX  64u /* names of files of one run */
#define CELL_FILE_BYTES (256u << 10)
/* Steps of masking for code and output of a run. Afterwards only its last bytes are kept, and those who watch get no more. */
#define CELL_WORK_MAX   (UINT64_C(1) << 20)
#define CELL_KEPT_BYTES (1u << 20) /* of the files of one run that are kept */

enum cell_status {
	CELL_QUEUED,
	CELL_RUNNING,
	CELL_ENDED,
};

struct cell_stream {
	struct mask *mask;       /* owned; NULL: there are no secrets */
	struct kept_output kept; /* masked */
	struct kept_output late; /* the last bytes, not masked yet: nobody has needed them */
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
	uint64_t serial;  /* grows with each cell */
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
	enum run_language language; /* of its code */
	uint64_t started_ms;
	uint64_t flushed_ns;
	uint64_t drafted_ns;     /* 0: never */
	bool undrafted;          /* something came since */
	struct secrets *secrets; /* reference, or NULL */
	bool stale;              /* the environment has changed since */
	uint64_t work;           /* steps of masking */
	bool silent;             /* what could have secrets cannot be masked, so it is not kept */
	bool cut;                /* those who watch get no more output */
	bool cut_told;
	char *code; /* owned; UTF-8 */
	bool code_cut;
	bool reports; /* its value is the folder where it ends (run_request.report) */
	char *cwd;    /* owned, masked: the folder that was asked for; NULL: none */
	char context[CONTEXT_NAME_MAX + 1]; /* "" = the default one */
	char *ended_cwd; /* owned, masked: the folder where it ended; NULL: it is not known */
	const char *
	    state; /* static: what became of the session, run_session_state(); NULL, "": it is not known */
	char *gone; /* owned, a JSON list: run_gone_text(); NULL: nothing */
	struct cell_stream streams[CELL_STREAMS];
	struct cell_place { /* of a record of what it showed, in masked stdout */
		uint64_t at, end;
	} * places; /* owned; by index */
	unsigned n_places;
	/* Since its end: */
	bool failed; /* it could not be run; `error` says why */
	char *error; /* owned */
	const char *reason;
	int exit_code;
	uint64_t duration_ms, cpu_ms, peak_bytes;
	unsigned number; /* of its code in tracebacks of the session; 0: none */
	uint64_t total[CELL_STREAMS];
	struct cell_file *files; /* owned */
	size_t n_files;
	size_t at_file; /* the next one whose content is looked at */
	bool whole;     /* all of them were looked at */
	struct store_cell_file kept[STORE_CELL_FILES];
	size_t n_kept;
	uint64_t kept_bytes;
	char *results_meta; /* owned JSON, NULL = none: what it showed, without data */
	char *results;      /* owned JSON, NULL = none: with data, until it is a file of the row */
	size_t results_len;
	size_t results_masked; /* bytes that were looked through for secrets */
};

/* The file of a row with Cell.results. No file of a workspace has such a name. */
#define CELL_RESULTS_FILE "/results"

/* NULL: no memory. */
struct cell *cell_new(struct run *r, const struct run_request *q);
void cell_free(struct cell *l);
/* The environment of its sandbox has changed: a run that has written nothing yet may get the new one. Until somebody
 * needs it, L is only marked as `stale`. */
void cell_renew_secrets(struct cell *l);
/* Before cell_json(): everything that came until now is in it, masked. */
void cell_settle(struct cell *l);
/* WATCHED: also for cell_take_output(). */
void cell_add_output(struct cell *l, enum engine_stream stream, const void *data, size_t len,
		     bool watched);
/* The INDEX-th record of what it shows belongs here; ENDS: its text ends here. */
void cell_note_shown(struct cell *l, unsigned index, bool ends);
bool cell_has_output(const struct cell *l);
/* The output of STREAM that those who watch have not got yet, as an event; NULL: there is none. END: also the beginning
 * of a character that never came. */
json_t *cell_take_output(struct cell *l, int stream, bool end);
/* E is CANCELLED: the server ends. */
void cell_end(struct cell *l, const struct run_result *result, const struct err *e);
/* The name of the next file whose content is to be kept; NULL: there is none. cell_take_file() follows: DATA is taken,
 * NULL = it could not be read. */
const char *cell_next_file(struct cell *l);
void cell_take_file(struct cell *l, char *data, size_t len);

json_t *cell_json(const struct cell *l);
/* Moves L into a row, which store_note_cell() takes. NULL: no memory. ALL: with output and files. */
struct store_cell *cell_row(struct cell *l, bool all);
/* The row that is to be history if the server dies now. L stays as it is. */
struct store_cell *cell_draft(struct cell *l, bool all);

/* ---- cell_output.c, for cell.c ---- */

extern const char *const cell_stream_names[CELL_STREAMS];
/* DATA as UTF-8 without NUL, at most MAX bytes of it. NULL: no memory. Owned. */
char *cell_text(const char *data, size_t len, size_t max);
void cell_open_streams(struct cell *l);
void cell_close_streams(struct cell *l);
int cell_open_masks(struct cell *l) MUST_CHECK;
void cell_close_masks(struct cell *l);
void cell_end_streams(struct cell *l);
char *cell_stream_text(const struct cell *l, int i); /* owned; NULL: no memory */
/* Turns N places in masked stdout, in ascending order, into places in its text. */
void cell_places_in_text(const struct cell *l, uint64_t *places, size_t n);

/* ---- cell_results.c, for cell.c ---- */

void cell_take_results(struct cell *l, const struct shown_list *list);
