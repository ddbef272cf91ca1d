/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a run: admission, the queue, the end and its callbacks. run_execute.c executes it;
 * run_result.c makes the result for the client. */
#include "sandbox/run_life.h"
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/ids.h"
#include "sandbox/run_session.h"

#include <signal.h>
#include <string.h>
#include <time.h>

const char *run_id(const struct run *r)
{
	return r->id;
}

struct sandbox *run_sandbox(const struct run *r)
{
	return r->sandbox;
}

const char *run_context(const struct run *r)
{
	return r->context_name;
}

static void random36(char *ret, size_t n)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

	rand_bytes(ret, n);
	for (size_t i = 0; i < n; i++)
		ret[i] = digits[(uint8_t)ret[i] % (sizeof(digits) - 1)];
	ret[n] = '\0';
}

/* Of a worker the last part has 10 digits of base 36, of which 7 are replaced. */
static void make_run_id(const struct fleet_member *fleet, char ret[RUN_ID_SIZE])
{
	char stamp[20], random[11];
	time_t now = (time_t)(now_wall_ns() / NS_PER_S);
	struct tm tm;

	if (!gmtime_r(&now, &tm) || strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm) == 0)
		stamp[0] = '\0';
	rand_hex(random, 2);
	if (fleet)
		random36(random, sizeof(random) - 1);
	(void)snprintf(ret, RUN_ID_SIZE, "run_%s_%s", stamp, random);
	fleet_id_mark(fleet, ret);
}

static void free_files(struct artifact *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(files[i].name);
	free(files);
}

struct run *run_ref(struct run *r)
{
	r->refs++;
	return r;
}

static void drop_input(struct run *r)
{
	r->input_fd = fd_close(r->input_fd);
	budget_give(&r->input);
}

void run_unref(struct run *r)
{
	if (--r->refs > 0)
		return;
	whole_output_free(r);
	drop_input(r);
	budget_give(&r->waits);
	budget_give(&r->place);
	for (size_t i = 0; i < ARRAY_SIZE(r->output); i++)
		kept_output_done(&r->output[i]);
	for (char **p = r->env; p && *p; p++)
		free(*p);
	free(r->env);
	for (char **p = r->argv; p && *p; p++)
		free(*p);
	free(r->argv);
	free(r->cwd);
	free(r->code);
	shown_list_done(&r->shown);
	free_files(r->artifacts, r->n_artifacts);
	free_files(r->folders, r->n_folders);
	file_marks_done(&r->marks);
	free(r->gone);
	(void)sandbox_unref(r->sandbox);
	free(r);
}

/* Tells accounting. A run that began is recorded even if its end is unknown: then as RUN_LOST. */
static void run_note(struct run *r, const struct run_result *result)
{
	const struct manager_accounting *accounting = &r->sandbox->manager->accounting;
	const struct run_result lost = {
	    .id = r->id,
	    .reason = RUN_LOST,
	    .exit_code = RUN_EXIT_CODE_KILLED,
	    .duration_ms = (now_ns() - r->start_ns) / NS_PER_MS,
	    .cpu_before_ns = r->end.cpu_before_ns,
	    .cpu_ns = r->end.cpu_ns, /* 0 if the server ends during the run */
	    .out = {.total = r->output[ENGINE_STDOUT].total},
	    .err = {.total = r->output[ENGINE_STDERR].total},
	};

	if (!result && r->began)
		result = &lost;
	if (accounting->note && (result || r->ticket))
		accounting->note(accounting->user, r->sandbox, r->request.kind, r->ticket, result);
}

static void count_run(const struct run *r)
{
	const struct sandbox_records *records = r->sandbox->manager->config.stored.records;

	memcpy(r->sandbox->last_run, r->id, sizeof(r->id));
	r->sandbox->runs++;
	if (r->sandbox->stored && records && records->note_run)
		records->note_run(records->user, r->sandbox->id);
}

