/* SPDX-License-Identifier: Apache-2.0 */
/* For rooms that do work for a sandbox that is no run: installations, in sandboxes of their own, and requests to ports. */
#pragma once

#include "base/list.h"
#include "sandbox/sandbox.h"

/* May the work begin, and what did it cost? Accounting answers (sandbox.h). */
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

/* ---- ports that are open to everybody (public.c) ---- */

/* Would a sandbox with those options be public? */
bool manager_options_public(const struct manager *m, const struct sandbox_options *o);
/* The ready sandbox ID that its owner, whoever that is, has made public; borrowed, or NULL. */
struct sandbox *manager_find_public(struct manager *m, const char *id);
/* Has its owner opened its ports to everybody, and does the operator permit that? */
bool sandbox_is_public(const struct sandbox *s);
/* The caller has made the id of S, at random: no client has chosen it. So it can be public. */
void sandbox_note_own_id(struct sandbox *s);
/* One more request of somebody who is not its owner, from NETWORK ("": not known). RATE_LIMITED: within a second there were
 * SANDBOX_STRANGERS_PER_S of all, or SANDBOX_STRANGER_PER_S of that network, so that the others have a part. */
#define SANDBOX_STRANGERS_PER_S 200u
#define SANDBOX_STRANGER_PER_S  150u
int sandbox_admit_stranger(struct sandbox *s, const char *network, struct err *e) MUST_CHECK;

/* ---- ports ---- */

/* Which there are: engine_list_ports(). */
int sandbox_list_ports(struct sandbox *s, engine_ports_fn cb, void *user, struct err *e) MUST_CHECK;
/* A connection to PORT of its loopback: engine_connect(). USES: it restarts the idle clock. */
int sandbox_connect(struct sandbox *s, uint16_t port, bool uses, engine_fd_fn cb, void *user,
		    struct err *e) MUST_CHECK;
/* engine_answer_health(); -ESRCH: the sandbox has ended. */
int sandbox_answer_health(struct sandbox *s, uint16_t port) MUST_CHECK;

/* Watches a folder: engine_watch(); or the ports: engine_watch_ports(), whose beginning is no use of the sandbox. It does not keep the sandbox from being ended for being idle. */
int sandbox_watch(struct sandbox *s, const char *path, bool recursive, engine_watch_fn cb,
		  void *user, struct engine_watch **ret, struct err *e) MUST_CHECK;
int sandbox_watch_ports(struct sandbox *s, engine_watch_fn cb, void *user,
			struct engine_watch **ret, struct err *e) MUST_CHECK;
