/* SPDX-License-Identifier: Apache-2.0 */
/* The code interpreter: code is run in a context, and what it prints and shows is told as it comes. When the client leaves, the
 * code is interrupted. A client that reads slowly stops the code: its output is not read meanwhile. */
#include "faces/e2b/face.h"
#include "faces/e2b/results.h"

#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define LINES_MAX     (8u << 20)
#define QUEUED_MAX    (1u << 20) /* bytes that wait for the client; beyond, the code waits */
#define KEEPALIVE_NS  (5 * NS_PER_S)
#define KEEPALIVE     "{\"type\":\"keepalive\"}\n"
#define VALUE_MAX     (2u << 20)
#define VARIABLES_MAX (SANDBOX_ENV_MAX - 4)

struct execution {
	struct http_stream *stream; /* NULL: the client has left */
	struct run *run;            /* NULL: it has ended */
	struct e2b_stream of;
	struct budget_share share;
	sd_event_source *keepalive;
	struct {
		char bytes[TEXT_UTF8_OPEN_MAX];
		size_t len;
	} tails[3];       /* by enum engine_stream: the beginning of a character */
	bool showing;     /* what stdout has now is the text of what is shown */
	bool error_shown; /* what ended the code */
	struct buf value; /* the text of that value */
	bool held;
};

static void execution_free(struct execution *x)
{
	list_remove(&x->of.node);
	(void)sd_event_source_disable_unref(x->keepalive);
	budget_give(&x->share);
	buf_done(&x->value);
	free(x);
}

/* ---- to the client ---- */

static void hold(struct execution *x, bool wanted)
{
	if (x->held == wanted || !x->run)
		return;
	x->held = wanted;
	run_hold(x->run, wanted);
}

/* The client has left, or is given up: X goes with its run. */
static void leave(struct execution *x)
{
	x->stream = NULL;
	list_remove(&x->of.node);
	x->keepalive = sd_event_source_disable_unref(x->keepalive);
	/* Code that waits to print could not be interrupted, and its context would end with it. */
	hold(x, false);
	if (x->run)
		run_cancel(x->run);
	else
		execution_free(x);
}

static void on_close(void *user)
{
	leave(user);
}

/* When the sandbox ends, so does the run. */
static void on_cut(struct e2b_stream *st, bool ended)
{
	struct execution *x = CONTAINER_OF(st, struct execution, of);

	http_stream_abort(TAKE_PTR(x->stream));
	x->keepalive = sd_event_source_disable_unref(x->keepalive);
	if (!ended)
		leave(x);
}

static void on_drain(void *user)
{
	hold(user, false);
}

static void send(struct execution *x, json_t *line)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(LINES_MAX);

	if (!x->stream) {
		json_decref(line);
		return;
	}
	if (e2b_add_line(&b, line) < 0 || http_stream_write(x->stream, b.data, b.len) < 0) {
		http_stream_abort(TAKE_PTR(x->stream));
		list_remove(&x->of.node);
		hold(x, false);
		if (x->run)
			run_cancel(x->run);
	} else if (http_stream_queued(x->stream) > QUEUED_MAX) {
		hold(x, true);
	}
}

