/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the proxy: a loop, a resolver that answers what the test says, a canary that listens
 * on every loopback address and counts what it is sent, and a gate on 127.0.0.1. */
#pragma once

#include "base/buf.h"
#include "egress/egress.h"
#include "egress/resolve.h"

struct world_resolver {
	struct egress_resolver resolver; /* first */
	sd_event *loop;
	const char *answers; /* numeric, separated by blanks; the same for every question */
	bool silent;         /* never answers */
	unsigned asked, cancelled;
	char last[EGRESS_HOST_MAX + 1];
};

struct egress_world {
	sd_event *loop;
	struct world_resolver resolver;
	struct egress *egress;
	struct egress_gate *gate;
	uint16_t gate_port;
	int canary; /* listening */
	uint16_t canary_port;
	bool canary_answers; /* says "pong" and closes when it was sent something */
	sd_event_source *canary_io;
	struct buf canary_got; /* all bytes of all its connections */
	unsigned canary_connections;
	struct { /* what was told */
		unsigned allowed, refused, ended;
		char reason[64]; /* of the last */
		char host[EGRESS_HOST_MAX + 1];
		char address[64];
		uint64_t sent, received;
	} events;
};

void egress_world_begin(struct egress_world *w);
void egress_world_end(struct egress_world *w);
/* A new gate in place of the old one. POLICY is given up. */
void egress_world_gate(struct egress_world *w, struct egress_policy *policy,
		       const struct egress_limits *limits);
/* TEMPLATE with {P} replaced by the canary's port; LEN may hold NUL bytes. */
void egress_world_fill(const struct egress_world *w, const char *template, size_t len,
		       struct buf *ret);
int egress_world_client(struct egress_world *w); /* connected, non-blocking */
void egress_world_send(int fd, const void *data, size_t len);
/* Runs the loop until *WHAT reaches N, at most some seconds; fails the test then. */
void egress_world_until(struct egress_world *w, const unsigned *what, unsigned n);
/* Runs the loop until the client's side is at its end; what came goes to RET. */
void egress_world_read(struct egress_world *w, int fd, struct buf *ret);
/* Runs the loop until RET has WHAT in it. */
void egress_world_expect(struct egress_world *w, int fd, struct buf *ret, const char *what);

/* A ClientHello for NAME (may hold NUL) of one record, with the usual parts. */
enum hello_kind {
	HELLO_NOTHING,
	HELLO_GOOD,    /* good.example.org */
	HELLO_EVIL,    /* evil.net */
	HELLO_UNNAMED, /* extensions, none of them the name */
	HELLO_BARE,    /* no extensions at all */
	HELLO_NUL_NAME,
	HELLO_DOT_NAME,
	HELLO_ADDRESS_NAME,
	HELLO_TWO_NAMES, /* in one extension */
	HELLO_TWICE,     /* the extension twice */
	HELLO_ECH,
	HELLO_FRAGMENTED, /* the message over two records */
	HELLO_ONE_BYTE,   /* the first of them with one byte */
	HELLO_TRAILED,    /* another message in the same record */
	HELLO_LYING,      /* the extensions are longer than the message */
	HELLO_SSL2,
	HELLO_HTTP,
	HELLO_SSH,
	HELLO_ALERT,
};
void egress_world_hello(enum hello_kind kind, struct buf *ret);