/* R executes beside the run that is on no more. */
static void leave(struct run *r)
{
	if (!r->request.beside)
		return;
	list_remove(&r->node);
	budget_give(&r->place);
	r->sandbox->n_beside--;
}

void run_end(struct run *r, const struct run_result *result, const struct err *e)
{
	const bool was_its_turn = r->sandbox->run == r;

	if (was_its_turn)
		r->sandbox->run = NULL;
	leave(r);
	drop_input(r);
	/* Before the next one begins, or ends because nothing can run any more: people see them in their order. */
	if (r->seen)
		r->sandbox->manager->observer.run_ends(TAKE_PTR(r->seen), result, e);
	if (was_its_turn)
		sandbox_next_run(r->sandbox);
	sandbox_touch(r->sandbox);
	sandbox_measure_uploads(r->sandbox);
	if (e)
		LOG_OFTEN(LOG_LEVEL_ERROR, "container_exec_failed",
			  LOG_S("session_id", r->sandbox->id), LOG_S("run_id", r->id),
			  LOG_S("error", e->text));
	run_note(r, result);
	if (!r->request.own && !r->request.hidden)
		count_run(r);
	KILL_POINT(RUN_NOTED);
	r->request.on_done(r, result, e, r->request.user);
	/* Without an inventory after the run, any file may have changed. */
	if (!result || !r->sandbox->inventory_known)
		sandbox_changed(r->sandbox, "");
	if (result)
		sandbox_run_changed(r->sandbox, result);
	run_unref(r);
}

/* ---- the request ---- */

static int copy_texts(const char *const *texts, char ***ret)
{
	size_t n = 0;

	while (texts[n])
		n++;
	char **copy = *ret = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(texts[i]);
		if (!copy[i])
			return -ENOMEM;
	}
	return copy ? 0 : -ENOMEM;
}

/* The program gets the descriptor itself, so that nobody has to write into a pipe that it may never read. */
static int take_input(struct run *r, const struct run_request *q, struct err *e)
{
	const struct sandbox *s = r->sandbox;

	if (q->input_len == 0)
		return 0;
	int x = budget_take(s->manager->config.budgets, s->owner, BUDGET_RUN_INPUT, q->input_len,
			    &r->input, e);
	if (x < 0)
		return x;
	r->input_fd = fd_sealed_memfd("stdin", q->input, q->input_len);
	return r->input_fd >= 0 ? 0
				: err_set(e, ERR_OUT_OF_MEMORY, -r->input_fd,
					  "standard input of a run in session %s", s->id);
}

int run_keep_request(struct run *r, const struct run_request *q)
{
	if (q->code) {
		r->code = malloc(q->code_len + 1);
		if (!r->code)
			return -ENOMEM;
		memcpy(r->code, q->code, q->code_len);
		r->code[q->code_len] = '\0';
		r->request.code = r->code;
	}
	if (q->cwd) {
		r->cwd = strdup(q->cwd);
		if (!r->cwd)
			return -ENOMEM;
		r->request.cwd = r->cwd;
	}
	if (q->argv) {
		if (copy_texts(q->argv, &r->argv) < 0)
			return -ENOMEM;
		r->request.argv = (const char *const *)r->argv;
	}
	if (q->env) {
		if (copy_texts(q->env, &r->env) < 0)
			return -ENOMEM;
		r->request.env = (const char *const *)r->env;
	}
	return 0;
}

/* ---- the queue ---- */

static int enqueue(struct run *r, const struct run_request *q, struct err *e)
{
	int x = budget_take(r->sandbox->manager->config.budgets, r->sandbox->owner,
			    BUDGET_QUEUED_RUNS, 1, &r->waits, e);

	if (x < 0)
		return x;
	if (run_keep_request(r, q) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "run in session %s", r->sandbox->id);
	list_append(&r->sandbox->queue, &r->node);
	r->sandbox->n_queue++;
	r->phase = RUN_WAITING;
	return 0;
}

