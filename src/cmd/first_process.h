/* SPDX-License-Identifier: Apache-2.0 */
/* Being the first process of a container. The kernel gives that process every orphan of the
 * container, and keeps from it each signal that it does not handle. Few programs are made for this,
 * so a small process of ours does it, and the verb runs in a child. */
#pragma once

/* If the caller is process 1: forks and returns in the child. The first process stays. It passes
 * signals on, waits for everything that ends, and exits with the status of the child, or 128 and the
 * number of the signal that killed it. Does nothing in any other process. */
void first_process_split(void);
