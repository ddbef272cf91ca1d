/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP+SSE of revision 2024-11-05: the client sends messages by POST /messages/?session_id=… and gets
 * all answers on the stream of GET /sse. Line ends, answers and their texts are those of the server
 * that the second tool family comes from. */
#include "transport/http_session.h"

#include "base/buf.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define ENDPOINT_MAX 4096u /* bytes of the event that names the way in */

struct sse_conn {
	struct keyed key; /* first */
	struct transport_http *t;
	struct mcp_peer *peer;
	struct sse sse;
	struct budget_share session, stream;
	struct list node; /* t->conns */
	struct list posts;
	struct grave grave;
	bool dying;
};

/* One POST, and the sink for the answers to its message. */
struct sse_post {
	struct mcp_sink sink;  /* first */
	struct sse_conn *conn; /* NULL: the stream ended while the body arrived */
	struct list node;
	struct transport_http *t;
	struct http_request *req; /* until answered */
	struct mcp_reader *reader;
	bool in_receive;
	int status; /* of the POST, when the message could not be read */
	bool finished;
};

/* ---- the way out ---- */

static void conn_free(struct sse_conn *c)
{
	list_remove(&c->key.node);
	list_remove(&c->node);
	list_remove(&c->grave.node);
	mcp_peer_close(TAKE_PTR(c->peer));
	while (!list_is_empty(&c->posts)) {
		struct sse_post *p = list_entry(c->posts.next, struct sse_post, node);

		list_remove(&p->node);
		p->conn = NULL;
		if (!p->req && !p->in_receive) /* the POST is answered, nothing else holds it */
			free(p);
	}
	c->t->counts.sse--;
	budget_give(&c->session);
	budget_give(&c->stream);
	free(c);
}

static void bury(struct grave *g)
{
	conn_free(list_entry(g, struct sse_conn, grave));
}

static void on_close(void *userdata)
{
	struct sse_conn *c = userdata;

	sse_forget(&c->sse);
	if (!c->dying)
		conn_free(c);
}

static const struct http_stream_ops stream_ops = {.on_close = on_close};

static void send_event(struct sse_conn *c, char *json, size_t len)
{
	static const char head[] = "event: message\r\ndata: ";
	struct shared_bytes *text = shared_bytes_new(json, len);

	if (!c->dying && (!text || http_stream_write_shared(c->sse.http, head, sizeof(head) - 1,
							    text, "\r\n\r\n", 4) < 0)) {
		/* The client reads too slowly, so its session ends, but not within this call. */
		c->dying = true;
		sse_abort(&c->sse);
		transport_bury_later(c->t, &c->grave, bury);
	}
	(void)shared_bytes_unref(text);
}

static void on_peer_send(struct mcp_peer *peer, enum mcp_out kind, char *json, size_t len)
{
	(void)kind;
	send_event(mcp_peer_user(peer), json, len);
}

static const struct mcp_peer_ops peer_ops = {.send = on_peer_send};

static struct sse_conn *conn_new(struct transport_http *t, struct http_request *req)
{
	struct sse_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->t = t;
	list_init(&c->posts);
	list_init(&c->grave.node);
	c->peer = peer_make(t, req, &peer_ops, MCP_TRANSPORT_SSE, c);
	if (!c->peer) {
		free(c);
		return NULL;
	}
	keyed_add(t, &c->key, KEYED_SSE);
	list_append(&t->conns, &c->node);
	t->counts.sse++;
	return c;
}

/* The event that tells the client where to post messages. A client that can only put its key into a
 * URL posts to exactly this URL, so the key is repeated in it. */
static int make_endpoint(const struct http_request *req, const char *id, struct buf *ret)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
	const char *key = http_request_query(req, "api_key");
	char prefix[HTTP_PREFIX_MAX + 1];
	http_request_prefix(req, prefix);
	int r = buf_printf(ret, "event: endpoint\r\ndata: %s/messages/?session_id=%s", prefix, id);

	if (http_request_header(req, "authorization") || http_request_header(req, "x-api-key"))
		key = NULL;
	if (key && r == 0)
		r = buf_add_str(ret, "&api_key=");
	for (; key && *key && r == 0; key++)
		r = strchr(plain, *key) ? buf_add_char(ret, *key)
					: buf_printf(ret, "%%%02X", (unsigned)(uint8_t)*key);
	return r < 0 ? r : buf_add_str(ret, "\r\n\r\n");
}

void on_sse(struct http_request *req, void *userdata)
{
	struct transport_http *t = userdata;
	enum budget_kind kind = BUDGET_MCP_SESSIONS;
	struct budget_share session = {0}, stream = {0};
	struct err e = ERR_INIT;
	int r = budget_take(t->cfg.budgets, http_request_principal(req), kind, 1, &session, &e);

	if (r == 0) {
		kind = BUDGET_STREAMS;
		r = budget_take(t->cfg.budgets, http_request_principal(req), kind, 1, &stream, &e);
	}
	if (r < 0) {
		budget_give(&session);
		refuse_budget(req, kind, &e);
		return;
	}
	struct sse_conn *c = t->finishing ? NULL : conn_new(t, req);
	_cleanup_(buf_done) struct buf endpoint = BUF_INIT(ENDPOINT_MAX);

	if (c) {
		c->session = session;
		c->stream = stream;
	} else {
		budget_give(&session);
		budget_give(&stream);
	}
	if (!c) {
		http_respond_text(req, 503, "text/plain; charset=utf-8", "Too many connections");
		return;
	}
	if (make_endpoint(req, c->key.id, &endpoint) < 0) {
		conn_free(c);
		http_respond_text(req, 503, "text/plain; charset=utf-8", "Out of memory");
		return;
	}
	cors_add(req);
	if (!sse_open(&c->sse, t, req, &stream_ops, c)) {
		conn_free(c);
		return;
	}
	if (sse_raw(&c->sse, buf_str(&endpoint), endpoint.len) < 0) {
		sse_abort(&c->sse);
		conn_free(c);
	}
}

