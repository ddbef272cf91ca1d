/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine as main sees it: start the monitor, give up privileges, open the engine.
 *
 * Order in main, before any thread and any outside byte:
 *   native_monitor_start() -> native_drop_front_privileges() -> sd_event -> engine_open("native").
 */
#pragma once

#include "engine/engine.h"

#define NATIVE_ZYGOTE_MAX UINT32_MAX /* of each of these */

/* When zygotes go and are made anew; 0 = never. */
struct native_zygote_config {
	uint64_t idle_s; /* nobody has asked for a sandbox of its image, and none is left */
	uint64_t age_s;  /* older ones get a successor with the next request */
	uint64_t forks;  /* so do those that have forked as often */
};

struct native_monitor_config {
	const char *state_dir;  /* absolute; images below `images/` */
	uint32_t max_sandboxes; /* 1 .. PROTO_SLOTS_MAX */
	bool warm;
	struct native_zygote_config zygote;
	uint64_t total_bytes; /* memory of all sandboxes together; 0 = no limit */
};

/* Starts `PROGRAM monitor` (the running binary itself) as the privileged process, in a session of
 * its own with an empty environment and no descriptor but its channel and stderr. Returns when it
 * has said hello (milliseconds); *RET_FD (owned) is for engine_config.monitor_fd. Raises the soft
 * limit of descriptors to the hard one. */
int native_monitor_start(const struct native_monitor_config *config, int *ret_fd,
			 struct err *e) MUST_CHECK;

/* Root becomes a uid without rights: user `caisson` when there is one, else one from the range that
 * the monitor behind MONITOR_FD has reserved. For everybody: no capability, no_new_privs. Reads all
 * of it back. Call it once, single-threaded. */
int native_drop_front_privileges(int monitor_fd, struct err *e) MUST_CHECK;

/* The uid that native_drop_front_privileges() will take (0 = stays as it is), for those who must
 * give it folders before. */
int native_front_uid(int monitor_fd, uid_t *ret_uid, gid_t *ret_gid, struct err *e) MUST_CHECK;

/* Runs the monitor on descriptor 3 until its channel closes; returns the exit status. */
int monitor_main(const struct native_monitor_config *config);

/* engine_open() of this engine. */
int native_open(sd_event *loop, const struct engine_config *config, struct engine **ret,
		struct err *e) MUST_CHECK;
