/* SPDX-License-Identifier: Apache-2.0 */
/* What the root user of a sandbox has changed, for an image (engine/engine_layer.h). */
#pragma once

#include "sandbox/sandbox.h"

/* BYTES of FILES; SKIPPED sockets and devices. 0 with E. */
typedef void (*sandbox_layer_fn)(uint64_t files, uint64_t bytes, uint32_t skipped,
				 const struct err *e, void *user);

/* Has it written to PIPE, which is borrowed until this returns. Seizes the sandbox until it is done: a run, a background process, an
 * upload or a second such call are SESSION_BUSY. INVALID_ARGUMENT: there is no root user. */
int sandbox_write_layer(struct sandbox *s, int pipe, sandbox_layer_fn cb, void *user,
			struct err *e) MUST_CHECK;
