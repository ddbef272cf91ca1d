/* SPDX-License-Identifier: Apache-2.0 */
/* What stands around the monitor's own files in fuzz_native_monitor.c: the kernel's side of
 * processes, control groups, images and zygotes, without any of these.
 *
 * Processes are numbers that are given out, end when the target says so or when they are killed,
 * and are reaped in the order of their ends. Whoever signals a number that is no such process, or
 * one that has been reaped, has broken the promise that matters most. */
#pragma once

#include "engine/maker/native/monitor/monitor.h"

#define WORLD_SLOTS  6u
#define WORLD_TOTAL  ((uint64_t)1 << 30) /* memory of all sandboxes together */
#define WORLD_IMAGES 3u                  /* "a", "b" and "c" */

#define WORLD_IS_THERE 't' /* a stored workspace is there if its key begins so */

/* Of a sandbox that the monitor makes without a complaint. */
#define WORLD_LIMITS                                                                               \
	{                                                                                          \
		.memory_bytes = 256 << 20, .workspace_bytes = 1 << 20, .tmp_bytes = 1 << 20,       \
		.cpu_milli = 1000, .pids = 32, .workspace_inodes = 100, .nofile = 64               \
	}

enum world_kind { WORLD_MAKER, WORLD_INIT, WORLD_ZYGOTE };

/* What fails or changes the next time it is asked for; bits. */
enum world_fault {
	WORLD_NO_FORK = 1 << 0,
	WORLD_NO_GROUP = 1 << 1,
	WORLD_NO_ZYGOTE = 1 << 2,
	WORLD_NO_PIDFD = 1 << 3,
	WORLD_NEW_IMAGE = 1 << 4, /* the image that is asked for was replaced */
	WORLD_NO_IMAGE = 1 << 5,
	WORLD_NO_ROOM = 1 << 6, /* on the disk of the host, but there may be later */
};

/* M as it is after a start, with a channel whose other end is *RET_FRONT (owned). */
void world_begin(struct monitor *m, bool root, int *ret_front);
/* Everything ends; checks that nothing is left. */
void world_end(struct monitor *m);
/* ASSERT()s what must be true between any two events. */
void world_check(const struct monitor *m);

void world_fail_next(unsigned faults); /* enum world_fault */
void world_pass(uint64_t ns);
/* From now on the host has room for N new disks, and perhaps for more later. Without a call it has none at all. */
void world_room(unsigned n);

/* A new process; its pid. */
pid_t world_fork(enum world_kind kind);
/* The WHICH-th (modulo their number) of those of KIND that run; 0 = none does. */
pid_t world_pick(enum world_kind kind, unsigned which);
/* Ends with STATUS, as wait(2) has it; to be reaped. */
void world_exit(pid_t pid, int status);
/* The zygote's end of its channel; -1 = it is no zygote, or has closed it. */
int world_channel(pid_t zygote);
