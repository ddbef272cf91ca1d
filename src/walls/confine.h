/* SPDX-License-Identifier: Apache-2.0 */
/* Confines the two long-lived processes outside of sandboxes: the front, which parses every byte that
 * comes from a client, and the monitor, which has privileges. The tables are front_calls.tbl.h,
 * front_files.tbl.h, monitor_calls.tbl.h and monitor_caps.tbl.h.
 *
 * Order for the front: confine_files() while the process can still open the paths; then it gives up
 * its privileges; then confine_front(). Neither the process nor its children can undo it. */
#pragma once

#include "base/err.h"

/* Where the front's files are. NULL or "": there are no files of that kind. */
struct confine_places {
	const char *state;
	const char *store;
	const char *log;
	const char *socket;
	const char *wheels;
	const char *account;
};

/* Makes the Landlock rule set for the front's files. Returns a descriptor (owned, CLOEXEC),
 * -EOPNOTSUPP where the kernel has no Landlock or too old a one, or -errno. */
int confine_files(const struct confine_places *places);
/* Confines the calling process, which must have no privileges and no threads left. FILES is what
 * confine_files() returned; where it is negative, only the uid limits which files can be opened. */
int confine_front(int files, struct err *e) MUST_CHECK;
/* Confines the calling monitor, which runs as root: drops the capabilities that monitor_caps.tbl.h
 * does not keep and loads its filter, for itself and its children. */
int confine_monitor(struct err *e) MUST_CHECK;
/* Confines the calling keeper, which talks to a container daemon: it may change files below FOLDER and
 * read certificates in CERTS ("" = there are none). As root it keeps a few capabilities. */
int confine_keeper(const char *folder, const char *certs, struct err *e) MUST_CHECK;