static int on_keepalive(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct execution *x = user;

	loop_work("timer", "execution of E2B");
	if (x->stream && http_stream_last_write_ns(x->stream) + KEEPALIVE_NS <= now_ns() &&
	    http_stream_write(x->stream, KEEPALIVE, sizeof(KEEPALIVE) - 1) < 0)
		return 0;
	(void)sd_event_source_set_time_relative(source, KEEPALIVE_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- from the sandbox ---- */

static void send_output(struct execution *x, enum engine_stream s, const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(len + TEXT_UTF8_OPEN_MAX + 1);

	if (buf_add(&text, x->tails[s].bytes, x->tails[s].len) < 0 || buf_add(&text, data, len) < 0)
		return;
	const size_t open = text_utf8_open(buf_str(&text), text.len);
	memcpy(x->tails[s].bytes, buf_str(&text) + text.len - open, open);
	x->tails[s].len = open;
	if (text.len > open)
		send(x, e2b_output_json(s == ENGINE_STDERR ? "stderr" : "stdout", text.data,
					text.len - open));
}

/* Characters of which no more will come. */
static void send_tails(struct execution *x)
{
	for (enum engine_stream s = ENGINE_STDOUT; s <= ENGINE_STDERR; s++)
		if (x->tails[s].len > 0)
			send(x, e2b_output_json(s == ENGINE_STDERR ? "stderr" : "stdout",
						x->tails[s].bytes, x->tails[s].len));
}

static void on_output(struct run *run UNUSED, enum engine_stream s, const void *data, size_t len,
		      void *user)
{
	struct execution *x = user;

	if (s == ENGINE_RESULT)
		(void)!buf_add(&x->value, data, MIN(len, (size_t)VALUE_MAX - x->value.len));
	else if (s != ENGINE_STDOUT || !x->showing)
		send_output(x, s, data, len);
}

static void on_shown(struct run *run UNUSED, const struct shown *item, bool ends, void *user)
{
	struct execution *x = user;

	x->showing = !ends && item->placed;
	if (ends || item->kind == SHOWN_CLEAR || item->kind == SHOWN_RESULT)
		return;
	json_t *error = e2b_error_json(item);
	if (error) {
		x->error_shown = true;
		send(x, error);
		return;
	}
	send(x, e2b_result_json(item, NULL, false));
}

/* The value of the last expression: its text, and whatever else it shows of itself. */
static void send_value(struct execution *x, const struct shown_list *shown)
{
	const struct shown *item = NULL;

	for (size_t i = 0; shown && i < shown->n; i++)
		if (shown->items[i].kind == SHOWN_RESULT)
			item = &shown->items[i];
	if (item || x->value.len > 0)
		send(x, e2b_result_json(item, &x->value, true));
}

/* What ends code without an exception that it could tell of. */
static void send_reason(struct execution *x, enum run_reason reason, const struct err *e)
{
	static const struct {
		const char *name, *value;
	} ends[] = {
	    [RUN_SIGNALED] = {"KernelDied",
			      "the interpreter was ended by a signal; variables are as before"},
	    [RUN_TIMEOUT] = {"TimeoutError", "the code took longer than this server permits"},
	    [RUN_OOM] = {"MemoryError", "the sandbox has no more memory"},
	    [RUN_DISK_LIMIT] = {"OSError", "the sandbox has no more room for files"},
	    [RUN_CANCELLED] = {"KeyboardInterrupt", ""},
	};
	const char *name = e                           ? "SandboxError"
			   : reason < ARRAY_SIZE(ends) ? ends[reason].name
						       : NULL;

	if (!name || x->error_shown)
		return;
	const char *value = e ? e->text : ends[reason].value;
	send(x, json_pack("{s:s, s:s, s:s, s:s}", "type", "error", "name", name, "value", value,
			  "traceback", value));
}

static void on_done(struct run *run UNUSED, const struct run_result *result, const struct err *e,
		    void *user)
{
	struct execution *x = user;

	x->run = NULL;
	/* The SDKs look after the sandbox when a stream breaks, and say that it was killed. */
	if (x->stream &&
	    ((result && result->reason == RUN_LOST) || (e && e->code == ERR_SANDBOX_LOST)))
		http_stream_abort(TAKE_PTR(x->stream));
	send_tails(x);
	if (result)
		send_value(x, result->shown);
	send_reason(x, result ? result->reason : RUN_LOST, e);
	send(x, json_pack("{s:s}", "type", "end_of_execution"));
	if (x->stream)
		http_stream_end(x->stream);
	execution_free(x);
}

/* ---- the beginning ---- */

struct request {
	const char *code;
	bool shell;
	enum run_language language;
	struct e2b_context *context;
	const char *env[SANDBOX_ENV_MAX + 1];
	size_t env_at[SANDBOX_ENV_MAX];
	struct buf texts; /* of ENV, in a row */
};

static int add_variable(struct request *q, size_t *n, const char *name, const char *value,
			struct err *e)
{
	if (!value || !*name || strchr(name, '=') || *n == SANDBOX_ENV_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "env_vars: at most %d texts",
			       VARIABLES_MAX);
	q->env_at[(*n)++] = q->texts.len;
	const int r = buf_printf(&q->texts, "%s=%s%c", name, value, '\0');
	return r < 0 ? err_set(e, ERR_INVALID_ARGUMENT, -r, "env_vars") : 0;
}

static int read_env(const json_t *body, struct request *q, struct err *e)
{
	static const char *const own[][2] = {
	    {"HOME", E2B_HOME}, {"USER", "user"}, {"LOGNAME", "user"}};
	json_t *envs = json_object_get(body, "env_vars"), *v;
	const char *key;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(own) && r == 0; i++)
		if (!json_object_get(envs, own[i][0]))
			r = add_variable(q, &n, own[i][0], own[i][1], e);
	json_object_foreach(envs, key, v)
		r = r < 0 ? r : add_variable(q, &n, key, json_string_value(v), e);
	for (size_t i = 0; i < n; i++)
		q->env[i] = q->texts.data + q->env_at[i];
	return r;
}

static int read_request(const struct e2b_call *c, struct request *q, struct err *e)
{
	const json_t *code = json_object_get(c->body, "code");
	const char *context = json_string_value(json_object_get(c->body, "context_id"));
	const char *language = json_string_value(json_object_get(c->body, "language"));

	q->code = json_string_value(code);
	q->shell = language && streq(language, "bash");
	if (!q->code)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "code: a text");
	if (language && context)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "either a context or a language");
	if (language && !q->shell && !language_read(language, &q->language))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "this server runs code in python, javascript, typescript and bash");
	q->context = q->language == LANGUAGE_PYTHON ? e2b_context_of(c->sandbox, context, e)
						    : &c->sandbox->contexts[1];
	if (!q->context)
		return -ENOENT;
	if (!language)
		q->language = q->context->language;
	return read_env(c->body, q, e);
}

