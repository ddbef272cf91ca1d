/* SPDX-License-Identifier: Apache-2.0 */
#include "http/peers.h"

#include "base/rand.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IPV6_MARK                                                                                  \
	(UINT64_C(1) << 63) /* tells IPv6 keys from IPv4 keys; global unicast is 2000::/3,
				       * so the bit is free */
#define MIX UINT64_C(0x9e3779b97f4a7c15)

void http_peers_init(struct http_peers *p, unsigned max, bool with_loopback)
{
	*p = (struct http_peers){.max = max, .with_loopback = with_loopback};
	rand_bytes(&p->secret, sizeof(p->secret));
	for (size_t i = 0; i < HTTP_PEER_BUCKETS; i++)
		list_init(&p->buckets[i]);
}

void http_peers_done(struct http_peers *p)
{
	for (size_t i = 0; i < HTTP_PEER_BUCKETS; i++)
		list_for_each(n, &p->buckets[i])
			free(list_entry(n, struct http_peer, node));
}

/* False: connections from this address are not counted. */
static bool key_of(const struct http_peers *p, const union http_address *a, uint64_t *ret)
{
	uint64_t high;

	if (p->max == 0 || (!p->with_loopback && http_address_is_loopback(a)))
		return false;
	switch (a->any.sa_family) {
	case AF_INET:
		*ret = a->in.sin_addr.s_addr;
		return true;
	case AF_INET6:
		if (IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
			uint32_t v4;

			memcpy(&v4, a->in6.sin6_addr.s6_addr + 12, sizeof(v4));
			*ret = v4;
			return true;
		}
		memcpy(&high, a->in6.sin6_addr.s6_addr, sizeof(high));
		*ret = be64toh(high) | IPV6_MARK;
		return true;
	default:
		return false;
	}
}

static struct list *bucket_of(struct http_peers *p, uint64_t key)
{
	uint64_t h = (key ^ p->secret) * MIX;

	h ^= h >> 32;
	return &p->buckets[(h * MIX >> 32) & (HTTP_PEER_BUCKETS - 1)];
}

static struct http_peer *find(struct list *bucket, uint64_t key)
{
	list_for_each(n, bucket) {
		struct http_peer *peer = list_entry(n, struct http_peer, node);

		if (peer->key == key)
			return peer;
	}
	return NULL;
}

int http_peers_add(struct http_peers *p, const union http_address *a, struct http_peer **ret)
{
	struct http_peer *peer;
	struct list *bucket;
	uint64_t key;

	*ret = NULL;
	if (!key_of(p, a, &key))
		return 0;
	bucket = bucket_of(p, key);
	peer = find(bucket, key);
	if (!peer) {
		peer = calloc(1, sizeof(*peer));
		if (!peer)
			return -ENOMEM;
		peer->key = key;
		list_prepend(bucket, &peer->node);
	} else if (peer->n >= p->max) {
		return -EDQUOT;
	}
	peer->n++;
	*ret = peer;
	return 0;
}

void http_peers_drop(struct http_peer *peer)
{
	if (!peer || --peer->n > 0)
		return;
	list_remove(&peer->node);
	free(peer);
}
