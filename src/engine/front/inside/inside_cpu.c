/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time by the kernel's counter of the sandbox's control group. What a run or its parent says is not
 * enough: the time of a child that nobody waits for is in no parent's figures, and a run can speak the
 * protocol of its session itself. */
#include "base/parse.h"
#include "base/text.h"
#include "base/walls.h"
#include "engine/front/inside/inside.h"

#include <string.h>
#include <unistd.h>

/* cpuacct.usage (v1) is a number of nanoseconds; cpu.stat (v2) begins with "usage_usec N". */
static bool read_counter(int fd, uint64_t *ret_ns)
{
	static const char key[] = "usage_usec ";
	char text[256];
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return false;
	text[n] = '\0';
	bool us = text_starts_with(text, key);
	const char *number = us ? text + strlen(key) : text;
	if (parse_u64_n(number, strcspn(number, "\n"), 0, UINT64_MAX / 1000, ret_ns) < 0)
		return false;
	*ret_ns *= us ? 1000 : 1;
	return true;
}

bool inside_cpu_look(struct engine_sandbox *s, uint64_t *ret_ns)
{
	uint64_t now;

	if (!wall_stands(WALL_CPU_COUNTER) || !read_counter(s->counters.cpu, &now))
		return false;
	*ret_ns = now > s->told_cpu_ns ? now - s->told_cpu_ns : 0;
	s->told_cpu_ns = MAX(now, s->told_cpu_ns);
	return true;
}

uint64_t inside_cpu_take_rest(struct engine_sandbox *s)
{
	const uint64_t ns = s->cpu_ns > s->told_cpu_ns ? s->cpu_ns - s->told_cpu_ns : 0;

	s->told_cpu_ns += ns;
	return ns;
}

uint64_t inside_cpu_of_rest(const struct engine_sandbox *s, uint64_t wall_ns)
{
	if (s->cpu_ns == 0)
		return wall_ns / 1000 * s->policy.limits.cpu_milli;
	return s->cpu_ns > s->told_cpu_ns ? s->cpu_ns - s->told_cpu_ns : 0;
}

uint64_t engine_cpu_ns(const struct engine_sandbox *s)
{
	uint64_t now;

	return read_counter(s->counters.cpu, &now) ? now : s->cpu_ns; /* of one that is gone */
}
