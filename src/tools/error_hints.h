/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of libraries whose own words do not say what to do. Private to this folder. */
#pragma once

#include <stdbool.h>

/* TEXT is the end of what a run wrote to stderr, as signs_tail() gives it. Returns what to do, or NULL. A run that has not FAILED has
 * fewer errors to tell of. */
const char *error_hint_of(const char *text, bool failed);
