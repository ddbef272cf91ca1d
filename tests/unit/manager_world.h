/* SPDX-License-Identifier: Apache-2.0 */
/* A manager on the fake engine, and a clock that stands still, for tests of the manager and of what
 * stands on it. */
#pragma once

#include "fake_engine.h"
#include "sandbox/sandbox.h"

struct manager_world {
	sd_event *loop;
	struct fake_engine *fake;
	struct manager *manager;
};

/* For manager_config.now: what clock_ns says, a second at first. */
extern uint64_t clock_ns;
uint64_t manager_world_now(void);

/* CONFIG leaves out the loop, the engine and, where they do not matter, the image and the times. */
void manager_world_open(struct manager_world *w, struct manager_config config);
/* Another manager in the same loop, with an engine of its own. */
void manager_world_open_beside(struct manager_world *w, sd_event *loop,
			       struct manager_config config);
/* Until nothing is due. */
void manager_world_turn(struct manager_world *w);
/* FAKE is NULL when the manager has closed it already. */
void manager_world_close(struct manager_world *w);
