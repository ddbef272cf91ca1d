/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/transport: what the HTTP transports share.
 *
 * Ownership
 *   transport_http ── session (legacy, or nascent: the one peer of a POST that has no session)
 *                  │    ├── exchange: one POST until its answer is complete; is the mcp_sink
 *                  │    ├── sse: the GET stream
 *                  │    └── events kept for resumption
 *                  └── sse_conn (legacy HTTP+SSE) ── sse_post
 *   A peer must not be closed from within one of its sinks: the handler that is just finishing would
 * be told that it was cancelled. An object that dies there goes on the list `graves`, and a defer
 * source frees it. */
#pragma once

#include "base/list.h"
#include "transport/cors.h"
#include "transport/transport.h"

#define ID_HEX            32u /* 128 random bits */
#define SESSION_IDLE_NS   (30 * 60 * NS_PER_S)
#define KEEPALIVE_NS      (15 * NS_PER_S)
#define TICK_NS           NS_PER_S
#define BUCKETS           4096u        /* of the hash table of ids; a power of two */
#define CONGESTED_BYTES   (256u << 10) /* if more waits on a stream, progress is dropped */
#define STORE_SESSION_MAX (8u << 20)   /* bytes of events kept for resumption, of one session */
#define STORE_EVENTS_MAX  4096u /* the same, their number: a replay is one turn of the loop */
#define STORE_TTL_NS      (5 * 60 * NS_PER_S)
#define SWEEP_TICKS       16u   /* between two searches for old events */
#define SWEEP_EVENTS      4096u /* dropped by a search in one tick */
#define RETRY_MS          1000u /* after which a client should come back */

/* ---- event streams (sse.c) ---- */

struct sse {
	struct transport_http *t;
	struct http_stream *http;  /* NULL: closed */
	struct budget_share place; /* of streams that wait for news */
	struct list node;          /* by time of the next keep-alive */
	uint64_t due_ns;
};

/* Begins the stream on REQ, which must not be used after that. OPS and USERDATA are those of the
 * http_stream; on_close must call sse_forget(). Returns false if the client is gone. */
bool sse_open(struct sse *s, struct transport_http *t, struct http_request *req,
	      const struct http_stream_ops *ops, void *userdata);
static inline bool sse_is_open(const struct sse *s)
{
	return s->http != NULL;
}
/* Sends "id: …\nevent: message\ndata: …\n\n"; ID may be NULL. Negative: the client reads too slowly
 * or memory is short, and the caller aborts the stream. */
int sse_message(struct sse *s, const char *id, struct shared_bytes *json) MUST_CHECK;
/* Sends any other text, unchanged. */
int sse_raw(struct sse *s, const char *text, size_t len) MUST_CHECK;
void sse_end(struct sse *s); /* with the proper end of the answer */
void sse_abort(struct sse *s);
void sse_forget(struct sse *s); /* for on_close: the http_stream is freed already */
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
	void (*bury)(struct grave *g); /* frees the object */
};

/* ---- the transport (http_transport.c) ---- */

struct transport_http {
	struct transport_http_config cfg;
	struct http_route rows[12];
	sd_event_source *tick;
	sd_event_source *defer;
	unsigned ticks;
	bool sweeping;
	struct mcp_reader *spare; /* one reader is kept for the next message */
	struct list streams;      /* struct sse */
	struct list exchanges;    /* whose message the peer has */
	struct list waiting;      /* those without a byte of answer, oldest first */
	struct list lru;          /* struct session */
	struct list conns;        /* struct sse_conn */
	struct list graves;
	struct list buckets[BUCKETS];
	struct transport_http_counts counts;
	bool finishing;
};

void transport_bury_later(struct transport_http *t, struct grave *g, void (*bury)(struct grave *g));
void keyed_add(struct transport_http *t, struct keyed *k, enum keyed_kind kind); /* makes the id */
struct keyed *keyed_find(struct transport_http *t, const char *id, enum keyed_kind kind);
/* Judged by the length that the head of the request announces. */
bool message_is_too_large(struct http_request *req, const struct transport_http *t);
/* PRINCIPAL pays for the message. */
struct mcp_reader *reader_get(struct transport_http *t, const char *principal);
void reader_put(struct transport_http *t, struct mcp_reader *reader);
struct mcp_peer *peer_make(struct transport_http *t, struct http_request *req,
			   const struct mcp_peer_ops *ops, enum mcp_transport kind, void *user);
