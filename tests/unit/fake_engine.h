/* SPDX-License-Identifier: Apache-2.0 */
/* An engine without walls for tests of what stands on the engine interface: workspaces are folders
 * below a temporary one, a run is whatever the test says about it. No privileges, no processes.
 *
 * Every completion comes by the event loop, as the interface demands. A run executes the callback
 * of struct fake_engine at its end of a delay of zero, unless `hold` is set: then it waits until
 * fake_engine_release(). Close it only when no completion is due. */
#pragma once

#include "engine/engine.h"

struct fake_run;

struct fake_engine {
	struct engine engine; /* first */
	sd_event *loop;
	char root[64]; /* temporary folder of workspaces; removed by close */
	unsigned n_created, n_destroyed, n_alive;
	unsigned n_lists;
	unsigned n_puts; /* started; also the number of the last one */
	uint32_t caps;
	bool fail_create; /* the next creation fails with engine_unavailable */
	bool hold;        /* runs wait for fake_engine_release() */
	bool hold_create; /* creations wait for fake_engine_release() */
	unsigned n_serial;
	unsigned n_forgotten;
	char last_persist[80]; /* of the last creation, "" = none */
	/* What a run does: WORKSPACE is the host path of its files; fills in *RES; may write output
	 * with fake_output(). */
	void (*script)(struct fake_run *r, const char *workspace, const char *code, size_t len,
		       struct engine_run_result *res);
	/* Kept states are numbers: a run's script may change `state`, save and restore copy it. */
	unsigned state;
	unsigned points[ENGINE_POINTS_MAX];
	bool point_used[ENGINE_POINTS_MAX];
	unsigned n_saves, n_restores, n_drops;
	enum err_code fail_save, fail_restore; /* the next such call; ERR_NONE = it goes well */
	struct fake_job *held;
	struct fake_sandbox *sandboxes;
};

struct fake_engine *fake_engine_new(sd_event *loop);
void fake_output(struct fake_run *r, enum engine_stream stream, const void *data, size_t len);
struct engine_sandbox *fake_run_sandbox(struct fake_run *r);
void fake_engine_release(struct fake_engine *f);
/* Ends the sandbox "on its own". */
void fake_engine_lose(struct engine_sandbox *s);
