/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/own_limits.h"

#include "cmd/cmd.h"

#include "base/attr.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

/* What is needed until a first small sandbox has run, with the default settings; measured and rounded up. The disk of a
 * workspace is one file. */
static const struct {
	__rlimit_resource_t resource;
	const char *what, *option; /* of the shell's ulimit */
	uint64_t least, unit;
	const char *unit_name;
} needs[] = {
    {RLIMIT_STACK, "the stack", "-s", 128 * KIB, KIB, " KiB"},
    {RLIMIT_DATA, "the memory of a process", "-d", 64 * MIB, KIB, " KiB"},
    {RLIMIT_FSIZE, "the size of a file", "-f", 4096 * MIB, MIB, " MiB"},
    {RLIMIT_NOFILE, "the number of open files", "-n", 64, 1, ""},
};

int own_limits_check(const char *verb)
{
	for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
		struct rlimit r;
		struct err e = ERR_INIT;

		if (getrlimit(needs[i].resource, &r) < 0 || r.rlim_cur >= needs[i].least)
			continue;
		if (r.rlim_max >= needs[i].least) {
			r.rlim_cur = needs[i].least;
			if (setrlimit(needs[i].resource, &r) == 0)
				continue;
		}
		(void)err_set(&e, ERR_SYSTEM, 0,
			      "%s is limited to %" PRIu64 "%s, and at least %" PRIu64
			      "%s are needed (ulimit %s)",
			      needs[i].what, (uint64_t)r.rlim_max / needs[i].unit,
			      needs[i].unit_name, needs[i].least / needs[i].unit,
			      needs[i].unit_name, needs[i].option);
		return cmd_fail(verb, &e);
	}
	return 0;
}
