/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of resources that the program was started with (ulimit of a shell, LimitNOFILE= of a unit). */
#pragma once

/* Raises those that are too low for sandboxes as far as the hard limits permit. Returns 0, or the exit status after a line
 * that names the limit: a process that met it later would crash or fail with an error that says nothing of the cause. */
int own_limits_check(const char *verb);
