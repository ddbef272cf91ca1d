/* SPDX-License-Identifier: Apache-2.0 */
/* What the tools for checkpoints and for branches share. */
#pragma once

#include "tools/extras.h"

/* Copies TEXT as the name of a checkpoint (CHECKPOINT_NAME_MAX + 1 bytes); the manager checks
 * its letters. False: the call is finished. */
bool extras_checkpoint_name(struct mcp_call *call, const char *text, char *ret);
