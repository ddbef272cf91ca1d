/* SPDX-License-Identifier: Apache-2.0 */
/* MCP server library: the interface for transports.
 *
 * A peer is one client: a stdio pipe, one legacy SSE connection, one legacy HTTP session, or one
 * HTTP POST that belongs to no session. (An HTTP transport makes a new peer for each POST without a
 * known session. If mcp_peer_is_session() is true when the sink is finished, the POST was an
 * initialize: keep the peer and make an Mcp-Session-Id. Otherwise close the peer after the finish.)
 *
 * A message is read through a reader, piece by piece as it arrives. Then it is given to the peer
 * with a *sink*, which gets everything that belongs to this message. For each message the library
 * calls sink->ops->send() any number of times, then sink->ops->finish() exactly once, during
 * mcp_peer_receive() or later, and does not touch the sink afterwards. Exceptions: mcp_sink_gone()
 * and mcp_peer_close() end that without a finish.
 *
 * All texts that the library gives out are one line of valid UTF-8 JSON without a newline. The
 * receiver owns them and frees them with free(3). */
#pragma once

#include "budget/budgets.h"
#include "mcp/mcp.h"

/* ---- outgoing ----
 *
 * Inside these operations a transport may close the peer concerned, but no other one. */

enum mcp_out {
	MCP_OUT_NOTIFICATION,
	MCP_OUT_REQUEST, /* legacy era only: a question to the client */
};

struct mcp_sink;

#define MCP_HOLES_MAX 2U /* places of a large text: in the content, and in the structured content */

/* An answer with one large text in several places. The transport writes it from the one copy. */
struct mcp_filled {
	char *text; /* owned: the answer without the large text */
	size_t text_len;
	char *blob; /* owned: the large text */
	size_t blob_len;
	size_t holes[MCP_HOLES_MAX]; /* where BLOB belongs in TEXT, ascending */
	size_t n_holes;
};

struct mcp_sink_ops {
	/* A notification or request before the answer. HTTP: it makes the answer an SSE stream. */
	void (*send)(struct mcp_sink *sink, enum mcp_out kind, char *json, size_t len);
	/* The end. JSON: the response (or the array of a batch), or NULL if there is none.
	 * HTTP_STATUS is for HTTP. With a response it is the status, if nothing was sent before; on
	 * an open SSE stream the response is an event, and the stream ends. Without a response: 202
	 * for notifications and responses; 200 for a cancelled request, whose stream just ends. */
	void (*finish)(struct mcp_sink *sink, unsigned http_status, char *json, size_t len);
	/* May be NULL: then such an answer comes through finish(), in one piece. The sink takes TEXT and
	 * BLOB. Never for a batch. */
	void (*finish_filled)(struct mcp_sink *sink, const struct mcp_filled *answer);
	/* May be NULL. True while more data waits to be written than the transport wants. Progress
	 * and log messages are then dropped, so that a slow reader costs no memory. */
	bool (*congested)(struct mcp_sink *sink);
	/* May be NULL. For legacy HTTP with an event store: close the connection but go on storing;
	 * the client comes back after RETRY_MS. */
	void (*detach)(struct mcp_sink *sink, unsigned retry_ms);
};

/* Part of the transport's object (container_of). */
struct mcp_sink {
	const struct mcp_sink_ops *ops;
};

/* ---- peers ---- */

enum mcp_transport {
	MCP_TRANSPORT_STDIO,
	MCP_TRANSPORT_HTTP, /* Streamable HTTP: facts are given with each message */
	MCP_TRANSPORT_SSE,  /* legacy HTTP+SSE: like stdio, everything on one stream */
};

struct mcp_peer_ops {
	/* Sends what belongs to no request: change notifications, log messages. (HTTP: on the
	 * session's GET stream; free JSON if there is none.) */
	void (*send)(struct mcp_peer *peer, enum mcp_out kind, char *json, size_t len);
};

struct mcp_peer_config {
	enum mcp_transport transport;
	const struct mcp_peer_ops *ops;
	void *user; /* mcp_peer_user() */
	/* Who the client is, after authentication. Handles (tasks, requestState) work only for the
	 * same principal. "" or NULL: the one local user. Copied. */
	const char *principal;
	void *principal_data; /* for may_call, may_ask and ended */
	/* The principal may not use everything: config.may_call and config.may_ask decide. */
	bool limited;
	unsigned
	    rights; /* if `limited`: callers with equal numbers have equal rights; for transports */
	/* Called once with principal_data, when the peer and the last of its calls are gone (tasks
	 * outlive their peer). May be NULL. */
	void (*principal_unref)(void *data);
	/* Where this client finds the server, for links; copied. NULL: as everybody else. */
	const char *base;
};

/* NULL: out of memory. A peer without calls in flight uses well under 1 KiB. */
struct mcp_peer *mcp_peer_new(struct mcp_server *server, const struct mcp_peer_config *config);
/* The client is gone, or the session is over: cancels its calls, listens and questions. No
 * operation of a sink or peer is called any more, also not from inside. Its tasks go on. PEER may
 * be NULL. */
void mcp_peer_close(struct mcp_peer *peer);

/* The next messages come with another credential of the same principal. What they begin has the
 * rights of the new one; calls in flight keep the rights that they began with. LIMITED and the two
 * others are as in mcp_peer_config; DATA is taken. False: no memory; nothing has changed, and DATA
 * is still the caller's. */
