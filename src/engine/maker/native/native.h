/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine makes sandboxes from namespaces, mounts and control groups. Its privileged
 * process, the monitor, creates them. Other rooms open the engine by its name (engine.h). */
#pragma once

#include "engine/engine.h"

#define NATIVE_ZYGOTE_MAX UINT32_MAX /* largest value of each field of native_zygote_config */

/* When an image's zygote ends or is replaced; 0 = never. */
struct native_zygote_config {
	uint64_t idle_s; /* ends it so long after its image's last sandbox and last request */
	uint64_t age_s;  /* the next request replaces a zygote that is older */
	uint64_t forks;  /* the next request replaces a zygote that has forked as often */
};

struct native_monitor_config {
	const char *state_dir;  /* absolute; images are below `images/` */
	uint32_t max_sandboxes; /* 1 .. PROTO_SLOTS_MAX */
	bool warm;
	struct native_zygote_config zygote;
	uint64_t total_bytes;     /* limit on the memory of all sandboxes together; 0 = none */
	const char *install_tool; /* engine_config.install_tool */
	bool moves;               /* engine_config.moves */
	enum engine_workspace workspace; /* where the workspaces of sessions are */
};

struct engine_ops;
extern const struct engine_ops native_ops;

/* Runs the monitor on descriptor 3 until its channel closes; returns the exit status. */
int monitor_main(const struct native_monitor_config *config);
