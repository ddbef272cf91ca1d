/* SPDX-License-Identifier: Apache-2.0 */
/* Socket addresses as one type instead of casts. */
#pragma once

#include "base/attr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union http_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

#define HTTP_ADDRESS_TEXT (INET6_ADDRSTRLEN + 2)

/* A numeric address or "localhost"; -EINVAL otherwise. */
int http_address_parse(const char *host, uint16_t port, union http_address *ret,
		       socklen_t *ret_len) MUST_CHECK;
/* Our address and the peer's; false if the socket has none (any more). */
bool http_address_local(int fd, union http_address *ret);
bool http_address_peer(int fd, union http_address *ret);
/* "127.0.0.1", "[::1]", "" for others. */
void http_address_text(const union http_address *a, char ret[HTTP_ADDRESS_TEXT]);
uint16_t http_address_port(const union http_address *a); /* 0 for others */
bool http_address_is_loopback(const union http_address *a);