/* Gives the next message of PEER the rights of the credential of REQ. Called for each POST. Returns
 * false if memory is short. */
bool peer_take_credential(struct transport_http *t, struct http_request *req,
			  struct mcp_peer *peer) MUST_CHECK;
/* What the credential of REQ may do. */
void rights_of(struct transport_http *t, struct http_request *req, bool *ret_limited,
	       unsigned *ret_rights);
/* Refuses for a budget: 429. */
void refuse_budget(struct http_request *req, enum budget_kind kind, const struct err *e);
/* Answers with a JSON-RPC error. */
void refuse(struct http_request *req, int status, int code, const char *message);

/* ---- legacy sessions (session.c) ---- */

struct event {
	struct list node;
	unsigned stream;
	uint64_t seq;
	uint64_t born_ns;
	struct budget_share share;
	struct shared_bytes *json;
};

struct session {
	struct keyed key; /* first; in the table of ids only if registered */
	struct transport_http *t;
	struct mcp_peer *peer;
	bool registered;
	bool limited; /* all who used it so far were limited, and had these rights */
	unsigned rights;
	struct budget_share place;
	struct list lru;
	uint64_t used_ns;
	struct list exchanges;
	struct sse get;
	bool had_get;
	unsigned last_stream; /* 0 is the GET stream */
	uint64_t last_seq;
	struct list events;
	unsigned n_events;
	size_t event_bytes;
};

/* A session with its peer, not registered. Returns NULL if memory is short. */
struct session *session_new(struct transport_http *t, struct http_request *req);
/* Gives it an id. At the bound of the principal its session that has been idle longest makes room.
 * BUDGET_EXCEEDED: all of them are busy. CANCELLED: the server ends. */
int session_register(struct session *s, struct err *e) MUST_CHECK;
struct session *session_find(struct transport_http *t, struct http_request *req, const char *id);
void session_touch(struct session *s);
/* Ends it: streams get their proper end, open requests an error, and calls are cancelled. */
void session_end(struct session *s);
void session_tick(struct transport_http *t, uint64_t now);
void on_get(struct http_request *req, void *userdata);
void on_delete(struct http_request *req, void *userdata);
/* Keeps the event for resumption; returns its number. */
uint64_t session_store(struct session *s, unsigned stream, struct shared_bytes *json);
#define EVENT_ID_SIZE 48
#define EVENT_TAG                                                                                  \
	8 /* characters of the session's id, so that an event of another session is not taken for ours */
void event_id(char ret[EVENT_ID_SIZE], const struct session *s, unsigned stream, uint64_t seq);

/* ---- POST (exchange.c) ---- */

struct exchange {
	struct mcp_sink sink; /* first */
	struct transport_http *t;
	struct session *session; /* registered, or for this exchange alone */
	struct list node;        /* in t->exchanges */
	struct list session_node;
	struct list waiting_node;
	struct grave grave;
	struct http_request *req;  /* until the answer begins */
	struct mcp_reader *reader; /* while the body arrives */
	struct sse sse;
	unsigned stream; /* its number in the session; 0: it cannot be resumed */
	uint64_t start_ns;
	bool received;   /* the peer has the message */
	bool may_stream; /* the client accepts an event stream as the answer */
	bool may_json;   /* the same of JSON */
	bool in_receive;
	bool finished;
};

void on_post(struct http_request *req, void *userdata);
void exchange_tick(struct transport_http *t, uint64_t now);
/* The session of EX ends. */
void exchange_end(struct exchange *ex);
/* The client came back on REQ: sends the events after SEQ, then whatever follows. */
bool exchange_resume(struct exchange *ex, struct http_request *req, uint64_t seq);
/* Sends the kept events of STREAM after SEQ. Negative: the caller aborts the stream. */
int session_replay(struct session *s, struct sse *sse, unsigned stream, uint64_t seq);

/* ---- legacy HTTP+SSE (sse_legacy.c) ---- */

void on_sse(struct http_request *req, void *userdata);
void on_messages(struct http_request *req, void *userdata);
void sse_conns_finish(struct transport_http *t);
