/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for sandboxes of this server, in words, for clients. */
#pragma once

#include "app/app.h"

/* The effective policy of APP (a struct app) as JSON text (owned). NULL: the engine is not there,
 * or no memory. For api_config.policy. */
char *policy_make(void *app);
