/* SPDX-License-Identifier: Apache-2.0 */
/* REST: background processes of a sandbox (sandbox/process.h). One lives on without the client that started it, and ends when
 * the key that did is revoked. */
#include "api/rest/rest.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/process.h"

#include <signal.h>
#include <string.h>

#define WAIT_DEFAULT_S 0

/* ---- who started it ---- */

struct api_process {
	struct list node; /* in api.processes */
	struct process *process;
	struct caller *who;
	struct process_watch watch;
};

static void started_free(struct api_process *p)
{
	list_remove(&p->node);
	process_unwatch(&p->watch);
	caller_unref(p->who);
	(void)process_unref(p->process);
	free(p);
}

static void on_change(struct process_watch *w)
{
	struct api_process *p = CONTAINER_OF(w, struct api_process, watch);
	struct process_facts f;

	process_look(p->process, &f);
	if (!f.running)
		started_free(p);
}

void processes_end_callers(struct api *a)
{
	list_for_each(l, &a->processes) {
		struct api_process *p = list_entry(l, struct api_process, node);
		struct err e = ERR_INIT;

		if (p->who->ended == CALLER_REVOKED)
			(void)!process_signal(p->process, SIGKILL, &e);
	}
}

void processes_done(struct api *a)
{
	list_for_each(l, &a->processes)
		started_free(list_entry(l, struct api_process, node));
}

/* ---- answers ---- */

static json_t *when_json(uint64_t ms)
{
	return rest_time(ms * NS_PER_MS);
}

static json_t *facts_json(const struct process_facts *f)
{
	json_t *o =
	    json_pack("{s:s, s:o, s:s, s:b, s:o, s:I, s:I, s:I}", "id", f->id, "command",
		      rest_name(f->command), "state", f->running ? "running" : "ended", "input",
		      f->has_input, "started_at", when_json(f->started_ms), "duration_ms",
		      (json_int_t)(f->duration_ns / NS_PER_MS), "stdout_bytes",
		      (json_int_t)f->total[0], "stderr_bytes", (json_int_t)f->total[1]);

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
	json_t *o = facts_json(&f);
	(void)json_object_set_new(o, "stdout", output_json(p, ENGINE_STDOUT, out));
	(void)json_object_set_new(o, "stderr", output_json(p, ENGINE_STDERR, err));
	return o;
}

/* The process {process} of c->sandbox; NULL after it has answered, and C is gone. */
static struct process *need(struct rest_call *c)
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

/* Goes on with NEXT and the {process} of the path in c->text. */
static void with_id(struct rest_call *c, const char *action, rest_fn next)
{
	c->action = action;
	c->text = strdup(http_request_param(c->req, "process"));
	if (c->text)
		rest_sandbox(c, next);
	else
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
}

/* ---- start ---- */

static void begin(struct rest_call *c, const struct process_request *q)
{
	struct api_process *started = calloc(1, sizeof(*started));
	struct process_facts f;
	struct err e = ERR_INIT;
	struct process *p;

	if (!started) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	if (sandbox_start_process(c->sandbox, q, &p, &e) < 0) {
		free(started);
		rest_fail(c, &e);
		return;
	}
	*started = (struct api_process){
	    .process = process_ref(p), .who = caller_ref(c->who), .watch = {.fn = on_change}};
	list_append(&c->api->processes, &started->node);
	process_watch(p, &started->watch);
	process_look(p, &f);
	(void)snprintf(c->object, sizeof(c->object), "%s %s", sandbox_id(c->sandbox), f.id);
	rest_reply(c, 201, facts_json(&f));
}

static void start(struct rest_call *c)
{
	const char *command = rest_text(c, "command", ""), *cwd = rest_text(c, "cwd", NULL);
	const char *const argv[] = {"sh", "-c", command, NULL};
	json_auto_t *given = json_pack("{s:O*}", "env", json_object_get(c->body, "env"));
	char place[SANDBOX_PLACE_MAX + sizeof(WORKSPACE)];
	struct sandbox_options options;
	struct err e = ERR_INIT;

	if (sandbox_options_read(given, false, &options, &e) < 0) {
		rest_fail(c, &e);
		return;
	}
	if (cwd)
		(void)snprintf(place, sizeof(place), "%s%s", cwd[0] == '/' ? "" : WORKSPACE "/",
			       cwd);
	const struct process_request q = {
	    .command = command,
	    .name = rest_text(c, "name", NULL),
	    .argv = argv,
	    .cwd = cwd ? place : NULL,
	    .env = (const char *const *)options.env.list,
	    .input = rest_bool(c, "input"),
	    .timeout_ns = (uint64_t)rest_int(c, "timeout_s", 0) * NS_PER_S,
	};
	begin(c, &q);
	sandbox_options_done(&options);
}

