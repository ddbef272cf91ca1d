/* SPDX-License-Identifier: Apache-2.0 */
/* What runs do, for people: a cell for each run, as in a notebook. While a run goes on, its cell is in memory and whoever
 * watches gets its output (feed.h); at its end it becomes history, if the operator keeps that.
 *
 * A cell has the code and the beginning and end of each stream, and small pictures that the run made. Values of the
 * sandbox's environment are secrets: code and output are masked before anything else sees them (mask.h). Programs of
 * the server itself have no cell. */
#pragma once

#include "api/history/feed.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

#include <jansson.h>

struct cells;

enum cells_keep {
	CELLS_KEEP_NOTHING,
	CELLS_KEEP_CODE,
	CELLS_KEEP_ALL, /* also output, values and small files */
};

struct packages;

struct cells_config {
	sd_event *loop;          /* borrowed, all of them, until cells_free() */
	struct manager *manager; /* gets the observer */
	struct store *store;     /* may be NULL: there is no history */
	struct budgets *budgets;
	enum cells_keep keep;
};

int cells_new(const struct cells_config *config, struct cells **ret, struct err *e) MUST_CHECK;
/* After the manager and the HTTP server. NULL is fine. */
struct cells *cells_free(struct cells *c);
/* People who watch see installations, too. P ends before the cells. */
void cells_watch_packages(struct cells *c, struct packages *p);
struct feed *cells_feed(const struct cells *c);
enum cells_keep cells_kept(const struct cells *c);

/* The next cell of the sandbox that is not history yet, oldest first. *SERIAL: of the last one, 0 = none. New reference; NULL:
 * there is none, or no memory. */
json_t *cells_next_live(const struct cells *c, const char *owner, const char *sandbox,
			uint64_t *serial);
/* A number that changes when a cell of OWNER becomes history, maybe also at other times. */
uint64_t cells_moved(const struct cells *c, const char *owner);
/* Is there a cell of this run that is not history yet? New reference or NULL. */
json_t *cells_live(const struct cells *c, const char *owner, const char *run);
bool cells_is_live(const struct cells *c, const char *owner, const char *run);
/* What it showed, as JSON: owned; NULL: there is no such cell, or it showed nothing yet. */
char *cells_live_results(const struct cells *c, const char *owner, const char *run,
			 size_t *ret_len);
/* Calls END, such as run_cancel(), for the run of OWNER, whoever asked for it. False: it does not run. */
bool cells_end_run(struct cells *c, const char *owner, const char *run, void (*end)(struct run *));
/* A sandbox as clients see it (rest_sandboxes.c). */
json_t *sandbox_json(struct manager *m, const struct sandbox *s);
