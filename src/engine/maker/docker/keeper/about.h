/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon is and what it can enforce. */
#pragma once

#include "engine/maker/docker/keeper/daemon.h"

/* Asks the daemon, which takes a few milliseconds, and sets the version that A uses from then on.
 * ERR_ENGINE_UNAVAILABLE: no daemon answers, it is too old, or it cannot make the usual level of CONFIG. */
int about_ask(struct daemon *a, const struct keeper_config *config, struct docker_about *ret,
	      struct err *e) MUST_CHECK;
