/* SPDX-License-Identifier: Apache-2.0 */
/* REST: background processes of a sandbox (sandbox/process.h). One lives on without the client that started it, and ends when
 * the key that did is revoked. */
#include "api/rest/rest.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/process.h"

#include <string.h>

#define WAIT_DEFAULT_S 0

static bool is_revoked(const void *credential)
{
	return ((const struct caller *)credential)->ended == CALLER_REVOKED;
}

void processes_end_callers(struct api *a)
{
	manager_end_processes(a->config.manager, is_revoked);
}

/* ---- answers ---- */

static json_t *when_json(uint64_t ms)
{
	return rest_time(ms * NS_PER_MS);
}

json_t *rest_process_json(const struct process_facts *f)
{
	json_t *o =
	    json_pack("{s:s, s:o, s:s, s:b, s:o, s:I, s:I, s:I}", "id", f->id, "command",
		      rest_name(f->command), "state", f->running ? "running" : "ended", "input",
		      f->has_input, "started_at", when_json(f->started_ms), "duration_ms",
		      (json_int_t)(f->duration_ns / NS_PER_MS), "stdout_bytes",
		      (json_int_t)f->total[0], "stderr_bytes", (json_int_t)f->total[1]);

	if (f->rows > 0)
		(void)json_object_set_new(
		    o, "terminal", json_pack("{s:i, s:i}", "rows", f->rows, "columns", f->columns));
	if (f->name[0])
		(void)json_object_set_new(o, "name", rest_name(f->name));
	if (f->running)
		return o;
	if (f->failure.code != ERR_NONE)
		(void)json_object_update_new(o, json_pack("{s:s, s:o}", "error",
							  err_code_name(f->failure.code), "message",
							  rest_name(f->failure.text)));
	else
		(void)json_object_update_new(
		    o, json_pack("{s:i, s:s, s:I, s:I, s:I}", "exit_code", f->exit_code, "reason",
				 run_reason_name(f->reason), "killed", (json_int_t)f->killed,
				 "cpu_ms", (json_int_t)(f->cpu_ns / NS_PER_MS), "peak_bytes",
				 (json_int_t)f->peak_bytes));
	return o;
}

static json_t *output_json(const struct process *p, enum engine_stream s, uint64_t from)
{
	/* U+FFFD takes three bytes, for each byte that is no text */
	_cleanup_(buf_done) struct buf b = BUF_INIT((size_t)PROCESS_OUTPUT_MAX * 3);
	uint64_t begin, next;

	if (process_output(p, s, from, PROCESS_OUTPUT_MAX, &b, &begin, &next) < 0)
		begin = next = from;
	return json_pack("{s:o, s:I, s:I}", "text", json_stringn_nocheck(buf_str(&b), b.len),
			 "from", (json_int_t)begin, "next", (json_int_t)next);
}

static uint64_t from_of(const struct rest_call *c, const char *name)
{
	return c->req ? (uint64_t)rest_query_int(c, name, 0) : 0;
}

static json_t *whole_json(const struct process *p, uint64_t out, uint64_t err)
{
	struct process_facts f;

	process_look(p, &f);
	json_t *o = rest_process_json(&f);
	(void)json_object_set_new(o, "stdout", output_json(p, ENGINE_STDOUT, out));
	(void)json_object_set_new(o, "stderr", output_json(p, ENGINE_STDERR, err));
	return o;
}

struct process *rest_need_process(struct rest_call *c)
{
	struct err e = ERR_INIT;
	struct process *p = sandbox_find_process(c->sandbox, c->text, &e);

	if (!p)
		rest_fail(c, &e);
	else
		(void)snprintf(c->object, sizeof(c->object), "%s %s", sandbox_id(c->sandbox),
			       c->text);
	return p;
}

void rest_with_process(struct rest_call *c, const char *param, const char *action, rest_fn next)
{
	c->action = action;
	c->text = strdup(http_request_param(c->req, param));
	if (c->text)
		rest_sandbox(c, next);
	else
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
}

/* ---- start ---- */

void rest_begin_process(struct rest_call *c, const char *command, const struct process_request *own)
{
	struct process_request q = *own;
	const char *const argv[] = {"sh", "-c", command, NULL};
	json_auto_t *given = json_pack("{s:O*}", "env", json_object_get(c->body, "env"));
	struct sandbox_options options;
	struct process_facts f;
	struct process *p;
	struct err e = ERR_INIT;

	if (sandbox_options_read(given, false, &options, &e) < 0) {
		rest_fail(c, &e);
		return;
	}
	q.argv = argv;
	q.name = rest_text(c, "name", NULL);
	q.cwd = rest_text(c, "cwd", NULL);
	q.root = streq(rest_text(c, "user", ""), "root");
	q.env = (const char *const *)options.env.list;
	q.credential = c->who;
	if (sandbox_start_process(c->sandbox, &q, &p, &e) < 0) {
		rest_fail(c, &e);
	} else {
		process_look(p, &f);
		(void)snprintf(c->object, sizeof(c->object), "%s %s", sandbox_id(c->sandbox), f.id);
		rest_reply(c, 201, rest_process_json(&f));
	}
	sandbox_options_done(&options);
}

