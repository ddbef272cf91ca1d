/* SPDX-License-Identifier: Apache-2.0 */
/* Methods that only the revisions with `initialize` have. */
#include "mcp/objects.h"

static void keep_client_name(struct mcp_peer *p, const json_t *info)
{
	const char *name = json_string_value(json_object_get(info, "name"));

	(void)snprintf(p->client_name, sizeof(p->client_name), "%s", name ? name : "");
}

static json_t *initialize_result(const struct mcp_server *s, enum mcp_revision rev,
				 const json_t *client)
{
	json_t *caps = server_capabilities(s, rev, client);
	json_t *r = json_pack("{s:s,s:o,s:O}", "protocolVersion", revision_name(rev),
			      "capabilities", caps, "serverInfo", s->info);

	if (r && s->config.instructions &&
	    json_object_set_new(r, "instructions", json_string(s->config.instructions)) < 0) {
		json_decref(r);
		return NULL;
	}
	return r;
}

void run_initialize(struct mcp_call *c)
{
	const char *asked = call_param(c, "protocolVersion", NAME_MAX_BYTES);
	json_t *caps = json_object_get(c->params, "capabilities");
	struct mcp_peer *p = c->peer;
	enum mcp_revision rev;
	json_t *r;

	if (!asked) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "protocolVersion must be a string");
		return;
	}
	if (json_means_none(caps))
		caps = NULL;
	if (caps && !json_is_object(caps)) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "capabilities must be an object");
		return;
	}
	rev = revision_by_name(asked);
	/* For an unknown or modern version we answer with our newest legacy one and never refuse:
	 * the client decides whether it can use that. */
	if (rev == MCP_REV_NONE || revision_is_modern(rev))
		rev = MCP_REV_LEGACY_MAX;
	r = initialize_result(p->server, rev, caps);
	if (r) {
		p->revision = rev;
		p->session = true;
		json_decref(p->client_caps);
		p->client_caps = json_incref(caps);
		keep_client_name(p, json_object_get(c->params, "clientInfo"));
		c->revision = rev;
	}
	mcp_call_finish(c, r);
}

void run_ping(struct mcp_call *c)
{
	call_answer_text(c, "{}", 2);
}

void run_set_level(struct mcp_call *c)
{
	const char *name = call_param(c, "level", NAME_MAX_BYTES);
	int level = name ? level_by_name(name) : -EINVAL;

	if (level < 0) {
		call_fail(c, MCP_ERR_PARAMS, NULL,
			  "level must be one of debug, info, notice, "
			  "warning, error, critical, alert, emergency");
		return;
	}
	c->peer->level = (enum mcp_level)level;
	/* The new level also applies to requests in flight: a person who turns logging up wants to
	 * see the current run. */
	list_for_each(node, &c->peer->calls) {
		struct mcp_call *other = list_entry(node, struct mcp_call, node);

		if (!other->modern)
			other->level = level;
	}
	call_answer_text(c, "{}", 2);
}

bool peer_may_subscribe(struct mcp_peer *p, const char *uri)
{
	const struct mcp_server *s = p->server;

	if (item_find(s, ITEM_RESOURCE, uri))
		return true;
	if (s->source.may_subscribe)
		return s->source.may_subscribe(p, uri, s->source.user);
	for (size_t i = 0; i < s->items[ITEM_TEMPLATE].n; i++) {
		if (template_matches(s->items[ITEM_TEMPLATE].v[i]->key, uri))
			return true;
	}
	return false;
}

static void source_subscribed(const struct mcp_server *s, const char *principal, const char *uri,
			      bool is)
{
	if (s->source.subscribed)
		s->source.subscribed(principal, uri, is, s->source.user);
}

void source_subscribed_all(const struct mcp_server *s, const char *principal, json_t *uris, bool is)
{
	const char *uri;
	json_t *v;

	json_object_foreach(uris, uri, v)
		source_subscribed(s, principal, uri, is);
}

/* Notes that P has subscriptions to one more or one less. */
static int count_subscriptions(struct mcp_peer *p, size_t n, struct err *e)
{
	return budget_take(p->server->config.budgets, p->who->principal, BUDGET_SUBSCRIPTIONS, n,
			   &p->subscribed, e);
}

void run_subscribe(struct mcp_call *c)
{
	const char *uri = call_param(c, "uri", URI_MAX);
	struct mcp_peer *p = c->peer;
	struct err e = ERR_INIT;

	if (!uri) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "uri must be a string");
		return;
	}
	if (!peer_may_subscribe(p, uri)) {
		mcp_call_finish_no_resource(c, uri);
		return;
	}
	if (!p->subscriptions)
		p->subscriptions = json_object();
	size_t n = json_object_size(p->subscriptions);
	if (json_object_get(p->subscriptions, uri)) {
		call_answer_text(c, "{}", 2);
		return;
	}
	if (count_subscriptions(p, n + 1, &e) < 0) {
		call_fail_budget(c, BUDGET_SUBSCRIPTIONS, &e);
		return;
	}
	if (n >= SUBSCRIPTIONS_MAX || json_object_set_new(p->subscriptions, uri, json_true()) < 0) {
		(void)!count_subscriptions(p, n, &e);
		call_fail(c, MCP_ERR_INTERNAL, NULL, "Too many subscriptions");
		return;
	}
	source_subscribed(p->server, p->who->principal, uri, true);
	call_answer_text(c, "{}", 2);
}

void run_unsubscribe(struct mcp_call *c)
{
	const char *uri = call_param(c, "uri", URI_MAX);

	if (!uri) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "uri must be a string");
		return;
	}
	if (json_object_del(c->peer->subscriptions, uri) == 0)
		source_subscribed(c->server, c->peer->who->principal, uri, false);
	struct err ignored = ERR_INIT;
	(void)!count_subscriptions(c->peer, json_object_size(c->peer->subscriptions), &ignored);
	call_answer_text(c, "{}", 2);
}
