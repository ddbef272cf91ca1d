/* SPDX-License-Identifier: Apache-2.0 */
/* MCP server library, the side of the transports.
 *
 * A peer is one client: a stdio pipe, one legacy SSE connection, one legacy HTTP session, or one
 * HTTP POST that belongs to no session. (An HTTP transport makes a fresh peer for each POST without
 * a known session; when mcp_peer_is_session() has become true by the time the sink is finished, it
 * was an initialize: keep the peer, mint an Mcp-Session-Id. Otherwise close it after the finish.)
 *
 * A message is read through a reader, piece by piece as it arrives, then handed to the peer with
 * a *sink*: the place where everything goes that belongs to this message. Per message the library
 * calls sink->ops->send() any number of times, then sink->ops->finish() exactly once, during
 * mcp_peer_receive() or later, and does not touch the sink afterwards. The exceptions:
 * mcp_sink_gone() and mcp_peer_close() end that without a finish.
 *
 * All texts handed out are one line of valid UTF-8 JSON without a newline, owned by the receiver
 * and released with free(3). */
#pragma once

#include "mcp/mcp.h"

/* ---- outgoing ----
 * From within these operations a transport may close the peer concerned, but no other one. */

enum mcp_out {
	MCP_OUT_NOTIFICATION,
	MCP_OUT_REQUEST, /* legacy era only: a question to the client */
};

struct mcp_sink;

struct mcp_sink_ops {
	/* A notification or request on the way to the answer. HTTP: makes the answer an SSE stream.
	 */
	void (*send)(struct mcp_sink *sink, enum mcp_out kind, char *json, size_t len);
	/* The end. JSON: the response (or the array of a batch), or NULL when there is none.
	 * HTTP_STATUS is for HTTP: with a response, its status if nothing has been sent before
	 * (once an SSE stream is open it is an event on it and the stream ends). Without a
	 * response: 202 for notifications and responses; 200 for a cancelled request, whose stream
	 * just ends. */
	void (*finish)(struct mcp_sink *sink, unsigned http_status, char *json, size_t len);
	/* May be NULL. True while more is waiting to be written than the transport wants: progress
	 * and log messages are then dropped, so that a slow reader costs no memory. */
	bool (*congested)(struct mcp_sink *sink);
	/* May be NULL. Legacy HTTP with an event store: close the connection, go on storing; the
	 * client comes back after RETRY_MS. */
	void (*detach)(struct mcp_sink *sink, unsigned retry_ms);
};

/* Embedded in the transport's object (container_of). */
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
	/* What belongs to no request: change notifications, log messages. (HTTP: the session's GET
	 * stream; free and forget when there is none.) */
	void (*send)(struct mcp_peer *peer, enum mcp_out kind, char *json, size_t len);
};

struct mcp_peer_config {
	enum mcp_transport transport;
	const struct mcp_peer_ops *ops;
	void *user; /* mcp_peer_user() */
	/* Who it is, after authentication. Handles (tasks, requestState) work only for the same
	 * principal. "" or NULL: the one local user. Copied. */
	const char *principal;
	void *principal_data; /* for may_call, may_ask and ended */
	/* The principal may not have all: config.may_call and config.may_ask decide. */
	bool limited;
	/* Called once with principal_data, when the peer and the last of its calls (tasks outlive
	 * their peer) are gone. May be NULL. */
	void (*principal_unref)(void *data);
};

/* NULL when memory is short. A peer without calls in flight costs well under 1 KiB. */
struct mcp_peer *mcp_peer_new(struct mcp_server *server, const struct mcp_peer_config *config);
/* The client is gone (or the session over): cancels its calls, listens and questions. No sink or
 * peer operation is called any more, also not from within. Its tasks go on. NULL is fine. */
void mcp_peer_close(struct mcp_peer *peer);

/* The messages that follow come with another credential of the same principal: what they begin has
 * its rights, what is under way keeps those it began with. LIMITED and the two others are as in
 * mcp_peer_config; DATA is taken. False: no memory, nothing has changed and DATA is the caller's. */
