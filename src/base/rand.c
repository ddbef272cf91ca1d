/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rand.h"

#include "base/attr.h"
#include "base/text.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

void rand_bytes(void *ret, size_t len)
{
	uint8_t *p = ret;

	while (len > 0) {
		ssize_t n = getrandom(p, MIN(len, (size_t)256), 0);
		if (n < 0) {
			ASSERT(errno == EINTR);
			continue;
		}
		p += n;
		len -= (size_t)n;
	}
}

void rand_hex(char *ret, size_t bytes)
{
	uint8_t raw[64];

	ASSERT(bytes <= sizeof(raw));
	rand_bytes(raw, bytes);
	text_hex(raw, bytes, ret);
}

void rand_uuid(char ret[UUID_SIZE])
{
	uint8_t raw[16];
	char hex[2 * sizeof(raw) + 1];

	rand_bytes(raw, sizeof(raw));
	raw[6] = (raw[6] & 0x0fu) | 0x40u;
	raw[8] = (raw[8] & 0x3fu) | 0x80u;
	text_hex(raw, sizeof(raw), hex);
	(void)snprintf(ret, UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
		       hex + 16, hex + 20);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	ASSERT(clock_gettime(id, &t) == 0);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t now_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}
