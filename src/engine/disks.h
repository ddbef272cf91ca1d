/* SPDX-License-Identifier: Apache-2.0 */
/* The files of stored workspaces themselves, for a worker that sends them elsewhere or gets them from there. Only where workspaces
 * are disks (native engine, root) and engine_config.moves is set; else ENGINE_NOT_BUILT_IN or FORBIDDEN.
 *
 * All of it is for the thread of the engine's loop. A callback is called once, never before the call has returned, and not after a call
 * that failed. */
#pragma once

#include "engine/engine.h"

#define ENGINE_DISKS_NEW_MAX 4u

/* FD: the callee's, also the duty to close it; -1 with E. */
typedef void (*engine_disk_fn)(int fd, const struct err *e, void *user);

/* The workspace of PERSIST_ID, to be read. As long as the descriptor is open, no sandbox can open the workspace and nothing removes it:
 * they wait 2 s, and are refused then. SANDBOX_IN_USE: a sandbox has it; NOT_FOUND. */
int engine_disk_read(struct engine *g, const char *persist_id, engine_disk_fn cb, void *user,
		     struct err *e) MUST_CHECK;
/* An empty file, to be written, that becomes the workspace of PERSIST_ID by engine_disk_keep(). It will take up to BYTES from the host,
 * which are promised to it until then. What is neither kept nor dropped goes with the engine. ALREADY_EXISTS: there is such a
 * workspace, or one is being made; SERVER_BUSY: ENGINE_DISKS_NEW_MAX are being made; HOST_DISK_FULL: the host has no room. */
int engine_disk_new(struct engine *g, const char *persist_id, uint64_t bytes, engine_disk_fn cb,
		    void *user, struct err *e) MUST_CHECK;
/* The caller has flushed it with fsync(2). Afterwards its name is on the disk, too; a sandbox can open it when the caller has closed its
 * descriptor. After an error it is gone. ALREADY_EXISTS; NOT_FOUND: nothing was made for PERSIST_ID. */
int engine_disk_keep(struct engine *g, const char *persist_id, engine_done_fn cb, void *user,
		     struct err *e) MUST_CHECK;
/* It goes, if it was not kept. */
int engine_disk_drop(struct engine *g, const char *persist_id, struct err *e) MUST_CHECK;

/* ---- for engines ---- */

enum engine_disk_what { /* as enum proto_disk */
			ENGINE_DISK_READ,
			ENGINE_DISK_NEW,
			ENGINE_DISK_KEEP,
			ENGINE_DISK_DROP,
};
struct engine_disk_order {
	enum engine_disk_what what;
	const char *persist_id; /* borrowed during the call */
	uint64_t bytes;
	engine_disk_fn had;  /* READ, NEW */
	engine_done_fn done; /* KEEP */
	void *user;
};
