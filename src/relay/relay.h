/* SPDX-License-Identifier: Apache-2.0 */
/* Passes one request on to a server behind us, and its answer back to the client. How the connection to that server is made, what
 * the server is told and which fields of its answer the client gets is the owner's: of servers in sandboxes (api/ports), and of
 * workers of a fleet (fleet).
 *
 * Bytes pass as they come, in both directions, with one block of memory for each; whoever does not read stops the other side. The
 * relay believes neither side: heads are parsed and written anew, and a body ends where the new head says.
 *
 * Life: relay_init(); the owner connects, writes the head of the request to OUT, and calls relay_begin(). From then on exactly one
 * of its functions `failed` and `ended` is called, in which the owner calls relay_done() and frees what it has. The owner sets
 * http_request_on_gone(), and calls relay_client_left() from it. */
#pragma once

#include "base/buf.h"
#include "http/chunk.h"
#include "http/http.h"
#include "http/socket_io.h"
#include "relay/reply_head.h"

#define RELAY_BLOCK      (32u << 10)  /* bytes that are read at once */
#define RELAY_OUT_MAX    (64u << 10)  /* bytes that wait for the server, beside one piece */
#define RELAY_BUF_MAX    (512u << 10) /* bytes that either buffer can have at most */
#define RELAY_JUDGED_MAX (16u << 10)  /* bytes of a body that an owner may judge an answer by */

struct relay;

enum relay_verdict {
	RELAY_PASS, /* the client gets this answer */
	RELAY_WAIT, /* ask again when more of the body is in IN, behind HEAD_LEN; not beyond RELAY_JUDGED_MAX, nor at EOF */
	RELAY_DROP, /* the owner has taken the relay back: nothing of it may be touched */
};

struct relay_ops {
	/* No answer has begun. REQ is NULL if the client has left; else the owner answers it, or tries elsewhere. */
	void (*failed)(struct relay *x, enum err_code code, const char *why);
	/* The answer is over, or the client has left. */
	void (*ended)(struct relay *x);
	/* Adds the fields of x->reply to the answer of x->req: < 0 if they do not fit. */
	int (*add_fields)(struct relay *x);
	/* Decides about the answer whose head is x->reply. May be NULL. */
	enum relay_verdict (*judge)(struct relay *x);
	const char *work; /* loop_work() */
};

struct relay {
	const struct relay_ops *ops;
	sd_event *loop;
	struct http_request *req;   /* until the answer begins, or the client is gone */
	struct http_stream *stream; /* the answer */
	struct http_socket *socket; /* the same after an upgrade */
	struct http_io io;          /* to the server; fd -1 = none yet */
	sd_event_source *source;    /* of IO; NULL: relay_begin() was not called */
	uint32_t wanted;            /* events of it */
	sd_event_source *patience;  /* until the head of the answer */
	uint64_t answer_us;         /* how long that is; 0 = for ever. Set by the owner */
	sd_event_source *stuck;     /* while BODY_WAITS */
	uint64_t
	    stuck_us; /* how long the server may take nothing of a body that waits; 0 = for ever. Set by the owner */
	struct buf out;  /* to the server */
	bool body_waits; /* the request's, until OUT has gone */
	bool
	    body_ended; /* all of the request is in OUT, or has gone. Set by the owner that has read the body */
	bool client_ended; /* after an upgrade: the client sends no more, and may still read */
	bool
	    connecting; /* set by the owner: nothing of OUT has gone, and TCP_USER_TIMEOUT is set */
	bool deaf;      /* the server reads no more; it may answer all the same */
	bool chunked;   /* the request's body. Set by the owner, as all that the head says */
	bool upgrades;  /* the server has been asked for a WebSocket */
	bool heard;     /* something has come */
	bool surplus;   /* more than the answer has come */
	bool whole;     /* all of the answer has been passed on */
	struct buf in;  /* the head of the answer, then what came with it */
	size_t scanned, head_len;
	unsigned interim; /* answers so far that are none */
	bool eof;         /* the server sends no more */
	struct relay_reply reply;
	struct http_chunk chunk;
	uint64_t left;
};

void relay_init(struct relay *x, const struct relay_ops *ops, sd_event *loop,
		struct http_request *req);
/* IO is taken; OUT has the head of the request. X may be gone afterwards. */
void relay_begin(struct relay *x, struct http_io *io);
/* True: the owner ends X now. Else a callback of the owner's connecting is still to come. */
bool relay_client_left(struct relay *x) MUST_CHECK;
/* Takes the connection out of X, whose request is over: it may serve another one if relay_is_clean() says so. */
struct http_io relay_take_io(struct relay *x);
/* Have request and answer ended exactly, and will the server read another request? */
bool relay_is_clean(const struct relay *x);
/* Cuts what the client has of its answer, and ends X as `ended` does. There is an answer. */
void relay_cut(struct relay *x, unsigned socket_code);
/* Closes the connection, if it is still there, and gives memory back. */
void relay_done(struct relay *x);

/* ---- what a request for the server says ---- */

/* Is NAME one of the fields that Connection of REQ lists? They are not to be passed on. */
bool relay_is_listed(const struct http_request *req, const char *name);
/* The pass of a browser for a name of a port (api/ports/port_links.c): a parameter of the query first, then a cookie. With https no
 * other host of the domain can set that. */
#define RELAY_PASS_NAME        "caisson-port"
#define RELAY_HOSTED_PASS_NAME "__Host-" RELAY_PASS_NAME
/* Is "NAME=VALUE", or NAME, a cookie of ours: a pass, or one of the page's? */
bool relay_is_our_cookie(const char *pair, size_t len);
/* Is it a pass? */
bool relay_is_pass(const char *pair, size_t len);
/* Adds Set-Cookie: VALUE without Domain (RFC 6265 §5.2.3), which would give the cookie to the servers of other sandboxes. */
int relay_add_cookie(struct http_request *req, const char *value) MUST_CHECK;

/* Appends X-Forwarded-For, -Host and -Proto. */
int relay_add_forwarded(const struct http_request *req, struct buf *ret) MUST_CHECK;
/* The same with the LEN bytes of HOST as the host that the client has used. */
int relay_add_forwarded_as(const struct http_request *req, const char *host, size_t len, bool https,
			   struct buf *ret) MUST_CHECK;
/* Appends what says how long the body is and whether the connection is kept, and the end of the head. Sets `chunked` and
 * `upgrades`. */
int relay_add_framing(struct relay *x, bool keep) MUST_CHECK;

/* ---- among the files of this folder ---- */

/* answer.c: there is something to read from the server, or it has ended. X may be gone afterwards. */
void relay_read(struct relay *x);
void relay_want(struct relay *x, uint32_t events);
void relay_stop_wanting(struct relay *x, uint32_t events);
/* Sends what waits for the server. False: it waits still. */
bool relay_flush(struct relay *x);
