/* SPDX-License-Identifier: Apache-2.0 */
/* One run: inventory before, execution with bounded output, inventory after.
 *
 * The inventory before is skipped when the one after the previous run still holds: nothing outlives
 * a run, so between two runs only our own uploads and removals change files, and those forget it.
 */
#include "base/buf.h"
#include "base/kill_points.h"
#include "base/log.h"
#include "base/rand.h"
#include "sandbox/internal.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define EXIT_CODE_TIMEOUT (-1)
#define EXIT_CODE_KILLED  137

enum run_phase {
	RUN_WAITING, /* in the sandbox's queue */
	RUN_SCANNING_BEFORE,
	RUN_EXECUTING,
	RUN_SCANNING_AFTER,
};

struct run {
	struct run *next;        /* in the queue */
	struct sandbox *sandbox; /* reference */
	char id[RUN_ID_SIZE];
	enum run_phase phase;
	struct run_request request; /* its code, argv and cwd belong to us, or are NULL */
	char *code;
	char **argv;
	char *cwd;
	struct engine_run *handle;            /* while executing */
	struct buf output[ENGINE_RESULT + 1]; /* by enum engine_stream */
	bool truncated[ENGINE_RESULT + 1];
	bool cancelled;
	bool began;        /* the engine has it, or had */
	uint32_t ticket;   /* of the ledger */
	uint64_t start_ns; /* when it began */
	struct engine_run_result end;
	struct artifact *artifacts;
	size_t n_artifacts;
	struct artifact *folders;
	size_t n_folders;
};

static void execute(struct run *r);
static int start_engine_run(struct run *r, const struct run_request *q, struct err *e);

const char *run_reason_name(enum run_reason reason)
{
	static const char *const names[] = {
	    [RUN_EXITED] = "exited",
	    [RUN_SIGNALED] = "signaled",
	    [RUN_TIMEOUT] = "timeout",
	    [RUN_OOM] = "oom",
	    [RUN_OUTPUT_LIMIT] = "output_limit",
	    [RUN_DISK_LIMIT] = "disk_limit",
	    [RUN_CANCELLED] = "cancelled",
	    [RUN_LOST] = "lost",
	};
	return names[reason];
}

const char *run_id(const struct run *r)
{
	return r->id;
}

struct sandbox *run_sandbox(struct run *r)
{
	return r->sandbox;
}

static void make_run_id(char ret[RUN_ID_SIZE])
{
	char stamp[20], random[5];
	time_t now = (time_t)(now_wall_ns() / NS_PER_S);
	struct tm tm;

	if (!gmtime_r(&now, &tm) || strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm) == 0)
		stamp[0] = '\0';
	rand_hex(random, 2);
	(void)snprintf(ret, RUN_ID_SIZE, "run_%s_%s", stamp, random);
}

static void run_free(struct run *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->output); i++)
		buf_done(&r->output[i]);
	for (char **p = r->argv; p && *p; p++)
		free(*p);
	free(r->argv);
	free(r->cwd);
	free(r->code);
	free(r->artifacts);
	free(r->folders);
	(void)sandbox_unref(r->sandbox);
	free(r);
}

/* Tells the ledger. Whoever began has a row in the books, also when nobody saw the end. */
static void run_note(struct run *r, const struct run_result *result)
{
	const struct manager_ledger *ledger = &r->sandbox->manager->ledger;
	const struct run_result lost = {
	    .id = r->id,
	    .reason = RUN_LOST,
	    .exit_code = EXIT_CODE_KILLED,
	    .duration_ms = (now_ns() - r->start_ns) / NS_PER_MS,
	    .out = {.total = r->output[ENGINE_STDOUT].len},
	    .err = {.total = r->output[ENGINE_STDERR].len},
	};

	if (!result && r->began)
		result = &lost;
	if (ledger->note && (result || r->ticket))
		ledger->note(ledger->user, r->sandbox, r->request.kind, r->ticket, result);
}

/* Frees the sandbox before it tells, so that the callback may start the next run; whoever waits
 * in the queue was there first. */
