/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections each client address has: one address must not take them all.
 *
 * An address is an IPv4 address or the first 64 bits of an IPv6 one (what one customer has).
 * Clients on loopback and on unix sockets share the machine, or stand behind a proxy there: they
 * are not counted. */
#pragma once

#include "base/list.h"
#include "http/socket_address.h"

#define HTTP_PEER_BUCKETS 1024u /* a power of two */

struct http_peer {
	struct list node; /* of its bucket */
	uint64_t key;
	unsigned n;
};

struct http_peers {
	unsigned max;       /* connections of one address; 0 = any number */
	bool with_loopback; /* count those, too */
	uint64_t secret;    /* clients choose addresses, not buckets */
	struct list buckets[HTTP_PEER_BUCKETS];
};

void http_peers_init(struct http_peers *p, unsigned max, bool with_loopback);
/* All have been dropped. */
void http_peers_done(struct http_peers *p);
/* Counts one more connection from A. 0 with *RET (NULL when it is not counted), -EDQUOT when it has
 * as many as it may have, -ENOMEM. */
int http_peers_add(struct http_peers *p, const union http_address *a,
		   struct http_peer **ret) MUST_CHECK;
/* One of them is closed. NULL is fine. */
void http_peers_drop(struct http_peer *peer);
