/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has done to its session, in words for those who answer: MCP, REST, the live cells. */
#pragma once

#include "sandbox/sandbox.h"

/* What has become of the variables of the session: "kept", "unchanged" (as before the run), "carried" (in another
 * interpreter) or "lost"; "" if R is no stateful run. */
const char *run_session_state(const struct run_result *r);
/* What the end of R took from its session, as a JSON list: kinds (below), then names of variables; nothing if that is
 * nothing. */
int run_gone_text(struct buf *b, const struct run_result *r) MUST_CHECK;
/* The names of ENGINE_KIND_* in KINDS, static texts. Returns their number. */
#define SESSION_KINDS_MAX 3
size_t session_kinds(uint32_t kinds, const char *ret[SESSION_KINDS_MAX]);
