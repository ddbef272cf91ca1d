/* SPDX-License-Identifier: Apache-2.0 */
/* REST: runs. A run belongs to the server, not to the request that started it. By its id it can be
 * read, followed and ended while it runs, and read for some minutes afterwards. */
#include "api/rest.h"

#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define KEEP_NS    (10 * 60 * NS_PER_S) /* how long a run is kept after its end */
#define KEEP_MAX   512u                 /* how many ended runs are kept */
#define LOG_MAX    (2u << 20)   /* bytes of events that one run keeps for followers who come late */
#define PIECE_MAX  (256u << 10) /* bytes of one event's text */
#define TAIL_BYTES 3            /* bytes of an incomplete UTF-8 sequence */

struct follower {
	struct list node; /* in api_run.followers */
	struct budget_share place;
	struct api_run *run;
	struct http_stream *stream;
};

struct api_run {
	struct list node; /* in api.runs */
	struct api *api;
	struct run *run;         /* NULL once it has ended */
	struct sandbox *sandbox; /* reference while it runs */
	char id[RUN_ID_SIZE];
	char sandbox_id[SANDBOX_ID_MAX + 1];
	char owner[STORE_OWNER_SIZE];
	struct caller *who; /* reference while it runs */
	char *code;
	uint64_t ended_ns;
	json_t *result;            /* once it has ended */
	struct budget_share bytes; /* of log and result */
	struct buf log;            /* events, as they were sent */
	bool log_full;
	bool revoked; /* it is being cancelled because its credential was revoked */
	struct {
		char bytes[TAIL_BYTES];
		size_t len;
	} tails[ENGINE_RESULT + 1];
	struct list followers;
	struct rest_call *waiter; /* a call that is answered at the end of the run */
};

/* ---- the table ---- */

static void run_free(struct api_run *r)
{
	(void)sandbox_unref(r->sandbox);
	caller_unref(r->who);
	json_decref(r->result);
	buf_done(&r->log);
	budget_give(&r->bytes);
	free(r->code);
	free(r);
}

bool runs_forget_oldest(struct api *a, const char *owner, const struct api_run *but)
{
	struct api_run *oldest = NULL;

	list_for_each(l, &a->runs) { /* newest first */
		struct api_run *r = list_entry(l, struct api_run, node);

		if (r != but && !r->run && r->result && list_is_empty(&r->followers) &&
		    streq(r->owner, owner))
			oldest = r;
	}
	if (!oldest)
		return false;
	list_remove(&oldest->node);
	run_free(oldest);
	return true;
}

/* Takes room for MORE bytes of output that R keeps. If there is none, ended runs of the same user are
 * forgotten, the oldest first. False: there is still none. */
static bool take_room(struct api_run *r, uint64_t more)
{
	struct err e = ERR_INIT;

	while (budget_take(r->api->config.budgets, r->owner, BUDGET_KEPT_BYTES, r->bytes.n + more,
			   &r->bytes, &e) < 0)
		if (!runs_forget_oldest(r->api, r->owner, r))
			return false;
	return true;
}

static void sweep(struct api *a)
{
	uint64_t now = now_ns();
	unsigned n = 0;

	list_for_each(l, &a->runs) {
		struct api_run *r = list_entry(l, struct api_run, node);
		bool kept = r->run || !list_is_empty(&r->followers) ||
			    (r->ended_ns + KEEP_NS > now && ++n <= KEEP_MAX);

		if (kept)
			continue;
		list_remove(l);
		run_free(r);
	}
}

void runs_done(struct api *a)
{
	list_for_each(l, &a->runs)
		run_free(list_entry(l, struct api_run, node));
	list_init(&a->runs);
}

static struct api_run *find_run(const struct rest_call *c, const char *id)
{
	list_for_each(l, &c->api->runs) {
		struct api_run *r = list_entry(l, struct api_run, node);

		if (streq(r->id, id) && streq(r->owner, c->owner))
			return r;
	}
	return NULL;
}

/* Returns the run {run} of the caller; NULL after it has answered. */
static struct api_run *need_run(struct rest_call *c)
{
	struct api_run *r = find_run(c, http_request_param(c->req, "run"));

	if (r)
		return r;
	rest_refuse(c, ERR_NOT_FOUND, "There is no such run, or it ended long ago");
	return NULL;
}

/* ---- shapes ---- */

static json_t *bytes_json(const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(len * 3 + 1);

	return text_add_utf8_lossy(&b, data, len) < 0 ? json_string("")
						      : json_stringn(buf_str(&b), b.len);
}

