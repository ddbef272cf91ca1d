/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for a child process that was told to end. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Waits until the child PID has ended and takes its exit status from the kernel, but not longer than
 * TIMEOUT_NS: a child that hangs must not keep its parent. PID 0 or less: nothing to wait for. */
void reap_child(pid_t pid, uint64_t timeout_ns);
