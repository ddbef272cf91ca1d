/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the process that started this one. A client that crashes does not always end our input: another child
 * of it may hold the pipe. */
#pragma once

#include "base/attr.h"

#include <systemd/sd-event.h>

/* Calls GONE once, from the loop, soon after our parent has ended. Nothing is watched if init is our parent. */
int launcher_watch(sd_event *loop, void (*gone)(void *user), void *user) MUST_CHECK;
