/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks extension of the modern era: a call that continues after its request was answered. */
#include "mcp/objects.h"

#include "base/jsonio.h"
#include "base/promise.h"
#include "base/rand.h"
#include "fleet/ids.h"

#include <time.h>

#define TASK_ID_BYTES                                                                              \
	16U                          /* cannot be guessed: the id is a handle, though not a
				      * credential */
#define TASK_KEEP_MIN_MS (60 * 1000) /* a result can be fetched for at least this long */
#define TASK_POLL_MS     1000U       /* if the tool names no interval */

enum task_status {
	TASK_WORKING,
	TASK_INPUT_REQUIRED,
	TASK_COMPLETED,
	TASK_FAILED,
	TASK_CANCELLED,
};

static const char *const status_names[] = {
    [TASK_WORKING] = "working",     [TASK_INPUT_REQUIRED] = "input_required",
    [TASK_COMPLETED] = "completed", [TASK_FAILED] = "failed",
    [TASK_CANCELLED] = "cancelled",
};

struct task {
	struct list node; /* in server->tasks */
	struct mcp_server *server;
	struct budget_share place;
	struct budget_share bytes; /* of the result */
	struct mcp_call *call;     /* NULL once it is finished */
	char *principal;           /* owned */
	struct item *tool;         /* reference */
	char id[2 * TASK_ID_BYTES + 1];
	enum task_status status;
	int64_t created_ms;
	int64_t updated_ms;
	int64_t begun_tick_ms; /* server_tick_ms() */
	int64_t finished_tick_ms;
	unsigned ttl_ms;
	unsigned poll_ms;
	json_t *message;   /* string or NULL */
	json_t *result;    /* completed */
	json_t *error;     /* failed */
	json_t *questions; /* input_required: the questions without an answer */
};

static void task_free(struct task *t)
{
	list_remove(&t->node);
	budget_give(&t->place);
	budget_give(&t->bytes);
	json_decref(t->message);
	json_decref(t->result);
	json_decref(t->error);
	json_decref(t->questions);
	free(t->principal);
	item_unref(t->tool);
	free(t);
}

static json_t *iso_date(int64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	char text[40];
	struct tm tm;
	size_t n;

	if (!gmtime_r(&s, &tm))
		return NULL;
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(ms % 1000));
	return json_string(text);
}

json_t *task_view(const struct task *t)
{
	return json_pack("{s:s,s:s,s:o,s:o,s:I,s:I,s:O*}", "taskId", t->id, "status",
			 status_names[t->status], "createdAt", iso_date(t->created_ms),
			 "lastUpdatedAt", iso_date(t->updated_ms), "ttlMs", (json_int_t)t->ttl_ms,
			 "pollIntervalMs", (json_int_t)t->poll_ms, "statusMessage", t->message);
}

json_t *task_details(const struct task *t)
{
	json_t *view = task_view(t);
	int r = view ? 0 : -1;

	if (r == 0 && t->status == TASK_COMPLETED)
		r = json_object_set(view, "result", t->result);
	if (r == 0 && t->status == TASK_FAILED)
		r = json_object_set(view, "error", t->error);
	if (r == 0 && t->status == TASK_INPUT_REQUIRED)
		r = json_object_set(view, "inputRequests", t->questions);
	if (r == 0)
		return view;
	json_decref(view);
	return NULL;
}

static void changed(struct task *t, enum task_status status)
{
	t->status = status;
	t->updated_ms = server_now_ms(t->server);
	if (!t->call)
		t->finished_tick_ms = server_tick_ms(t->server);
	listen_task_changed(t->server, t->principal, t->id, t->tool, t);
}

static struct task *task_find(const struct mcp_call *c)
{
	const char *id = call_param(c, "taskId", NAME_MAX_BYTES);

	if (!id)
		return NULL;
	list_for_each(node, &c->server->tasks) {
		struct task *t = list_entry(node, struct task, node);

		if (streq(t->id, id))
			return streq(t->principal, c->who->principal) &&
				       identity_may_see(c->server, c->who, t->tool)
				   ? t
				   : NULL;
	}
	return NULL;
}

/* ---- from inside: a call becomes a task and ends ---- */

bool mcp_call_can_be_task(const struct mcp_call *c)
{
	return c->modern && (c->server->config.offers & MCP_OFFER_TASKS) && c->method &&
	       streq(c->method->name, "tools/call") && mcp_call_client_extension(c, EXT_TASKS);
}

bool mcp_call_is_task(const struct mcp_call *c)
{
	return c->task != NULL;
}

