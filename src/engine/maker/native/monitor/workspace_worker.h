/* SPDX-License-Identifier: Apache-2.0 */
/* The process that works on disks for workspace_space.c: a child of the monitor that waits for file systems, and ends
 * with the monitor. */
#pragma once

#include "base/attr.h"
#include "base/rand.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct monitor;

enum {
	WORKER_CLAIM, /* ballast_set(); opens the disk, if it is closed */
	WORKER_BACK,  /* ballast_back() */
	WORKER_TRIM,  /* ballast_trim() */
};

/* One thing to do. In memory that the worker shares with the monitor. */
struct space_plan {
	uint32_t slot;
	uint64_t serial; /* of the disk */
	unsigned what;
	uint32_t loop;
	int image;
	uint64_t size;
	uint64_t claim;
	bool stored;
	uint64_t ballast; /* in: now; out: after it. Bytes */
	bool closed;      /* before it */
	bool tried;       /* out: the worker came to it */
};

/* Starts the worker with the plan of m->space. 0 = none could be started. */
pid_t worker_start(struct monitor *m) MUST_CHECK;

/* The blocks of a stored disk that its files do not need are given back to the host when it is put away. Until that
 * is done, the file of the disk has a mark, so that the next server does it if this one is killed. */
#define WORKER_TRIM_NS NS_PER_S /* of a stored disk; whoever wants its lock waits two seconds */
void worker_mark_backed(int image, bool backed);
/* Starts a process that looks at all stored disks and gives back what the marked ones do not need. Those in use are
 * left out. 0 = it could not be started. */
pid_t worker_start_return(struct monitor *m) MUST_CHECK;

/* What the sandbox of INIT, whose disk is on LOOP, can still write there, not counting that the disk may be closed. */
int worker_room(pid_t init, uint32_t loop, uint64_t *ret) MUST_CHECK;
/* In a child: a mount of its own of the file system in the file DISK, which is on loop device NUMBER, and the file,
 * writable. Nobody else sees the mount. */
int worker_open_disk(uint32_t number, int disk, int *ret_image) MUST_CHECK;
/* Opens the workspace of the sandbox of INIT. */
int worker_open_workspace(pid_t init) MUST_CHECK;

/* Whether loop device LOOP has the file IMAGE. Its sandbox may have ended a moment ago, and the number may be
 * somebody else's now. */
bool worker_is_disk_of(uint32_t loop, int image) MUST_CHECK;
/* Closes the disk of SIZE bytes for new data, or opens it. Where /sys cannot be written, nothing happens. */
void worker_close_disk(uint32_t loop, int image, uint64_t size, bool closed);
