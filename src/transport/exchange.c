/* SPDX-License-Identifier: Apache-2.0 */
/* POST /mcp: the client sends one message. The answer is JSON. It becomes an event stream as soon as
 * a notification has to go out before the answer.
 *
 * An exchange is in one of four states: unanswered (req is set), streaming (sse is open), detached
 * (neither, but it has a stream number: its events are kept until the client resumes), or over. */
#include "transport/http_session.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static struct exchange *of_sink(struct mcp_sink *sink)
{
	return (struct exchange *)(void *)sink;
}

/* ---- life ---- */

static void exchange_free(struct exchange *ex)
{
	struct session *s = ex->session;

	list_remove(&ex->node);
	list_remove(&ex->session_node);
	list_remove(&ex->waiting_node);
	list_remove(&ex->grave.node);
	if (ex->received)
		ex->t->counts.exchanges--;
	reader_put(ex->t, ex->reader);
	free(ex);
	if (!s)
		return;
	if (s->registered)
		session_touch(s);
	else
		session_end(s); /* this exchange was the only user of the peer */
}

static void bury(struct grave *g)
{
	exchange_free(list_entry(g, struct exchange, grave));
}

/* The message is answered or nobody wants the answer any more. */
static void over(struct exchange *ex)
{
	ex->finished = true;
	list_remove(&ex->waiting_node);
	if (!ex->in_receive && list_is_empty(&ex->grave.node))
		transport_bury_later(ex->t, &ex->grave, bury);
}

/* The client is gone for good. */
static void abandon(struct exchange *ex)
{
	ex->req = NULL;
	if (ex->received && ex->session && !ex->finished)
		mcp_sink_gone(ex->session->peer, &ex->sink);
	exchange_free(ex);
}

static void bury_lost(struct grave *g)
{
	abandon(list_entry(g, struct exchange, grave));
}

/* abandon() for callers inside the peer, which must not be closed there: it happens later. */
static void lose(struct exchange *ex)
{
	if (list_is_empty(&ex->grave.node))
		transport_bury_later(ex->t, &ex->grave, bury_lost);
}

static void on_req_gone(void *userdata)
{
	abandon(userdata);
}

static void on_sse_close(void *userdata)
{
	struct exchange *ex = userdata;

	sse_forget(&ex->sse);
	if (ex->stream == 0)
		abandon(ex);
}

static const struct http_stream_ops sse_ops = {.on_close = on_sse_close};

void exchange_end(struct exchange *ex)
{
	list_remove(&ex->session_node);
	ex->session = NULL;
	if (ex->req)
		refuse(TAKE_PTR(ex->req), 404, MCP_ERR_SESSION, "The session has ended");
	sse_end(&ex->sse);
	if (ex->in_receive)
		ex->finished = true;
	else
		exchange_free(ex);
}

/* ---- the answer as a stream ---- */

/* A priming event has an id and no data. With it the client can resume before the first message. Clients of revisions
 * before 2025-11-25 read the data of each event of the type message as JSON, so they get another type. */
static int prime(struct exchange *ex, unsigned retry_ms)
{
	const bool known = mcp_peer_revision(ex->session->peer) >= MCP_REV_2025_11_25;
	char id[EVENT_ID_SIZE], text[EVENT_ID_SIZE + 64];
	int n;

	event_id(id, ex->session, ex->stream, 0);
	n = snprintf(text, sizeof(text), "%sid: %s\nretry: %u\ndata: \n\n",
		     known ? "" : "event: ready\n", id, retry_ms);
	return sse_raw(&ex->sse, text, (size_t)n);
}

/* Returns true if the stream is open afterwards. */
static bool open_stream(struct exchange *ex, unsigned retry_ms)
{
	struct session *s = ex->session;

	if (!ex->req || !ex->may_stream)
		return sse_is_open(&ex->sse);
	list_remove(&ex->waiting_node);
	cors_add(ex->req);
	if (!sse_open(&ex->sse, ex->t, TAKE_PTR(ex->req), &sse_ops, ex)) {
		lose(ex);
		return false;
	}
	if (!s->registered)
		return true;
	ex->stream = ++s->last_stream;
	if (prime(ex, retry_ms) < 0)
		sse_abort(&ex->sse);
	return sse_is_open(&ex->sse);
}

/* JSON is taken. */
static void stream_event(struct exchange *ex, char *json, size_t len)
{
	struct shared_bytes *text = shared_bytes_new(json, len);
	char id[EVENT_ID_SIZE] = "";
	bool cut = !text;

	if (text && ex->stream > 0)
		event_id(id, ex->session, ex->stream, session_store(ex->session, ex->stream, text));
	if (text && sse_is_open(&ex->sse))
		cut = sse_message(&ex->sse, ex->stream > 0 ? id : NULL, text) < 0;
	(void)shared_bytes_unref(text);
	if (!cut)
		return;
	/* The client reads too slowly: a resumable stream is cut and the client can come back to
	 * it; without that the client counts as gone. */
	sse_abort(&ex->sse);
	if (ex->stream == 0)
		lose(ex);
}

