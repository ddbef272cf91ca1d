/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that a run will touch. The zygote has watched two runs in forks of itself (learn() in
 * pages.py), and memory has the same layout in all of its forks. A spare copies those pages while
 * nobody waits: one system call for each range instead of one page fault for each page. If a range
 * no longer exists, or the kernel is older than 5.14, the run has its page faults and nothing else
 * changes. */
#include "extension.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

struct range {
	uint64_t start;
	uint64_t bytes;
	uint64_t write; /* 0 = the run only reads there */
};

static struct {
	struct range *range;
	size_t n;
} learned[2]; /* [0] of a stateless run, [1] of a run in a session */

int learned_set(int session, const void *ranges, size_t len)
{
	struct range *copy = malloc(len + 1);

	if (!copy || len % sizeof(struct range) != 0) {
		free(copy);
		return -1;
	}
	memcpy(copy, ranges, len);
	free(learned[session != 0].range);
	learned[session != 0].range = copy;
	learned[session != 0].n = len / sizeof(struct range);
	return 0;
}

void learned_copy(int session)
{
	const struct range *r = learned[session != 0].range;

	for (size_t i = 0; i < learned[session != 0].n; i++)
		(void)madvise((void *)(uintptr_t)r[i].start, (size_t)r[i].bytes,
			      r[i].write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}
