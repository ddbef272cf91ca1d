/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces of sessions on disk: each is an ext4 file system of its own, in a sparse file without a name
 * in <state-dir>/workspaces, on a loop device. Limits of bytes and inodes are those of the file system, so
 * they are hard. The kernel caches pages of files and takes them back when it needs memory.
 *
 * Nothing is left after any death. Only the loop device refers to the file, and only the mount in the
 * sandbox refers to the device. Whoever is killed, the kernel frees all three with the last process of the
 * sandbox.
 *
 * Templates. The first sandbox with certain limits makes its file system with mke2fs and copies it into a
 * template, a file without a name as well. Later sandboxes copy the few hundred KiB of the template.
 *
 * Space of the host. The files are sparse, so together they may promise more than there is. When less than
 * the reserve is free, no workspace is made (-ENOSPC), and the file systems of all sessions accept no more
 * data (session_disks_look()). So a run gets ENOSPC at once, and what others have written still finds room.
 * Without that the loop device would report errors when the kernel writes the pages back: too late for
 * the program, and in files of others, too.
 *
 * docs/decisions/0012-workspaces-on-disk.md compares this with other ways. */
#pragma once

#include "engine/inside/proto.h"

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SESSION_TEMPLATES 8
#define SESSION_LOOP_NONE UINT32_MAX
#define SESSION_DROPS_MAX 64

struct err;
struct monitor;

struct session_disks {
	int dir; /* the folder of the files; -1 = workspaces of sessions are in memory */
	struct {
		uint64_t bytes;
		uint32_t inodes;
		int fd; /* -1 = unused */
	} templates[SESSION_TEMPLATES];
	uint32_t next;                  /* template to be replaced */
	pid_t drops[SESSION_DROPS_MAX]; /* processes of session_disk_drop(); 0 = free */
	bool full;                      /* the host has less than the reserve */
	uint64_t
	    look_at; /* now_ns() of the next look at its free space; 0 = no sandbox has a disk */
};

/* Decides, by enum engine_workspace of the configuration and by what the host has, where workspaces of
 * sessions are. Fails only if disks were asked for and cannot be made. */
int session_disks_open(struct monitor *m, struct err *e) MUST_CHECK;

/* The template for the limits: a descriptor that stays the monitor's. It may be empty still: the maker
 * that gets an empty one fills it. -errno. */
int session_disks_template(struct monitor *m, const struct proto_limits *l) MUST_CHECK;

/* In the maker, still as root of the host: makes a workspace that belongs to the host id UID, as a mount
 * that is attached nowhere. *RET_LOOP is the number of its loop device. -ENOSPC: the host's disk is full. */
int session_disk_make(int dir, int template, const struct proto_limits *l, uint32_t uid,
		      int *ret_tree, uint32_t *ret_loop) MUST_CHECK;

/* The sandbox of INIT is about to be killed, and nobody will read its disk, device LOOP, again. When a file
 * system is unmounted the kernel writes back all that it has cached, and frees the device; both take time, and
 * the sandbox would end only then. A process that is started here keeps the file system until init has ended. If
 * much is in use, it first tells the kernel to throw away what is cached. When there are too many such
 * processes, the sandbox ends later. */
void session_disk_drop(struct monitor *m, pid_t init, uint32_t loop);
/* Whether PID, which has ended, was such a process. */
bool session_disk_dropped(struct monitor *m, pid_t pid) MUST_CHECK;

/* ---- workspace_space.c ---- */
/* Whether the host has less free space than the reserve. */
bool session_disks_full(const struct session_disks *d) MUST_CHECK;

/* Looks at the free space of the host when it is time, and closes or opens the disks of all sandboxes for
 * new data. Returns now_ns() of the next look, 0 = none. */
uint64_t session_disks_look(struct monitor *m);
/* A sandbox got a disk: looks begin, and the disk is closed if the others are. */
void session_disks_added(struct monitor *m, uint32_t loop);
