/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has done to its session, in words for those who answer: MCP, REST, the live cells. */
#pragma once

#include "sandbox/contexts.h"

/* What has become of the variables of the session: "kept", "unchanged" (as before the run), "carried" (in another
 * interpreter) or "lost"; "" if R is no stateful run. */
const char *run_session_state(const struct run_result *r);
/* What its session has not any more, as a JSON list in the empty B: "last run" (what that did to the variables was gone
 * before R began), what the end of R took: kinds (below), then names of variables. Nothing if that is nothing. */
int run_gone_text(struct buf *b, const struct run_result *r) MUST_CHECK;
/* For on_done: the caller has gone, so nobody reads the result of R. The next answer of its session tells what the end of
 * R did to the variables. */
void run_unheard(const struct run *r);
/* Adds to the result of R what runs that nobody heard of did to the variables, if its client has not heard of it. */
void run_session_tell(struct run *r);
/* The client that asks for Q, as struct session_clients knows it. */
uint64_t run_client(const struct run_request *q);
/* The variables of C are others now, so nothing that was done to them before matters. */
void run_session_forget(struct context *c);
/* The names of ENGINE_KIND_* in KINDS, static texts. Returns their number. */
#define SESSION_KINDS_MAX 3
size_t session_kinds(uint32_t kinds, const char *ret[SESSION_KINDS_MAX]);