static int start(const struct e2b_call *c, const struct request *q, struct execution *x,
		 struct err *e)
{
	ASSERT(q->context); /* read_request() has found it */
	const char *const argv[] = {"/bin/bash", "-c", q->code, NULL};
	const uint64_t most = manager_run_timeout_max_ns(c->face->config.manager);
	const struct run_request r = {
	    .kind = q->shell ? ENGINE_RUN_ARGV : ENGINE_RUN_STATEFUL,
	    .language = q->language,
	    .code = q->shell ? NULL : q->code,
	    .code_len = q->shell ? 0 : strlen(q->code),
	    .argv = q->shell ? argv : NULL,
	    .asked = 2,
	    .context = q->context->name,
	    .env = q->env,
	    .cwd = q->context->cwd ? q->context->cwd : E2B_HOME,
	    .timeout_ns = most > 0 ? most : SANDBOX_RUN_NO_TIMEOUT,
	    .unbounded = true,
	    .no_artifacts = true,
	    .queued = true,
	    .display = !q->shell,
	    .notebook = !q->shell,
	    .errors = true,
	    .restarts = q->context->restarts,
	    .asked_how = "rest",
	    .asked_by = c->who->name,
	    .on_output = on_output,
	    .on_shown = on_shown,
	    .on_done = on_done,
	    .user = x,
	};

	return sandbox_run(c->sandbox->sandbox, &r, &x->run, e);
}

/* Ends the call: its client is told what X does. */
static void tell(struct e2b_call *c, struct execution *x, unsigned count)
{
	static const struct http_stream_ops ops = {.on_close = on_close, .on_drain = on_drain};
	sd_event *loop = c->face->config.loop;
	struct list *streams = &c->sandbox->streams;
	struct http_request *req = e2b_give(c);

	if (req)
		(void)http_add_header(req, "X-Accel-Buffering", "no");
	x->stream = req ? http_stream_begin(req, 200, "application/x-ndjson", &ops, x) : NULL;
	if (!x->stream) {
		leave(x);
		return;
	}
	list_append(streams, &x->of.node);
	(void)sd_event_add_time_relative(loop, &x->keepalive, CLOCK_MONOTONIC,
					 KEEPALIVE_NS / NS_PER_US, 0, on_keepalive, x);
	send(x, json_pack("{s:s, s:i}", "type", "number_of_executions", "execution_count",
			  (int)count));
}

void e2b_execute(struct e2b_call *c)
{
	struct request q = {.texts = BUF_INIT(2 * SANDBOX_ENV_BYTES_MAX)};
	struct execution *x = calloc(1, sizeof(*x));
	struct err e = ERR_INIT;
	unsigned count = 0;

	if (!x) {
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "an execution");
		return;
	}
	buf_init(&x->value, VALUE_MAX);
	list_init(&x->of.node);
	x->of.cut = on_cut;
	int r = read_request(c, &q, &e);
	r = r < 0 ? r
		  : budget_take(c->face->config.budgets, c->who->owner, BUDGET_FOLLOWERS, 1,
				&x->share, &e);
	r = r < 0 ? r : start(c, &q, x, &e);
	if (r == 0) {
		q.context->restarts = false;
		count = ++q.context->executions;
	}
	buf_done(&q.texts);
	if (r == 0) {
		tell(c, x, count);
		return;
	}
	execution_free(x);
	e2b_fail(c, &e);
}
