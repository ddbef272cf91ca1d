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
 * Space of the host: workspace_space.h.
 *
 * docs/decisions/0012-workspaces-on-disk.md compares this with other ways. */
#pragma once

#include "engine/protocol/proto.h"

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SESSION_TEMPLATES 8
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
	uint32_t dropped
	    [SESSION_DROPS_MAX]; /* slot + 1 of the stored sandbox that waits for it; 0 = none */
};

/* Decides, by enum engine_workspace of the configuration and by what the host has, where workspaces of
 * sessions are. Fails only if disks were asked for and cannot be made. */
int session_disks_open(struct monitor *m, struct err *e) MUST_CHECK;

/* The template for the limits: a descriptor that stays the monitor's. It may be empty still: the maker
 * that gets an empty one fills it. -errno. */
int session_disks_template(struct monitor *m, const struct proto_limits *l) MUST_CHECK;

struct maker;
/* In the maker, still as root of the host: makes a workspace that belongs to the host id UID, as a mount
 * that is attached nowhere, and reports its disk. */
int session_disk_make(const struct maker *k, uint32_t uid, int *ret_tree) MUST_CHECK;

struct monitor_sandbox;
/* The sandbox of B is about to be killed. When a file system is unmounted the kernel writes back all that it has
 * cached, and frees the device; both take time, and the sandbox would end only then. A process that is started here
 * keeps the file system until init has ended. Nobody will read the disk of a session again: if much is in use, the
 * process first tells the kernel to throw away what is cached. The free blocks of a stored one go back to the host,
 * as far as a second suffices; it is gone only after that, because its lock lasts as long. When there are too many such processes, the sandbox ends later. */
void session_disk_drop(struct monitor *m, struct monitor_sandbox *b);
/* Whether PID, which has ended, was such a process. */
bool session_disk_dropped(struct monitor *m, pid_t pid) MUST_CHECK;
