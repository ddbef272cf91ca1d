/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal answers questions: where its cursor is, which colours it has, what its title is. It reports clicks, focus and pasted
 * text if a program has asked for that. The answers are input like what a person types. When `caisson shell` ends they would be
 * input of the shell that it was called from, and the program that asked is one of a sandbox. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Could a terminal answer to these bytes, or report something from then on? */
bool shell_may_report(const void *data, size_t len);
/* The terminal is in raw mode. Ends all reports, and reads away those that are on their way. */
void shell_quiet(void);