bool mcp_peer_set_credential(struct mcp_peer *peer, void *data, bool limited,
			     void (*unref)(void *data)) MUST_CHECK;

/* Cancels the calls whose principal_data ENDED names, and their tasks if it says MCP_ENDED_TASKS
 * too: a credential that was revoked. */
enum mcp_ended {
	MCP_ENDED_NOT,
	MCP_ENDED_CALLS, /* it expired: what a task does was begun in time */
	MCP_ENDED_TASKS,
};
void mcp_server_end_credentials(struct mcp_server *server,
				enum mcp_ended (*ended)(const void *principal_data));

void *mcp_peer_user(const struct mcp_peer *peer);
const char *mcp_peer_principal(const struct mcp_peer *peer);
/* An initialize was answered with a result. */
bool mcp_peer_is_session(const struct mcp_peer *peer);
/* What initialize agreed on; MCP_REV_NONE before. Priming events only from 2025-11-25 on. */
enum mcp_revision mcp_peer_revision(const struct mcp_peer *peer);
/* Requests that wait for their finish (listens included): for idle expiry and shutdown. */
size_t mcp_peer_n_calls(const struct mcp_peer *peer);
/* Orderly shutdown: ends listen streams with their result, so that clients see a proper end. */
void mcp_peer_end_listens(struct mcp_peer *peer);

/* ---- incoming ---- */

#define MCP_DEPTH_MAX   64          /* nesting of a message */
#define MCP_MESSAGE_MAX (80U << 20) /* default: bytes of one message */
#define MCP_INLINE_MAX  (4U << 20)  /* default: bytes left after long strings were lifted */
#define MCP_LIFT_MIN    (64U << 10) /* longer strings go to the spill file */

struct mcp_reader;

struct mcp_reader_config {
	size_t max_message; /* 0: MCP_MESSAGE_MAX */
	size_t max_inline;  /* 0: MCP_INLINE_MAX */
	size_t lift_min;    /* 0: MCP_LIFT_MIN */
	/* Folder of spill files; NULL: anonymous memory (memfd). */
	const char *spill_dir;
};

/* NULL when memory is short. Small until fed; may be used for one message after the other. */
struct mcp_reader *mcp_reader_new(const struct mcp_reader_config *config);
struct mcp_reader *mcp_reader_free(struct mcp_reader *reader);
/* The next bytes of the message. 0, or a negative errno once the message is known to be bad or too
 * large (-EMSGSIZE): mcp_peer_receive() gives the right answer, so a transport may hand it over
 * right away (HTTP) or at the end of the line (stdio). Of a message that is too large further bytes
 * are looked at for the request's id, which the answer then has, and not kept. */
int mcp_reader_feed(struct mcp_reader *reader, const char *bytes, size_t len);
/* Nothing but white space so far (a blank line on stdio is no message). */
bool mcp_reader_is_blank(const struct mcp_reader *reader);
/* Forgets the message. */
void mcp_reader_reset(struct mcp_reader *reader);

enum mcp_session_fact {
	MCP_SESSION_ABSENT,  /* no Mcp-Session-Id header */
	MCP_SESSION_KNOWN,   /* the peer given is that session's */
	MCP_SESSION_UNKNOWN, /* a header that names none of this principal's sessions */
};

/* What the HTTP headers said; values as received, NULL when absent. Everything is borrowed for the
 * duration of mcp_peer_receive(). A header given twice counts as its own: pass it joined by ", ".
 */
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

/* The client closed the stream of this message. Modern requests are cancelled, legacy ones go on
 * and their messages are dropped (a transport with an event store does not say it of those). The
 * library never touches SINK again. */
void mcp_sink_gone(struct mcp_peer *peer, struct mcp_sink *sink);

/* ---- helpers for refusals outside of a message ---- */

/* Does this MCP-Protocol-Version header name a modern revision (GET and DELETE are then 405)? */
bool mcp_version_is_modern(const char *header);
/* Body of a refusal, without id: {"jsonrpc":"2.0","error":{...}}. free(3). */
char *mcp_error_body(int code, const char *message, size_t *ret_len);
