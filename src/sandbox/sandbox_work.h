/* SPDX-License-Identifier: Apache-2.0 */
/* For rooms that do work for a sandbox that is no run: installations, in sandboxes of their own, and requests to ports. */
#pragma once

#include "base/list.h"
#include "sandbox/sandbox.h"

/* May the work begin, and what did it cost? Both ask the ledger. */
int sandbox_admit_work(struct sandbox *s, struct err *e) MUST_CHECK;
void sandbox_note_work(struct sandbox *s, const char *kind, uint64_t duration_ns, uint64_t cpu_ns);

/* A sandbox that is held is not ended for being idle. If it ends before the work does, ENDED is called once,
 * from inside that end: it only notes that the work is over. */
struct sandbox_hold {
	struct list node; /* of the sandbox; for manager.c */
	bool
	    rests; /* nothing is under way, so the sandbox may be forked, or go back to a checkpoint */
	void (*ended)(struct sandbox_hold *h);
};
void sandbox_hold(struct sandbox *s, struct sandbox_hold *h);
void sandbox_release(struct sandbox *s, struct sandbox_hold *h);

/* Which there are: engine_list_ports(). */
int sandbox_list_ports(struct sandbox *s, engine_ports_fn cb, void *user, struct err *e) MUST_CHECK;
/* A connection to PORT of its loopback: engine_connect(). */
int sandbox_connect(struct sandbox *s, uint16_t port, engine_fd_fn cb, void *user,
		    struct err *e) MUST_CHECK;

/* Watches a folder: engine_watch(); or the ports: engine_watch_ports(), whose beginning is no use of the sandbox. It does not keep the sandbox from being ended for being idle. */
int sandbox_watch(struct sandbox *s, const char *path, bool recursive, engine_watch_fn cb,
		  void *user, struct engine_watch **ret, struct err *e) MUST_CHECK;
int sandbox_watch_ports(struct sandbox *s, engine_watch_fn cb, void *user,
			struct engine_watch **ret, struct err *e) MUST_CHECK;
