/* SPDX-License-Identifier: Apache-2.0 */
/* Methods that only the revisions with `initialize` have. */
#include "mcp/objects.h"

static json_t *initialize_result(const struct mcp_server *s, enum mcp_revision rev)
{
	json_t *caps = server_capabilities(s, rev);
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
	if (caps && !json_is_object(caps)) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "capabilities must be an object");
		return;
	}
	rev = revision_by_name(asked);
	/* For an unknown or modern version we answer with our newest legacy one and never refuse:
	 * the client decides whether it can use that. */
	if (rev == MCP_REV_NONE || revision_is_modern(rev))
		rev = MCP_REV_LEGACY_MAX;
	r = initialize_result(p->server, rev);
	if (r) {
		p->revision = rev;
		p->session = true;
		json_decref(p->client_caps);
		p->client_caps = json_incref(caps);
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

static bool may_subscribe(const struct mcp_call *c, const char *uri)
{
	const struct mcp_server *s = c->server;

	if (item_find(s, ITEM_RESOURCE, uri))
		return true;
	for (size_t i = 0; i < s->items[ITEM_TEMPLATE].n; i++) {
		if (template_matches(s->items[ITEM_TEMPLATE].v[i]->key, uri))
			return true;
	}
	return s->source.may_subscribe && s->source.may_subscribe(c->peer, uri, s->source.user);
}

void run_subscribe(struct mcp_call *c)
{
	const char *uri = call_param(c, "uri", URI_MAX);
	struct mcp_peer *p = c->peer;

	if (!uri) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "uri must be a string");
		return;
	}
	if (!may_subscribe(c, uri)) {
		mcp_call_finish_no_resource(c, uri);
		return;
	}
	if (!p->subscriptions)
		p->subscriptions = json_object();
	if (json_object_size(p->subscriptions) >= SUBSCRIPTIONS_MAX ||
	    json_object_set_new(p->subscriptions, uri, json_true()) < 0) {
		call_fail(c, MCP_ERR_INTERNAL, NULL, "Too many subscriptions");
		return;
	}
	call_answer_text(c, "{}", 2);
}

void run_unsubscribe(struct mcp_call *c)
{
	const char *uri = call_param(c, "uri", URI_MAX);

	if (!uri) {
		call_fail(c, MCP_ERR_PARAMS, NULL, "uri must be a string");
		return;
	}
	json_object_del(c->peer->subscriptions, uri);
	call_answer_text(c, "{}", 2);
}
