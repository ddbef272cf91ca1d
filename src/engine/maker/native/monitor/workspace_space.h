/* SPDX-License-Identifier: Apache-2.0 */
/* What the disks of sandboxes may take from the disk of the host: no more than it has.
 *
 * The disks are sparse files, so together they may be larger than the host's disk. A file system of a sandbox
 * accepts data long before the kernel writes it to the file; if the host had no block then, the data would be lost
 * after the program was told that all is well. So the monitor keeps this true at every moment:
 *
 *	sum of the claims <= what the host has free - reserve + what the disks have already
 *
 * The claim of a disk is what it can ever need (workspace_ballast.h). With room for all, the claim of a disk is its
 * size, and nothing else is done. Otherwise disks get ballast: those that are being filled keep more than those that
 * rest, and the share of a disk grows before it is used up. A new disk gets little more than the least that it needs,
 * because many may be made before the next look; the look gives it its share, and keeps the least of many new ones.
 * If even the least is not left, the making of a sandbox waits until those that rest have given up what they do not
 * need; who came first is served first. When nothing is left to share, a sandbox gets ENOSPC, nothing that was
 * accepted before is lost, and no new sandbox is made (-ENOSPC).
 *
 * The reserve, a sixteenth of the host's file system, is for others: the server's own store and log, and programs
 * that write to the same disk between two looks. When less than it is free, all disks are closed at once: ext4
 * accepts no new block while `reserved_clusters` are left.
 *
 * Of a stored sandbox, the blocks are also allocated on the host while it is active, so that no other program can
 * take them; they are given back when it is put away, or at the next start if the server was killed. Sessions end
 * with the server, so they have a claim only: a program of the host that takes the whole reserve between two looks
 * can cost a session what it has not flushed.
 * Blocks that a session has freed are given back when it rests: its disk is not mounted with `discard`, which
 * would free each extent while its file system waits.
 *
 * A plain user's stored workspaces are folders, which init watches (disk_use.c). The monitor only tells their owners
 * when less than the reserve is free.
 *
 * The work on disks is done by a child of the monitor, one at a time. The monitor itself only looks at numbers: every
 * 10 s without want of space, at most every 20 ms while it has to share, and never without a disk but for one statvfs. */
#pragma once

#include "engine/protocol/proto.h"

#include "base/attr.h"
#include "base/turns.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DISK_LOOP_NONE UINT32_MAX

struct monitor;
struct monitor_sandbox;
struct report;

/* The disk of a sandbox. */
struct disk {
	uint32_t loop;   /* number of its loop device; DISK_LOOP_NONE = the sandbox has no disk */
	int image;       /* O_PATH of its file, which has no name if it is a session's; -1 = none */
	int arrival;     /* while the maker runs: where the image comes from; else -1 */
	uint64_t serial; /* no other disk of this monitor has it */
	uint64_t size;
	uint64_t ballast;
	uint64_t
	    promised; /* while the maker runs: what its claim will exceed its blocks by, at most */
	bool stored;
	pid_t keeper; /* the process that makes it a stored one; 0 = none */
	bool folder;  /* there is no disk: a stored workspace of a plain user */
	bool backed;  /* the host's blocks were asked for */
	bool closed;
	bool new;     /* no look has given it a share yet */
	bool stopped; /* at the last look it had nearly no room, for want of blocks of the host */
	uint32_t ration; /* enum proto_ration, as the front was told */
	uint64_t used; /* at the last look: what the sandbox has, with what its file system needs */
	uint64_t seen,
	    trimmed; /* blocks of the file at the last look, and after it was last trimmed */
};
#define DISK_NONE ((struct disk){.loop = DISK_LOOP_NONE, .image = -1, .arrival = -1})

struct space_plan;
struct space {
	int dir;                 /* of the file system in question; -1 = not known */
	bool full;               /* less than the reserve is free; all disks are closed */
	uint64_t look_at;        /* now_ns() */
	pid_t worker;            /* 0 = none */
	pid_t returner;          /* worker_start_return(); 0 = it has ended */
	struct space_plan *plan; /* memory shared with the worker; max_sandboxes */
	uint32_t n_plan;
	uint64_t serial;             /* of the last disk */
	uint32_t waiting;            /* sandboxes that wait until others have given something up */
	struct turns asked;          /* their requests, users in turn (lifecycle.c) */
	uint64_t least;              /* what the last disk that was asked for had to get */
	struct proto_mon_space told; /* to the front */
};

int space_open(struct monitor *m) MUST_CHECK;

/* *RET: what a new disk with the limits L may promise, beyond the blocks that it has. 0: nothing, and no disk may be
 * made; a disk that is there can be used. Then -EAGAIN says that others may give something up at the next looks, and
 * -ENOSPC that they cannot. */
int space_grant(struct monitor *m, const struct proto_limits *l, uint64_t *ret) MUST_CHECK;
/* Has B, which lives, a disk; or a folder instead? */
bool space_has_disk(const struct monitor_sandbox *b) MUST_CHECK;
bool space_has_folder(const struct monitor_sandbox *b) MUST_CHECK;
/* workspace_ration.c: tells the front of disks that got more or less than before. */
void rations_tell(struct monitor *m);
/* What no claim names. */
uint64_t space_left(struct monitor *m) MUST_CHECK;
/* Begins to give back what a killed server had allocated. */
void space_begin(struct monitor *m);
/* The maker of B has ended well; B->disk.arrival has the image. */
void space_added(struct monitor *m, struct monitor_sandbox *b, const struct report *r);
/* B has ended. */
void space_removed(struct monitor_sandbox *b);

/* Looks when it is time. Returns now_ns() of the next look, 0 = none. */
uint64_t space_look(struct monitor *m);
/* Whether PID, which has ended, was the worker, or the process of space_begin(). */
bool space_reaped(struct monitor *m, pid_t pid) MUST_CHECK;
