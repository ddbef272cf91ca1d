/* SPDX-License-Identifier: Apache-2.0 */
/* The limits and walls in force for sandboxes of this server, as JSON for clients. */
#pragma once

#include "app/app.h"

/* The policy in force of APP (a struct app) as JSON text (owned). NULL: the engine is not open, or
 * no memory. For api_config.policy. */
char *policy_make(void *app);
