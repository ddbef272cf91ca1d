/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by extras_points.c and extras_branch.c alone. */
#pragma once

#include "tools/extras.h"

/* TEXT as the name of a checkpoint (CHECKPOINT_NAME_MAX + 1 bytes); the manager looks at its
 * letters. False: the call is finished. */
bool extras_point_name(struct mcp_call *call, const char *text, char *ret);
