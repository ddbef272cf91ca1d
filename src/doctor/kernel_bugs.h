/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel bugs that reach through the walls of a sandbox (docs/kernel-bugs.md) a kernel still
 * has, judged only by its upstream version. The table is kernel_bugs.tbl.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An upstream version as one number, so that versions can be compared. Each part is 0 to
 * KERNEL_PART_MAX. */
#define KERNEL_PART_BITS 10
#define KERNEL_PART_MAX  ((1 << KERNEL_PART_BITS) - 1)
#define KERNEL_VERSION(a, b, c)                                                                    \
	((uint32_t)(a) << (2 * KERNEL_PART_BITS) | (uint32_t)(b) << KERNEL_PART_BITS |             \
	 (uint32_t)(c))
#define KERNEL_MAJOR(v) ((v) >> (2 * KERNEL_PART_BITS))
#define KERNEL_MINOR(v) ((v) >> KERNEL_PART_BITS & KERNEL_PART_MAX)
#define KERNEL_PATCH(v) ((v)&KERNEL_PART_MAX)
#define KERNEL_FIRST    KERNEL_VERSION(5, 10, 0) /* the table has no older ones */

enum kernel_basis {
	KERNEL_UPSTREAM, /* an upstream release, perhaps with a suffix */
	KERNEL_DEBIAN,   /* a Debian package: an upstream release with a few more fixes */
	KERNEL_UBUNTU,   /* an Ubuntu package: the upstream number stays and Ubuntu adds fixes */
	KERNEL_OLD,      /* older than the table */
	KERNEL_OPAQUE,   /* the number does not say what was fixed */
};

struct kernel_version {
	uint32_t number; /* 0 with KERNEL_OPAQUE */
	enum kernel_basis basis;
};

/* From `release` and `version` of uname(2), and the line of /proc/version_signature, which Ubuntu
 * has; "" = no such file. Any text is allowed. */
struct kernel_version kernel_version_find(const char *release, const char *version,
					  const char *signature);

struct kernel_branch {
	uint32_t since; /* 0 = same as mainline */
	uint32_t fixed; /* or one of the two below */
};
#define KERNEL_FIX_UNKNOWN 0
#define KERNEL_FIX_NEVER   UINT32_MAX
#define KERNEL_BRANCHES    8 /* at most, of one bug */

struct kernel_bug {
	const char *cve;
	const char *machine; /* NULL = all */
	uint32_t since;
	uint32_t fixed; /* in mainline; KERNEL_FIX_UNKNOWN */
	struct kernel_branch branches[KERNEL_BRANCHES];
};
extern const struct kernel_bug kernel_bugs[];
extern const size_t n_kernel_bugs;

enum kernel_verdict {
	KERNEL_CLOSED,  /* it never had the bug, or has the fix */
	KERNEL_OPEN,    /* it has the bug */
	KERNEL_UNKNOWN, /* it had the bug, and no release of its branch is known to have the fix */
};

/* *RET_FIXED (may be NULL) with KERNEL_OPEN: the first fixed release of the same branch, or of mainline
 * if that branch has none. Otherwise 0. */
enum kernel_verdict kernel_bug_judge(const struct kernel_bug *b, uint32_t version,
				     const char *machine, uint32_t *ret_fixed);
