/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a run: inventory of the workspace, execution with bounded output, inventory again.
 *
 * The first inventory is skipped if the one after the previous run still holds. No process outlives a
 * run, so between runs only our own uploads and removals change files, and those invalidate it. */
#include "base/kill_points.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/run_life.h"

#include <string.h>
#include <sys/stat.h>

/* ---- inventory after ---- */

static void add_artifact(const struct engine_file *file, void *user)
{
	struct run *r = user;

	if (S_ISDIR(file->mode) && r->request.whole_over > 0 &&
	    streq(file->name, WHOLE_OUTPUT_FOLDER))
		return;
	struct artifact *a =
	    S_ISDIR(file->mode) ? &r->folders[r->n_folders++] : &r->artifacts[r->n_artifacts++];

	memcpy(a->name, file->name, sizeof(a->name));
	a->size = file->size;
	a->mtime_ns = file->mtime_ns;
}

static int take_inventory(struct run *r, const struct engine_file *files, size_t n, bool more)
{
	struct sandbox *s = r->sandbox;
	struct inventory after = {0};

	if (inventory_set(&after, files, n, more) < 0)
		return -ENOMEM;
	if (after.n > 0) {
		r->artifacts = calloc(after.n, sizeof(*r->artifacts));
		r->folders = calloc(after.n, sizeof(*r->folders));
		if (!r->artifacts || !r->folders) {
			inventory_done(&after);
			return -ENOMEM;
		}
	}
	inventory_diff(&s->inventory, &after, add_artifact, r);
	for (size_t i = 0; i < after.n && !r->has_folders; i++)
		r->has_folders = S_ISDIR(after.files[i].mode);
	inventory_done(&s->inventory);
	s->inventory = after;
	s->inventory_known = true;
	return 0;
}

static void on_listed_after(const struct engine_file *files, size_t n, bool more,
			    const struct err *e, void *user)
{
	struct run *r = user;

	KILL_POINT(RUN_SCANNED);
	LOG_DEBUG("artifact_scan", LOG_S("session_id", r->sandbox->id), LOG_U("files", n));
	/* If this scan failed, the run still has its result, just no list of artifacts. */
	if (e || take_inventory(r, files, n, more) < 0)
		sandbox_forget_inventory(r->sandbox);
	run_report(r);
}

/* ---- execution ---- */

static void on_output(struct engine_run *handle UNUSED, enum engine_stream stream, const void *data,
		      size_t len, void *user)
{
	struct run *r = user;

	struct kept_output *k = &r->output[stream];
	/* A client that follows the output gets as many bytes as are kept, from the beginning. */
	size_t room = r->request.unbounded || k->total + len <= k->data.max ? len
		      : k->total < k->data.max ? (size_t)(k->data.max - k->total)
					       : 0;

	if (r->seen)
		r->sandbox->manager->witness.run_output(r->seen, stream, data, len);
	if (r->request.on_output && room > 0)
		r->request.on_output(r, stream, data, room, r->request.user);
	if (r->request.unbounded)
		return;
	whole_output_add(r, stream, data, len);
	kept_output_add(k, data, len);
}

static bool wants_artifacts(const struct run *r)
{
	if (r->request.no_artifacts || r->sandbox->state != SANDBOX_READY)
		return false;
	return r->request.artifacts_always ||
	       (r->end.end == ENGINE_END_EXITED && r->end.exit_code == 0);
}

static void on_output_stored(struct run *r)
{
	struct err ignored = ERR_INIT;

	if (wants_artifacts(r)) {
		r->phase = RUN_SCANNING_AFTER;
		if (engine_list_files(r->sandbox->handle, "", on_listed_after, r, &ignored) == 0)
			return;
	}
	sandbox_forget_inventory(r->sandbox);
	run_report(r);
}

