/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the decisions of the egress proxy to the audit log. A sandbox that floods the proxy must not
 * fill the log or push out the rows of others. So the rows of a time window are limited; what exceeds
 * the limit is counted, and one row and one line of the server's log (egress_more) give the number. */
#pragma once

#include "egress/egress.h"
#include "store/store.h"

#define EGRESS_AUDIT_ROWS      60u                          /* of one label in a window */
#define EGRESS_AUDIT_ROWS_ALL  2000u                        /* of all labels in a window */
#define EGRESS_AUDIT_WINDOW_NS (600 * UINT64_C(1000000000)) /* a window begins with its first row */

struct egress_audit;

struct egress_audit_config {
	sd_event *loop; /* borrowed; NULL: counts are reported with later rows and at the end */
	struct store *store;   /* borrowed; NULL: no rows, only the limits for the server's log */
	uint64_t (*now)(void); /* monotonic ns; NULL: now_ns() */
};

/* NULL: no memory. */
struct egress_audit *egress_audit_new(const struct egress_audit_config *config);
/* Reports what was left out, so it must be called before the store is closed. NULL is fine; returns
 * NULL. */
struct egress_audit *egress_audit_free(struct egress_audit *a);
/* Adds EVENT as a row. A label OWNER/ID names a sandbox of that owner; any other label belongs to
 * nobody. Returns whether EVENT is within the limits and may be logged: the server's log gets at most
 * as many lines as the audit log gets rows, and as many again for ends of connections, which have no
 * rows. */
bool egress_audit_note(struct egress_audit *a, const struct egress_event *event);