static json_t *run_json(const struct api_run *r)
{
	if (r->result)
		return json_incref(r->result);
	return json_pack("{s:s, s:s, s:s}", "id", r->id, "sandbox", r->sandbox_id, "status",
			 "running");
}

/* All output that was kept, with a line that marks an omission. */
static json_t *output_json(const struct run_output *output)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(output->len * 3 + RUN_OUTPUT_MARK);
	bool cut;

	return run_output_add(&b, output, SIZE_MAX, NULL, &cut) < 0
		   ? NULL
		   : json_stringn_nocheck(buf_str(&b), b.len);
}

/* The file of the workspace that has the whole output. Without memory the member is missing. */
static void add_file(json_t *object, const char *key, const struct run_output *output)
{
	if (output->file)
		(void)json_object_set_new(object, key,
					  json_pack("{s:s, s:I, s:b}", "path", output->file, "size",
						    (json_int_t)output->file_bytes, "complete",
						    !output->file_lacks));
}

static json_t *result_json(const struct api_run *r, const struct run_result *result,
			   const struct err *e)
{
	json_t *files = json_array();
	json_t *object;

	if (!result) {
		json_decref(files);
		return json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", r->id, "sandbox", r->sandbox_id,
				 "status", "failed", "error", err_code_name(e->code), "message",
				 e->text);
	}
	for (size_t i = 0; i < result->n_artifacts; i++)
		(void)json_array_append_new(
		    files, json_pack("{s:o, s:I}", "name",
				     bytes_json(result->artifacts[i].name,
						strlen(result->artifacts[i].name)),
				     "size", (json_int_t)result->artifacts[i].size));
	object =
	    json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:b, s:b, s:b, s:I, s:I, s:I, s:o}",
		      "id", r->id, "sandbox", r->sandbox_id, "status", "done", "reason",
		      run_reason_name(result->reason), "exit_code", result->exit_code, "stdout",
		      output_json(&result->out), "stderr", output_json(&result->err), "value",
		      output_json(&result->value), "stdout_truncated", result->out.truncated,
		      "stderr_truncated", result->err.truncated, "value_truncated",
		      result->value.truncated, "duration_ms", (json_int_t)result->duration_ms,
		      "cpu_ms", (json_int_t)(result->cpu_ns / NS_PER_MS), "peak_bytes",
		      (json_int_t)result->peak_bytes, "artifacts", files);
	add_file(object, "stdout_file", &result->out);
	add_file(object, "stderr_file", &result->err);
	add_file(object, "value_file", &result->value);
	return object;
}

/* ---- events ---- */

static void follower_free(struct follower *f)
{
	if (f)
		budget_give(&f->place);
	free(f);
}

static void unfollow(struct follower *f)
{
	list_remove(&f->node);
	follower_free(f);
}

static void on_close(void *user)
{
	unfollow(user);
}

static void send_all(struct api_run *r, const char *text, size_t len)
{
	list_for_each(l, &r->followers) {
		struct follower *f = list_entry(l, struct follower, node);

		if (http_stream_write(f->stream, text, len) < 0) {
			http_stream_abort(f->stream); /* this client does not read */
			unfollow(f);
		}
	}
	if (r->log_full)
		return;
	if (!take_room(r, len) || buf_add(&r->log, text, len) < 0) {
		static const char cut[] = "event: truncated\ndata: {}\n\n";

		r->log_full = true;
		(void)!buf_add(&r->log, cut, strlen(cut));
	}
}

static void send_event(struct api_run *r, const char *name, json_t *data)
{
	size_t len;
	_cleanup_free_ char *text = jsonio_text(data, JSON_COMPACT | JSON_ENCODE_ANY, &len);
	_cleanup_(buf_done) struct buf event = BUF_INIT(16u << 20);

	json_decref(data);
	if (text && buf_printf(&event, "event: %s\ndata: %s\n\n", name, text) == 0)
		send_all(r, buf_str(&event), event.len);
}

/* Returns how many bytes at the end of DATA begin an incomplete UTF-8 sequence. */
static size_t open_sequence(const char *data, size_t len)
{
	for (size_t back = 1; back <= MIN(len, (size_t)TAIL_BYTES); back++) {
		uint8_t b = (uint8_t)data[len - back];

		if ((b & 0xc0) == 0x80)
			continue;
		size_t need = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1;
		return need > back ? back : 0;
	}
	return 0;
}