void rest_start_process(struct rest_call *c)
{
	const uint64_t max = c->api->config.max_code_bytes;
	const size_t len = strlen(rest_text(c, "command", ""));

	c->action = "process.start";
	if (len > max)
		rest_refuse(c, ERR_CODE_TOO_LARGE, "The command is %zu bytes, the limit is %ju.",
			    len, (uintmax_t)max);
	else
		rest_sandbox(c, start);
}

/* ---- look ---- */

static void add_row(struct process *p, void *user)
{
	struct process_facts f;

	process_look(p, &f);
	(void)json_array_append_new(user, facts_json(&f));
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
	struct process *process;
	struct process_watch watch;
	sd_event_source *timer;
	uint64_t out, err;
	bool output; /* it waits for output, too */
};

static void wait_end(struct wait *w)
{
	struct rest_call *c = w->call;
	json_t *body = whole_json(w->process, w->out, w->err);

	process_unwatch(&w->watch);
	(void)sd_event_source_disable_unref(w->timer);
	(void)process_unref(w->process);
	free(w);
	rest_reply(c, 200, body);
}

static bool has_news(const struct wait *w)
{
	struct process_facts f;

	process_look(w->process, &f);
	return !f.running || (w->output && (f.total[0] > w->out || f.total[1] > w->err));
}

static void on_news(struct process_watch *watch)
{
	struct wait *w = CONTAINER_OF(watch, struct wait, watch);

	if (has_news(w))
		wait_end(w);
}

static int on_time(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	wait_end(user);
	return 0;
}

static void look(struct rest_call *c)
{
	struct process *p = need(c);
	struct err e = ERR_INIT;

	if (!p)
		return;
	const uint64_t wait_s = c->req ? (uint64_t)rest_query_int(c, "wait_s", WAIT_DEFAULT_S) : 0;
	struct wait *w = calloc(1, sizeof(*w));
	if (!w) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	*w = (struct wait){.call = c,
			   .process = process_ref(p),
			   .watch = {.fn = on_news},
			   .out = from_of(c, "stdout_from"),
			   .err = from_of(c, "stderr_from"),
			   .output = c->req && rest_query_bool(c, "output")};
	list_init(&w->watch.node);
	if (wait_s == 0 || has_news(w)) {
		wait_end(w);
		return;
	}
	int r =
	    budget_take(c->api->config.budgets, c->who->owner, BUDGET_FOLLOWERS, 1, &c->room, &e);
	if (r == 0 && sd_event_add_time_relative(c->api->config.loop, &w->timer, CLOCK_MONOTONIC,
						 wait_s * NS_PER_S / NS_PER_US, 0, on_time, w) < 0)
		r = err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a wait");
	if (r < 0) {
		(void)process_unref(w->process);
		free(w);
		rest_fail(c, &e);
		return;
	}
	process_watch(p, &w->watch);
}

void rest_get_process(struct rest_call *c)
{
	with_id(c, NULL, look);
}

/* ---- signal, input, end ---- */

static void send_signal(struct rest_call *c)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},
		       {"KILL", SIGKILL}, {"TERM", SIGTERM}, {"USR1", SIGUSR1},
		       {"USR2", SIGUSR2}, {"CONT", SIGCONT}, {"STOP", SIGSTOP}};
	struct process *p = need(c);
	struct err e = ERR_INIT;

	for (size_t i = 0; p && i < ARRAY_SIZE(signals); i++)
		if (streq(signals[i].name, rest_text(c, "signal", ""))) {
			if (process_signal(p, signals[i].number, &e) < 0)
				rest_fail(c, &e);
			else
				rest_reply(c, 204, NULL);
			return;
		}
}

void rest_signal_process(struct rest_call *c)
{
	with_id(c, "process.signal", send_signal);
}

static void give_input(struct rest_call *c)
{
	struct process *p = need(c);
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
	with_id(c, "process.input", give_input);
}

static void remove_it(struct rest_call *c)
{
	struct process *p = need(c);

	if (!p)
		return;
	process_forget(p);
	rest_reply(c, 204, NULL);
}

void rest_remove_process(struct rest_call *c)
{
	with_id(c, "process.remove", remove_it);
}
