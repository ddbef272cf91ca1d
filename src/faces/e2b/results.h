/* SPDX-License-Identifier: Apache-2.0 */
/* What an execution tells, as the lines of JSON that the SDKs read. They split the stream at every line separator of Unicode, so
 * every line is ASCII. */
#pragma once

#include "base/buf.h"
#include "sandbox/shown.h"

#include <jansson.h>

/* New references; NULL: no memory. */
json_t *e2b_output_json(const char *stream, const char *text, size_t len); /* any bytes */
/* ITEM (may be NULL) and, of a value, its TEXT (NULL: the item's own); MAIN: the value of the last expression. */
json_t *e2b_result_json(const struct shown *item, const struct buf *text, bool main);
/* The exception that ITEM is; NULL: it is none, or there is no memory. */
json_t *e2b_error_json(const struct shown *item);
/* Appends LINE, which it takes (NULL: -ENOMEM), and its end. */
int e2b_add_line(struct buf *b, json_t *line) MUST_CHECK;
