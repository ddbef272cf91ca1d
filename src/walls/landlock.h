/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock, the second wall behind the mounts: even if a mount is writable by mistake, a run can change
 * files only below the paths of run_files.tbl.h. From Linux 6.12 on, a run can also neither signal
 * processes nor reach abstract sockets outside of its own domain.
 *
 * Only raw system calls, no allocation, no locale, no logging, because static programs and children
 * between fork and exec use this. landlock.c is compiled into them and includes nothing else of ours.
 *
 * Two halves:
 *   prepare  Init does it once per sandbox, AFTER all mounts are made and before the first run. A rule
 *            holds for the folder that is visible at the path at that moment; a later mount over it is
 *            not covered.
 *   apply    The first process of each run does it (or the clean interpreter does it once, and its forks
 *            inherit it). It must be single-threaded and have set no_new_privs, and it must do it BEFORE
 *            it loads the system call filter, which refuses the Landlock calls. Each apply adds a layer
 *            for all descendants. The kernel allows 16 layers, so a chain of stateful forks may apply
 *            only at its beginning.
 *
 * Signals: a process may signal processes of its own domain and of domains below. So a run that applies
 * for itself can signal neither init nor the clean interpreter nor another run. Descriptors that were
 * opened before apply keep their rights (stdio, code, channels). */
#pragma once

#include <stdbool.h>

/* The level of the kernel's Landlock: Linux 5.13 = 1, 5.19 = 2 (renames between folders), 6.2 = 3
 * (truncate), 6.7 = 4 (TCP), 6.10 = 5 (device ioctls), 6.12 = 6 (scopes), 6.15 = 7 (audit). 0 = the kernel
 * has none, or it was switched off at boot. */
int landlock_abi(void);

/* Level 1 refuses every rename and link between folders (EXDEV), whatever the rules say. That breaks
 * ordinary programs, so we use Landlock from level 2 on. */
#define LANDLOCK_ABI_MIN 2

/* Makes the rule set of runs. The paths are below ROOT: "" in the product, another folder in tests.
 * Returns a descriptor (CLOEXEC, owned), -EOPNOTSUPP when the level is too low, or -errno. The caller then
 * goes on without this wall and reports it. */
int landlock_prepare(const char *root);

/* The same for a sandbox whose root folder can be changed: the users of its files decide who may. */
int landlock_prepare_root(const char *root);

/* For a rule set of another process: */
enum landlock_rights {
	LANDLOCK_READ,     /* read, list, execute */
	LANDLOCK_WRITE,    /* everything but device nodes and device ioctls */
	LANDLOCK_DEVICE,   /* read and write */
	LANDLOCK_TERMINAL, /* a device, and its ioctls */
};
/* Makes a rule set that allows nothing. Returns as landlock_prepare(). */
int landlock_new(void);
/* Allows RIGHTS below ROOT + PATH. Returns 0, also when there is no such path, or -errno. */
int landlock_add(int ruleset_fd, const char *root, const char *path, enum landlock_rights rights);

/* Applies the rule set to the calling process. Returns 0 or -errno. The caller keeps the descriptor. */
int landlock_apply(int ruleset_fd);
