/* SPDX-License-Identifier: Apache-2.0 */
/* Loop devices: the kernel hands out numbers, and a node in /dev leads to each. In a container nobody
 * makes these nodes, and the container may forbid to make or open them. */
#pragma once

#include "base/attr.h"

#define LOOP_PATH_MAX 32
#define LOOP_MAJOR    7

/* Opens device NUMBER and sets PATH to its node, which it makes where there is none. */
int loop_device_open(int number, char path[LOOP_PATH_MAX]) MUST_CHECK;

/* Opens a free device as a maker will, and closes it. 0, or why makers would fail. */
int loop_device_try(void) MUST_CHECK;
