/* SPDX-License-Identifier: Apache-2.0 */
/* What the two processes of ours that are not sandboxed may still do: the front, which parses
 * everything that comes from outside, and the monitor, which has the power. The tables are
 * front.tbl.h, front_files.tbl.h and monitor.tbl.h.
 *
 * Order: native_confine_files() while the paths can still be opened; then privileges go (start.c);
 * then native_confine_front(). From there on there is no way back for the process and its children.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define NATIVE_CONFINE_MAX 700 /* instructions of a filter */

/* Where the front's files are; NULL or "": there are none of that kind. */
struct native_places {
	const char *state;
	const char *store;
	const char *log;
	const char *socket;
	const char *wheels;
};

/* The rule set for the front's files: a descriptor (owned, CLOEXEC), -EOPNOTSUPP where the kernel
 * has no Landlock that will do, or -errno. */
int native_confine_files(const struct native_places *places);
/* Confines the calling process, which has no privileges left and no threads. FILES: from
 * native_confine_files(), or negative: then files are bounded by the uid alone. */
int native_confine_front(int files, struct err *e) MUST_CHECK;
/* The same for the monitor when it is root: gives up what monitor.tbl.h does not keep, for itself
 * and its children. */
int native_confine_monitor(struct err *e) MUST_CHECK;

/* ---- for tests ---- */

/* What the tables say about a call: 0 = allowed, a positive errno = refused with it. */
#define NATIVE_CONFINE_SOMETIMES (-1) /* the arguments decide */
int native_confine_front_verdict(uint32_t nr);
int native_confine_monitor_verdict(uint32_t nr);
/* Bit N: the monitor keeps capability N. */
uint64_t native_confine_monitor_caps(void);
