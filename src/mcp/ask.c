/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a handler's questions to the client, in the three ways that exist: in the result of the
 * request (modern), as our own requests on the stream of the call (legacy), in the state of a task.
 */
#include "mcp/objects.h"

#include "mcp/content.h"

#define ASK_ID_MAX 32

/* A request from us to the client that waits for its response. */
struct ask {
	struct list node; /* in peer->asks */
	struct mcp_call *call;
	char id[ASK_ID_MAX];
	char *key;    /* owned */
	char *method; /* owned */
	int64_t deadline_ms;
};

/* ---- forms of answers ---- */

static bool form_elicitation(const json_t *a)
{
	const char *action = json_string_value(json_object_get(a, "action"));
	const json_t *content = json_object_get(a, "content");

	if (!action || (content && !json_is_object(content)))
		return false;
	return streq(action, "accept") || streq(action, "decline") || streq(action, "cancel");
}

static bool form_sampling(const json_t *a)
{
	return json_is_string(json_object_get(a, "role")) && json_object_get(a, "content");
}

static bool form_roots(const json_t *a)
{
	return json_is_array(json_object_get(a, "roots"));
}

/* The methods that a client may be asked, the capability that each needs, and the form of its
 * answer. */
static const struct ask_kind {
	const char *method;
	const char *capability;
	bool (*form)(const json_t *answer);
} kinds[] = {
    {"elicitation/create", "elicitation", form_elicitation},
    {"sampling/createMessage", "sampling", form_sampling},
    {"roots/list", "roots", form_roots},
};

static const struct ask_kind *kind_of(const char *method)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (streq(kinds[i].method, method))
			return &kinds[i];
	}
	return NULL;
}

bool ask_form_ok(const char *method, const json_t *answer)
{
	if (!json_is_object(answer))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if ((!method || streq(kinds[i].method, method)) && kinds[i].form(answer))
			return true;
	}
	return false;
}

/* ---- what came back ---- */

static bool keep_answer(struct mcp_call *c, const char *key, json_t *answer)
{
	if (!c->inputs)
		c->inputs = json_object();
	return json_object_set(c->inputs, key, answer) == 0;
}

json_t *mcp_call_input(const struct mcp_call *c, const char *key)
{
	return json_object_get(c->inputs, key);
}

json_t *mcp_call_state(const struct mcp_call *c)
{
	return c->state;
}

bool ask_resume(struct mcp_call *c)
{
	const json_t *state = json_object_get(c->params, "requestState");
	json_t *responses = json_object_get(c->params, "inputResponses");
	json_auto_t *questions = NULL;
	const char *key;
	json_t *answer;

	if (!c->modern)
		return true;
	if (state) {
		const char *text = json_string_value(state);

		if (!text || strlen(text) != json_string_length(state) ||
		    state_open(c, text, &questions) < 0) {
			call_fail(c, MCP_ERR_PARAMS, NULL, "Invalid or expired requestState");
			return false;
		}
	}
	/* A malformed, unknown or too long answer counts as not given, and the handler asks again.
	 */
	json_object_foreach(responses, key, answer) {
		const char *method = json_string_value(json_object_get(questions, key));

		if ((questions && !method) || json_object_size(c->inputs) >= INPUTS_MAX ||
		    spill_is_in(c->spill, answer) || !ask_form_ok(method, answer))
			continue;
		if (!keep_answer(c, key, answer)) {
			call_fail(c, MCP_ERR_INTERNAL, NULL, "Out of memory");
			return false;
		}
	}
	return true;
}

/* ---- asking ---- */

/* {key: {method, params}}; takes the params. NULL: out of memory. */
static json_t *questions_of(const struct mcp_input *inputs, size_t n)
{
	json_t *all = json_object();
	bool ok = all != NULL;

	for (size_t i = 0; i < n; i++) {
		json_t *params = inputs[i].params ? inputs[i].params : json_object();

		ASSERT(kind_of(inputs[i].method));
		if (json_object_set_new(
			all, inputs[i].key,
			json_pack("{s:s,s:o}", "method", inputs[i].method, "params", params)) < 0)
			ok = false;
	}
	if (ok && json_object_size(all) == n)
		return all;
	json_decref(all);
	return NULL;
}

