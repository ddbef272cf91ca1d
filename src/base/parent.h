/* SPDX-License-Identifier: Apache-2.0 */
/* The parent of a small process that keeps rights which the parent gives up: its messages, and its end.
 *
 * The end of its channel does not tell that it has ended: a front that was taken over can give its end of the channel
 * to a sandbox, whose processes would keep it open. So its process is watched, too. PR_SET_PDEATHSIG does not do: the
 * kernel sends no signal that the parent, without its rights, could not have sent. */
#pragma once

#include "base/attr.h"

#include <stddef.h>

/* A descriptor that can be read as soon as our parent has ended; -1 = this kernel cannot say. */
int parent_watch(void) MUST_CHECK;

/* Waits for a message. 0, or -EPIPE: the parent has ended. */
int parent_wait(int channel, int watch) MUST_CHECK;
/* As parent_wait(), for about MS milliseconds: then -ETIMEDOUT. */
int parent_wait_ms(int channel, int watch, int ms) MUST_CHECK;

/* Sends a message, and waits while the parent does not read. 0, or -errno: nobody will read it. */
int parent_send(int channel, int watch, const void *data, size_t len, const int *fds,
		size_t n) MUST_CHECK;
