/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of the legacy era: table, expiry, GET stream, DELETE, events kept for resumption. */
#include "transport/http_session.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* ---- events ---- */

void event_id(char ret[EVENT_ID_SIZE], const struct session *s, unsigned stream, uint64_t seq)
{
	(void)snprintf(ret, EVENT_ID_SIZE, "%.*s_%u_%llu", EVENT_TAG, s->key.id, stream,
		       (unsigned long long)seq);
}

static int event_id_parse(const struct session *s, const char *id, unsigned *ret_stream,
			  uint64_t *ret_seq)
{
	uint64_t stream, seq;

	if (strncmp(id, s->key.id, EVENT_TAG) != 0 || id[EVENT_TAG] != '_')
		return -EINVAL;
	id += EVENT_TAG + 1;
	const char *sep = strchr(id, '_');
	if (!sep || parse_u64_n(id, (size_t)(sep - id), 0, UINT32_MAX, &stream) < 0 ||
	    parse_u64(sep + 1, 0, UINT64_MAX, &seq) < 0)
		return -EINVAL;
	*ret_stream = (unsigned)stream;
	*ret_seq = seq;
	return 0;
}

static void event_drop(struct session *s, struct event *ev)
{
	list_remove(&ev->node);
	budget_give(&ev->share);
	s->n_events--;
	s->event_bytes -= ev->json->len;
	s->t->counts.stored_bytes -= ev->json->len;
	ev->json = shared_bytes_unref(ev->json);
	free(ev);
}

/* Takes room for one more event of LEN bytes. */
static bool take_room(const struct session *s, size_t len, struct budget_share *share)
{
	struct err e = ERR_INIT;

	return s->n_events < STORE_EVENTS_MAX && s->event_bytes + len <= STORE_SESSION_MAX &&
	       budget_take(s->t->cfg.budgets, mcp_peer_principal(s->peer), BUDGET_KEPT_BYTES,
			   len + sizeof(struct event), share, &e) == 0;
}

uint64_t session_store(struct session *s, unsigned stream, struct shared_bytes *json)
{
	const uint64_t seq = ++s->last_seq;
	struct budget_share share = {0};
	struct event *ev;
	bool room;

	while (!(room = take_room(s, json->len, &share)) && !list_is_empty(&s->events))
		event_drop(s, list_entry(s->events.next, struct event, node));
	if (!room)
		return seq; /* it can be seen live, but not be resumed */
	ev = malloc(sizeof(*ev));
	if (!ev) {
		budget_give(&share);
		return seq;
	}
	*ev = (struct event){.stream = stream,
			     .seq = seq,
			     .born_ns = now_ns(),
			     .share = share,
			     .json = shared_bytes_ref(json)};
	list_append(&s->events, &ev->node);
	s->n_events++;
	s->event_bytes += json->len;
	s->t->counts.stored_bytes += json->len;
	return seq;
}

int session_replay(struct session *s, struct sse *sse, unsigned stream, uint64_t seq)
{
	int r = 0;

	list_for_each(node, &s->events) {
		const struct event *ev = list_entry(node, struct event, node);
		char id[EVENT_ID_SIZE];

		if (ev->stream != stream || ev->seq <= seq)
			continue;
		event_id(id, s, stream, ev->seq);
		r = sse_message(sse, id, ev->json);
		if (r < 0)
			break;
	}
	return r;
}

/* Drops at most MAX. Returns how many. */
static unsigned drop_old_events(struct session *s, uint64_t now, unsigned max)
{
	unsigned n = 0;

	for (; n < max && !list_is_empty(&s->events); n++) {
		struct event *ev = list_entry(s->events.next, struct event, node);

		if (ev->born_ns + STORE_TTL_NS > now)
			break;
		event_drop(s, ev);
	}
	return n;
}

/* ---- life ---- */

static void on_peer_send(struct mcp_peer *peer, enum mcp_out kind, char *json, size_t len)
{
	struct session *s = mcp_peer_user(peer);
	struct shared_bytes *text;
	char id[EVENT_ID_SIZE];

	(void)kind;
	if (!s->registered || !s->had_get) {
		free(json);
		return;
	}
	text = shared_bytes_new(json, len);
	if (!text) {
		sse_abort(&s->get);
		return;
	}
	event_id(id, s, 0, session_store(s, 0, text));
	if (sse_is_open(&s->get) && sse_message(&s->get, id, text) < 0)
		sse_abort(&s->get); /* the client can come back for the rest */
	(void)shared_bytes_unref(text);
}