void sse_conns_finish(struct transport_http *t)
{
	while (!list_is_empty(&t->conns)) {
		struct sse_conn *c = list_entry(t->conns.next, struct sse_conn, node);

		sse_end(&c->sse);
		conn_free(c);
	}
}

/* ---- the way in ---- */

static void sink_send(struct mcp_sink *sink, enum mcp_out kind, char *json, size_t len)
{
	struct sse_post *p = (struct sse_post *)(void *)sink;

	(void)kind;
	send_event(p->conn, json, len);
}

static void post_free(struct sse_post *p)
{
	list_remove(&p->node);
	reader_put(p->t, p->reader);
	free(p);
}

static void sink_finish(struct mcp_sink *sink, unsigned http_status, char *json, size_t len)
{
	struct sse_post *p = (struct sse_post *)(void *)sink;

	/* A message without an id that can be answered fails its POST; nothing goes out on the
	 * stream. The library gives every other refusal the status 200. */
	if (p->in_receive && (http_status == 400 || http_status == 413 || http_status == 429))
		p->status = (int)http_status;
	if (json && !p->status)
		send_event(p->conn, json, len);
	else
		free(json);
	p->finished = true;
	if (!p->in_receive)
		post_free(p);
}

static bool sink_congested(struct mcp_sink *sink)
{
	const struct sse_conn *c = ((struct sse_post *)(void *)sink)->conn;

	return c->dying || http_stream_queued(c->sse.http) > CONGESTED_BYTES;
}

static const struct mcp_sink_ops sink_ops = {
    .send = sink_send,
    .finish = sink_finish,
    .congested = sink_congested,
};

static void answer(struct http_request *req, int status, const char *text)
{
	cors_add(req);
	http_respond_text(req, status, "text/plain; charset=utf-8", text);
}

static void receive(struct sse_post *p)
{
	struct http_request *req = TAKE_PTR(p->req);

	if (!p->conn || p->conn->dying) {
		answer(req, 404, "Could not find session");
		post_free(p);
		return;
	}
	if (!peer_take_credential(p->t, req, p->conn->peer)) {
		answer(req, 503, "Out of memory");
		post_free(p);
		return;
	}
	p->in_receive = true;
	mcp_peer_receive(p->conn->peer, p->reader, NULL, &p->sink);
	p->in_receive = false;
	reader_put(p->t, TAKE_PTR(p->reader));
	switch (p->status) {
	case 0:
		answer(req, 202, "Accepted");
		break;
	case 413:
		answer(req, 413, "Message too large");
		break;
	case 429:
		(void)http_add_header(req, "Retry-After", "10");
		answer(req, 429, "Your unfinished messages hold as much memory as they may have");
		break;
	default:
		answer(req, 400, "Could not parse message");
	}
	if (p->finished)
		post_free(p);
}

static int on_body(struct http_request *req, const void *data, size_t len, void *userdata)
{
	struct sse_post *p = userdata;
	int r = 0;

	(void)req;
	if (data)
		r = mcp_reader_feed(p->reader, data, len);
	if (!data || r < 0)
		receive(p);
	return r;
}

static void on_gone(void *userdata)
{
	post_free(userdata);
}

static bool is_id(const char *id)
{
	return strlen(id) == ID_HEX && strspn(id, "0123456789abcdef") == ID_HEX;
}

static struct sse_conn *find_conn(struct transport_http *t, const char *id)
{
	struct keyed *k = keyed_find(t, id, KEYED_SSE);

	return k ? list_entry(k, struct sse_conn, key) : NULL;
}

void on_messages(struct http_request *req, void *userdata)
{
	struct transport_http *t = userdata;
	const char *id = http_request_query(req, "session_id");
	struct sse_conn *c;
	struct sse_post *p;

	if (!id || !is_id(id)) {
		answer(req, 400, id ? "Invalid session ID" : "session_id is required");
		return;
	}
	c = find_conn(t, id);
	/* A stream belongs to the principal that opened it. */
	if (!c || !streq(mcp_peer_principal(c->peer), http_request_principal(req))) {
		answer(req, 404, "Could not find session");
		return;
	}
	if (!http_request_content_type_is(req, "application/json")) {
		answer(req, 400, "Could not parse message");
		return;
	}
	if (message_is_too_large(req, t)) {
		answer(req, 413, "Message too large");
		return;
	}
	p = calloc(1, sizeof(*p));
	if (p)
		p->reader = reader_get(t, http_request_principal(req));
	if (!p || !p->reader) {
		free(p);
		answer(req, 503, "Out of memory");
		return;
	}
	p->sink.ops = &sink_ops;
	p->conn = c;
	p->t = t;
	p->req = req;
	list_append(&c->posts, &p->node);
	http_request_on_gone(req, on_gone, p);
	http_request_read_body(req, on_body, p);
}
