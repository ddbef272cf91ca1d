/* SPDX-License-Identifier: Apache-2.0 */
/* REST: runs. A run belongs to the server, not to the request that started it. By its id it can be
 * read, followed and ended while it runs, and read for some minutes afterwards. */
#include "api/history/run_text.h"
#include "api/rest/rest.h"
#include "api/rest/run_request.h"

#include "base/jsonio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/shown.h"

#include <signal.h>
#include <string.h>

#define KEEP_NS    (10 * 60 * NS_PER_S) /* how long a run is kept after its end */
#define KEEP_MAX   512u                 /* how many ended runs are kept */
#define LOG_MAX    (2u << 20)   /* bytes of events that one run keeps for followers who come late */
#define PIECE_MAX  (256u << 10) /* bytes of one event's text */
#define MANY_NAMES 64u          /* files of a run that the loop writes itself */
#define MUCH_TEXT  (32u << 10)  /* bytes of output, the same */
#define RESULT_MAX (512u << 20) /* bytes of a result */
#define TAIL_BYTES TEXT_UTF8_OPEN_MAX

struct follower {
	struct list node; /* in api_run.followers */
	struct budget_share place;
	struct api_run *run;
	struct http_stream *stream;
};

/* The result of a run becomes JSON: on a thread, if it has many names or much text. */
struct telling {
	struct api_run *of; /* NULL: it was forgotten */
	struct run *run;    /* reference, which has the result */
	const struct run_result *result;
	char id[RUN_ID_SIZE];
	char sandbox_id[SANDBOX_ID_MAX + 1];
	bool reports;
	struct buf text;
	int failed;
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
	bool reports; /* a command that began in a chosen folder and tells where it ends */
	uint64_t ended_ns;
	struct shared_bytes *result; /* reference: JSON text, once it has ended */
	struct telling *telling;     /* the run has ended, and a thread writes its result */
	struct budget_share bytes;   /* of log and result */
	struct buf log;              /* events, as they were sent */
	bool log_full;
	bool revoked; /* it is being cancelled because its credential was revoked */
	bool in_use;  /* a request that cancels it reads it afterwards, so it is not forgotten */
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
	(void)shared_bytes_unref(r->result);
	if (r->telling)
		r->telling->of = NULL;
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