/* The capabilities object that QUESTION needs: {"elicitation":{}} and the like. */
static void needs_of(const json_t *question, json_t *needs)
{
	const char *method = json_string_value(json_object_get(question, "method"));
	const json_t *params = json_object_get(question, "params");
	const char *mode = json_string_value(json_object_get(params, "mode"));
	const char *capability = kind_of(method)->capability;
	const char *detail = NULL;
	json_t *need = json_object_get(needs, capability);

	if (!need) {
		need = json_object();
		json_object_set_new(needs, capability, need);
	}
	if (mode && streq(mode, "url"))
		detail = "url"; /* {} alone means form mode */
	else if (json_object_get(params, "tools"))
		detail = "tools";
	if (detail)
		json_object_set_new(need, detail, json_object());
}

static bool client_can(struct mcp_call *c, const json_t *questions)
{
	json_auto_t *needs = json_object();
	const char *key;
	json_t *q;

	json_object_foreach((json_t *)(uintptr_t)questions, key, q)
		needs_of(q, needs);
	if (caps_cover(c->client_caps, needs))
		return true;
	if (c->modern)
		modern_refuse_capability(c, json_incref(needs));
	else if (streq(c->method->name, "tools/call"))
		mcp_call_finish(c, mcp_tool_error("The client cannot be asked: it did not declare "
						  "the capability."));
	else
		call_fail(c, MCP_ERR_INTERNAL, NULL, "The client lacks a capability");
	return false;
}

static void ask_by_result(struct mcp_call *c, json_t *questions)
{
	_cleanup_free_ char *state = state_seal(c, questions);
	json_t *r = json_pack("{s:s}", "resultType", "input_required");
	bool ok = r && state;

	if (ok && json_object_size(questions) > 0)
		ok = json_object_set(r, "inputRequests", questions) == 0;
	if (ok)
		ok = json_object_set_new(r, "requestState", json_string(state)) == 0;
	if (!ok) {
		json_decref(r);
		r = NULL;
	}
	mcp_call_finish(c, r);
}

static void ask_free(struct ask *a)
{
	list_remove(&a->node);
	a->call->n_open--;
	free(a->key);
	free(a->method);
	free(a);
}

/* Tells the client that we no longer wait for its answer. */
static void ask_withdraw(struct mcp_call *c, const struct ask *a)
{
	json_t *params =
	    json_pack("{s:s,s:s}", "requestId", a->id, "reason", "The request is over");
	json_t *message;

	if (c->sink) {
		call_notify(c, "notifications/cancelled", params);
		return;
	}
	message = wire_notification("notifications/cancelled", params);
	peer_send(c->peer, MCP_OUT_NOTIFICATION, message);
	json_decref(message);
}

static struct ask *ask_of(const struct mcp_call *c)
{
	list_for_each(node, &c->peer->asks) {
		struct ask *a = list_entry(node, struct ask, node);

		if (a->call == c)
			return a;
	}
	return NULL;
}

void ask_drop(struct mcp_call *c)
{
	struct ask *a;

	while (c->n_open > 0 && c->peer && (a = ask_of(c))) {
		ask_withdraw(c, a);
		/* The send may have let the transport close the peer, which frees all questions. */
		if (c->n_open > 0 && c->peer && a == ask_of(c))
			ask_free(a);
	}
}

static struct ask *ask_new(struct mcp_call *c, const char *key, const char *method)
{
	struct ask *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->call = c;
	a->key = strdup(key);
	a->method = strdup(method);
	if (!a->key || !a->method) {
		free(a->key);
		free(a->method);
		free(a);
		return NULL;
	}
	(void)snprintf(a->id, sizeof(a->id), "ask-%llu", (unsigned long long)++c->peer->n_asked);
	a->deadline_ms =
	    server_tick_ms(c->server) + (int64_t)c->server->config.ask_timeout_s * 1000;
	list_append(&c->peer->asks, &a->node);
	c->n_open++;
	return a;
}

static void refuse_asking(struct mcp_call *c, const char *why)
{
	ask_drop(c);
	if (streq(c->method->name, "tools/call"))
		mcp_call_finish(c, mcp_tool_error("%s", why));
	else
		call_fail(c, MCP_ERR_INTERNAL, NULL, "%s", why);
}

