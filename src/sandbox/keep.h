/* SPDX-License-Identifier: Apache-2.0 */
/* A session becomes a stored sandbox where it is: with its id, its files and packages, and while it lives its variables.
 * What is in memory only, /tmp, the home folder and checkpoints, stays for as long as its processes do. */
#pragma once

#include "sandbox/sandbox.h"

/* Whether S is a session that can be kept. */
bool sandbox_can_keep(const struct sandbox *s) MUST_CHECK;

/* NAME as for manager_create(); "" = the session's own. Runs and uploads go on meanwhile. 0: S is stored already, and its
 * name stays. 1: CB is called once; without an error, all that was written before is as safe as in any stored sandbox.
 * < 0: E is set. After an error, here or to CB, S is the session that it was. NOT_KEEPABLE, SESSION_BUSY (it is being
 * kept), QUOTA_EXCEEDED, MAX_SESSIONS, HOST_DISK_FULL, SANDBOX_LOST. */
int sandbox_keep(struct sandbox *s, const char *name, sandbox_done_fn cb, void *user,
		 struct err *e) MUST_CHECK;
