/* SPDX-License-Identifier: Apache-2.0 */
/* Tells clients about changes: subscriptions/listen in the modern era, notifications in the legacy
 * era. */
#include "mcp/objects.h"

/* The kinds of list changes. */
static const struct kind {
	const char *filter; /* in subscriptions/listen */
	const char *method;
	unsigned offer;
} kinds[] = {
    {"toolsListChanged", "notifications/tools/list_changed", MCP_OFFER_TOOLS_LIST_CHANGED},
    {"promptsListChanged", "notifications/prompts/list_changed", MCP_OFFER_PROMPTS_LIST_CHANGED},
    {"resourcesListChanged", "notifications/resources/list_changed",
     MCP_OFFER_RESOURCES_LIST_CHANGED},
};
enum {
	KIND_TOOLS,
	KIND_PROMPTS,
	KIND_RESOURCES,
};

static bool for_principal(const struct identity *who, const char *principal)
{
	return !principal || streq(who->principal, principal);
}

/* ---- subscriptions/listen ---- */

/* The strings of ARRAY, at most SUBSCRIPTIONS_MAX, as the keys of an object. With PEER: only addresses of
 * resources that it may watch. */
static json_t *set_of(const json_t *array, struct mcp_peer *peer)
{
	json_t *set = json_object();
	const json_t *v;
	size_t i;

	json_array_foreach(array, i, v) {
		const char *s = json_string_value(v);

		if (s && strlen(s) == json_string_length(v) && strlen(s) <= URI_MAX &&
		    i < SUBSCRIPTIONS_MAX && (!peer || peer_may_subscribe(peer, s)))
			json_object_set_new(set, s, json_true());
	}
	return set;
}

static json_t *names_of(const json_t *set)
{
	json_t *array = json_array();
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)set, key, v)
		json_array_append_new(array, json_string(key));
	return array;
}

/* The part of ASKED that we offer. RET_ECHO gets it for the acknowledgement; the result has objects
 * in place of the arrays. */
static json_t *honour(const struct mcp_call *c, const json_t *asked, json_t *ret_echo)
{
	const unsigned offers = c->server->config.offers;
	static const struct {
		const char *filter;
		unsigned offer;
		const char *method; /* the method that reads what this is about */
	} arrays[] = {
	    {"resourceSubscriptions", MCP_OFFER_RESOURCES_SUBSCRIBE, "resources/subscribe"},
	    {"taskIds", MCP_OFFER_TASKS, "tasks/get"},
	};
	json_t *filter = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!(offers & kinds[i].offer) ||
		    !json_is_true(json_object_get(asked, kinds[i].filter)))
			continue;
		json_object_set_new(filter, kinds[i].filter, json_true());
		json_object_set_new(ret_echo, kinds[i].filter, json_true());
	}
	for (size_t i = 0; i < ARRAY_SIZE(arrays); i++) {
		const json_t *array = json_object_get(asked, arrays[i].filter);
		json_t *set;

		if (!(offers & arrays[i].offer) || json_array_size(array) == 0 ||
		    !identity_may_ask(c->server, c->who, arrays[i].method))
			continue;
		set = set_of(array, i == 0 ? c->peer : NULL);
		json_object_set_new(ret_echo, arrays[i].filter, names_of(set));
		json_object_set_new(filter, arrays[i].filter, set);
	}
	return filter;
}

static json_t *subscription_meta(const struct mcp_call *c)
{
	return json_pack("{s:O}", META_SUBSCRIPTION, c->id);
}

void listen_end(struct mcp_call *c)
{
	mcp_call_finish(c, json_pack("{s:o}", "_meta", subscription_meta(c)));
}

void listen_remove(struct mcp_call *c)
{
	if (!c->listen || list_is_empty(&c->listen_node))
		return;
	list_remove(&c->listen_node);
	source_subscribed_all(c->server, c->who->principal,
			      json_object_get(c->listen, "resourceSubscriptions"), false);
}

/* No handler would finish a listen that was cancelled. */
static void listen_cancelled(struct mcp_call *c, void *user)
{
	(void)user;
	listen_end(c);
}

void run_listen(struct mcp_call *c)
{
	const json_t *asked = json_object_get(c->params, "notifications");
	json_t *echo = json_object();
	json_t *filter;
	struct budgets *budgets = c->server->config.budgets;
	struct err e = ERR_INIT;
	bool empty;

	if (!json_is_object(asked)) {
		json_decref(echo);
		call_fail(c, MCP_ERR_PARAMS, NULL, "notifications must be an object");
		return;
	}
	filter = honour(c, asked, echo);
	empty = json_object_size(filter) == 0;
	size_t n = json_object_size(json_object_get(filter, "resourceSubscriptions")) +
		   json_object_size(json_object_get(filter, "taskIds"));
	enum budget_kind kind = BUDGET_STREAMS;
	int r = budget_take(budgets, c->who->principal, kind, 1, &c->stream, &e);
	if (r == 0) {
		kind = BUDGET_SUBSCRIPTIONS;
		r = budget_take(budgets, c->who->principal, kind, n, &c->subscribed, &e);
	}
	if (r < 0) {
		json_decref(echo);
		json_decref(filter);
		call_fail_budget(c, kind, &e);
		return;
	}
	call_notify(c, "notifications/subscriptions/acknowledged",
		    json_pack("{s:o,s:o}", "notifications", echo, "_meta", subscription_meta(c)));
	if (c->cancelled || !c->sink) {
		json_decref(filter);
		listen_end(c);
		return;
	}
	c->listen = filter;
	list_append(&c->server->listens, &c->listen_node);
	source_subscribed_all(c->server, c->who->principal,
			      json_object_get(filter, "resourceSubscriptions"), true);
	mcp_call_on_cancel(c, listen_cancelled, NULL);
	if (empty)
		listen_end(c);
}