/* Older revisions have no `mode`: forms were the only kind of elicitation. */
static void drop_mode(const struct mcp_call *c, json_t *params)
{
	const char *mode = json_string_value(json_object_get(params, "mode"));

	if (mode && streq(mode, "form") && c->revision < MCP_REV_2025_11_25)
		json_object_del(params, "mode");
}

static void ask_by_request(struct mcp_call *c, json_t *questions)
{
	const char *key;
	json_t *q;

	if (!c->sink || !c->peer || json_object_size(questions) == 0) {
		refuse_asking(c, "The client cannot be asked now");
		return;
	}
	mcp_call_ref(c); /* the transport may close the peer if a write fails */
	c->waiting = true;
	json_object_foreach(questions, key, q) {
		const char *method = json_string_value(json_object_get(q, "method"));
		struct ask *a = ask_new(c, key, method);
		json_t *message;
		char *text;
		size_t len;

		drop_mode(c, json_object_get(q, "params"));
		message = a ? wire_request(a->id, method, json_incref(json_object_get(q, "params")))
			    : NULL;
		text = message ? wire_text(message, &len) : NULL;
		json_decref(message);
		if (!text) {
			refuse_asking(c, "Out of memory");
			break;
		}
		c->sink->ops->send(c->sink, MCP_OUT_REQUEST, text, len);
		if (c->finished || !c->sink)
			break;
	}
	mcp_call_unref(c);
}

void mcp_call_need_input(struct mcp_call *c, const struct mcp_input *inputs, size_t n,
			 json_t *state)
{
	json_t *questions = questions_of(inputs, n);

	ASSERT(!c->finished && !c->waiting && n <= INPUTS_MAX && c->enter);
	c->on_cancel = NULL;
	json_decref(c->state);
	c->state = state;
	if (c->cancelled || !questions) {
		json_decref(questions);
		call_fail(c, MCP_ERR_INTERNAL, NULL, "Out of memory");
		return;
	}
	if (client_can(c, questions)) {
		if (c->task)
			task_need_input(c, json_incref(questions));
		else if (c->modern)
			ask_by_result(c, questions);
		else
			ask_by_request(c, questions);
	}
	json_decref(questions);
}

/* ---- responses of legacy clients ---- */

static struct ask *ask_find(struct mcp_peer *p, const json_t *id)
{
	const char *text = json_string_value(id);

	if (!text)
		return NULL;
	list_for_each(node, &p->asks) {
		struct ask *a = list_entry(node, struct ask, node);

		if (streq(a->id, text))
			return a;
	}
	return NULL;
}

void ask_answer(struct mcp_peer *p, const json_t *message, const struct spill *spill)
{
	struct ask *a = ask_find(p, json_object_get(message, "id"));
	json_t *result = json_object_get(message, "result");
	struct mcp_call *c;
	bool ok;

	if (!a)
		return; /* the answer is late, or we never asked */
	c = a->call;
	/* A read-only key of the same user must not agree to what a full key asked for. */
	if (!identity_may(p->server, p->who, c->item))
		return;
	/* If the client answers an elicitation with an error, that counts as "cancel". */
	if (!result && streq(a->method, "elicitation/create"))
		result = json_pack("{s:s}", "action", "cancel");
	else
		json_incref(result);
	ok = !spill_is_in(spill, result) && ask_form_ok(a->method, result) &&
	     keep_answer(c, a->key, result);
	json_decref(result);
	ask_free(a);
	if (!ok)
		refuse_asking(c, "The client answered with an error, or not in the expected form");
	else if (c->n_open == 0)
		c->enter(c);
}

static struct ask *ask_overdue(struct mcp_peer *p, int64_t now)
{
	list_for_each(node, &p->asks) {
		struct ask *a = list_entry(node, struct ask, node);

		if (a->deadline_ms <= now)
			return a;
	}
	return NULL;
}

void ask_expire(struct mcp_peer *p, int64_t now)
{
	struct ask *a;

	p->refs++;
	while ((a = ask_overdue(p, now)))
		refuse_asking(a->call, "The client did not answer in time");
	peer_unref(p);
}
