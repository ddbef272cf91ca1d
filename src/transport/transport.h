/* SPDX-License-Identifier: Apache-2.0 */
/* How MCP clients reach the server: stdio, Streamable HTTP, HTTP+SSE. Everything runs on the caller's
 * sd-event loop and never blocks. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "budget/budgets.h"
#include "http/http.h"
#include "mcp/peer.h"

#include <systemd/sd-event.h>

/* ---- stdio ----
 *
 * One message a line, in both directions. A line over the message limit is answered with an error
 * and skipped; blank lines and CRLF are allowed. Output waits in memory while the client does not
 * read. Above queue_mark bytes the transport stops reading input; above queue_max the client counts
 * as gone. At the end of input, calls in flight may finish within drain_ns, then they are cancelled.
 * Answers that exist by then go out whole, unless the client takes no byte for drain_ns. If the client
 * has also closed its reading side, the transport ends at once. */

struct transport_stdio;

struct transport_stdio_config {
	sd_event *loop;         /* borrowed */
	struct mcp_server *mcp; /* borrowed */
	int in_fd, out_fd;      /* borrowed; pipes, sockets, terminals, files; their flags are not
				 * changed if the kernel allows that */
	struct mcp_reader_config reader;
	const char *principal; /* NULL: the one local user */
	void *principal_data;
	void (*principal_unref)(void *data);
	size_t queue_mark; /* bytes of waiting output that stop the reading; 0 = 1 MiB */
	size_t queue_max;  /* bytes of waiting output that end the transport; 0 = 512 MiB */
	uint64_t drain_ns; /* 0 = 5 s */
	/* The transport has ended: input ended and all output is written (0), or the client is gone
	 * (-EPIPE …). Called once, from the loop; it may free the transport. */
	void (*on_end)(int reason, void *userdata);
	void *userdata;
};

int transport_stdio_new(const struct transport_stdio_config *config,
			struct transport_stdio **ret) MUST_CHECK;
/* Acts as if the input had ended after what the client has sent by now, of which at most 1 MiB is read; for
 * SIGTERM and a lost engine. on_end is called later. */
void transport_stdio_finish(struct transport_stdio *t);
/* Cancels calls in flight and drops unwritten output. on_end is not called. T may be NULL. */
struct transport_stdio *transport_stdio_free(struct transport_stdio *t);

/* ---- HTTP ----
 *
 * Adds to an http_server: /mcp (POST, GET, DELETE, OPTIONS), /sse (GET), /messages and /messages/
 * (POST). All rows but OPTIONS of /mcp have HTTP_ROUTE_AUTH. Sessions and streams belong to the
 * principal that opened them; what a message may do is decided by the credential of its own POST. */

struct transport_http;

struct fleet_member;

struct transport_http_config {
	sd_event *loop;           /* borrowed */
	struct http_server *http; /* borrowed; freed before the transport, or after its finish */
	struct mcp_server *mcp;   /* borrowed */
	unsigned scopes; /* listeners that offer it; 0 = HTTP_SCOPE_MAIN | HTTP_SCOPE_LOCAL */
	struct mcp_reader_config reader;
	struct budgets *budgets;  /* borrowed; NULL: sessions and streams are not bound */
	uint64_t session_idle_ns; /* 0 = 30 min without request or stream */
	uint64_t keepalive_ns;    /* comment on a silent stream; 0 = 15 s */
	/* May be NULL. Fills principal_data, limited and principal_unref of PEER from the credential
	 * of REQ, and base: for a new peer, and for each later POST. The principal is
	 * http_request_principal(), and sessions are bound to that. */
	void (*identify)(struct http_request *req, struct mcp_peer_config *peer, void *userdata);
	void *userdata;
	const struct fleet_member
	    *fleet; /* of a worker: ids of sessions name it; borrowed, or NULL */
};

int transport_http_new(const struct transport_http_config *config,
		       struct transport_http **ret) MUST_CHECK;
/* Graceful end: subscriptions/listen ends with its result, event streams get their proper end, and
 * sessions are closed with their calls cancelled. Open requests without a session go on. */
void transport_http_finish(struct transport_http *t);
/* Ends the sessions of PRINCIPAL, who was removed. Not from inside a call of one of them. */
void transport_http_forget(struct transport_http *t, const char *principal);
/* Call it after http_server_free(), which ends what is still open. T may be NULL. */
struct transport_http *transport_http_free(struct transport_http *t);

/* For metrics. */
struct transport_http_counts {
	unsigned sessions;   /* of Streamable HTTP, legacy era */
	unsigned sse;        /* legacy HTTP+SSE connections */
	unsigned streams;    /* open event streams of all kinds */
	unsigned exchanges;  /* POSTs without an answer yet */
	size_t stored_bytes; /* events kept for resumption */
};
void transport_http_count(const struct transport_http *t, struct transport_http_counts *ret);