static void on_engine_done(struct engine_run *handle UNUSED, const struct engine_run_result *res,
			   const struct err *e, void *user)
{
	struct run *r = user;
	struct sandbox *s = r->sandbox;
	struct err error = ERR_INIT;

	r->handle = NULL;
	if (e) {
		/* With any other error the run was not started. */
		r->began = e->code == ERR_SANDBOX_LOST || e->code == ERR_CANCELLED;
		sandbox_forget_inventory(s);
		run_end(r, NULL, e);
		return;
	}
	r->end = *res;
	if (res->end == ENGINE_END_LOST) {
		(void)err_set(&error, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended on its own",
			      s->id);
		run_end(r, NULL, &error);
		return;
	}
	r->phase = RUN_STORING;
	whole_output_end(r, on_output_stored);
}

static int start_engine_run(struct run *r, const struct run_request *q, struct err *e)
{
	struct sandbox *s = r->sandbox;
	const struct manager_config *config = &s->manager->config;
	/* If the end of the output is kept, the engine delivers all of it (0). With head_only it
	 * delivers one byte more than is kept, which shows that output is missing. */
	uint64_t wanted = q->head_only ? sandbox_output_max(s) + 1 : 0;
	uint64_t timeout = q->timeout_ns == 0 ? sandbox_run_timeout_ns(s) : q->timeout_ns;
	const char *env[SANDBOX_RUN_ENV_MAX];
	struct engine_run_spec spec = {
	    .kind = q->kind,
	    .env = q->own ? sandbox_network_env(s, env) : sandbox_run_env(s, env),
	    .code = q->code,
	    .code_len = q->code_len,
	    .argv = q->argv,
	    .cwd = q->own   ? "/"
		   : q->cwd ? q->cwd
			    : sandbox_workdir(s),
	    .make_cwd = !q->cwd && !q->own && sandbox_workdir(s),
	    .display = q->display,
	    .notebook = q->notebook,
	    .report = q->report,
	    .stdin_fd = q->stdin_fd ? *q->stdin_fd : -1,
	    .timeout_ns = timeout == SANDBOX_RUN_NO_TIMEOUT ? 0 : timeout,
	    .grace_ns = config->grace_ns,
	    .output_max = {0, wanted, wanted},
	    .output_kill = q->unbounded ? 0 : config->output_stop,
	    .on_output = on_output,
	    .on_done = on_engine_done,
	    .user = r,
	};

	r->phase = RUN_EXECUTING;
	LOG_INFO("container_exec_start", LOG_S("session_id", s->id), LOG_S("run_id", r->id),
		 LOG_U("code_bytes", q->code_len));
	const struct manager_ledger *ledger = &s->manager->ledger;
	if (ledger->begin)
		r->ticket = ledger->begin(ledger->user, s, q->kind, r->id);
	r->start_ns = now_ns();
	int x = engine_run(s->handle, &spec, &r->handle, e);
	r->began = x == 0;
	return x;
}

/* The first inventory is complete: starts the run in the engine. */
static void begin_listed(struct run *r)
{
	struct err e = ERR_INIT;

	if (r->cancelled) {
		r->end.end = ENGINE_END_KILLED;
		run_report(r);
		return;
	}
	if (r->sandbox->state != SANDBOX_READY)
		(void)err_set(&e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended", r->sandbox->id);
	else if (start_engine_run(r, &r->request, &e) == 0)
		return;
	run_end(r, NULL, &e);
}

static void on_listed_before(const struct engine_file *files, size_t n, bool more,
			     const struct err *e, void *user)
{
	struct run *r = user;
	struct sandbox *s = r->sandbox;

	if (e) {
		run_end(r, NULL, e);
		return;
	}
	/* If there is no memory for the inventory, the run goes on and every file looks new. */
	s->inventory_known = inventory_set(&s->inventory, files, n, more) == 0;
	begin_listed(r);
}

int run_execute(struct run *r, const struct run_request *q, struct err *e)
{
	struct sandbox *s = r->sandbox;

	r->phase = RUN_SCANNING_BEFORE;
	if (q->no_artifacts || s->inventory_known)
		return start_engine_run(r, q, e);
	if (q != &r->request && run_keep_request(r, q) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "run in session %s", s->id);
	return engine_list_files(s->handle, "", on_listed_before, r, e);
}