		if (r != but && !r->in_use && !r->run && r->result &&
		    list_is_empty(&r->followers) && streq(r->owner, owner))
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
		bool kept = r->run || r->telling || !list_is_empty(&r->followers) ||
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

static void reply_run(struct rest_call *c, int status, const struct api_run *r)
{
	if (r->result)
		rest_reply_bytes(c, status, r->result);
	else
		rest_reply(c, status,
			   json_pack("{s:s, s:s, s:s}", "id", r->id, "sandbox", r->sandbox_id,
				     "status", "running"));
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

static void on_output(struct run *run UNUSED, enum engine_stream stream, const void *data,
		      size_t len, void *user)
{
	static const char *const names[] = {
	    [ENGINE_STDOUT] = "stdout", [ENGINE_STDERR] = "stderr", [ENGINE_RESULT] = "value"};
	struct api_run *r = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(PIECE_MAX + len);

	if (r->reports && stream == ENGINE_RESULT)
		return;
	if (buf_add(&text, r->tails[stream].bytes, r->tails[stream].len) < 0 ||
	    buf_add(&text, data, len) < 0)
		return;
	size_t rest = text_utf8_open(buf_str(&text), text.len);
	memcpy(r->tails[stream].bytes, buf_str(&text) + text.len - rest, rest);
	r->tails[stream].len = rest;
	if (text.len > rest)
		send_event(r, names[stream], bytes_json(buf_str(&text), text.len - rest));
}

/* Sends the last event of R. */
static int send_end(const struct api_run *r, struct http_stream *stream)
{
	static const char head[] = "event: end\ndata: ";

	return http_stream_write_shared(stream, head, sizeof(head) - 1, r->result, "\n\n", 2);
}

/* The result is there; TEXT is taken. E: why the run failed, or NULL. */
static void settle(struct api_run *r, struct buf *text, const struct err *e)
{
	struct rest_call *waiter = TAKE_PTR(r->waiter);
	const size_t len = text->len;
	char *data = len > 0 ? buf_take(text) : strdup("{}");

	r->ended_ns = now_ns();
	r->result = data ? shared_bytes_new(data, len > 0 ? len : 2) : NULL;
	/* It is kept in any case: whoever waits for the run gets it. Others of the user are forgotten for it. */
	if (!take_room(r, len))
		budget_note(r->api->config.budgets, r->owner, BUDGET_KEPT_BYTES, r->bytes.n + len,
			    &r->bytes);
	list_for_each(l, &r->followers) {
		struct follower *f = list_entry(l, struct follower, node);
		struct http_stream *stream = f->stream;

		unfollow(f);
		if (r->result && send_end(r, stream) == 0)
			http_stream_end(stream);
		else
			http_stream_abort(stream);
	}
	if (waiter && e)
		rest_fail(waiter, e);
	else if (waiter && r->result)
		rest_reply_bytes(waiter, 201, r->result);
	else if (waiter)
		rest_refuse(waiter, ERR_OUT_OF_MEMORY, "no memory");
}

static void tell_on_thread(void *user)
{
	struct telling *t = user;

	t->failed = run_result_text(&t->text, t->id, t->sandbox_id, t->result, t->reports);
}

static void on_told(void *user)
{
	struct telling *t = user;
	struct api_run *r = t->of;

	loop_work("result", "of a run");
	if (t->failed < 0)
		buf_done(&t->text);
	if (r) {
		r->telling = NULL;
		settle(r, &t->text, NULL);
	}
	buf_done(&t->text);
	run_unref(t->run);
	free(t);
}

static void tell(struct api_run *r, struct run *run, const struct run_result *result)
{
	const bool large = result->n_artifacts > MANY_NAMES ||
			   result->out.len + result->err.len + result->value.len +
				   (result->shown ? result->shown->bytes : 0) >
			       MUCH_TEXT;
	struct telling *t = calloc(1, sizeof(*t));
	struct buf none = BUF_INIT(0);

	if (!t) {
		settle(r, &none, NULL);
		return;
	}
	t->of = r;
	t->run = run_ref(run);
	t->result = result;
	t->reports = r->reports;
	t->text = BUF_INIT(RESULT_MAX);
	memcpy(t->id, r->id, sizeof(t->id));
	memcpy(t->sandbox_id, r->sandbox_id, sizeof(t->sandbox_id));
	r->telling = t;
	if (large && workers_run(r->owner, tell_on_thread, on_told, t) == 0)
		return;
	if (large)
		t->failed = -EBUSY;
	else
		tell_on_thread(t);
	on_told(t);
}

static void on_done(struct run *run, const struct run_result *result, const struct err *e,
		    void *user)
{
	struct api_run *r = user;

	r->run = NULL;
	r->sandbox = sandbox_unref(r->sandbox);
	caller_unref(TAKE_PTR(r->who));
	if (result) {
		tell(r, run, result);
		return;
	}
	struct buf text = BUF_INIT(RESULT_MAX);
	if (run_failure_text(&text, r->id, r->sandbox_id, e) < 0)
		buf_done(&text);
	settle(r, &text, e);
	buf_done(&text);
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
	const bool runs = !r->result;
	f->stream = http_stream_begin_sse(req, runs ? &follow_ops : NULL, f);
	if (!f->stream) {
		follower_free(f);
		return;
	}
	int failed = http_stream_write(f->stream, r->log.len ? buf_str(&r->log) : ": open\n\n",
				       r->log.len ? r->log.len : 8);
	if (failed == 0 && !runs)
		failed = send_end(r, f->stream);
	if (failed < 0 || !runs) {
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
	struct run_request request;
	struct run_words words;
	struct err e = ERR_INIT;
	struct api_run *r = calloc(1, sizeof(*r));

	if (r)
		r->code = strdup(command ? command : code);
	if (!r || !r->code) {
		free(r);
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	run_request_fill(c, r->code, &request, &words);
	request.on_output = on_output;
	request.on_done = on_done;
	request.user = r;
	r->reports = request.report;
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
		reply_run(c, 201, r);
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
	processes_end_callers(a);
}

void rest_start_run(struct rest_call *c)
{
	c->action = "run.start";
	if (run_request_check(c))
		rest_sandbox(c, start);
}

void rest_get_run(struct rest_call *c)
{
	struct api_run *r = need_run(c);

	if (r)
		reply_run(c, 200, r);
}

/* A run that does not execute yet is cancelled when its turn comes. */
static void interrupt(struct run *r)
{
	run_signal(r, SIGINT);
}

void rest_cancel_run(struct rest_call *c)
{
	const char *id = http_request_param(c->req, "run");
	struct cells *cells = c->api->config.cells;
	void (*end)(struct run *) = rest_query_bool(c, "interrupt") ? interrupt : run_cancel;

	/* A run that somebody else asked for, such as a client of MCP: by its cell. */
	if (!find_run(c, id) && cells_end_run(cells, c->owner, id, end)) {
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
	/* A queued run ends inside this call. Where a request waits for it, its answer may need room (idempotency.c). */
	r->in_use = true;
	if (r->run)
		end(r->run);
	r->in_use = false;
	reply_run(c, 202, r);
}