/* The oldest finished task of PRINCIPAL, or NULL. A task that is ending is not finished yet. */
static struct task *oldest_finished(struct mcp_server *s, const char *principal)
{
	list_for_each(node, &s->tasks) {
		struct task *t = list_entry(node, struct task, node);

		if (!t->call && streq(t->principal, principal))
			return t;
	}
	return NULL;
}

/* Takes a place for one more task of PRINCIPAL. If there is none, finished tasks of the same principal
 * make room, the oldest first. Running tasks, and tasks of others, are never dropped. */
static bool take_place(struct mcp_server *s, const char *principal, struct budget_share *place)
{
	struct err e = ERR_INIT;

	while (budget_take(s->config.budgets, principal, BUDGET_TASKS, 1, place, &e) < 0) {
		struct task *t = oldest_finished(s, principal);

		if (!t)
			return false;
		task_free(t);
	}
	return true;
}

/* Takes the bytes of T's result; T counts as working meanwhile. False: there is no room for it. */
static bool take_bytes(struct task *t, const json_t *result)
{
	struct mcp_server *s = t->server;
	const size_t n = jsonio_size(result, WIRE_MAX);
	struct err e = ERR_INIT;

	while (budget_take(s->config.budgets, t->principal, BUDGET_TASK_RESULTS, n, &t->bytes, &e) <
	       0) {
		struct task *old = oldest_finished(s, t->principal);

		if (!old)
			return false;
		task_free(old);
	}
	return true;
}

static struct task *task_new(struct mcp_call *c, unsigned poll_ms, unsigned ttl_ms,
			     const char *message)
{
	struct task *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->principal = strdup(c->who->principal);
	if (!t->principal || !take_place(c->server, t->principal, &t->place)) {
		free(t->principal);
		free(t);
		return NULL;
	}
	t->server = c->server;
	t->call = c;
	t->tool = c->item ? item_ref(c->item) : NULL;
	rand_hex(t->id, TASK_ID_BYTES);
	fleet_id_mark(c->server->config.fleet, t->id);
	t->status = TASK_WORKING;
	t->created_ms = t->updated_ms = server_now_ms(c->server);
	t->begun_tick_ms = server_tick_ms(c->server);
	t->poll_ms = poll_ms ? poll_ms : TASK_POLL_MS;
	t->ttl_ms = ttl_ms;
	t->message = message ? json_string(message) : NULL;
	list_append(&c->server->tasks, &t->node);
	return t;
}

int mcp_call_become_task(struct mcp_call *c, unsigned poll_ms, unsigned ttl_ms,
			 const char *status_message)
{
	struct task *t;
	json_t *view;
	char *text;
	size_t len;

	if (!PROMISE(!c->finished && !c->task) || !mcp_call_can_be_task(c) || c->cancelled ||
	    !c->sink)
		return -ENOTSUP;
	t = task_new(c, poll_ms, ttl_ms, status_message);
	if (!t)
		return -ENOSPC;
	view = task_view(t);
	if (view)
		json_object_set_new(view, "resultType", json_string("task"));
	view = view ? call_decorate(c, view) : NULL;
	text = view ? wire_response(c->id, view, &len) : NULL;
	json_decref(view);
	if (!text) {
		task_free(t);
		return -ENOSPC;
	}
	c->task = t;
	call_leave_peer(c); /* before the answer, because the transport may close the peer when it
			     * gets it */
	call_deliver(c, 200, text, len);
	return 0;
}

void mcp_call_task_status(struct mcp_call *c, const char *status_message)
{
	if (!c->task || c->cancelled)
		return;
	json_decref(c->task->message);
	c->task->message = status_message ? json_string(status_message) : NULL;
	changed(c->task, c->task->status);
}

void task_finish(struct mcp_call *c, json_t *result)
{
	struct task *t = c->task;

	if (!result) {
		task_fail(c, MCP_ERR_INTERNAL, "The result could not be built", NULL);
		return;
	}
	if (!c->cancelled && !take_bytes(t, result)) {
		json_decref(result);
		task_fail(c, MCP_ERR_BUDGET,
			  "The result is larger than what may be kept of results of tasks "
			  "(task_results). Call the tool without a task, or let it print less",
			  budget_data(BUDGET_TASK_RESULTS));
		return;
	}
	t->call = NULL;
	if (c->cancelled) {
		json_decref(result);
	} else {
		t->result = result;
		changed(t, TASK_COMPLETED);
	}
	call_end(c);
}

void task_fail(struct mcp_call *c, int code, const char *message, json_t *data)
{
	struct task *t = c->task;

	t->call = NULL;
	if (c->cancelled) {
		json_decref(data);
	} else {
		t->error =
		    json_pack("{s:i,s:s,s:o*}", "code", code, "message", message, "data", data);
		changed(t, TASK_FAILED);
	}
	call_end(c);
}

