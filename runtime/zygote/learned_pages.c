/* SPDX-License-Identifier: Apache-2.0 */
/* Which pages a run will make its own: the zygote has watched two runs in forks of itself (learn()
 * in zygote.py), and memory lies the same in all of its forks. A spare copies those pages while
 * nobody waits, a range in one system call instead of a page in one exception. A range that is not
 * there any more, or a kernel before 5.14, costs the run its page faults and nothing else. */
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
	uint64_t write; /* else it is only looked at */
};

static struct {
	struct range *range;
	size_t n;
} learned[2]; /* of a stateless run; of a session's */

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
