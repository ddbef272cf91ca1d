/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/kernel_bugs.h"

#include "base/attr.h"
#include "base/parse.h"
#include "base/text.h"

#include <string.h>

#define BRANCH(v)     ((v) >> KERNEL_PART_BITS)
#define DEBIAN_MARK   "Debian "
#define UBUNTU_MARK   "Ubuntu "
#define VERSION_PARTS 3

const struct kernel_bug kernel_bugs[] = {
#define V       KERNEL_VERSION
#define UNKNOWN KERNEL_FIX_UNKNOWN
#define NEVER   KERNEL_FIX_NEVER
#define ON(since_, fixed_)                                                                         \
	{                                                                                          \
		since_, fixed_                                                                     \
	}
#define B(cve_, machine_, since_, fixed_, ...)                                                     \
	{.cve = (cve_),                                                                            \
	 .machine = (machine_),                                                                    \
	 .since = (since_),                                                                        \
	 .fixed = (fixed_),                                                                        \
	 .branches = {__VA_ARGS__}},
#include "doctor/kernel_bugs.tbl.h"
#undef B
#undef ON
#undef NEVER
#undef UNKNOWN
#undef V
};
const size_t n_kernel_bugs = ARRAY_SIZE(kernel_bugs);

/* "6.1.148-1" -> 6.1.148 and "-1"; "6.18-rc4" -> 6.18.0 and "-rc4". 0 = another form. */
static uint32_t read_number(const char *s, const char **ret_rest)
{
	uint64_t part[VERSION_PARTS] = {0};

	for (int i = 0; i < VERSION_PARTS; i++) {
		size_t n = strspn(s, "0123456789");

		if (parse_u64_n(s, n, 0, KERNEL_PART_MAX, &part[i]) < 0)
			return 0;
		s += n;
		if (i == 0 && s[0] != '.')
			return 0;
		if (i == VERSION_PARTS - 1 || s[0] != '.')
			break;
		s++;
	}
	*ret_rest = s;
	return KERNEL_VERSION(part[0], part[1], part[2]);
}

/* A release candidate: it has an unknown part of the fixes of its release. */
static bool is_candidate(const char *rest)
{
	return strncmp(rest, "-rc", 3) == 0 || strncmp(rest, "~rc", 3) == 0;
}

static struct kernel_version version_of(const char *text, enum kernel_basis basis)
{
	const char *rest;
	uint32_t number = read_number(text, &rest);

	if (number == 0 || is_candidate(rest))
		return (struct kernel_version){0, KERNEL_OPAQUE};
	/* RHEL, SUSE and others keep the number x.y.0 and add fixes without changing it. */
	if (basis == KERNEL_UPSTREAM &&
	    (strstr(rest, ".el") || (KERNEL_PATCH(number) == 0 && rest[0])))
		return (struct kernel_version){0, KERNEL_OPAQUE};
	return (struct kernel_version){number, number < KERNEL_FIRST ? KERNEL_OLD : basis};
}

struct kernel_version kernel_version_find(const char *release, const char *version,
					  const char *signature)
{
	const char *debian = strstr(version, DEBIAN_MARK);
	const char *last = strrchr(signature, ' ');

	if (strncmp(signature, UBUNTU_MARK, strlen(UBUNTU_MARK)) == 0 && last)
		return version_of(last + 1, KERNEL_UBUNTU);
	if (debian)
		return version_of(debian + strlen(DEBIAN_MARK), KERNEL_DEBIAN);
	return version_of(release, KERNEL_UPSTREAM);
}

static const struct kernel_branch *find_branch(const struct kernel_bug *b, uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->branches); i++) {
		const struct kernel_branch *k = &b->branches[i];

		if (BRANCH(k->since ? k->since : k->fixed) == BRANCH(version))
			return k;
	}
	return NULL;
}

enum kernel_verdict kernel_bug_judge(const struct kernel_bug *b, uint32_t version,
				     const char *machine, uint32_t *ret_fixed)
{
	const struct kernel_branch *k = find_branch(b, version);
	uint32_t since = k && k->since ? k->since : b->since;
	uint32_t fixed = k ? k->fixed : b->fixed;

	if (ret_fixed)
		*ret_fixed = 0;
	if ((b->machine && !streq(b->machine, machine)) || version < since)
		return KERNEL_CLOSED;
	if (fixed == KERNEL_FIX_UNKNOWN)
		return KERNEL_UNKNOWN;
	if (version >= fixed)
		return KERNEL_CLOSED;
	if (ret_fixed)
		*ret_fixed = fixed == KERNEL_FIX_NEVER ? b->fixed : fixed;
	return KERNEL_OPEN;
}
