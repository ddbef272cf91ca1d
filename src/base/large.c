/* SPDX-License-Identifier: Apache-2.0 */
#include "base/large.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>

#define RETURN_FROM (1 << 20)         /* bytes */
#define HINT_FROM   ((size_t)4 << 20) /* bytes: less would waste a part of few huge pages */
#define PAGE                                                                                       \
	((uintptr_t)4096) /* madvise(2) wants the beginning of a page; larger pages ignore the hint */

void large_blocks_return(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, RETURN_FROM);
}

void large_block_hint(void *data, size_t len)
{
	const int saved = errno;
	const uintptr_t begin = ((uintptr_t)data + PAGE - 1) & ~(PAGE - 1);
	const uintptr_t end = ((uintptr_t)data + len) & ~(PAGE - 1);

	if (len < HINT_FROM)
		return;
	/* EINVAL: a kernel without huge pages. */
	(void)madvise((char *)data + (begin - (uintptr_t)data), end - begin, MADV_HUGEPAGE);
	errno = saved;
}
