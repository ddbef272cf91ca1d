/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a run: inventory of the workspace, execution with bounded output, inventory again. The first
 * one is skipped if the one after the previous run still holds. */
#include "base/kill_points.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/run_files.h"

#include <string.h>
#include <sys/stat.h>

/* So long a cell of a session may take to react to an interrupt, before it is killed and the session is as before. */
#define INTERRUPT_NS (3 * NS_PER_S)

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
		r->sandbox->manager->observer.run_output(r->seen, stream, data, len);
	if (r->request.on_output && room > 0)
		r->request.on_output(r, stream, data, room, r->request.user);
	if (r->request.unbounded)
		return;
	whole_output_add(r, stream, data, len);
	kept_output_add(k, data, len);
}

/* Of what was dropped or replaced meanwhile there is nothing to tell. */
static void tell_shown(struct run *r, unsigned index, bool ends)
{
	for (size_t i = 0; i < r->shown.n; i++)
		if (r->shown.items[i].index == index)
			r->request.on_shown(r, &r->shown.items[i], ends, r->request.user);
}

static void on_record(struct engine_run *handle UNUSED, const void *data, size_t len, void *user)
{
	struct run *r = user;
	const uint64_t at = r->output[ENGINE_STDOUT].total;
	const int index =
	    data ? shown_list_add(&r->shown, data, len, at) : shown_list_end_text(&r->shown, at);

	if (index >= 0 && r->request.on_shown)
		tell_shown(r, (unsigned)index, !data);
	if (index >= 0 && r->seen && r->sandbox->manager->observer.run_shown)
		r->sandbox->manager->observer.run_shown(r->seen, (unsigned)index, !data);
}

/* Whether E says that the folder of a run was not entered. Every image has the shell that such a run starts. */
static bool is_about_folder(const struct err *e)
{
	return e->errnum == ENOENT || e->errnum == ENOTDIR || e->errnum == EACCES ||
	       e->errnum == ELOOP || e->errnum == ENAMETOOLONG;
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
		if (r->chosen_cwd && !r->began && is_about_folder(e)) {
			(void)err_set(&error, ERR_INVALID_PATH, e->errnum,
				      "The folder cannot be entered, so nothing ran");
			e = &error;
		}
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
	whole_output_end(r, run_find_files);
}

/* The code of Q as the engine gets it. B is empty, and keeps it. */
static int give_code(struct buf *b, const struct run_request *q, struct engine_run_spec *spec,
		     struct err *e)
{
	spec->code = q->code;
	spec->code_len = q->code_len;
	if (q->language == LANGUAGE_PYTHON)
		return 0;
	if (language_code(b, q->language, q->code, q->code_len) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "code of a run");
	spec->code = buf_str(b);
	spec->code_len = b->len;
	return 0;
}

static int start_engine_run(struct run *r, const struct run_request *q, struct err *e)
{
	struct sandbox *s = r->sandbox;
	const struct manager_config *config = &s->manager->config;
	/* If the end of the output is kept, the engine delivers all of it (0). With head_only it
	 * delivers one byte more than is kept, which shows that output is missing. */
	uint64_t wanted = q->head_only ? sandbox_output_max(s) + 1 : 0;
	uint64_t timeout = q->timeout_ns == 0 ? sandbox_run_timeout_ns(s) : q->timeout_ns;
	const char *env[SANDBOX_ENV_WITH_MAX];
	_cleanup_(buf_done) struct buf code = BUF_INIT(SIZE_MAX / 2);
	struct engine_run_spec spec = {
	    .kind = q->beside ? ENGINE_RUN_BACKGROUND : q->kind,
	    .env = q->own ? sandbox_network_env(s, env) : sandbox_env_with(s, q->env, env),
	    .argv = q->argv,
	    .cwd = q->own   ? "/"
		   : q->cwd ? q->cwd
			    : sandbox_workdir(s),
	    .make_cwd = !q->cwd && !q->own && sandbox_workdir(s),
	    .display = q->display,
	    .notebook = q->notebook,
	    .errors = q->errors && q->notebook && q->kind == ENGINE_RUN_STATEFUL,
	    .root = q->root,
	    .restarts = q->restarts && q->kind == ENGINE_RUN_STATEFUL,
	    .context = r->context->number,
	    .report = q->report && !q->beside,
	    .stdin_fd = r->input_fd >= 0 ? r->input_fd
			: q->stdin_fd    ? *q->stdin_fd
					 : -1,
	    .timeout_ns = timeout == SANDBOX_RUN_NO_TIMEOUT ? 0 : timeout,
	    .grace_ns = q->kind == ENGINE_RUN_STATEFUL ? MAX(config->grace_ns, INTERRUPT_NS)
						       : config->grace_ns,
	    .output_max = {0, wanted, wanted},
	    .output_kill = q->unbounded ? 0 : config->output_stop,
	    .on_output = on_output,
	    .on_record = on_record,
	    .on_done = on_engine_done,
	    .user = r,
	};

	int x = sandbox_check_root(s, q->root, e);
	x = x < 0 ? x : give_code(&code, q, &spec, e);
	if (x < 0)
		return x;
	r->phase = RUN_EXECUTING;
	r->before_known = s->inventory_known;
	r->start_wall_ns = (int64_t)now_wall_ns();
	r->start_file_ns = file_clock_ns();
	LOG_INFO("container_exec_start", LOG_S("session_id", s->id), LOG_S("run_id", r->id),
		 LOG_U("code_bytes", q->code_len));
	const struct manager_accounting *accounting = &s->manager->accounting;
	if (accounting->begin)
		r->ticket = accounting->begin(accounting->user, s, q->kind, r->id);
	r->start_ns = now_ns();
	x = engine_run(s->handle, &spec, &r->handle, e);
	r->began = x == 0;
	s->has_variables |=
	    r->began && q->kind == ENGINE_RUN_STATEFUL; /* read before a refusal, too */
	r->context->runs += r->began && !q->hidden ? 1 : 0;
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

	if (e)
		run_end(r, NULL, e);
	else /* if it cannot be taken, the run goes on, and the times of files decide which are new */
		run_take_inventory(r, files, n, more, false, begin_listed);
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
