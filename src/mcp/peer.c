/* SPDX-License-Identifier: Apache-2.0 */
/* Peers: the clients of an MCP server. */
#include "mcp/objects.h"

/* ---- life ---- */

struct identity *identity_unref(struct identity *who)
{
	if (!who || --who->refs > 0)
		return NULL;
	if (who->data_unref)
		who->data_unref(who->data);
	free(who->principal);
	free(who);
	return NULL;
}

struct mcp_peer *mcp_peer_new(struct mcp_server *server, const struct mcp_peer_config *config)
{
	struct mcp_peer *p = calloc(1, sizeof(*p));
	struct identity *who = calloc(1, sizeof(*who));

	if (p && who)
		who->principal = strdup(config->principal ? config->principal : "");
	if (!p || !who || !who->principal) {
		free(who);
		free(p);
		return NULL;
	}
	who->refs = 1;
	who->data = config->principal_data;
	who->limited = config->limited;
	who->data_unref = config->principal_unref;
	p->refs = 1;
	p->server = server;
	p->number = ++server->n_peers;
	p->who = who;
	p->transport = config->transport;
	p->ops = config->ops;
	p->user = config->user;
	mcp_peer_set_base(p, config->base);
	p->level = MCP_LEVEL_INFO;
	list_init(&p->calls);
	list_init(&p->joining);
	list_init(&p->asks);
	list_append(&server->peers, &p->node);
	return p;
}

void peer_unref(struct mcp_peer *p)
{
	if (--p->refs > 0)
		return;
	ASSERT(p->closed);
	json_decref(p->client_caps);
	json_decref(p->subscriptions);
	free(p->note);
	free(p->base);
	budget_give(&p->subscribed);
	identity_unref(p->who);
	free(p);
}

void mcp_peer_close(struct mcp_peer *p)
{
	if (!p)
		return;
	p->closed = true;
	list_remove(&p->node);
	source_subscribed_all(p->server, p->who->principal, p->subscriptions, false);
	json_decref(TAKE_PTR(p->subscriptions));
	/* All calls leave the peer before any of them is told. The end of one call may make a
	 * handler send something for another call or withdraw its questions. */
	list_for_each(node, &p->calls) {
		struct mcp_call *c = list_entry(node, struct mcp_call, node);

		c->sink = NULL;
		if (c->batch)
			c->batch->sink = NULL;
	}
	while (!list_is_empty(&p->joining))
		batch_lose_sink(list_entry(p->joining.next, struct batch, joining));
	while (!list_is_empty(&p->calls)) {
		struct mcp_call *c = list_entry(p->calls.next, struct mcp_call, node);
		struct batch *batch = c->batch;

		mcp_call_ref(c);
		ask_drop(c);
		call_leave_peer(c);
		c->batch = NULL;
		if (batch)
			batch_unref(batch);
		call_cancel(c);
		mcp_call_unref(c);
	}
	peer_unref(p);
}

bool mcp_peer_set_credential(struct mcp_peer *p, void *data, bool limited,
			     void (*unref)(void *data))
{
	struct identity *who = calloc(1, sizeof(*who));

	if (who)
		who->principal = strdup(p->who->principal);
	if (!who || !who->principal) {
		free(who);
		return false;
	}
	who->refs = 1;
	who->data = data;
	who->limited = limited;
	who->data_unref = unref;
	identity_unref(p->who);
	p->who = who;
	return true;
}

/* Without memory links are those of the configuration. */
void mcp_peer_set_base(struct mcp_peer *p, const char *base)
{
	if (p->base && base && streq(p->base, base))
		return;
	free(p->base);
	p->base = base ? strdup(base) : NULL;
}

void *mcp_peer_user(const struct mcp_peer *p)
{
	return p->user;
}

const char *mcp_peer_principal(const struct mcp_peer *p)
{
	return p->who->principal;
}

bool mcp_peer_is_session(const struct mcp_peer *p)
{
	return p->session;
}

enum mcp_revision mcp_peer_revision(const struct mcp_peer *p)
{
	return p->revision;
}

size_t mcp_peer_n_calls(const struct mcp_peer *p)
{
	return p->n_calls;
}

/* The walk starts again after each change, because the code that a change calls may end other
 * calls. */
static struct mcp_call *first_call(struct mcp_peer *p,
				   bool (*fits)(const struct mcp_call *c, const void *arg),
				   const void *arg)
{
	list_for_each(node, &p->calls) {
		struct mcp_call *c = list_entry(node, struct mcp_call, node);

		if (fits(c, arg))
			return c;
	}
	return NULL;
}

static bool is_listen(const struct mcp_call *c, const void *arg)
{
	(void)arg;
	return c->listen != NULL;
}

static bool has_sink(const struct mcp_call *c, const void *arg)
{
	return c->sink == arg;
}

static struct mcp_call *call_of_ended(struct mcp_server *s,
				      enum mcp_ended (*ended)(const void *data))
{
	list_for_each(peer, &s->peers) {
		list_for_each(node, &list_entry(peer, struct mcp_peer, node)->calls) {
			struct mcp_call *c = list_entry(node, struct mcp_call, node);

			if (!c->cancelled && !c->finished && c->who->data &&
			    ended(c->who->data) != MCP_ENDED_NOT)
				return c;
		}
	}
	return NULL;
}

void mcp_server_end_credentials(struct mcp_server *s, enum mcp_ended (*ended)(const void *data))
{
	struct mcp_call *c;

	/* Starts again each time: the end of a sink may close its peer. */
	while ((c = call_of_ended(s, ended)))
		call_cancel(c);
	task_end_credentials(s, ended);
}

void mcp_peer_end_listens(struct mcp_peer *p)
{
	struct mcp_call *c;

	p->refs++; /* the transport may close the peer when its last stream ends */
	while ((c = first_call(p, is_listen, NULL)))
		listen_end(c);
	peer_unref(p);
}

void peer_send(struct mcp_peer *p, enum mcp_out kind, const json_t *message)
{
	size_t len;
	char *text;

	if (p->closed)
		return;
	text = wire_text(message, &len);
	if (text)
		p->ops->send(p, kind, text, len);
}

void mcp_sink_gone(struct mcp_peer *p, struct mcp_sink *sink)
{
	struct mcp_call *c;

	p->refs++;
	list_for_each(node, &p->joining) {
		struct batch *b = list_entry(node, struct batch, joining);

		if (b->sink == sink)
			batch_lose_sink(b);
	}
	while ((c = first_call(p, has_sink, sink))) {
		c->sink = NULL;
		if (c->batch) {
			c->batch->sink = NULL;
			batch_unref(c->batch);
			c->batch = NULL;
		}
		if (c->modern)
			call_cancel(c);
	}
	peer_unref(p);
}