static void dequeue(struct run *r)
{
	list_remove(&r->node);
	budget_give(&r->waits);
	r->sandbox->n_queue--;
}

void sandbox_next_run(struct sandbox *s)
{
	sandbox_seize_now(s);
	while (!list_is_empty(&s->queue) && !s->run && !s->seized) {
		struct run *r = list_first(&s->queue, struct run, node);
		struct err e = ERR_INIT;
		dequeue(r);
		if (s->manager->closing || s->state != SANDBOX_READY) {
			(void)err_set(&e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended", s->id);
		} else {
			s->run = r;
			if (run_execute(r, &r->request, &e) == 0) {
				if (r->seen)
					s->manager->observer.run_starts(r->seen);
				return;
			}
			s->run = NULL;
		}
		run_end(r, NULL, &e);
	}
}

/* Ends a run that still waits in the queue. */
static void cancel_waiting(struct run *r)
{
	dequeue(r);
	r->end.end = ENGINE_END_KILLED;
	run_report(r);
}

static int check_free(const struct sandbox *s, const struct run_request *q, struct err *e)
{
	if (!s->run && list_is_empty(&s->queue) && !s->seized)
		return 0;
	if (!q->queued && s->seized && !s->run)
		return sandbox_check_free(s, e);
	/* A run that was cancelled may take seconds to end. Its caller has done what it could. */
	const bool ends =
	    s->run && s->run->interrupted && list_is_empty(&s->queue) && !s->seized && !s->seizing;
	if (!q->queued && !ends)
		return err_set(
		    e, ERR_SESSION_BUSY, 0,
		    "Session %s is already executing code. Wait or use a different session.",
		    s->id);
	if (s->n_queue == SANDBOX_QUEUE_MAX)
		return err_set(e, ERR_SESSION_BUSY, 0,
			       "%u runs wait for sandbox %s already. Wait for one of them.",
			       s->n_queue, s->id);
	return 1;
}

static int check_beside(const struct sandbox *s, const struct run_request *q, struct err *e)
{
	const unsigned most = s->manager->config.parallel_runs;

	if (s->seized)
		return sandbox_check_free(s, e);
	if (q->kind == ENGINE_RUN_STATEFUL)
		return err_set(
		    e, ERR_INVALID_ARGUMENT, 0,
		    "A stateful run cannot be parallel: one at a time uses the variables.");
	if (s->n_beside < most)
		return 0;
	return err_set(
	    e, ERR_SESSION_BUSY, 0,
	    "%u parallel runs are on in sandbox %s, and the server permits %u. Wait for one "
	    "of them.",
	    s->n_beside, s->id, most);
}

/* Begins R beside the run that is on. */
static int execute_beside(struct run *r, const struct run_request *q, struct err *e)
{
	struct sandbox *s = r->sandbox;

	r->request.no_artifacts = true; /* other runs change files meanwhile */
	int x =
	    budget_take(s->manager->config.budgets, s->owner, BUDGET_PROCESSES, 1, &r->place, e);
	if (x < 0)
		return x;
	struct run_request copy = *q;
	copy.no_artifacts = true;
	x = run_execute(r, &copy, e);
	if (x == 0) {
		list_append(&s->beside, &r->node);
		s->n_beside++;
	}
	return x;
}

static int refuse_timeout(uint64_t timeout_ns, uint64_t longest_ns, struct err *e)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
		      "timeout_s is %ju, this server allows at most %ju",
		      (uintmax_t)(timeout_ns / NS_PER_S), (uintmax_t)(longest_ns / NS_PER_S));
	return err_set_member(e, "timeout_s");
}

