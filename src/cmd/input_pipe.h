/* SPDX-License-Identifier: Apache-2.0 */
/* Passes our standard input on to a run through a pipe.
 *
 * The sandbox never gets the descriptor itself: with a terminal it could type for the user, and with a
 * file it could read more of it than the user meant, or write to it. */
#pragma once

#include "base/err.h"

#include <systemd/sd-event.h>

struct input_pipe;

/* *RET_FD is the end to read from, owned by the caller. */
int input_pipe_new(sd_event *loop, struct input_pipe **ret, int *ret_fd, struct err *e) MUST_CHECK;
struct input_pipe *input_pipe_free(struct input_pipe *p); /* NULL is fine */