static void run_end(struct run *r, const struct run_result *result, const struct err *e)
{
	if (r->sandbox->run == r) {
		r->sandbox->run = NULL;
		sandbox_next_run(r->sandbox);
	}
	sandbox_touch(r->sandbox);
	if (e)
		LOG_ERROR("container_exec_failed", LOG_S("session_id", r->sandbox->id),
			  LOG_S("run_id", r->id), LOG_S("error", e->text));
	run_note(r, result);
	KILL_POINT(RUN_NOTED);
	r->request.on_done(r, result, e, r->request.user);
	/* What a failed run did to the files is not known. */
	if (!result || !r->sandbox->inventory_known)
		sandbox_changed(r->sandbox, NULL);
	for (size_t i = 0; result && i < r->n_artifacts; i++)
		sandbox_changed(r->sandbox, r->artifacts[i].name);
	run_free(r);
}

static enum run_reason reason_of(const struct run *r)
{
	switch (r->end.end) {
	case ENGINE_END_EXITED:
		return RUN_EXITED;
	case ENGINE_END_SIGNALED:
		return RUN_SIGNALED;
	case ENGINE_END_TIMEOUT:
		return RUN_TIMEOUT;
	case ENGINE_END_OOM:
		return RUN_OOM;
	case ENGINE_END_OUTPUT:
		return RUN_OUTPUT_LIMIT;
	case ENGINE_END_DISK:
		return RUN_DISK_LIMIT;
	case ENGINE_END_KILLED:
		return RUN_CANCELLED;
	case ENGINE_END_LOST:
		return RUN_LOST;
	}
	return RUN_CANCELLED;
}

static int exit_code_of(const struct run *r, enum run_reason reason)
{
	switch (reason) {
	case RUN_TIMEOUT:
		return EXIT_CODE_TIMEOUT;
	case RUN_OOM:
	case RUN_OUTPUT_LIMIT:
	case RUN_DISK_LIMIT:
	case RUN_CANCELLED:
	case RUN_LOST:
		return EXIT_CODE_KILLED;
	case RUN_EXITED:
	case RUN_SIGNALED:
		break;
	}
	return r->end.exit_code;
}

static void log_end(const struct run *r, const struct run_result *result)
{
	static const char *const events[] = {
	    [ENGINE_STDOUT] = "stdout_truncated", [ENGINE_STDERR] = "stderr_truncated"};

	LOG_INFO("container_exec_done", LOG_S("session_id", r->sandbox->id), LOG_S("run_id", r->id),
		 LOG_I("exit_code", result->exit_code),
		 LOG_S("reason", run_reason_name(result->reason)),
		 LOG_U("stdout_bytes", result->out.len), LOG_U("stderr_bytes", result->err.len),
		 LOG_U("duration_ms", result->duration_ms), LOG_B("warm", result->warm),
		 LOG_B("named_end", r->end.named_end));
	for (int i = ENGINE_STDOUT; i <= ENGINE_STDERR; i++)
		if (r->truncated[i])
			LOG_WARNING(events[i], LOG_S("session_id", r->sandbox->id),
				    LOG_S("run_id", r->id),
				    LOG_U("original_bytes", r->end.output_total[i]),
				    LOG_U("limit_bytes", sandbox_output_max(r->sandbox)));
}

static struct run_output output_of(const struct run *r, enum engine_stream stream)
{
	return (struct run_output){.data = buf_str(&r->output[stream]),
				   .len = r->output[stream].len,
				   .truncated = r->truncated[stream],
				   .total = stream == ENGINE_RESULT ? r->output[stream].len
								    : r->end.output_total[stream]};
}