void task_need_input(struct mcp_call *c, json_t *questions)
{
	c->waiting = true;
	json_decref(c->task->questions);
	c->task->questions = questions;
	changed(c->task, TASK_INPUT_REQUIRED);
}

void task_expire(struct mcp_server *s, int64_t now)
{
	list_for_each(node, &s->tasks) {
		struct task *t = list_entry(node, struct task, node);
		int64_t end = MAX(t->begun_tick_ms + (int64_t)t->ttl_ms,
				  t->finished_tick_ms + TASK_KEEP_MIN_MS);

		if (!t->call && end < now)
			task_free(t);
	}
}

void mcp_server_forget(struct mcp_server *s, const char *principal)
{
	struct task *t;

	while ((t = oldest_finished(s, principal)))
		task_free(t);
}

void task_drop_all(struct mcp_server *s)
{
	while (!list_is_empty(&s->tasks)) {
		struct task *t = list_entry(s->tasks.next, struct task, node);
		struct mcp_call *c = t->call;

		if (c) {
			mcp_call_ref(c);
			call_cancel(c);
			/* The registry is being freed. A handler that still holds the call may only
			 * release it. */
			if (!c->finished)
				call_end(c);
			mcp_call_unref(c);
		}
		task_free(t);
	}
}

/* ---- from outside: tasks/get, tasks/update, tasks/cancel ---- */

static struct task *wanted(struct mcp_call *c)
{
	struct task *t = task_find(c);

	if (!t)
		call_fail(c, MCP_ERR_PARAMS, NULL, "Unknown task");
	return t;
}

/* As above, for a task that is about to be changed. */
static struct task *wanted_to_change(struct mcp_call *c)
{
	struct task *t = wanted(c);

	if (!t || identity_may(c->server, c->who, t->tool))
		return t;
	call_fail(c, MCP_ERR_PARAMS, NULL, "The key of this client may not change this task");
	return NULL;
}

void run_tasks_get(struct mcp_call *c)
{
	struct task *t = wanted(c);

	if (t)
		mcp_call_finish(c, task_details(t));
}

static void cancel(struct task *t)
{
	struct mcp_call *work = t->call;

	if (!work || t->status == TASK_CANCELLED)
		return;
	/* The task must be cancelled before the handler is told, because the handler may then
	 * finish it. */
	changed(t, TASK_CANCELLED);
	t->finished_tick_ms = server_tick_ms(t->server);
	call_cancel(work);
}

void run_tasks_cancel(struct mcp_call *c)
{
	struct task *t = wanted_to_change(c);

	if (!t)
		return;
	cancel(t);
	mcp_call_finish(c, json_object());
}

static struct task *task_of_ended(struct mcp_server *s, enum mcp_ended (*ended)(const void *data))
{
	list_for_each(node, &s->tasks) {
		struct task *t = list_entry(node, struct task, node);

		if (t->call && t->status != TASK_CANCELLED && t->call->who->data &&
		    ended(t->call->who->data) == MCP_ENDED_TASKS)
			return t;
	}
	return NULL;
}

void task_end_credentials(struct mcp_server *s, enum mcp_ended (*ended)(const void *data))
{
	struct task *t;

	/* Starts again each time: the end of one task may change the list. */
	while ((t = task_of_ended(s, ended)))
		cancel(t);
}

void run_tasks_update(struct mcp_call *c)
{
	json_t *responses = json_object_get(c->params, "inputResponses");
	struct task *t = wanted_to_change(c);
	struct mcp_call *work = t ? t->call : NULL;
	bool all;
	const char *key;
	json_t *answer;

	if (!t)
		return;
	if (!json_is_object(responses)) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "inputResponses must be an object");
		return;
	}
	if (!work || t->status != TASK_INPUT_REQUIRED) {
		mcp_call_finish(c, json_object());
		return;
	}
	json_object_foreach(responses, key, answer) {
		const json_t *q = json_object_get(t->questions, key);

		if (!q || spill_is_in(c->spill, answer) ||
		    !ask_form_ok(json_string_value(json_object_get(q, "method")), answer))
			continue;
		if (!work->inputs)
			work->inputs = json_object();
		json_object_set(work->inputs, key, answer);
		json_object_del(t->questions, key);
	}
	all = json_object_size(t->questions) == 0;
	changed(t, all ? TASK_WORKING : TASK_INPUT_REQUIRED);
	mcp_call_ref(work);
	mcp_call_finish(c, json_object());
	if (all && work->task == t && !work->cancelled)
		work->enter(work);
	mcp_call_unref(work);
}
