/* SPDX-License-Identifier: Apache-2.0 */
/* Servers in sandboxes: /p/SANDBOX/PORT/… is the server that listens on PORT of the sandbox's loopback.
 * The same server has a name of its own for browsers (port_links.c): http://PORT-SANDBOX.DOMAIN/. docs/decisions/0038-ports.md
 * has the reasons.
 *
 * Each request has a connection of its own, which init makes (engine_connect()). Bytes pass as they come, in both
 * directions, with one block of memory for each; whoever does not read stops the other side. The front believes neither side:
 * heads are parsed and written anew, and a body ends where the new head says. */
#pragma once

#include "api/api_state.h"
#include "api/ports/reply_head.h"
#include "base/buf.h"
#include "http/chunk.h"
#include "http/http.h"
#include "sandbox/sandbox_work.h"

#define PORT_BLOCK    (32u << 10)  /* bytes that are read at once */
#define PORT_OUT_MAX  (64u << 10)  /* bytes that wait for the server, beside one piece */
#define PORT_BUF_MAX  (512u << 10) /* bytes that either buffer can have at most */
#define PORT_PATH_MAX 256          /* of "/p/SANDBOX/PORT" behind the path of a proxy */

/* Names of ports are served if SCOPES has HTTP_SCOPE_MAIN. */
int ports_add_routes(struct api *a, struct http_server *http, unsigned scopes) MUST_CHECK;

struct port_name {
	char id[SANDBOX_ID_MAX + 1];
	uint16_t port; /* 1 to 65535 */
};

/* Appends the address of the server N of OWNER for a browser that finds this server at BASE. *RET_UNTIL: when the pass in it
 * ends, in seconds since 1970; 0: it is one below BASE, without a pass. */
int port_url(struct api *a, const char *base, const char *owner, const struct port_name *n,
	     struct buf *ret, uint64_t *ret_until) MUST_CHECK;
/* The same for a browser that has sent REQ. */
int port_address(struct api *a, struct http_request *req, const char *owner,
		 const struct port_name *n, struct buf *ret, uint64_t *ret_until) MUST_CHECK;

/* Ends what is open of people who are not the owner, to sandboxes that are not public any more. */
void ports_end_strangers(struct api *a);
void ports_done(struct api *a);

/* ---- among the files of this folder ---- */

struct exchange {
	struct list node;           /* of api.strangers; of the owner's in no list */
	struct http_request *req;   /* until the answer begins, or the client is gone */
	struct http_stream *stream; /* the answer */
	struct http_socket *socket; /* the same after an upgrade */
	struct sandbox *sandbox;    /* reference */
	struct sandbox_hold hold;
	bool held;
	struct budget_share share;
	sd_event *loop;
	const struct auth *auth;
	sd_event_source *io;       /* of FD */
	uint32_t wanted;           /* events of it */
	sd_event_source *patience; /* until the head of the answer */
	int fd;                    /* to the server; -1 = none yet */
	uint16_t port;
	const struct api_port_face *face; /* the sandbox is one of it; NULL: of none */
	char id[SANDBOX_ID_MAX + 1];      /* of the sandbox */
	char network[HTTP_NETWORK_TEXT];  /* of a stranger; "" = not known */
	bool own_name;                    /* the address is a name of the port's alone */
	char base
	    [PORT_PATH_MAX]; /* the path of this server, as its client sees it; "" with a name */
	struct buf out;      /* to the server */
	bool body_waits;     /* the request's, until OUT has gone */
	bool client_ended;   /* after an upgrade: the client sends no more, and may still read */
	bool connected;      /* something of OUT has gone */
	bool deaf;           /* the server reads no more; it may answer all the same */
	bool chunked;        /* the request's body */
	bool upgrades;       /* the server has been asked for a WebSocket */
	struct buf in;       /* the head of the answer, then what came with it */
	size_t scanned;
	unsigned interim; /* answers so far that are none */
	bool eof;         /* the server sends no more */
	struct port_reply reply;
	struct http_chunk chunk;
	uint64_t left;
};

/* port_links.c */
/* Which server the Host of REQ names. */
bool port_name_of(const struct http_request *req, struct port_name *ret) MUST_CHECK;
/* Who asks for it, by the pass or the key of REQ: borrowed from REQ. NULL: nobody, or it has answered. */
const struct caller *port_identify(struct api *a, struct http_request *req,
				   const struct port_name *n, bool *ret_answered) MUST_CHECK;
/* Answers with the address of REQ without the pass in it. KEEP: which becomes a cookie. False: there is none in it. */
bool port_drop_pass(struct api *a, struct http_request *req, bool keep) MUST_CHECK;
/* Is "NAME=VALUE", or NAME, a cookie of ours: a pass, or one of the page's? */
bool port_is_our_cookie(const char *pair, size_t len);
/* location.c: where the Location VALUE of the server leads a client, to RET. -EACCES: to another place of this server;
 * -ENOMEM. */
int port_location(const struct exchange *x, const char *value, struct buf *ret) MUST_CHECK;
/* exchange.c */
/* May WHO use a server, which may do anything? False: it has answered. */
bool port_may_use(struct http_request *req, const struct caller *who) MUST_CHECK;
struct port_visit {
	const char *owner; /* of the sandbox */
	struct port_name name;
	const char *base;                 /* as of struct exchange */
	struct sandbox *open;             /* of a stranger: borrowed; NULL: it is made active */
	const struct api_port_face *face; /* as of struct exchange */
};
void port_begin(struct api *a, struct http_request *req, const struct port_visit *v);
/* strangers.c */
/* For HTTP_SCOPE_PORTS. */
void port_on_name(struct http_request *req, void *user);
/* X is of somebody who is not the owner of S: a share of what the owner's sandboxes have for all of them. */
int port_admit_stranger(struct api *a, struct exchange *x, struct sandbox *s,
			struct err *e) MUST_CHECK;
/* Is X of the owner, or its sandbox still public? */
bool port_is_welcome(const struct exchange *x);

/* request_text.c */
/* What follows "/p/SANDBOX/PORT" in the request, or all of its path, as the client has encoded it. */
const char *port_path_of(const struct exchange *x);
/* The head for the server, to X->out. -ENOMEM, or -E2BIG. */
int port_write_request(struct exchange *x) MUST_CHECK;
/* answer.c: there is something to read from the server, or it has ended. X may be gone afterwards. */
void port_read(struct exchange *x);
/* exchange.c */
/* Takes notice of what the socket is to tell. */
void port_want(struct exchange *x, uint32_t events);
void port_stop_wanting(struct exchange *x, uint32_t events);
/* Sends what waits for the server. False: it waits still. */
bool port_flush(struct exchange *x);
/* Answers, if the client is there and has no answer yet, and ends X. */
void port_refuse(struct exchange *x, enum err_code code, const char *why);
void port_free(struct exchange *x);
