/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows besides text: bundles of Jupyter, {MIME type: data}, in the order in which they were shown. They come
 * from the sandbox (engine/front/inside/records.h): types, texts and sizes are checked here, and a run keeps at most SHOWN_MAX
 * with SHOWN_BYTES of data. What has no room is named with its size. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHOWN_MAX       100u
#define SHOWN_BYTES     (2u << 20)
#define SHOWN_PARTS     16u
#define SHOWN_TYPE_SIZE 128u
#define SHOWN_TABLE     "application/vnd.caisson.table+json"
/* The data of a figure of matplotlib, with run_request.errors: {"type": "line", "title", "elements", ...}, as
 * runtime/python/charts.py writes it. */
#define SHOWN_CHART "application/vnd.caisson.chart+json"
/* An exception, with run_request.errors: {"name": "ValueError", "value": "...", "traceback": "..."}, as
 * runtime/python/tracebacks.py writes it. */
#define SHOWN_ERROR "application/vnd.caisson.error+json"

enum shown_kind {
	SHOWN_DISPLAY = 1,
	SHOWN_RESULT =
	    2, /* the value of the last expression; its text/plain is the text of the result */
	SHOWN_UPDATE = 3, /* takes the place of the one with its id */
	SHOWN_CLEAR = 4,  /* what came before is not shown any more */
};

struct shown_part {
	char type[SHOWN_TYPE_SIZE];
	char *data; /* owned; NUL-terminated, and UTF-8 unless the type is binary; NULL: left out */
	uint64_t len;
};

struct shown {
	enum shown_kind kind;
	unsigned index;   /* how many records came before it */
	bool placed;      /* AT and END are places in stdout; else it belongs to the end */
	uint64_t at, end; /* its text in stdout, in bytes */
	char *file, *id;  /* owned, or NULL; FILE: the workspace has it under this name, too */
	bool wait;        /* CLEAR: only when something follows */
	struct shown_part parts[SHOWN_PARTS];
	size_t n_parts;
	uint64_t bytes; /* of its data */
};

struct shown_list {
	struct shown *items; /* owned */
	size_t n;
	uint64_t bytes;
	unsigned seen;    /* records */
	unsigned dropped; /* for want of room */
	int open;         /* place of the item whose text has not ended; -1 = none */
};

const char *shown_kind_name(enum shown_kind kind); /* static */
/* Anything but JSON and text: base64 in JSON. */
bool shown_is_binary(const char *type);
void shown_list_done(struct shown_list *l);
/* Adds a record of the engine. AT: bytes of stdout so far. Returns its index, or a negative errno if it is no record. */
int shown_list_add(struct shown_list *l, const char *data, size_t len, uint64_t at) MUST_CHECK;
/* The text of the last one ends at END. Returns its index; -ENOENT: there is none. */
int shown_list_end_text(struct shown_list *l, uint64_t end) MUST_CHECK;
/* The run has ended, with TOTAL bytes of stdout: carries out what waited. */
void shown_list_end(struct shown_list *l, uint64_t total);