/* Sends METHOD with PARAMS (borrowed, may be NULL) on the listen stream C. */
static void tell(struct mcp_call *c, const char *method, json_t *params)
{
	json_t *p = params ? json_copy(params) : json_object();

	if (p && json_object_set_new(p, "_meta", subscription_meta(c)) == 0)
		call_notify(c, method, p);
	else
		json_decref(p);
}

/* ---- list changes ---- */

static void list_changed(struct mcp_server *s, const struct kind *k, const char *principal)
{
	json_t *message;

	if (!(s->config.offers & k->offer))
		return;
	message = wire_notification(k->method, NULL);
	list_for_each(node, &s->peers) {
		struct mcp_peer *p = list_entry(node, struct mcp_peer, node);

		if (p->session && for_principal(p->who, principal))
			peer_send(p, MCP_OUT_NOTIFICATION, message);
	}
	json_decref(message);
	list_for_each(node, &s->listens) {
		struct mcp_call *c = list_entry(node, struct mcp_call, listen_node);

		if (json_object_get(c->listen, k->filter) && for_principal(c->who, principal))
			tell(c, k->method, NULL);
	}
}

void mcp_server_tools_changed(struct mcp_server *s)
{
	list_changed(s, &kinds[KIND_TOOLS], NULL);
}

void mcp_server_prompts_changed(struct mcp_server *s)
{
	list_changed(s, &kinds[KIND_PROMPTS], NULL);
}

void mcp_server_resources_changed(struct mcp_server *s, const char *principal)
{
	list_changed(s, &kinds[KIND_RESOURCES], principal);
}

static void resource_updated(struct mcp_server *s, const char *uri, const char *principal)
{
	static const char method[] = "notifications/resources/updated";
	json_t *params;
	json_t *message;

	if (!(s->config.offers & MCP_OFFER_RESOURCES_SUBSCRIBE))
		return;
	params = json_pack("{s:s}", "uri", uri);
	message = wire_notification(method, json_incref(params));
	list_for_each(node, &s->peers) {
		struct mcp_peer *p = list_entry(node, struct mcp_peer, node);

		if (json_object_get(p->subscriptions, uri) && for_principal(p->who, principal))
			peer_send(p, MCP_OUT_NOTIFICATION, message);
	}
	json_decref(message);
	list_for_each(node, &s->listens) {
		struct mcp_call *c = list_entry(node, struct mcp_call, listen_node);
		const json_t *uris = json_object_get(c->listen, "resourceSubscriptions");

		if (json_object_get(uris, uri) && for_principal(c->who, principal))
			tell(c, method, params);
	}
	json_decref(params);
}

void mcp_server_resources_updated(struct mcp_server *s, const char *principal,
				  bool (*changed)(const char *uri, void *user), void *user)
{
	json_t *hits = json_object();
	const char *uri;
	json_t *v;

	if (!(s->config.offers & MCP_OFFER_RESOURCES_SUBSCRIBE)) {
		json_decref(hits);
		return;
	}
	list_for_each(node, &s->peers) {
		struct mcp_peer *p = list_entry(node, struct mcp_peer, node);

		if (for_principal(p->who, principal))
			json_object_foreach(p->subscriptions, uri, v)
				if (changed(uri, user))
					(void)json_object_set(hits, uri, v);
	}
	list_for_each(node, &s->listens) {
		struct mcp_call *c = list_entry(node, struct mcp_call, listen_node);

		if (for_principal(c->who, principal))
			json_object_foreach(json_object_get(c->listen, "resourceSubscriptions"),
					    uri, v)
				if (changed(uri, user))
					(void)json_object_set(hits, uri, v);
	}
	/* Sending may end listen streams, so nothing is sent while they are looked through. */
	json_object_foreach(hits, uri, v)
		resource_updated(s, uri, principal);
	json_decref(hits);
}

void listen_task_changed(struct mcp_server *s, const char *principal, const char *id,
			 const struct item *tool, const struct task *t)
{
	list_for_each(node, &s->listens) {
		struct mcp_call *c = list_entry(node, struct mcp_call, listen_node);

		if (json_object_get(json_object_get(c->listen, "taskIds"), id) &&
		    for_principal(c->who, principal) && identity_may_see(s, c->who, tool)) {
			json_t *view = task_details(t);

			tell(c, "notifications/tasks", view);
			json_decref(view);
		}
	}
}
