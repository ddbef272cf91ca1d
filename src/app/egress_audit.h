/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions of the way out, as rows of the audit log. A sandbox that floods the proxy fills neither
 * the log nor pushes others' rows out of it: what is beyond the bounds of a window is counted, and
 * one row and one line of the server's log (egress_more) tell the number. */
#pragma once

#include "egress/egress.h"
#include "store/store.h"

#define EGRESS_AUDIT_ROWS      60u                          /* of one label, each window */
#define EGRESS_AUDIT_ROWS_ALL  2000u                        /* of all together */
#define EGRESS_AUDIT_WINDOW_NS (600 * UINT64_C(1000000000)) /* begins with its first row */

struct egress_audit;

struct egress_audit_config {
	sd_event *loop;        /* borrowed; NULL: counts are told with later rows and at the end */
	struct store *store;   /* borrowed; NULL: no rows, the bounds of the server's log alone */
	uint64_t (*now)(void); /* monotonic ns; NULL: now_ns() */
};

/* NULL: no memory. */
struct egress_audit *egress_audit_new(const struct egress_audit_config *config);
/* Tells the counts; before the store goes. NULL is fine; returns NULL. */
struct egress_audit *egress_audit_free(struct egress_audit *a);
/* A label OWNER/ID is a sandbox of that owner, any other one belongs to nobody. */
/* Whether EVENT is within the bounds: the server's log has no more lines than the audit log has
 * rows, and as many for ends of connections, which are no rows. */
bool egress_audit_note(struct egress_audit *a, const struct egress_event *event);