/* Owned; nothing of it is known to others. NULL after setting E. */
static struct run *make(struct sandbox *s, const struct run_request *request,
			struct context *context, struct err *e)
{
	struct run *r = calloc(1, sizeof(*r));
	if (!r) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "run in session %s", s->id);
		return NULL;
	}
	r->refs = 1;
	make_run_id(s->manager->config.fleet, r->id);
	r->request = *request;
	r->request.code = NULL;
	r->request.argv = NULL;
	r->request.cwd = NULL;
	r->request.env = NULL;
	r->request.input = NULL;
	r->request.asked_cwd = NULL;
	r->request.context = NULL;
	r->context = context;
	(void)!text_copy(r->context_name, sizeof(r->context_name), context->name);
	r->chosen_cwd =
	    request->cwd && request->asked_cwd && streq(request->cwd, request->asked_cwd);
	r->sandbox = sandbox_ref(s);
	r->shown.open = -1;
	r->input_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(r->output); i++) {
		kept_output_init(&r->output[i], (size_t)sandbox_output_max(s), request->head_only);
		/* REST gives the output as it is. */
		r->output[i].settles = request->whole_over > 0 && request->whole_over < SIZE_MAX;
	}
	if (take_input(r, request, e) == 0)
		return r;
	run_unref(r);
	return NULL;
}

/* WAIT: the run goes into the queue. */
static int run_new(struct sandbox *s, const struct run_request *request, bool wait,
		   struct run **ret, struct err *e)
{
	const struct manager_accounting *accounting = &s->manager->accounting;
	const uint64_t longest = manager_run_timeout_max_ns(s->manager);

	if (request->timeout_ns != SANDBOX_RUN_NO_TIMEOUT && longest > 0 &&
	    request->timeout_ns > longest)
		return refuse_timeout(request->timeout_ns, longest, e);
	int refused = accounting->admit ? accounting->admit(accounting->user, s, e) : 0;

	if (refused < 0)
		return refused;
	if (!sandbox_use(s, e))
		return -ENOENT;
	struct context *context = sandbox_context(
	    s, request->kind == ENGINE_RUN_STATEFUL ? request->context : NULL, true, e);
	if (!context)
		return -EINVAL;
	struct run *r = make(s, request, context, e);
	if (!r)
		return -ENOMEM; /* or whatever E says */
	s->used = true;
	s->keeps = s->keeps || request->kind == ENGINE_RUN_STATEFUL;
	const bool turn = !wait && !request->beside;
	if (turn)
		s->run = r;
	int x = wait              ? enqueue(r, request, e)
		: request->beside ? execute_beside(r, request, e)
				  : run_execute(r, request, e);
	if (x < 0) {
		if (turn)
			s->run = NULL;
		run_note(r, NULL);
		run_unref(r);
		return x;
	}
	const struct manager_observer *w = &s->manager->observer;
	if (w->run && !request->own && !request->hidden)
		r->seen = w->run(w->user, r, request, wait);
	r->client = run_client(request);
	r->request.asked_by = NULL; /* it was borrowed for this call */
	*ret = r;
	return 0;
}

int sandbox_run(struct sandbox *s, const struct run_request *request, struct run **ret,
		struct err *e)
{
	int wait = request->beside ? check_beside(s, request, e) : check_free(s, request, e);

	return wait < 0 ? wait : run_new(s, request, wait > 0, ret, e);
}

int run_begin(struct sandbox *s, const struct run_request *request, struct run **ret, struct err *e)
{
	return run_new(s, request, false, ret, e);
}

void run_signal(struct run *r, int signo)
{
	if (r->phase != RUN_EXECUTING || !r->handle)
		r->cancelled = true;
	else
		(void)!engine_signal(r->handle, signo);
}

void run_hold(struct run *r, bool hold)
{
	if (r->handle)
		engine_hold_output(r->handle, hold);
}

void run_cancel(struct run *r)
{
	const bool again = r->interrupted;

	r->cancelled = r->interrupted = true;
	/* R may be gone after each of these. */
	if (r->phase == RUN_WAITING)
		cancel_waiting(r);
	else if (r->request.kind == ENGINE_RUN_STATEFUL && !again)
		run_signal(r, SIGTERM);
	else
		run_signal(r, SIGKILL);
}