static const struct mcp_peer_ops peer_ops = {.send = on_peer_send};

struct session *session_new(struct transport_http *t, struct http_request *req)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->t = t;
	s->used_ns = now_ns();
	list_init(&s->key.node);
	list_init(&s->lru);
	list_init(&s->exchanges);
	list_init(&s->events);
	s->peer = peer_make(t, req, &peer_ops, MCP_TRANSPORT_HTTP, s);
	if (!s->peer) {
		free(s);
		return NULL;
	}
	rights_of(t, req, &s->limited, &s->rights);
	return s;
}

/* Nothing is under way in the session that its end would cut off. */
static bool is_idle(const struct session *s)
{
	return list_is_empty(&s->exchanges) && !sse_is_open(&s->get) &&
	       mcp_peer_n_calls(s->peer) == 0;
}

/* The session of PRINCIPAL that has been idle longest, or NULL. */
static struct session *oldest_idle(struct transport_http *t, const char *principal)
{
	list_for_each(node, &t->lru) {
		struct session *s = list_entry(node, struct session, lru);

		if (is_idle(s) && streq(mcp_peer_principal(s->peer), principal))
			return s;
	}
	return NULL;
}

int session_register(struct session *s, struct err *e)
{
	struct transport_http *t = s->t;
	const char *principal = mcp_peer_principal(s->peer);
	int r;

	if (t->finishing)
		return err_set(e, ERR_CANCELLED, 0, "The server ends");
	while ((r = budget_take(t->cfg.budgets, principal, BUDGET_MCP_SESSIONS, 1, &s->place, e)) <
	       0) {
		struct session *oldest = oldest_idle(t, principal);

		if (!oldest)
			return r;
		session_end(oldest);
	}
	keyed_add(t, &s->key, KEYED_SESSION);
	list_append(&t->lru, &s->lru);
	s->registered = true;
	t->counts.sessions++;
	return 0;
}

struct session *session_find(struct transport_http *t, struct http_request *req, const char *id)
{
	struct keyed *k = keyed_find(t, id, KEYED_SESSION);
	struct session *s = k ? list_entry(k, struct session, key) : NULL;

	/* A session belongs to the principal that began it. */
	return s && streq(mcp_peer_principal(s->peer), http_request_principal(req)) ? s : NULL;
}

void session_touch(struct session *s)
{
	s->used_ns = now_ns();
	if (!s->registered)
		return;
	list_remove(&s->lru);
	list_append(&s->t->lru, &s->lru);
}

void session_end(struct session *s)
{
	if (s->registered) {
		list_remove(&s->key.node);
		list_remove(&s->lru);
		s->t->counts.sessions--;
		s->registered = false;
	}
	mcp_peer_close(TAKE_PTR(s->peer));
	while (!list_is_empty(&s->exchanges))
		exchange_end(list_entry(s->exchanges.next, struct exchange, session_node));
	sse_end(&s->get);
	while (!list_is_empty(&s->events))
		event_drop(s, list_entry(s->events.next, struct event, node));
	budget_give(&s->place);
	free(s);
}

void transport_http_forget(struct transport_http *t, const char *principal)
{
	list_for_each(node, &t->lru) {
		struct session *s = list_entry(node, struct session, lru);

		if (streq(mcp_peer_principal(s->peer), principal))
			session_end(s);
	}
}

void session_tick(struct transport_http *t, uint64_t now)
{
	unsigned left = SWEEP_EVENTS;
	const bool sweep = t->sweeping || ++t->ticks % SWEEP_TICKS == 0;

	list_for_each(node, &t->lru) {
		struct session *s = list_entry(node, struct session, lru);

		if (sweep)
			left -= drop_old_events(s, now, left);
		else if (s->used_ns + t->cfg.session_idle_ns > now)
			break; /* all sessions behind it were used later */
		if (s->used_ns + t->cfg.session_idle_ns <= now && is_idle(s))
			session_end(s);
	}
	t->sweeping = left == 0; /* the rest in the next tick */
}

/* ---- GET and DELETE ---- */

static void on_get_close(void *userdata)
{
	struct session *s = userdata;

	sse_forget(&s->get);
	session_touch(s);
}

static const struct http_stream_ops get_ops = {.on_close = on_get_close};

