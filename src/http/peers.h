/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the connections of each client address, so that one address cannot take all of them.
 *
 * An address is an IPv4 address, or the first 64 bits of an IPv6 address (one customer usually has
 * as many). Clients on loopback and on unix sockets are not counted: they share this machine or
 * stand behind a proxy on it. */
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
	uint64_t secret;    /* a random key: clients cannot choose the bucket of their address */
	struct list buckets[HTTP_PEER_BUCKETS];
};

void http_peers_init(struct http_peers *p, unsigned max, bool with_loopback);
/* All connections must have been dropped. */
void http_peers_done(struct http_peers *p);
/* Counts one more connection from A. Returns 0 with *RET (NULL if the address is not counted),
 * -EDQUOT if the address has all it may have, or -ENOMEM. */
int http_peers_add(struct http_peers *p, const union http_address *a,
		   struct http_peer **ret) MUST_CHECK;
/* One connection of PEER is closed. PEER may be NULL. */
void http_peers_drop(struct http_peer *peer);