bool mcp_peer_set_credential(struct mcp_peer *peer, void *data, bool limited,
			     void (*unref)(void *data)) MUST_CHECK;

/* The next messages come from where BASE (mcp_peer_config) finds the server. */
void mcp_peer_set_base(struct mcp_peer *peer, const char *base);

/* A credential was revoked: cancels the calls whose principal_data ENDED names, and also their
 * tasks if it returns MCP_ENDED_TASKS. */
enum mcp_ended {
	MCP_ENDED_NOT,
	MCP_ENDED_CALLS, /* it expired: its tasks were begun in time */
	MCP_ENDED_TASKS,
};
void mcp_server_end_credentials(struct mcp_server *server,
				enum mcp_ended (*ended)(const void *principal_data));

void *mcp_peer_user(const struct mcp_peer *peer);
const char *mcp_peer_principal(const struct mcp_peer *peer);
/* True after an initialize was answered with a result. */
bool mcp_peer_is_session(const struct mcp_peer *peer);
/* The revision that initialize agreed on; MCP_REV_NONE before. Priming events exist only from
 * 2025-11-25 on. */
enum mcp_revision mcp_peer_revision(const struct mcp_peer *peer);
/* Requests that are not finished, listens included: for idle expiry and shutdown. */
size_t mcp_peer_n_calls(const struct mcp_peer *peer);
/* Orderly shutdown: ends listen streams with their result, so that clients see a proper end. */
void mcp_peer_end_listens(struct mcp_peer *peer);

/* ---- incoming ---- */

#define MCP_DEPTH_MAX   64          /* nesting of a message */
#define MCP_MESSAGE_MAX (80U << 20) /* default: bytes of one message */
#define MCP_INLINE_MAX  (4U << 20)  /* default: bytes left after long strings were spilled */
#define MCP_SPILL_MIN   (64U << 10) /* longer strings go to the spill file */

struct mcp_reader;

struct mcp_reader_config {
	size_t max_message;      /* 0: MCP_MESSAGE_MAX */
	size_t max_inline;       /* 0: MCP_INLINE_MAX */
	size_t spill_min;        /* 0: MCP_SPILL_MIN */
	struct budgets *budgets; /* borrowed; NULL: only the limits above hold */
};

/* NULL: out of memory. A reader is small until it is fed, and can be used for one message after the
 * other. */
struct mcp_reader *mcp_reader_new(const struct mcp_reader_config *config);
struct mcp_reader *mcp_reader_free(struct mcp_reader *reader);
/* The next messages count for PRINCIPAL, which is copied; "" until then. */
void mcp_reader_set_payer(struct mcp_reader *reader, const char *principal);
/* Adds the next bytes of the message. Returns 0, or a negative errno when the message is known to
 * be bad or too large (-EMSGSIZE). mcp_peer_receive() then gives the right answer, so a transport
 * may call it right away (HTTP) or at the end of the line (stdio). Further bytes of a message that
 * is too large are only searched for the request's id, for the answer. */
int mcp_reader_feed(struct mcp_reader *reader, const char *bytes, size_t len);
/* Nothing but white space so far (a blank line on stdio is no message). */
bool mcp_reader_is_blank(const struct mcp_reader *reader);
/* Forgets the message. */
void mcp_reader_reset(struct mcp_reader *reader);

enum mcp_session_fact {
	MCP_SESSION_ABSENT,  /* no Mcp-Session-Id header */
	MCP_SESSION_KNOWN,   /* it names the session of the peer */
	MCP_SESSION_UNKNOWN, /* a header that names none of this principal's sessions */
};

/* The HTTP headers of the message: values as they were received, NULL if absent. Everything is
 * borrowed during mcp_peer_receive(). For a header that was sent twice pass both values joined by
 * ", ". */
struct mcp_http_facts {
	enum mcp_session_fact session;
	const char *protocol_version; /* MCP-Protocol-Version */
	const char *method;           /* Mcp-Method */
	const char *name;             /* Mcp-Name */
	/* Value of the header Mcp-Param-NAME (NAME in any case), or NULL. */
	const char *(*param)(void *user, const char *name);
	void *user;
};

/* Handles the message in READER (which is then reset) and answers on SINK. FACTS: for
 * MCP_TRANSPORT_HTTP alone, else NULL. */
void mcp_peer_receive(struct mcp_peer *peer, struct mcp_reader *reader,
		      const struct mcp_http_facts *facts, struct mcp_sink *sink);

/* The client closed the stream of this message. A modern request is cancelled. A legacy request
 * goes on, and its messages are dropped (a transport with an event store does not call this for
 * it). The library never touches SINK again. */
void mcp_sink_gone(struct mcp_peer *peer, struct mcp_sink *sink);

/* ---- helpers for refusals outside of a message ---- */

/* Does this MCP-Protocol-Version header name a modern revision? (GET and DELETE are then 405.) */
bool mcp_version_is_modern(const char *header);
/* Body of a refusal, without id: {"jsonrpc":"2.0","error":{...}}. free(3). */
char *mcp_error_body(int code, const char *message, size_t *ret_len);
/* The same for BUDGET_EXCEEDED. */
char *mcp_budget_error_body(enum budget_kind kind, const struct err *e, size_t *ret_len);