static void run_report(struct run *r)
{
	enum run_reason reason = reason_of(r);
	struct run_result result = {
	    .id = r->id,
	    .reason = reason,
	    .exit_code = exit_code_of(r, reason),
	    .signal = r->end.signal,
	    .out = output_of(r, ENGINE_STDOUT),
	    .err = output_of(r, ENGINE_STDERR),
	    .value = output_of(r, ENGINE_RESULT),
	    .artifacts = r->artifacts,
	    .n_artifacts = r->n_artifacts,
	    .folders = r->folders,
	    .n_folders = r->n_folders,
	    .warm = r->end.warm,
	    .state_lost = r->end.state_lost,
	    .state_kept = r->end.state_kept,
	    .threads_lost = r->end.threads_lost,
	    .duration_ms = r->end.duration_ns / NS_PER_MS,
	    .cpu_ns = r->end.cpu_ns,
	    .peak_bytes = r->end.peak_bytes,
	};
	log_end(r, &result);
	run_end(r, &result, NULL);
}

/* ---- inventory after ---- */

static void add_artifact(const struct engine_file *file, void *user)
{
	struct run *r = user;
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
	/* The run itself went well: a failed scan costs the list of artifacts, not the result. */
	if (e || take_inventory(r, files, n, more) < 0)
		sandbox_forget_inventory(r->sandbox);
	run_report(r);
}

/* ---- execution ---- */

static void on_output(struct engine_run *handle UNUSED, enum engine_stream stream, const void *data,
		      size_t len, void *user)
{
	struct run *r = user;

	if (r->request.on_output)
		r->request.on_output(r, stream, data, len, r->request.user);
	if (r->request.unbounded)
		return;
	struct buf *b = &r->output[stream];
	size_t room = b->max - b->len;
	if (len > room)
		r->truncated[stream] = true;
	if (buf_add(b, data, MIN(len, room)) < 0)
		r->truncated[stream] = true;
}

static bool wants_artifacts(const struct run *r)
{
	if (r->request.no_artifacts || r->sandbox->state != SANDBOX_READY)
		return false;
	return r->request.artifacts_always ||
	       (r->end.end == ENGINE_END_EXITED && r->end.exit_code == 0);
}

static void on_engine_done(struct engine_run *handle UNUSED, const struct engine_run_result *res,
			   const struct err *e, void *user)
{
	struct run *r = user;
	struct sandbox *s = r->sandbox;
	struct err error = ERR_INIT;

	r->handle = NULL;
	if (e) {
		/* Any other says that it could not be started. */
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
	if (wants_artifacts(r)) {
		r->phase = RUN_SCANNING_AFTER;
		if (sandbox_ops(s)->list_files(s->handle, "", on_listed_after, r, &error) == 0)
			return;
	}
	sandbox_forget_inventory(s);
	run_report(r);
}

static int start_engine_run(struct run *r, const struct run_request *q, struct err *e)
{
	struct sandbox *s = r->sandbox;
	const struct manager_config *config = &s->manager->config;
	/* One byte more than is kept tells that there was more. */
	uint64_t kept = q->unbounded ? 0 : sandbox_output_max(s) + 1;
	uint64_t timeout = q->timeout_ns == 0 ? sandbox_run_timeout_ns(s) : q->timeout_ns;
	const char *env[SANDBOX_NETWORK_ENV_MAX];
	struct engine_run_spec spec = {
	    .kind = q->kind,
	    .env = sandbox_network_env(s, env),
	    .code = q->code,
	    .code_len = q->code_len,
	    .argv = q->argv,
	    .cwd = q->cwd,
	    .display = q->display,
	    .report = q->report,
	    .stdin_fd = -1,
	    .timeout_ns = timeout == SANDBOX_RUN_NO_TIMEOUT ? 0 : timeout,
	    .grace_ns = config->grace_ns,
	    .output_max = {0, kept, kept},
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
	int x = sandbox_ops(s)->run(s->handle, &spec, &r->handle, e);
	r->began = x == 0;
	return x;
}

/* After the inventory before. */
static void execute(struct run *r)
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
	/* Without memory for the inventory every file would look new: that is the lesser evil. */
	s->inventory_known = inventory_set(&s->inventory, files, n, more) == 0;
	execute(r);
}

/* ---- start ---- */

static int copy_argv(struct run *r, const char *const *argv)
{
	size_t n = 0;

	while (argv[n])
		n++;
	r->argv = calloc(n + 1, sizeof(*r->argv));
	for (size_t i = 0; r->argv && i < n; i++) {
		r->argv[i] = strdup(argv[i]);
		if (!r->argv[i])
			return -ENOMEM;
	}
	return r->argv ? 0 : -ENOMEM;
}

/* The engine copies what it needs, but only when it is called: keep it until then. */
static int keep_request(struct run *r, const struct run_request *q)
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
		if (copy_argv(r, q->argv) < 0)
			return -ENOMEM;
		r->request.argv = (const char *const *)r->argv;
	}
	return 0;
}