static void sink_send(struct mcp_sink *sink, enum mcp_out kind, char *json, size_t len)
{
	struct exchange *ex = of_sink(sink);

	(void)kind;
	if (open_stream(ex, RETRY_MS) || ex->stream > 0)
		stream_event(ex, json, len);
	else
		free(json);
}

static bool sink_congested(struct mcp_sink *sink)
{
	const struct exchange *ex = of_sink(sink);

	return sse_is_open(&ex->sse) && http_stream_queued(ex->sse.http) > CONGESTED_BYTES;
}

static void sink_detach(struct mcp_sink *sink, unsigned retry_ms)
{
	struct exchange *ex = of_sink(sink);
	char text[32];
	int n;

	if (sse_is_open(&ex->sse) && ex->stream > 0) {
		n = snprintf(text, sizeof(text), "retry: %u\n\n", retry_ms);
		(void)!sse_raw(&ex->sse, text, (size_t)n);
		sse_end(&ex->sse);
	} else if (open_stream(ex, retry_ms) && ex->stream > 0) {
		sse_end(&ex->sse);
	}
}

/* ---- the answer in one piece ---- */

/* A successful initialize makes the peer a session, if there is room for one. */
static int settle_session(struct exchange *ex, struct err *e)
{
	struct session *s = ex->session;
	int r;

	if (s->registered || !mcp_peer_is_session(s->peer))
		return 0;
	r = session_register(s, e);
	if (r < 0)
		return r;
	list_append(&s->exchanges, &ex->session_node);
	r = http_add_header(ex->req, "Mcp-Session-Id", s->key.id);
	return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "The id of the session") : 0;
}

static void respond(struct exchange *ex, unsigned status, char *json, size_t len)
{
	struct err e = ERR_INIT;

	if (settle_session(ex, &e) < 0) {
		free(json);
		if (e.code == ERR_BUDGET_EXCEEDED)
			refuse_budget(TAKE_PTR(ex->req), BUDGET_MCP_SESSIONS, &e);
		else
			refuse(TAKE_PTR(ex->req), 503, MCP_ERR_BAD_HTTP, e.text);
		return;
	}
	cors_add(ex->req);
	if (status == 429)
		(void)http_add_header(ex->req, "Retry-After", "10");
	if (status == 405)
		(void)http_add_header(ex->req, "Allow", MCP_ALLOW);
	if (json)
		http_respond_take(TAKE_PTR(ex->req), (int)status, "application/json", json, len);
	else
		http_respond(TAKE_PTR(ex->req), 202, NULL, NULL, 0);
}

/* A client that takes nothing but a stream gets one, unless the answer is an error of HTTP, or there is no room for its
 * session. */
static bool only_stream(struct exchange *ex, unsigned http_status, const char *json)
{
	struct err e = ERR_INIT;

	return json && http_status == 200 && ex->may_stream && !ex->may_json &&
	       settle_session(ex, &e) == 0 && open_stream(ex, RETRY_MS);
}

static void sink_finish(struct mcp_sink *sink, unsigned http_status, char *json, size_t len)
{
	struct exchange *ex = of_sink(sink);

	if (ex->req && !only_stream(ex, http_status, json)) {
		if (!ex->req) { /* the client was lost while its stream was opened */
			free(json);
			over(ex);
			return;
		}
		respond(ex, http_status, json, len);
	} else {
		if (json)
			stream_event(ex, json, len);
		sse_end(&ex->sse);
	}
	over(ex);
}

static const struct mcp_sink_ops sink_ops = {
    .send = sink_send,
    .finish = sink_finish,
    .congested = sink_congested,
    .detach = sink_detach,
};

/* ---- the message ---- */

static const char *param_header(void *user, const char *name)
{
	char header[256];
	const int n = snprintf(header, sizeof(header), "mcp-param-%s", name);

	return n > 0 && (size_t)n < sizeof(header) ? http_request_header(user, header) : NULL;
}

/* A session that was used with two sets of rights is for keys without limits. */
static void note_rights(struct exchange *ex)
{
	struct session *s = ex->session;
	unsigned rights;
	bool limited;

	if (!s->limited)
		return;
	rights_of(ex->t, ex->req, &limited, &rights);
	s->limited = limited && rights == s->rights;
}

