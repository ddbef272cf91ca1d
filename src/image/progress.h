/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the error output of mmdebstrap, apt and dpkg: how far they are, and why they failed. Text
 * in, state out. The lines come from programs that read the network, so each is limited, and only
 * names and counts are used. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_LINE_MAX 1024
#define PROGRESS_TAIL     12 /* last error lines, kept for the person */

enum progress_phase {
	PROGRESS_INDEX,    /* reading the package lists */
	PROGRESS_DOWNLOAD, /* fetching packages */
	PROGRESS_UNPACK,
	PROGRESS_SETUP,
	PROGRESS_HOOK, /* the definition's own script */
	PROGRESS_PACK, /* the finished tree is being written to us */
};

enum progress_failure {
	PROGRESS_FAIL_NONE,
	PROGRESS_FAIL_STALE,       /* a release file is past its Valid-Until */
	PROGRESS_FAIL_UNREACHABLE, /* name resolution, connections, files that the mirror lacks */
	PROGRESS_FAIL_SIGNATURE,
	PROGRESS_FAIL_DISK,
	PROGRESS_FAIL_PACKAGE, /* a package that the suite does not have */
	PROGRESS_FAIL_USERNS,  /* no unprivileged user namespace or sub-uids */
	PROGRESS_FAIL_WHEELS,  /* the package index, or a wheel of it */
	PROGRESS_FAIL_CHECK,   /* the image was made, but failed its check */
	PROGRESS_FAIL_OTHER,   /* an error line that no row of the table knows */
	PROGRESS_FAIL_MAX_,
};

struct progress {
	enum progress_phase phase;
	uint64_t expected; /* packages, as apt announced them so far */
	uint64_t fetched, unpacked, configured;
	char item[64];                         /* the current package or step; printable ASCII */
	uint64_t failures[PROGRESS_FAIL_MAX_]; /* error lines of each kind */
	char last_error[PROGRESS_FAIL_MAX_][256];
	char line[PROGRESS_LINE_MAX];
	size_t line_len;
};

/* Adds bytes. Returns true if there is something new to show. */
bool progress_feed(struct progress *p, const char *data, size_t len);
/* The step for a person ("installing packages"), what goes on now ("unpacking libc6"), and done and
 * total for a bar (total 0 = unknown). */
const char *progress_step(const struct progress *p);
void progress_item(const struct progress *p, char *ret, size_t size);
void progress_count(const struct progress *p, uint64_t *ret_done, uint64_t *ret_total);

/* The one reason to show. A stale release file counts only if nothing else is wrong. */
enum progress_failure progress_reason(const struct progress *p);
