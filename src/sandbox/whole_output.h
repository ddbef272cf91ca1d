/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the whole output of a run as files, when the answer to the client has only its beginning and end.
 *
 * The files are in the folder `.output` of the sandbox's own workspace, named RUN_ID.stdout.txt,
 * RUN_ID.stderr.txt and RUN_ID.result.txt. So they count for the limits of the workspace, end with it, and
 * are read, linked and removed like every other file of it. The newest WHOLE_OUTPUT_FILES are kept.
 *
 * A file is begun when a stream becomes longer than what is kept of it in memory, and is written while the
 * output arrives. It has no name before the run has ended. What cannot be written is left out, and the
 * result says why (run_output.file_lacks); the run itself never fails because of it. */
#pragma once

#include "engine/engine.h"

#define WHOLE_OUTPUT_FOLDER ".output"
#define WHOLE_OUTPUT_FILES  8u

struct run;
struct run_output;

/* Output has arrived and is not yet in r->output. */
void whole_output_add(struct run *r, enum engine_stream s, const void *data, size_t len);
/* All output has arrived: gives the files their names, then calls DONE, maybe from inside. */
void whole_output_end(struct run *r, void (*done)(struct run *r));
/* Adds to O what became of the file of stream S. The strings live as long as R. */
void whole_output_tell(const struct run *r, enum engine_stream s, struct run_output *o);
/* Drops what has no name yet and frees everything. */
void whole_output_free(struct run *r);