static int begin(struct run *r, const struct run_request *q, struct err *e)
{
	struct sandbox *s = r->sandbox;

	r->phase = RUN_SCANNING_BEFORE;
	if (q->no_artifacts || s->inventory_known)
		return start_engine_run(r, q, e);
	if (q != &r->request && keep_request(r, q) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "run in session %s", s->id);
	return sandbox_ops(s)->list_files(s->handle, "", on_listed_before, r, e);
}

/* ---- the queue ---- */

static int enqueue(struct run *r, const struct run_request *q, struct err *e)
{
	struct run **at = &r->sandbox->queue;

	if (keep_request(r, q) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "run in session %s", r->sandbox->id);
	while (*at)
		at = &(*at)->next;
	*at = r;
	r->sandbox->n_queue++;
	r->phase = RUN_WAITING;
	return 0;
}

static void dequeue(struct run *r)
{
	struct run **at = &r->sandbox->queue;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	r->sandbox->n_queue--;
}

void sandbox_next_run(struct sandbox *s)
{
	while (s->queue && !s->run && !s->seized) {
		struct run *r = s->queue;
		struct err e = ERR_INIT;
		dequeue(r);
		if (s->manager->closing || s->state != SANDBOX_READY) {
			(void)err_set(&e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended", s->id);
		} else {
			s->run = r;
			if (begin(r, &r->request, &e) == 0)
				return;
			s->run = NULL;
		}
		run_end(r, NULL, &e);
	}
}

/* Never had its turn. */
static void cancel_waiting(struct run *r)
{
	dequeue(r);
	r->end.end = ENGINE_END_KILLED;
	run_report(r);
}

static int check_free(const struct sandbox *s, const struct run_request *q, struct err *e)
{
	if (!s->run && !s->queue && !s->seized)
		return 0;
	if (!q->queued && s->seized && !s->run)
		return sandbox_check_free(s, e);
	if (!q->queued)
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

/* WAIT: it has its turn after the others. */
static int run_new(struct sandbox *s, const struct run_request *request, bool wait,
		   struct run **ret, struct err *e)
{
	const struct manager_ledger *ledger = &s->manager->ledger;
	int refused = ledger->admit ? ledger->admit(ledger->user, s, e) : 0;

	if (refused < 0)
		return refused;
	if (!sandbox_use(s, e))
		return -ENOENT;
	struct run *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "run in session %s", s->id);
	make_run_id(r->id);
	r->request = *request;
	r->request.code = NULL;
	r->request.argv = NULL;
	r->request.cwd = NULL;
	r->sandbox = sandbox_ref(s);
	for (size_t i = 0; i < ARRAY_SIZE(r->output); i++)
		buf_init(&r->output[i], (size_t)sandbox_output_max(s));
	if (!wait)
		s->run = r;
	int x = wait ? enqueue(r, request, e) : begin(r, request, e);
	if (x < 0) {
		if (!wait)
			s->run = NULL;
		run_note(r, NULL);
		run_free(r);
		return x;
	}
	*ret = r;
	return 0;
}

int sandbox_run(struct sandbox *s, const struct run_request *request, struct run **ret,
		struct err *e)
{
	int wait = check_free(s, request, e);

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
		(void)r->sandbox->manager->engine->ops->signal(r->handle, signo);
}

void run_cancel(struct run *r)
{
	r->cancelled = true;
	if (r->phase == RUN_WAITING)
		cancel_waiting(r);
	else
		run_signal(r, SIGKILL);
}
