/* SPDX-License-Identifier: Apache-2.0 */
/* Large blocks of malloc(3): answers of many megabytes. Without large_blocks_return() the C library
 * keeps what such an answer took, because it raises its limits with each large block that is freed.
 * Without large_block_hint() each new block costs a page fault for every 4 KiB, more than all that is
 * done with its bytes. Both are hints: nothing changes if the kernel or the library ignores them. */
#pragma once

#include <stddef.h>

/* Of the process: from now on a block of 1 MiB or more is memory of its own, which free(3) returns
 * to the kernel. */
void large_blocks_return(void);
/* DATA (LEN bytes) has just been allocated: it may consist of huge pages. Small blocks are left alone. */
void large_block_hint(void *data, size_t len);
