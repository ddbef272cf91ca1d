/* SPDX-License-Identifier: Apache-2.0 */
/* What the root user of a sandbox has changed, outside of the workspace, /tmp and the home folder: the layer of a container
 * image, to be unpacked over the image of the sandbox. */
#pragma once

#include "engine/engine.h"

/* Has the layer written to PIPE, the writing end of a pipe, which is borrowed until this returns; then only the sandbox has it, and
 * closes it when the layer is complete or has failed. What comes is made inside and may be anything.
 *
 * CB: with files and bytes of the layer, and `skipped`, its sockets and devices. No run and no background process may be on
 * meanwhile (SESSION_BUSY). After an error the layer is not complete. INVALID_ARGUMENT: the sandbox has no root user. */
int engine_write_layer(struct engine_sandbox *s, int pipe, engine_checkpoint_fn cb, void *user,
		       struct err *e) MUST_CHECK;