static void on_output(struct run *run UNUSED, enum engine_stream stream, const void *data,
		      size_t len, void *user)
{
	static const char *const names[] = {
	    [ENGINE_STDOUT] = "stdout", [ENGINE_STDERR] = "stderr", [ENGINE_RESULT] = "value"};
	struct api_run *r = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(PIECE_MAX + len);

	if (buf_add(&text, r->tails[stream].bytes, r->tails[stream].len) < 0 ||
	    buf_add(&text, data, len) < 0)
		return;
	size_t rest = open_sequence(buf_str(&text), text.len);
	memcpy(r->tails[stream].bytes, buf_str(&text) + text.len - rest, rest);
	r->tails[stream].len = rest;
	if (text.len > rest)
		send_event(r, names[stream], bytes_json(buf_str(&text), text.len - rest));
}

static void on_done(struct run *run UNUSED, const struct run_result *result, const struct err *e,
		    void *user)
{
	struct api_run *r = user;
	struct rest_call *waiter = TAKE_PTR(r->waiter);

	r->run = NULL;
	r->ended_ns = now_ns();
	r->sandbox = sandbox_unref(r->sandbox);
	caller_unref(TAKE_PTR(r->who));
	r->result = result_json(r, result, e);
	/* It is kept in any case: whoever waits for the run gets it. */
	budget_note(r->api->config.budgets, r->owner, BUDGET_KEPT_BYTES,
		    r->bytes.n +
			(result ? result->out.len + result->err.len + result->value.len : 0),
		    &r->bytes);
	if (!r->result)
		r->result = json_object();
	send_event(r, "end", json_incref(r->result));
	list_for_each(l, &r->followers) {
		struct follower *f = list_entry(l, struct follower, node);
		struct http_stream *stream = f->stream;

		unfollow(f);
		http_stream_end(stream);
	}
	if (waiter && result)
		rest_reply(waiter, 201, json_incref(r->result));
	else if (waiter)
		rest_fail(waiter, e);
}

static const struct http_stream_ops follow_ops = {.on_close = on_close};

