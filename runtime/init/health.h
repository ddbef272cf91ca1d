/* SPDX-License-Identifier: Apache-2.0 */
/* A port at which init itself answers GET /health with 200, for programs in the sandbox that wait until it can run code: that
 * it can is what an answer of init says. Anything else there is 404. port.c. */
#pragma once

#include "init.h"

/* Begins to listen at PORT of 127.0.0.1; nothing if it does already, or if the port is taken. */
void health_begin(uint32_t port);
/* To be polled; -1 = it does not listen. */
int health_fd(void);
/* Somebody has connected. Waits 20 ms at most for what he asks. */
void health_answer(void);
