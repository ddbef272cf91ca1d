/* SPDX-License-Identifier: Apache-2.0 */
/* An engine without walls, for tests of what stands on engine.h: it creates sandboxes whose init is
 * this file, at the other end of a socket pair on the same event loop. So everything of
 * engine/front/inside is the real code. A workspace is a folder below a temporary one, and a run is
 * whatever the test's script says. No privileges, no processes.
 *
 * A run ends at once, unless `hold` is set: then it waits until fake_engine_release(). */
#pragma once

#include "engine/disks.h"
#include "engine/engine_ops.h"
#include "engine/front/inside/inside.h"

struct fake_run;

struct fake_engine {
	struct engine engine; /* first; set engine.enforced to change what it can enforce */
	char root[64];        /* temporary folder of workspaces; engine_close() removes it */
	unsigned n_created, n_destroyed, n_alive;
	unsigned n_lists;
	unsigned n_puts;  /* started */
	bool fail_create; /* the next creation fails with engine_unavailable */
	bool hold;        /* runs wait for fake_engine_release() */
	bool hold_create; /* creations wait for fake_engine_release() */
	unsigned n_forgotten;
	/* Files of stored workspaces (engine/disks.h): calls of each kind, and what the next ones of that kind say. */
	unsigned n_disks[ENGINE_DISK_DROP + 1];
	struct {
		unsigned n; /* so many */
		enum err_code code;
	} fail_disk[ENGINE_DISK_DROP + 1];
	bool fail_disk_at_once; /* the next call fails before it has returned */
	bool hold_disks;        /* answers wait for fake_engine_release() */
	char last_disk[80];     /* the key of the last call */
	struct fake_disk *disks;
	char last_persist[80]; /* of the last creation, "" = none */
	/* What a run does: WORKSPACE is the host path of its files; fills in *RES; may write output
	 * with fake_output(). */
	void (*script)(struct fake_run *r, const char *workspace, const char *code, size_t len,
		       struct engine_run_result *res);
	/* A checkpoint is a number: a run's script may change `state`, save and restore copy it. */
	unsigned state;
	unsigned checkpoints[ENGINE_CHECKPOINTS_MAX];
	bool used[ENGINE_CHECKPOINTS_MAX];
	unsigned n_saves, n_restores, n_drops;
	/* Changes of limits: how often init heard of one; the errno of the next (0 = it goes well), and the bytes
	 * that are in use then. */
	unsigned n_limits;
	int fail_change;
	uint64_t used_bytes;
	enum err_code fail_save, fail_restore; /* the next such call; ERR_NONE = it goes well */
	struct fake_sandbox *sandboxes;
};

struct fake_engine *fake_engine_new(sd_event *loop);
void fake_output(struct fake_run *r, enum engine_stream stream, const void *data, size_t len);
struct engine_sandbox *fake_run_sandbox(struct fake_run *r);
void fake_engine_release(struct fake_engine *f);
/* Ends the sandbox "on its own". */
void fake_engine_lose(struct engine_sandbox *s);
