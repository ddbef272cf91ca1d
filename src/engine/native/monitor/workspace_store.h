/* SPDX-License-Identifier: Apache-2.0 */
/* Stored workspaces: they outlive their sandbox, this process and the machine's power.
 *
 *   <state-dir>/workspaces/        0700, the monitor's
 *     KEY.img                      as host root: a sparse file with an ext4 file system
 *     KEY/ and KEY.lock            as a plain user, who may mount no such thing: a folder
 *     .new-XXXX, .dead-XXXX        being made, being removed; the next start clears them away
 *
 * A workspace appears under its name whole or not at all (made aside, flushed, renamed), and goes
 * at once (renamed, then removed). Who may use it is said by flock(2):
 *
 *   disk     the lock belongs to the open file that the loop device holds. The kernel lets go of
 *            the device with the last mount, so the lock lasts exactly as long as something can
 *            write to the file system, whoever is killed in between, and needs no clean-up
 *   folder   the lock belongs to a file that init holds open; it ends with init
 *
 * Why ext4 with a journal: the kernel alone writes its structures, so what a run does to its files
 * cannot make a broken file system, and after a loss of power the journal is replayed by the mount.
 * The journal has its smallest size (4 MiB of space, none of it used by an idle workspace).
 *
 * Ids: a sandbox has another uid at each activation. On the disk everything belongs to 1000, and
 * the mount is mapped to the uid at hand. A plain user cannot map mounts: a folder keeps the uid
 * that it got when it was made, and its sandboxes take that one. */
#pragma once

#include "base/attr.h"
#include "engine/native/monitor/monitor.h"

/* What of it this host allows: nothing, folders, or disks (PROTO_CAP_PERSISTENT in best_effort or
 * in enforced). */
uint32_t workspace_enforced(const struct monitor *m) MUST_CHECK;
uint32_t workspace_best_effort(const struct monitor *m) MUST_CHECK;

/* In the maker, as host root: the file system of KEY as a mount that is mounted nowhere, its files
 * mapped to host id UID. Made when there is none, at least BYTES and INODES large (one that is
 * there keeps its size). -EBUSY: another sandbox has it, here or elsewhere. */
int workspace_open_disk(const char *state_dir, const char *key, const struct proto_limits *limits,
			uint32_t uid, int *ret_tree) MUST_CHECK;

/* In the maker of a plain user, as root of Z but still among the host's mounts: the folder of KEY
 * likewise. *UID (in Z) is for a new one, and becomes the one that a folder has. *RET_LOCK must be
 * kept open as long as the mount is used. Leaves the host's mounts for a copy. */
int workspace_open_folder(const char *state_dir, const char *key, uint32_t *uid, int *ret_tree,
			  int *ret_lock) MUST_CHECK;

/* Takes the workspace out of sight, for workspace_sweep(); 0 also when there is none. -EBUSY: it is in
 * use. */
int workspace_forget(const char *state_dir, const char *key) MUST_CHECK;

/* Removes, in a process of its own, whatever was made or forgotten and left aside. */
void workspace_sweep(const struct monitor *m);

/* workspace_store.c, for the files of this room */
#define WORKSPACE_PATH_MAX 128 /* of a name within the folder */
#define WORKSPACE_NEW      ".new-"
#define WORKSPACE_DEAD     ".dead-"
/* The folder of all workspaces, made when it is missing. */
int workspace_root(const char *state_dir) MUST_CHECK;
/* "PREFIX" and 16 random digits. */
void workspace_aside_name(char ret[WORKSPACE_PATH_MAX], const char *prefix);
/* Opens NAME in DIR and takes its lock; waits two seconds for one that is just ending.
 * -ENOENT, -EBUSY. */
int workspace_lock(int dir, const char *name, int flags) MUST_CHECK;
