/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a run and the steps between them; the picture is in init.h. */
#include "init.h"

#define TO(state) (1u << RUN_##state)

/* A step that is not in this table is an error in init itself, so init ends. Submitted code cannot
 * cause one: what it sends is checked before run_to() is called. */
static const uint8_t allowed[] = {
    [RUN_NONE] = TO(WAITING),
    [RUN_WAITING] = TO(NONE) | TO(RUNNING),
    [RUN_RUNNING] = TO(KILLING) | TO(ENDING),
    [RUN_KILLING] = TO(ENDING),
    [RUN_ENDING] = TO(NONE),
};

void run_to(struct init *in, enum run_state state)
{
	struct init_run *r = &in->run;

	if (!(allowed[r->state] & (1u << state)))
		init_die("run state");
	r->state = state;
	if (state == RUN_ENDING)
		r->pid = 0;
	else if (state == RUN_NONE)
		*r = (struct init_run){0};
}
