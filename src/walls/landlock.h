/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock as the second wall behind the mounts: even where a mount was left writable by mistake, a
 * run can change files only below the paths of run_files.tbl.h. Where the kernel can (6.12), runs
 * can also neither signal processes nor reach abstract sockets outside of their own domain.
 *
 * Raw system calls, no allocation, no locale, no logging: for static programs and for children
 * between fork and exec. landlock.c is compiled into them; it includes nothing else of ours.
 *
 * Two halves:
 *   prepare  once per sandbox, by init, AFTER all mounts are made and before any run: a rule holds
 * for the folder that is visible at that path at that moment. A later mount over it is not covered.
 *   apply    by each run's first process (or once by the clean interpreter, whose forks inherit
 * it), single-threaded, after no_new_privs and BEFORE the system call filter, which refuses the
 *            Landlock calls. Each apply adds a layer for all descendants, at most 16 in a chain: a
 *            chain of stateful forks must apply only at its beginning.
 *
 * Signals: processes of one domain may signal each other and processes of domains below; a run that
 * applies on its own can therefore signal neither init nor the clean interpreter nor another run.
 * Descriptors opened before apply keep their rights (stdio, code, channels). */
#pragma once

#include <stdbool.h>

/* Linux 5.13 = 1, 5.19 = 2 (renames between folders), 6.2 = 3 (truncate), 6.7 = 4 (TCP), 6.10 = 5
 * (device ioctls), 6.12 = 6 (scopes), 6.15 = 7 (audit). 0 = not there or switched off at boot. */
int landlock_abi(void);

/* Level 1 refuses every rename and link between folders, whatever the rules say (EXDEV), which
 * breaks ordinary programs: the wall stands from this level on. */
#define LANDLOCK_ABI_MIN 2

/* Below ROOT ("" = the real root), which tests use. Returns a descriptor (CLOEXEC, owned),
 * -EOPNOTSUPP when the level is too low, or -errno; the caller then goes on without this wall and
 * says so. */
int landlock_prepare(const char *root);

/* The same by hand, for processes of ours that are no sandbox. */
enum landlock_rights {
	LANDLOCK_READ,     /* read, list, execute */
	LANDLOCK_WRITE,    /* everything but device nodes and device ioctls */
	LANDLOCK_DEVICE,   /* read and write */
	LANDLOCK_TERMINAL, /* a device, and its ioctls */
};
/* A rule set that allows nothing; returns as landlock_prepare(). */
int landlock_new(void);
/* Allows RIGHTS below PATH, which stands below ROOT. 0 also when there is no such path, or -errno.
 */
int landlock_add(int ruleset_fd, const char *root, const char *path, enum landlock_rights rights);

/* Returns 0 or -errno. The descriptor stays the caller's. */
int landlock_apply(int ruleset_fd);
