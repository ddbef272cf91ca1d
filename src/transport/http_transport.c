/* SPDX-License-Identifier: Apache-2.0 */
/* What the HTTP transports share: routes, the table of ids, timers, CORS, shutdown. */
#include "transport/http_session.h"

#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/ids.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TICK_ACCURACY_US (250 * 1000)

/* ---- ids ---- */

/* FNV-1a is enough: the server makes the ids at random, so no client can fill one bucket. */
static struct list *bucket_of(struct transport_http *t, const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (uint8_t)*id) * 16777619u;
	return &t->buckets[h & (BUCKETS - 1)];
}

void keyed_add(struct transport_http *t, struct keyed *k, enum keyed_kind kind)
{
	k->kind = kind;
	rand_hex(k->id, ID_HEX / 2);
	fleet_id_mark(t->cfg.fleet, k->id);
	list_append(bucket_of(t, k->id), &k->node);
}

struct keyed *keyed_find(struct transport_http *t, const char *id, enum keyed_kind kind)
{
	if (strlen(id) != ID_HEX)
		return NULL;
	list_for_each(node, bucket_of(t, id)) {
		struct keyed *k = list_entry(node, struct keyed, node);

		if (k->kind == kind && streq(k->id, id))
			return k;
	}
	return NULL;
}

/* ---- shared pieces ---- */

struct mcp_reader *reader_get(struct transport_http *t, const char *principal)
{
	struct mcp_reader *r = t->spare ? TAKE_PTR(t->spare) : mcp_reader_new(&t->cfg.reader);

	if (r)
		mcp_reader_set_payer(r, principal);
	return r;
}

void reader_put(struct transport_http *t, struct mcp_reader *reader)
{
	if (!reader)
		return;
	mcp_reader_reset(reader);
	if (t->spare)
		mcp_reader_free(reader);
	else
		t->spare = reader;
}

struct mcp_peer *peer_make(struct transport_http *t, struct http_request *req,
			   const struct mcp_peer_ops *ops, enum mcp_transport kind, void *user)
{
	struct mcp_peer_config cfg = {
	    .transport = kind, .ops = ops, .user = user, .principal = http_request_principal(req)};
	struct mcp_peer *peer;

	if (t->cfg.identify)
		t->cfg.identify(req, &cfg, t->cfg.userdata);
	peer = mcp_peer_new(t->cfg.mcp, &cfg);
	if (!peer && cfg.principal_unref)
		cfg.principal_unref(cfg.principal_data);
	return peer;
}

bool peer_take_credential(struct transport_http *t, struct http_request *req, struct mcp_peer *peer)
{
	struct mcp_peer_config cfg = {0};

	if (t->cfg.identify)
		t->cfg.identify(req, &cfg, t->cfg.userdata);
	if (mcp_peer_set_credential(peer, cfg.principal_data, cfg.limited, cfg.principal_unref)) {
		mcp_peer_set_base(peer, cfg.base);
		return true;
	}
	if (cfg.principal_unref)
		cfg.principal_unref(cfg.principal_data);
	return false;
}

void rights_of(struct transport_http *t, struct http_request *req, bool *ret_limited,
	       unsigned *ret_rights)
{
	struct mcp_peer_config cfg = {0};

	if (t->cfg.identify)
		t->cfg.identify(req, &cfg, t->cfg.userdata);
	*ret_limited = cfg.limited;
	*ret_rights = cfg.rights;
	if (cfg.principal_unref)
		cfg.principal_unref(cfg.principal_data);
}

void refuse(struct http_request *req, int status, int code, const char *message)
{
	size_t len = 0;
	char *body = mcp_error_body(code, message, &len);

	cors_add(req);
	http_respond_take(req, status, "application/json", body, body ? len : 0);
}

void refuse_budget(struct http_request *req, enum budget_kind kind, const struct err *e)
{
	char retry[16];
	size_t len = 0;
	char *body = mcp_budget_error_body(kind, e, &len);

	(void)snprintf(retry, sizeof(retry), "%d", BUDGET_RETRY_S);
	(void)http_add_header(req, "Retry-After", retry);
	cors_add(req);
	http_respond_take(req, 429, "application/json", body, body ? len : 0);
}

void transport_bury_later(struct transport_http *t, struct grave *g, void (*bury)(struct grave *g))
{
	g->bury = bury;
	list_append(&t->graves, &g->node);
	(void)sd_event_source_set_enabled(t->defer, SD_EVENT_ONESHOT);
}

static int on_defer(sd_event_source *src, void *userdata)
{
	struct transport_http *t = userdata;

	loop_work("mcp", "later");
	(void)src;
	while (!list_is_empty(&t->graves)) {
		struct grave *g = list_entry(t->graves.next, struct grave, node);

		list_remove(&g->node);
		g->bury(g);
	}
	return 0;
}

/* ---- life ---- */

