/* SPDX-License-Identifier: Apache-2.0 */
/* How many descriptors a target has open: what it is sent must not stay with it. Looks at the first
 * ones alone, because new ones are always the lowest that are free, and with one system call:
 * reading /proc/self/fd would be most of the work of a target. */
#pragma once

#include <poll.h>
#include <stddef.h>

#define FUZZ_DESCRIPTORS_MAX 96

static inline size_t fuzz_count_descriptors(void)
{
	struct pollfd p[FUZZ_DESCRIPTORS_MAX];
	const struct timespec now = {0};
	size_t n = 0;

	for (int fd = 0; fd < FUZZ_DESCRIPTORS_MAX; fd++)
		p[fd] = (struct pollfd){.fd = fd};
	if (ppoll(p, FUZZ_DESCRIPTORS_MAX, &now, NULL) < 0)
		return 0;
	for (int fd = 0; fd < FUZZ_DESCRIPTORS_MAX; fd++)
		n += !(p[fd].revents & POLLNVAL);
	return n;
}