void rest_run_events(struct rest_call *c)
{
	struct api_run *r = need_run(c);
	struct follower *f;

	if (!r)
		return;
	struct budget_share place = {0};
	struct err e = ERR_INIT;
	if (budget_take(c->api->config.budgets, c->who->owner, BUDGET_FOLLOWERS, 1, &place, &e) <
	    0) {
		rest_fail(c, &e);
		return;
	}
	f = calloc(1, sizeof(*f));
	struct http_request *req = rest_give(c);
	if (f)
		f->place = place;
	else
		budget_give(&place);
	if (!f || !req) {
		follower_free(f);
		if (req)
			http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	list_init(&f->node);
	f->run = r;
	f->stream = http_stream_begin_sse(req, r->run ? &follow_ops : NULL, f);
	if (!f->stream) {
		follower_free(f);
		return;
	}
	int failed = http_stream_write(f->stream, r->log.len ? buf_str(&r->log) : ": open\n\n",
				       r->log.len ? r->log.len : 8);
	if (failed < 0 || !r->run) {
		if (failed < 0)
			http_stream_abort(f->stream);
		else
			http_stream_end(f->stream);
		follower_free(f);
		return;
	}
	list_prepend(&r->followers, &f->node);
}

/* ---- start, read, cancel ---- */

static void start(struct rest_call *c)
{
	const char *command = rest_text(c, "command", NULL), *code = rest_text(c, "code", "");
	const char *argv[] = {"sh", "-c", command, NULL};
	struct err e = ERR_INIT;
	struct api_run *r = calloc(1, sizeof(*r));

	if (r)
		r->code = strdup(command ? command : code);
	if (!r || !r->code) {
		free(r);
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	argv[2] = r->code;
	struct run_request request = {
	    .kind = command                    ? ENGINE_RUN_ARGV
		    : rest_bool(c, "stateful") ? ENGINE_RUN_STATEFUL
					       : ENGINE_RUN_PYTHON,
	    .code = command ? NULL : r->code,
	    .code_len = command ? 0 : strlen(r->code),
	    .argv = command ? argv : NULL,
	    .timeout_ns = (uint64_t)rest_int(c, "timeout_s", 0) * NS_PER_S,
	    .queued = sandbox_is_stored(c->sandbox),
	    .display = c->api->config.save_figures,
	    .whole_over = SIZE_MAX,
	    .notebook = true,
	    .asked_how = rest_is_page(c) ? "page" : "rest",
	    .asked_by = c->who->name,
	    .on_output = on_output,
	    .on_done = on_done,
	    .user = r,
	};
	r->api = c->api;
	list_init(&r->followers);
	r->log = BUF_INIT(LOG_MAX);
	r->sandbox = sandbox_ref(c->sandbox);
	r->who = caller_ref(c->who);
	(void)snprintf(r->owner, sizeof(r->owner), "%s", c->owner);
	(void)snprintf(r->sandbox_id, sizeof(r->sandbox_id), "%s", sandbox_id(c->sandbox));
	if (sandbox_run(c->sandbox, &request, &r->run, &e) < 0) {
		run_free(r);
		rest_fail(c, &e);
		return;
	}
	(void)snprintf(r->id, sizeof(r->id), "%s", run_id(r->run));
	sweep(c->api);
	list_prepend(&c->api->runs, &r->node);
	if (rest_bool(c, "wait"))
		r->waiter = c;
	else
		rest_reply(c, 201, run_json(r));
}

static struct api_run *run_of_revoked(const struct api *a)
{
	list_for_each(l, &a->runs) {
		struct api_run *r = list_entry(l, struct api_run, node);

		if (r->run && !r->revoked && r->who->ended == CALLER_REVOKED)
			return r;
	}
	return NULL;
}

void api_end_callers(struct api *a)
{
	struct api_run *r;

	/* Search from the start each time: a queued run ends inside run_cancel(), which may change
	 * the list. */
	while ((r = run_of_revoked(a))) {
		r->revoked = true;
		run_cancel(r->run);
	}
	branches_end_callers(a);
}

void rest_start_run(struct rest_call *c)
{
	const char *code = rest_text(c, "code", "");

	c->action = "run.start";
	if (rest_has(c, "code") == rest_has(c, "command"))
		rest_refuse(c, ERR_INVALID_ARGUMENT, "give code or command, one of them");
	else if (strlen(code) > c->api->config.max_code_bytes)
		rest_refuse(c, ERR_CODE_TOO_LARGE, "Code is %zu bytes, exceeds %ju byte limit.",
			    strlen(code), (uintmax_t)c->api->config.max_code_bytes);
	else
		rest_sandbox(c, start);
}

void rest_get_run(struct rest_call *c)
{
	struct api_run *r = need_run(c);

	if (r)
		rest_reply(c, 200, run_json(r));
}

void rest_cancel_run(struct rest_call *c)
{
	const char *id = http_request_param(c->req, "run");
	struct cells *cells = c->api->config.cells;

	/* A run that somebody else asked for, such as a client of MCP: by its cell. */
	if (!find_run(c, id) && cells_cancel(cells, c->owner, id)) {
		c->action = "run.cancel";
		(void)snprintf(c->object, sizeof(c->object), "%s", id);
		rest_reply(c, 202, json_pack("{s:s, s:s}", "id", id, "status", "running"));
		return;
	}
	struct api_run *r = need_run(c);
	if (!r)
		return;
	c->action = "run.cancel";
	(void)snprintf(c->object, sizeof(c->object), "%s", r->id);
	if (r->run)
		run_cancel(r->run); /* a queued run ends inside this call */
	rest_reply(c, 202, run_json(r));
}

static void add_row(const struct store_run *r, void *user)
{
	char text[API_TIME_SIZE];

	(void)json_array_append_new(
	    user,
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I}", "id", r->id,
		      "owner", r->owner, "sandbox", r->sandbox, "kind", r->kind, "reason",
		      r->reason, "exit_code", (json_int_t)r->exit_code, "started_at",
		      api_time(r->started_ms, text), "duration_ms", (json_int_t)r->duration_ms,
		      "cpu_us", (json_int_t)r->cpu_us, "peak_bytes", (json_int_t)r->peak_bytes,
		      "output_bytes", (json_int_t)r->out_bytes));
}

void rest_list_runs(struct rest_call *c)
{
	struct store *store = c->api->config.store;
	bool all = rest_query_bool(c, "all") && c->who->admin;
	json_t *list = json_array();
	struct err e = ERR_INIT;

	int r = store_run_each(store, all ? NULL : c->owner, http_request_query(c->req, "sandbox"),
			       (uint64_t)rest_query_int(c, "before_ms", 0),
			       (unsigned)rest_query_int(c, "limit", REST_LIMIT_DEFAULT), add_row,
			       list, &e);
	if (r < 0) {
		json_decref(list);
		rest_fail(c, &e);
		return;
	}
	rest_reply(c, 200, json_pack("{s:o}", "runs", list));
}