static int on_tick(sd_event_source *src, uint64_t usec, void *userdata)
{
	struct transport_http *t = userdata;
	const uint64_t now = now_ns();

	loop_work("timer", "sessions");
	(void)usec;
	mcp_server_tick(t->cfg.mcp);
	exchange_tick(t, now);
	sse_tick(t, now);
	session_tick(t, now);
	(void)sd_event_source_set_time(src, (now + TICK_NS) / NS_PER_US);
	(void)sd_event_source_set_enabled(src, SD_EVENT_ONESHOT);
	return 0;
}

static int add_sources(struct transport_http *t)
{
	int r = sd_event_add_time(t->cfg.loop, &t->tick, CLOCK_MONOTONIC,
				  (now_ns() + TICK_NS) / NS_PER_US, TICK_ACCURACY_US, on_tick, t);

	if (r >= 0)
		r = sd_event_add_defer(t->cfg.loop, &t->defer, on_defer, t);
	if (r >= 0)
		r = sd_event_source_set_enabled(t->defer, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

bool message_is_too_large(struct http_request *req, const struct transport_http *t)
{
	const uint64_t max =
	    t->cfg.reader.max_message ? t->cfg.reader.max_message : MCP_MESSAGE_MAX;
	const uint64_t length = http_request_body_length(req);

	return length != UINT64_MAX && length > max; /* UINT64_MAX: chunked */
}

static int add_routes(struct transport_http *t)
{
	const struct transport_http_config *c = &t->cfg;
	/* message_is_too_large() and the reader enforce the limit. */
	const uint64_t max = UINT64_MAX;
	const unsigned post = HTTP_ROUTE_AUTH | HTTP_ROUTE_STREAM_BODY;
	const struct http_route rows[] = {
	    {HTTP_POST, "/mcp", on_post, post, max},
	    {HTTP_GET, "/mcp", on_get, HTTP_ROUTE_AUTH, 0},
	    {HTTP_DELETE, "/mcp", on_delete, HTTP_ROUTE_AUTH, 0},
	    {HTTP_OPTIONS, "/mcp", cors_options, 0, 0},
	    {HTTP_POST, "/mcp/", on_post, post, max},
	    {HTTP_GET, "/mcp/", on_get, HTTP_ROUTE_AUTH, 0},
	    {HTTP_DELETE, "/mcp/", on_delete, HTTP_ROUTE_AUTH, 0},
	    {HTTP_OPTIONS, "/mcp/", cors_options, 0, 0},
	    {HTTP_GET, "/sse", on_sse, HTTP_ROUTE_AUTH | HTTP_ROUTE_QUERY_KEY, 0},
	    {HTTP_POST, "/messages", on_messages, post | HTTP_ROUTE_QUERY_KEY, max},
	    {HTTP_POST, "/messages/", on_messages, post | HTTP_ROUTE_QUERY_KEY, max},
	};

	_Static_assert(ARRAY_SIZE(rows) <= ARRAY_SIZE(t->rows), "room for all rows");
	memcpy(t->rows, rows, sizeof(rows));
	return http_server_add_routes(c->http, t->rows, ARRAY_SIZE(rows), c->scopes, t);
}

int transport_http_new(const struct transport_http_config *config, struct transport_http **ret)
{
	struct transport_http *t = calloc(1, sizeof(*t));
	struct transport_http_config *c;
	int r;

	if (!t)
		return -ENOMEM;
	t->cfg = *config;
	c = &t->cfg;
	c->scopes = c->scopes ? c->scopes : HTTP_SCOPE_MAIN | HTTP_SCOPE_LOCAL;
	c->session_idle_ns = c->session_idle_ns ? c->session_idle_ns : SESSION_IDLE_NS;
	c->keepalive_ns = c->keepalive_ns ? c->keepalive_ns : KEEPALIVE_NS;
	list_init(&t->streams);
	list_init(&t->exchanges);
	list_init(&t->waiting);
	list_init(&t->lru);
	list_init(&t->conns);
	list_init(&t->graves);
	for (size_t i = 0; i < BUCKETS; i++)
		list_init(&t->buckets[i]);
	r = add_sources(t);
	if (r == 0)
		r = add_routes(t);
	if (r < 0) {
		transport_http_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void transport_http_finish(struct transport_http *t)
{
	t->finishing = true;
	while (!list_is_empty(&t->lru))
		session_end(list_entry(t->lru.next, struct session, lru));
	sse_conns_finish(t);
	/* Requests without a session are left. They end by themselves, except
	 * subscriptions/listen. */
	list_for_each(node, &t->exchanges)
		mcp_peer_end_listens(list_entry(node, struct exchange, node)->session->peer);
}

struct transport_http *transport_http_free(struct transport_http *t)
{
	if (!t)
		return NULL;
	transport_http_finish(t);
	(void)on_defer(t->defer, t);
	sd_event_source_disable_unref(t->tick);
	sd_event_source_disable_unref(t->defer);
	mcp_reader_free(t->spare);
	free(t);
	return NULL;
}

void transport_http_count(const struct transport_http *t, struct transport_http_counts *ret)
{
	*ret = t->counts;
}