void rest_take_command(struct rest_call *c, const char *action, rest_fn next)
{
	const uint64_t max = c->api->config.max_code_bytes;
	const size_t len = strlen(rest_text(c, "command", ""));

	c->action = action;
	if (len > max)
		rest_refuse(c, ERR_CODE_TOO_LARGE, "The command is %zu bytes, the limit is %ju.",
			    len, (uintmax_t)max);
	else
		rest_sandbox(c, next);
}

static void start(struct rest_call *c)
{
	const char *command = rest_text(c, "command", "");
	const struct process_request q = {
	    .command = command,
	    .input = rest_bool(c, "input"),
	    .timeout_ns = (uint64_t)rest_int(c, "timeout_s", 0) * NS_PER_S,
	};

	rest_begin_process(c, command, &q);
}

void rest_start_process(struct rest_call *c)
{
	rest_take_command(c, "process.start", start);
}

/* ---- look ---- */

static void add_row(struct process *p, void *user)
{
	struct process_facts f;

	process_look(p, &f);
	(void)json_array_append_new(user, rest_process_json(&f));
}

static void list(struct rest_call *c)
{
	json_t *all = json_array();

	sandbox_each_process(c->sandbox, add_row, all);
	rest_reply(c, 200, json_pack("{s:o}", "processes", all));
}

void rest_list_processes(struct rest_call *c)
{
	rest_sandbox(c, list);
}

/* A call that waits for output or the end. */
struct wait {
	struct rest_call *call;
	struct process_wait *wait;
	uint64_t out, err;
};

/* The client has left, and its place among those that wait is free for others. */
static void on_left(void *user)
{
	struct wait *w = user;
	struct rest_call *c = w->call;

	process_wait_cancel(w->wait);
	free(w);
	rest_on_gone(c);
	rest_refuse(c, ERR_CANCELLED, "the client has left");
}

static void wait_end(struct process *p, void *user)
{
	struct wait *w = user;
	struct rest_call *c = w->call;
	json_t *body = whole_json(p, w->out, w->err);

	if (c->req)
		http_request_on_gone(c->req, rest_on_gone, c);
	free(w);
	rest_reply(c, 200, body);
}

static void look(struct rest_call *c)
{
	struct process *p = rest_need_process(c);
	struct err e = ERR_INIT;

	if (!p)
		return;
	struct wait *w = calloc(1, sizeof(*w));
	if (!w) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	*w = (struct wait){
	    .call = c, .out = from_of(c, "stdout_from"), .err = from_of(c, "stderr_from")};
	const uint64_t wait_s = c->req ? (uint64_t)rest_query_int(c, "wait_s", WAIT_DEFAULT_S) : 0;
	const struct process_wait_request q = {
	    .owner = c->who->owner,
	    .timeout_ns = wait_s * NS_PER_S,
	    .output = c->req && rest_query_bool(c, "output"),
	    .from = {w->out, w->err},
	    .fn = wait_end,
	    .user = w,
	};
	if (process_wait(p, &q, &w->wait, &e) < 0) {
		free(w);
		rest_fail(c, &e);
	} else if (!w->wait) {
		wait_end(p, w);
	} else if (c->req) {
		http_request_on_gone(c->req, on_left, w);
	} else {
		on_left(w);
	}
}

void rest_get_process(struct rest_call *c)
{
	rest_with_process(c, "process", NULL, look);
}

/* ---- signal, input, end ---- */

static void send_signal(struct rest_call *c)
{
	struct process *p = rest_need_process(c);
	struct err e = ERR_INIT;

	if (!p)
		return;
	if (process_signal(p, process_signal_number(rest_text(c, "signal", "")), &e) < 0)
		rest_fail(c, &e);
	else
		rest_reply(c, 204, NULL);
}

void rest_signal_process(struct rest_call *c)
{
	rest_with_process(c, "process", "process.signal", send_signal);
}

static void give_input(struct rest_call *c)
{
	struct process *p = rest_need_process(c);
	struct err e = ERR_INIT;

	if (!p)
		return;
	const char *text = rest_text(c, "text", "");
	if (process_write(p, text, strlen(text), rest_bool(c, "close"), &e) < 0)
		rest_fail(c, &e);
	else
		rest_reply(c, 204, NULL);
}

void rest_write_process(struct rest_call *c)
{
	rest_with_process(c, "process", "process.input", give_input);
}

void rest_forget_process(struct rest_call *c)
{
	struct process *p = rest_need_process(c);

	if (!p)
		return;
	process_forget(p);
	rest_reply(c, 204, NULL);
}

void rest_remove_process(struct rest_call *c)
{
	rest_with_process(c, "process", "process.remove", rest_forget_process);
}
