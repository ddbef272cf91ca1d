/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder alone: gates and their connections. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "egress/accept.h"
#include "egress/address.h"
#include "egress/egress.h"
#include "egress/head.h"
#include "egress/policy.h"
#include "egress/resolve.h"

#define CONN_BUFFER    32768u /* bytes of one direction that wait for the other side */
#define CONN_TRIES_MAX 4u     /* addresses of one name that are tried */

struct egress {
	struct egress_config config;
	struct egress_resolver *resolver;
	bool own_resolver;
	struct egress_acceptor *acceptor;
	struct list gates;
};

struct egress_conn;

struct egress_gate {
	struct egress *egress;
	struct list node; /* of struct egress */
	char label[EGRESS_LABEL_MAX + 1];
	struct egress_policy *policy; /* reference */
	struct egress_limits limits;
	int fd;
	sd_event_source *io;
	struct egress_accept *accept; /* under way, or NULL; IO is off meanwhile */
	bool ended;                   /* nothing is accepted any more */
	sd_event_source *timer;       /* fires when the next connection may come */
	struct list conns;
	struct {
		unsigned connections; /* now */
		uint64_t bytes;
		uint64_t sent, received;
	} usage;
	uint64_t credit; /* thousandths of a connection */
	uint64_t credit_ns;
};

enum conn_state {
	CONN_HEAD,    /* the request arrives */
	CONN_RESOLVE, /* the name is being resolved */
	CONN_CONNECT, /* connecting to an address that was checked */
	CONN_HELLO,   /* CONNECT: 200 was answered, the TLS greeting arrives */
	CONN_RELAY,   /* bytes pass */
	CONN_LINGER,  /* refused: open until the client has read the answer */
};

struct egress_conn {
	struct egress_gate *gate;
	struct list node; /* of the gate */
	enum conn_state state;
	int client, server;
	sd_event_source *client_io, *server_io, *timer;
	struct buf to_server,
	    to_client; /* at most CONN_BUFFER bytes, except the head of a request */
	char method[EGRESS_METHOD_MAX];
	struct egress_target target;
	struct egress_grant grant;
	bool connect;
	bool allowed;       /* an event ALLOWED was sent, so ENDED must follow */
	uint64_t body_left; /* of a plain request: bytes that the client may still send */
	struct egress_query *query;
	struct egress_address addresses[CONN_TRIES_MAX];
	size_t n_addresses, at; /* the address in use is addresses[at] */
	bool client_eof, server_eof, client_shut, server_shut;
	uint64_t begin_ns, state_ns, active_ns;
	uint64_t sent, received;
	size_t lingered;
};

/* Takes CLIENT. */
void egress_conn_new(struct egress_gate *g, int client);
/* Refuses the connection. Sends the reason if the client can still read it; C then stays in CONN_LINGER.
 * Else C is freed. */
void egress_conn_refuse(struct egress_conn *c, enum egress_reason why);
void egress_conn_free(struct egress_conn *c);
/* A connection has ended, so another may come. */
void egress_gate_resume(struct egress_gate *g);

void egress_conn_event(const struct egress_conn *c, enum egress_verdict verdict,
		       enum egress_reason why);
/* relay.c: passes bytes from now on, those in TO_SERVER first. */
void egress_relay_begin(struct egress_conn *c);
int egress_relay_io(struct egress_conn *c);
/* Watches the events that the state needs. */
void egress_conn_watch(struct egress_conn *c);
/* connect.c: finds the addresses of C's target, connects, calls egress_conn_connected(). */
void egress_connect_begin(struct egress_conn *c);
int egress_connect_io(struct egress_conn *c);
/* Whether the policy allows a connection to address A of C's target. */
bool egress_conn_may_reach(const struct egress_conn *c, const struct egress_address *a);
void egress_conn_connected(struct egress_conn *c);
/* Sets the state and starts its deadline. */
void egress_conn_state(struct egress_conn *c, enum conn_state state);
int egress_conn_on_server(sd_event_source *source, int fd, uint32_t events, void *user);
