/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine: namespaces, mounts and control groups, made by a privileged process of its
 * own, the monitor. Others ask for it by name (engine.h). */
#pragma once

#include "engine/engine.h"

#define NATIVE_ZYGOTE_MAX UINT32_MAX /* of each number in native_zygote_config */

/* When an image's zygote ends or is replaced; 0 = never. */
struct native_zygote_config {
	uint64_t idle_s; /* so long after the last sandbox of its image, and the last request */
	uint64_t age_s;  /* the next request replaces a zygote that is older */
	uint64_t forks;  /* ... and one that has forked as often */
};

struct native_monitor_config {
	const char *state_dir;  /* absolute; images are below `images/` */
	uint32_t max_sandboxes; /* 1 .. PROTO_SLOTS_MAX */
	bool warm;
	struct native_zygote_config zygote;
	uint64_t total_bytes; /* memory of all sandboxes together; 0 = no limit */
};

struct engine_ops;
extern const struct engine_ops native_ops; /* front/ */

/* Runs the monitor on descriptor 3 until its channel closes; returns the exit status. */
int monitor_main(const struct native_monitor_config *config);
