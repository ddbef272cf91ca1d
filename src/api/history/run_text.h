/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: a run that has ended, as JSON. Any thread. */
#pragma once

#include "base/buf.h"
#include "sandbox/sandbox.h"
#include "sandbox/shown.h"

/* REPORTS: its value is the folder where it ended (run_request.report). */
int run_result_text(struct buf *b, const char *id, const char *sandbox,
		    const struct run_result *result, bool reports) MUST_CHECK;
/* Its data as a string; in base64 if it is binary. P has data. */
int run_add_part(struct buf *b, const struct shown_part *p) MUST_CHECK;
/* E: why there is no result. */
int run_failure_text(struct buf *b, const char *id, const char *sandbox,
		     const struct err *e) MUST_CHECK;
