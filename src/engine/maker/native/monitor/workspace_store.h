/* SPDX-License-Identifier: Apache-2.0 */
/* Stored workspaces. They outlive their sandbox, the monitor and a loss of power.
 *
 *   <state-dir>/workspaces/        mode 0700, owned by the monitor
 *     KEY.img                      root: a sparse file with an ext4 file system
 *     KEY/ and KEY.lock            plain user, who may not mount a file: a folder
 *     .new-XXXX, .dead-XXXX        being made, being removed; the next start removes what is left
 *
 * A workspace appears under its name complete or not at all (it is made under another name, flushed, and
 * renamed). It disappears at once (it is renamed, then removed). A lock of flock(2) keeps it for one
 * sandbox:
 *
 *   disk     The lock belongs to the open file of the loop device. The kernel frees the device with the
 *            last mount. So the lock lasts exactly as long as somebody can write to the file system,
 *            whichever process is killed, and it needs no clean-up.
 *   folder   The lock belongs to a file that init holds open. It ends with init.
 *
 * Why ext4 with a journal: only the kernel writes the structures of the file system, so a run cannot break
 * them, and after a loss of power the next mount replays the journal. The journal has the smallest size
 * that ext4 allows, 4 MiB; an idle workspace uses none of it.
 *
 * Ids: a sandbox has another uid each time it is activated. On a disk everything belongs to 1000, and the
 * mount maps 1000 to the current uid. A plain user cannot map mounts: a folder keeps the uid that it got
 * when it was made, and its sandboxes take that uid. */
#pragma once

#include "base/attr.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/native/monitor/loop_device.h"
#include "engine/maker/native/monitor/monitor.h"

/* Which kind this host allows: PROTO_CAP_PERSISTENT in `enforced` means disks, in `best_effort` folders. */
uint32_t workspace_enforced(const struct monitor *m) MUST_CHECK;
uint32_t workspace_best_effort(const struct monitor *m) MUST_CHECK;

/* In the maker, as root: opens the file system of KEY as a mount that is not attached yet, with its files
 * mapped to the host id UID, and reports its disk. A missing workspace is made, with room for the bytes and inodes
 * of its limits; an existing one keeps its size. -EBUSY: another sandbox uses it, of this server or another.
 * -ENOSPC: the host has no room for another. */
int workspace_open_disk(const struct maker *k, uint32_t uid, int *ret_tree) MUST_CHECK;

/* The same for a folder: in the maker of a plain user, as root of Z, but still in the host's mount
 * namespace; returns in a copy of that. Without MAY_MAKE a missing one is -ENOSPC. *UID (in Z) is for a new folder, and becomes the uid of the folder.
 * *RET_LOCK must stay open as long as the mount is used. */
int workspace_open_folder(const char *state_dir, const char *key, bool may_make, uint32_t *uid,
			  int *ret_tree, int *ret_lock) MUST_CHECK;

/* Whether something has the name of the workspace of KEY. */
bool workspace_is_there(const char *state_dir, const char *key) MUST_CHECK;

/* Renames the workspace, so that workspace_sweep() removes it. 0 also when there is none. -EBUSY: it is
 * in use. */
int workspace_forget(const char *state_dir, const char *key) MUST_CHECK;

/* Starts a process that removes all workspaces that were not completed or were forgotten. While one is
 * under way it is started again after its end. The end of the monitor ends it: the next start goes on. */
void workspace_sweep(struct monitor *m);
/* PID has ended. False: it was not that process. */
bool workspace_swept(struct monitor *m, pid_t pid) MUST_CHECK;

/* Makes this process root of a user namespace with IDS, in which it may read and change the folders of a plain user. For a
 * process without threads. Nothing for IDS_RANGE: root may do so anyway. */
int workspace_become_owner(const struct ids *ids) MUST_CHECK;

/* ---- disks: workspace_disk.c, used by workspace_session.c, too ---- */
#define DISK_JOURNAL_FROM (UINT64_C(8) << 20) /* mke2fs gives smaller disks no journal */
/* Whether mke2fs is there. */
bool disk_can_be_made(void) MUST_CHECK;
#define DISK_BLOCK_BYTES 4096u
/* The size of a disk with room for the bytes and inodes of LIMITS. */
uint64_t disk_bytes(const struct proto_limits *limits) MUST_CHECK;
/* Gives the mounted disk the ballast that it needs, and tells the monitor of it. */
int disk_report(const struct maker *k, int fs, int image, uint32_t loop, uint64_t claim) MUST_CHECK;
/* Makes a file system in the empty file FD, with room for the bytes and inodes of LIMITS. Executes mke2fs,
 * which takes some 15 ms. -ENOPKG: there is none. */
int disk_fill(int fd, const struct proto_limits *limits) MUST_CHECK;
/* Attaches the file to a loop device, whose descriptor is returned and whose path and number are set. The
 * device ends with the last of this descriptor and the mounts of it. */
int disk_attach(int disk, char path[LOOP_PATH_MAX], uint32_t *ret_number) MUST_CHECK;
/* Returns a mount that is attached nowhere. */
enum {
	DISK_SESSION = 1, /* nothing on it must survive a loss of power */
	DISK_JOURNAL = 2, /* it has a journal */
};
int disk_mount(const char *device, unsigned flags) MUST_CHECK;

/* ---- for workspace_disk.c and workspace_folder.c ---- */
#define WORKSPACE_PATH_MAX FOLDER_NAME_MAX /* of a name in the folder */
/* Opens the folder of all workspaces; makes it when it is missing. */
int workspace_root(const char *state_dir) MUST_CHECK;
/* Opens NAME in DIR and takes its lock. Waits two seconds, because a sandbox that had it may be ending.
 * -ENOENT, -EBUSY. */
int workspace_lock(int dir, const char *name, int flags) MUST_CHECK;
