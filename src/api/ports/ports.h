/* SPDX-License-Identifier: Apache-2.0 */
/* Servers in sandboxes: /p/SANDBOX/PORT/… is the server that listens on PORT of the sandbox's loopback.
 * The same server has a name of its own for browsers (port_links.c): http://PORT-SANDBOX.DOMAIN/. docs/decisions/0038-ports.md
 * has the reasons.
 *
 * Each request has a connection of its own, which init makes (engine_connect()). What passes over it is in relay/relay.h. To ports that a
 * face says so of, it speaks TLS; the certificate there is not verified, because whoever made the sandbox made it. */
#pragma once

#include "api/api_state.h"
#include "base/buf.h"
#include "http/http.h"
#include "http/tls_client.h"
#include "relay/relay.h"
#include "sandbox/sandbox_work.h"

#define PORT_PATH_MAX 256 /* of "/p/SANDBOX/PORT" behind the path of a proxy */

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
	struct relay relay;
	struct list node;        /* of api.strangers; of the owner's in no list */
	struct sandbox *sandbox; /* reference */
	struct sandbox_hold hold;
	bool held;
	struct budget_share share;
	const struct auth *auth;
	uint16_t port;
	struct http_tls_client *tls;      /* for a server that speaks TLS; NULL: it does not */
	sd_event_source *shaking, *late;  /* while the handshake goes on */
	bool shakes;                      /* it has begun */
	const struct api_port_face *face; /* the sandbox is one of it; NULL: of none */
	char id[SANDBOX_ID_MAX + 1];      /* of the sandbox */
	char network[HTTP_NETWORK_TEXT];  /* of a stranger; "" = not known */
	bool own_name;                    /* the address is a name of the port's alone */
	char base
	    [PORT_PATH_MAX]; /* the path of this server, as its client sees it; "" with a name */
};

/* port_links.c */
/* Which server the Host of REQ names. */
bool port_name_of(const struct http_request *req, struct port_name *ret) MUST_CHECK;
/* Who asks for it, by the pass or the key of REQ: borrowed from REQ. NULL: nobody, or it has answered. */
const struct caller *port_identify(struct api *a, struct http_request *req,
				   const struct port_name *n, bool *ret_answered) MUST_CHECK;
/* Answers with the address of REQ without the pass in it. KEEP: which becomes a cookie. False: there is none in it. */
bool port_drop_pass(struct api *a, struct http_request *req, bool keep) MUST_CHECK;
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
/* The head for the server, to X->relay.out. -ENOMEM, or -E2BIG. */
int port_write_request(struct exchange *x) MUST_CHECK;
/* answer_fields.c: for relay_ops */
int port_add_fields(struct relay *relay) MUST_CHECK;
/* What the server is called to itself: its Host. */
int port_find_name(const struct exchange *x, struct buf *ret) MUST_CHECK;
/* port_tls.c: the handshake with the server, then port_send(). X may be gone afterwards. */
void port_begin_tls(struct exchange *x);
void port_tls_done(struct exchange *x);
/* exchange.c: sends the request. X may be gone afterwards. */
void port_send(struct exchange *x);
/* exchange.c */
/* Answers, if the client is there and has no answer yet, and ends X. */
void port_refuse(struct exchange *x, enum err_code code, const char *why);