/* Writes the first bytes of a stream: a priming event, or a comment for older revisions. */
static int greet(struct session *s, struct sse *sse)
{
	char id[EVENT_ID_SIZE], text[EVENT_ID_SIZE + 64];
	int n;

	if (mcp_peer_revision(s->peer) < MCP_REV_2025_11_25)
		return sse_raw(sse, ": open\n\n", 8);
	event_id(id, s, 0, s->last_seq);
	n = snprintf(text, sizeof(text), "id: %s\nretry: %u\ndata: \n\n", id, RETRY_MS);
	return sse_raw(sse, text, (size_t)n);
}

static void begin_get_stream(struct session *s, struct http_request *req, bool resume, uint64_t seq)
{
	struct budget_share place = {0};
	struct err e = ERR_INIT;
	int r = budget_take(s->t->cfg.budgets, mcp_peer_principal(s->peer), BUDGET_STREAMS, 1,
			    &place, &e);

	if (r < 0) {
		refuse_budget(req, BUDGET_STREAMS, &e);
		return;
	}
	cors_add(req);
	s->had_get = true;
	if (!sse_open(&s->get, s->t, req, &get_ops, s)) {
		budget_give(&place);
		return;
	}
	s->get.place = place;
	r = resume ? 0 : greet(s, &s->get);
	if (r == 0 && resume)
		r = session_replay(s, &s->get, 0, seq);
	if (r < 0)
		sse_abort(&s->get);
}

/* The stream ended while the client was away: sends what the client missed, and the end. */
static void replay_ended(struct session *s, struct http_request *req, unsigned stream, uint64_t seq)
{
	struct sse sse;

	cors_add(req);
	if (!sse_open(&sse, s->t, req, NULL, NULL))
		return;
	if (session_replay(s, &sse, stream, seq) < 0)
		sse_abort(&sse);
	else
		sse_end(&sse);
}

static void resume_stream(struct session *s, struct http_request *req, const char *last_id)
{
	unsigned stream;
	uint64_t seq;

	if (event_id_parse(s, last_id, &stream, &seq) < 0 || stream > s->last_stream ||
	    seq > s->last_seq) {
		refuse(req, 404, MCP_ERR_BAD_HTTP, "Last-Event-ID is none of ours");
		return;
	}
	if (stream == 0) {
		sse_abort(&s->get); /* the client came back because this stream broke */
		begin_get_stream(s, req, true, seq);
		return;
	}
	list_for_each(node, &s->exchanges) {
		struct exchange *ex = list_entry(node, struct exchange, session_node);

		if (ex->stream == stream && exchange_resume(ex, req, seq))
			return;
	}
	replay_ended(s, req, stream, seq);
}

/* Finds the session of REQ, to follow or to end it. What the session is sent belongs to all keys that it
 * was used with, so a narrower key may do neither. Returns NULL after it has answered. */
static struct session *session_of(struct transport_http *t, struct http_request *req)
{
	const char *version = http_request_header(req, "mcp-protocol-version");
	const char *id = http_request_header(req, "mcp-session-id");
	struct session *s;
	bool limited;
	unsigned rights;

	if (!id || (version && mcp_version_is_modern(version))) {
		(void)http_add_header(req, "Allow", MCP_ALLOW);
		refuse(req, 405, MCP_ERR_BAD_HTTP, "Method not allowed without a session");
		return NULL;
	}
	s = session_find(t, req, id);
	if (!s) {
		refuse(req, 404, MCP_ERR_SESSION, "Session not found");
		return NULL;
	}
	rights_of(t, req, &limited, &rights);
	if (limited && (!s->limited || s->rights != rights)) {
		refuse(
		    req, 403, MCP_ERR_BAD_HTTP,
		    "The session belongs to a key with other rights: this key may neither follow "
		    "nor end it");
		return NULL;
	}
	session_touch(s);
	return s;
}

void on_get(struct http_request *req, void *userdata)
{
	struct session *s = session_of(userdata, req);
	const char *last_id;

	if (!s)
		return;
	if (!http_request_accepts(req, "text/event-stream")) {
		refuse(req, 406, MCP_ERR_BAD_HTTP, "Accept must include text/event-stream");
		return;
	}
	last_id = http_request_header(req, "last-event-id");
	if (last_id && *last_id)
		resume_stream(s, req, last_id);
	else if (sse_is_open(&s->get))
		refuse(req, 409, MCP_ERR_BAD_HTTP, "The session has a stream already");
	else
		begin_get_stream(s, req, false, 0);
}

void on_delete(struct http_request *req, void *userdata)
{
	struct session *s = session_of(userdata, req);

	if (!s)
		return;
	session_end(s);
	cors_add(req);
	http_respond(req, 200, NULL, NULL, 0);
}
