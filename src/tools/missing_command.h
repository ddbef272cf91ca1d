/* SPDX-License-Identifier: Apache-2.0 */
/* What to do where a program is not in the image. Private to this folder. */
#pragma once

#include "base/buf.h"

/* TEXT is the end of what a run wrote to stderr, as signs_tail() gives it. Appends advice if a shell or the interpreter
 * says there that a program is missing, and nothing otherwise. */
int missing_command_add(struct buf *b, const char *text) MUST_CHECK;
