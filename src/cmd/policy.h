/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for sandboxes of this server, in words: for `doctor` and for clients. */
#pragma once

#include "cmd/app.h"

#include <jansson.h>

/* enum engine_cap bits as a list of words (owned). */
json_t *policy_words(uint32_t caps);
/* The effective policy of APP (a struct app) as JSON text (owned). NULL: the engine is not there,
 * or no memory. For api_config.policy. */
char *policy_make(void *app);