/* Finds the session that the message names, or makes one for this message alone. */
static enum mcp_session_fact find_session(struct exchange *ex)
{
	const char *version = http_request_header(ex->req, "mcp-protocol-version");
	const char *id = http_request_header(ex->req, "mcp-session-id");

	/* The modern era has no sessions: the header is ignored. */
	if (version && mcp_version_is_modern(version))
		id = NULL;
	if (id)
		ex->session = session_find(ex->t, ex->req, id);
	if (ex->session && !peer_take_credential(ex->t, ex->req, ex->session->peer)) {
		ex->session = NULL;
		return MCP_SESSION_KNOWN; /* receive() answers that memory is short */
	}
	if (ex->session) {
		note_rights(ex);
		session_touch(ex->session);
		list_append(&ex->session->exchanges, &ex->session_node);
		return MCP_SESSION_KNOWN;
	}
	ex->session = session_new(ex->t, ex->req);
	return id ? MCP_SESSION_UNKNOWN : MCP_SESSION_ABSENT;
}

/* Called when the reader has the whole message, or knows that the message is bad. */
static void receive(struct exchange *ex)
{
	struct http_request *req = ex->req;
	struct mcp_http_facts facts = {
	    .session = find_session(ex),
	    .protocol_version = http_request_header(req, "mcp-protocol-version"),
	    .method = http_request_header(req, "mcp-method"),
	    .name = http_request_header(req, "mcp-name"),
	    .param = param_header,
	    .user = req,
	};

	if (!ex->session) {
		refuse(TAKE_PTR(ex->req), 503, MCP_ERR_INTERNAL, "Out of memory");
		exchange_free(ex);
		return;
	}
	ex->received = true;
	ex->may_stream = http_request_accepts(req, "text/event-stream");
	ex->may_json = http_request_accepts(req, "application/json");
	ex->start_ns = now_ns();
	list_append(&ex->t->exchanges, &ex->node);
	list_append(&ex->t->waiting, &ex->waiting_node);
	ex->t->counts.exchanges++;
	ex->in_receive = true;
	mcp_peer_receive(ex->session->peer, ex->reader, &facts, &ex->sink);
	ex->in_receive = false;
	reader_put(ex->t, TAKE_PTR(ex->reader));
	if (ex->finished)
		exchange_free(ex);
}

static int on_body(struct http_request *req, const void *data, size_t len, void *userdata)
{
	struct exchange *ex = userdata;
	int r = 0;

	(void)req;
	if (data)
		r = mcp_reader_feed(ex->reader, data, len);
	if (!data || r < 0)
		receive(ex); /* answers a bad message at once */
	return r;
}

void on_post(struct http_request *req, void *userdata)
{
	struct transport_http *t = userdata;
	struct exchange *ex;

	if (!http_request_content_type_is(req, "application/json")) {
		refuse(req, 415, MCP_ERR_BAD_HTTP, "Content-Type must be application/json");
		return;
	}
	if (message_is_too_large(req, t)) {
		refuse(req, 413, MCP_ERR_REQUEST, "The message is too large");
		return;
	}
	ex = calloc(1, sizeof(*ex));
	if (ex)
		ex->reader = reader_get(t, http_request_principal(req));
	if (!ex || !ex->reader) {
		free(ex);
		refuse(req, 503, MCP_ERR_INTERNAL, "Out of memory");
		return;
	}
	ex->sink.ops = &sink_ops;
	ex->t = t;
	ex->req = req;
	list_init(&ex->node);
	list_init(&ex->session_node);
	list_init(&ex->waiting_node);
	list_init(&ex->grave.node);
	http_request_on_gone(req, on_req_gone, ex);
	http_request_read_body(req, on_body, ex);
}

/* ---- later ---- */

/* A request that takes long becomes a stream with comments, before a proxy or the client gives up. */
void exchange_tick(struct transport_http *t, uint64_t now)
{
	list_for_each(node, &t->waiting) {
		struct exchange *ex = list_entry(node, struct exchange, waiting_node);

		if (ex->start_ns + t->cfg.keepalive_ns > now)
			break;
		if (!ex->may_stream) {
			list_remove(&ex->waiting_node);
			continue;
		}
		if (open_stream(ex, RETRY_MS) && sse_raw(&ex->sse, ": keepalive\n\n", 13) < 0)
			sse_abort(&ex->sse);
	}
}

bool exchange_resume(struct exchange *ex, struct http_request *req, uint64_t seq)
{
	if (ex->finished)
		return false;
	sse_abort(&ex->sse); /* the client came back because this stream broke */
	cors_add(req);
	if (!sse_open(&ex->sse, ex->t, req, &sse_ops, ex))
		return true;
	if (session_replay(ex->session, &ex->sse, ex->stream, seq) < 0)
		sse_abort(&ex->sse);
	return true;
}
