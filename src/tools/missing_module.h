/* SPDX-License-Identifier: Apache-2.0 */
/* Which package has a module that is not installed. Private to this folder. */
#pragma once

#include "base/buf.h"

/* TEXT is the end of what a run wrote to stderr, as signs_tail() gives it. Appends advice if the interpreter says there
 * that a module is missing, and nothing otherwise. PACKAGES: this server installs packages. */
int missing_module_add(struct buf *b, const char *text, bool packages) MUST_CHECK;
