/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/transport: what the HTTP transports share.
 *
 * Ownership
 *   transport_http ── session (legacy, or nascent: the one peer of a POST that has no session)
 *                  │    ├── exchange: one POST until its answer is complete; is the mcp_sink
 *                  │    ├── sse: the GET stream
 *                  │    └── events kept for resumption
 *                  └── sse_conn (legacy HTTP+SSE) ── sse_post
 *   A peer must not be closed from within one of its sinks (the handler that is just finishing
 * would be told of a cancel): what dies there is put on a list and buried from a defer source. */
#pragma once

#include "base/list.h"
#include "transport/transport.h"

#define ID_HEX            32u /* 128 random bits */
#define SESSIONS_MAX      16384u
#define SESSION_IDLE_NS   (30 * 60 * NS_PER_S)
#define KEEPALIVE_NS      (15 * NS_PER_S)
#define TICK_NS           NS_PER_S
#define BUCKETS           4096u        /* of the id table; a power of two */
#define CONGESTED_BYTES   (256u << 10) /* waiting on a stream: progress is dropped beyond */
#define STORE_SESSION_MAX (8u << 20)   /* bytes kept for resumption, one session */
#define STORE_ALL_MAX     (64u << 20)  /* all of them */
#define STORE_TTL_NS      (5 * 60 * NS_PER_S)
#define SWEEP_TICKS       16u   /* between two looks for old events */
#define RETRY_MS          1000u /* when a client should come back */

/* ---- event streams (sse.c) ---- */

struct sse {
	struct transport_http *t;
	struct http_stream *http; /* NULL: closed */
	struct list node;         /* by time of the next keep-alive */
	uint64_t due_ns;
};

/* Begins the stream on REQ (which is over then). OPS and USERDATA are of the http_stream; the
 * owner's on_close must call sse_forget(). False: the client is gone. */
bool sse_open(struct sse *s, struct transport_http *t, struct http_request *req,
	      const struct http_stream_ops *ops, void *userdata);
static inline bool sse_is_open(const struct sse *s)
{
	return s->http != NULL;
}
/* "id: …\nevent: message\ndata: …\n\n"; ID may be NULL. Negative: the reader is too slow or memory
 * is short; the caller aborts. */
int sse_message(struct sse *s, const char *id, const char *json, size_t len) MUST_CHECK;
/* Any other text, as it is. */
int sse_raw(struct sse *s, const char *text, size_t len) MUST_CHECK;
void sse_end(struct sse *s); /* properly */
void sse_abort(struct sse *s);
void sse_forget(struct sse *s); /* from on_close: the http_stream is gone already */
void sse_tick(struct transport_http *t, uint64_t now);

/* ---- ids ---- */

enum keyed_kind {
	KEYED_SESSION,
	KEYED_SSE,
};

struct keyed {
	struct list node;
	enum keyed_kind kind;
	char id[ID_HEX + 1];
};

/* ---- what dies later ---- */

struct grave {
	struct list node;
	void (*bury)(struct grave *g); /* frees */
};

/* ---- the transport (http_transport.c) ---- */

struct transport_http {
	struct transport_http_config cfg;
	struct http_route rows[8];
	sd_event_source *tick;
	sd_event_source *defer;
	unsigned ticks;
	struct mcp_reader *spare; /* readers are used again */
	struct list streams;      /* struct sse */
	struct list exchanges;    /* all that are with their peer */
	struct list waiting;      /* those of them without a byte of answer, by start */
	struct list lru;          /* struct session */
	struct list conns;        /* struct sse_conn */
	struct list graves;
	struct list buckets[BUCKETS];
	struct transport_http_counts counts;
	bool finishing;
};

void transport_bury_later(struct transport_http *t, struct grave *g, void (*bury)(struct grave *g));
void keyed_add(struct transport_http *t, struct keyed *k, enum keyed_kind kind); /* mints the id */
struct keyed *keyed_find(struct transport_http *t, const char *id, enum keyed_kind kind);
/* By what the head announces. */
bool message_is_too_large(struct http_request *req, const struct transport_http *t);
struct mcp_reader *reader_get(struct transport_http *t);
void reader_put(struct transport_http *t, struct mcp_reader *reader);
struct mcp_peer *peer_make(struct transport_http *t, struct http_request *req,
			   const struct mcp_peer_ops *ops, enum mcp_transport kind, void *user);
/* From now on the peer's messages have the rights of the credential of REQ: each POST is judged by
 * its own. False: no memory. */
bool peer_take_credential(struct transport_http *t, struct http_request *req,
			  struct mcp_peer *peer) MUST_CHECK;
/* Headers for browsers, where the Origin is allowed. */
void cors_add(struct http_request *req);
/* A refusal with a JSON-RPC error body. */
void refuse(struct http_request *req, int status, int code, const char *message);

/* ---- legacy sessions (session.c) ---- */

struct event {
	struct list node;
	unsigned stream;
	uint64_t seq;
	uint64_t born_ns;
	size_t len;
	char json[];
};

struct session {
	struct keyed key; /* first; in the table only when registered */
	struct transport_http *t;
	struct mcp_peer *peer;
	bool registered;
	struct list lru;
	uint64_t used_ns;
	struct list exchanges;
	struct sse get;
	bool had_get;
	unsigned last_stream; /* 0 is the GET stream */
	uint64_t last_seq;
	struct list events;
	size_t event_bytes;
};

/* A session with its peer, not registered. NULL: no memory. */
struct session *session_new(struct transport_http *t, struct http_request *req);
/* Gives it an id and a place. False: there is no room, even after the idlest one went. */
bool session_register(struct session *s);
struct session *session_find(struct transport_http *t, struct http_request *req, const char *id);
void session_touch(struct session *s);
/* Ends it: streams properly, requests in flight with an error, work cancelled. */
void session_end(struct session *s);
void session_tick(struct transport_http *t, uint64_t now);
void on_get(struct http_request *req, void *userdata);
void on_delete(struct http_request *req, void *userdata);
/* Keeps the event for resumption; returns its number. */
uint64_t session_store(struct session *s, unsigned stream, const char *json, size_t len);
#define EVENT_ID_SIZE 40
void event_id(char ret[EVENT_ID_SIZE], unsigned stream, uint64_t seq);

/* ---- POST (exchange.c) ---- */

struct exchange {
	struct mcp_sink sink; /* first */
	struct transport_http *t;
	struct session *session; /* registered, or our own */
	struct list node;        /* of all */
	struct list session_node;
	struct list waiting_node;
	struct grave grave;
	struct http_request *req;  /* until the answer begins */
	struct mcp_reader *reader; /* while the body comes */
	struct sse sse;
	unsigned stream; /* number in the session; 0: cannot be resumed */
	uint64_t start_ns;
	bool received;   /* the message is with the peer */
	bool may_stream; /* the client takes an event stream as answer */
	bool in_receive;
	bool finished;
};

void on_post(struct http_request *req, void *userdata);
void exchange_tick(struct transport_http *t, uint64_t now);
/* The session ends under it. */
void exchange_end(struct exchange *ex);
/* A client came back for the rest: events after SEQ, then what follows. */
bool exchange_resume(struct exchange *ex, struct http_request *req, uint64_t seq);
/* Events of STREAM after SEQ; negative: abort. */
int session_replay(struct session *s, struct sse *sse, unsigned stream, uint64_t seq);

/* ---- legacy HTTP+SSE (sse_legacy.c) ---- */

void on_sse(struct http_request *req, void *userdata);
void on_messages(struct http_request *req, void *userdata);
void sse_conns_finish(struct transport_http *t);
