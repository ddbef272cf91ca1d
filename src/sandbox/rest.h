/* SPDX-License-Identifier: Apache-2.0 */
/* A stored sandbox comes to rest: its processes end, its files stay, and so do the variables of its session, which are
 * written to its disk first (runtime/init/stored_variables.c). Who opens it meanwhile gets it when they are written. */
#pragma once

#include "sandbox/sandbox.h"

/* As sandbox_drop(), for a stored sandbox that is idle. Without variables it is the same. */
int sandbox_rest(struct sandbox *s, struct err *e) MUST_CHECK;
/* The server is about to end: every stored sandbox without a run comes to rest. The loop exits when the variables of all
 * are written, or after a few seconds. 0 or -errno of sd_event_exit(3). */
int manager_rest_all(struct manager *m);
/* The server is about to end, and what rests is saved elsewhere before: from now on no stored sandbox that rests is opened here
 * (SANDBOX_MOVING), so nothing changes after it was saved. Each that is idle comes to rest. To be called again for those that were at
 * work. */
void manager_leave_all(struct manager *m);
