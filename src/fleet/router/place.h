/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker gets what has no worker yet. No state, no I/O. */
#pragma once

#include "base/attr.h"
#include "fleet/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fleet_candidate {
	char worker[FLEET_WORKER_SIZE];
	uint64_t open, max; /* sandboxes: those that it has, and may have */
	bool usable;        /* it answers, is ready, and has not been tried for this request */
};

#define FLEET_NOBODY SIZE_MAX

/* Power of two choices: of two usable ones, which A and B (random numbers) choose, the one that is less full. It spreads nearly as
 * well as looking at all, and several routers with the same stale view do not all choose the same one. Those that seem to be full are
 * chosen only if all do. FLEET_NOBODY: none is usable. */
size_t fleet_place_any(const struct fleet_candidate *c, size_t n, uint32_t a, uint32_t b);

/* The home of WHO: the usable one of the highest weight, which depends on WHO and its short id alone (rendezvous hashing). So it is
 * the same at every router, and if a worker goes, only what had its home there moves. */
size_t fleet_place_home(const struct fleet_candidate *c, size_t n, const char *who);
