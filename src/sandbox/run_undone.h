/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/* What runs whose callers heard no answer have done to the variables of their session. */
struct run_undone {
	bool back; /* the variables went back to those before such a run */
	bool lost; /* or there were none to go back to */
	struct engine_left left;
};
