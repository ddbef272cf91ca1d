/* SPDX-License-Identifier: Apache-2.0 */
/* The address of a client, which may stand behind proxies that the operator trusts. */
#pragma once

#include "http/http.h"
#include "http/socket_address.h"

struct http_network {
	uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
	unsigned bits;
};

/* "192.0.2.7", "10.0.0.0/8", "2001:db8::/32"; -EINVAL otherwise. */
int http_network_parse(const char *text, struct http_network *ret) MUST_CHECK;
bool http_network_has(const struct http_network *network, const union http_address *a);
/* The network that one customer usually has, as text: an IPv4 address, or the first 64 bits of an
 * IPv6 address; all of loopback counts as one. RET has HTTP_NETWORK_TEXT bytes. */
void http_network_text(const union http_address *a, char *ret);

/* The address of the client of REQ, whose connection comes from FROM. It is FROM itself, unless
 * FROM is one of PROXIES. Then it is the last address in Forwarded or X-Forwarded-For that is not
 * one of PROXIES; the client may have invented everything before that. If both headers are present
 * and name different clients, one of them is invented, and the result is the proxy; such a request is
 * refused (http_client_is_disputed()). False: the proxy names no client. */
bool http_client_address(const struct http_request *req, const union http_address *from,
			 const struct http_proxies *proxies, union http_address *ret);
/* FROM is one of PROXIES, and Forwarded and X-Forwarded-For name different clients: the client invented the
 * one that its proxy does not write. */
bool http_client_is_disputed(const struct http_request *req, const union http_address *from,
			     const struct http_proxies *proxies);
/* Does the word of FROM, the peer of REQ, count: is it one of PROXIES, or a member of the fleet? */
bool http_peer_is_trusted(const struct http_request *req, const union http_address *from,
			  const struct http_proxies *proxies);
bool http_proxies_have(const struct http_proxies *proxies, const union http_address *a);
