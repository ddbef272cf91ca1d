/* SPDX-License-Identifier: Apache-2.0 */
#include "http/socket_address.h"

#include "base/text.h"

#include <stdio.h>

int http_address_parse(const char *host, uint16_t port, union http_address *ret, socklen_t *ret_len)
{
	union http_address a = {0};

	if (streq(host, "localhost"))
		host = "127.0.0.1";
	if (inet_pton(AF_INET, host, &a.in.sin_addr) == 1) {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons(port);
		*ret_len = sizeof(a.in);
	} else if (inet_pton(AF_INET6, host, &a.in6.sin6_addr) == 1) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(port);
		*ret_len = sizeof(a.in6);
	} else {
		return -EINVAL;
	}
	*ret = a;
	return 0;
}

bool http_address_local(int fd, union http_address *ret)
{
	socklen_t len = sizeof(*ret);

	*ret = (union http_address){0};
	return getsockname(fd, &ret->any, &len) == 0;
}

bool http_address_peer(int fd, union http_address *ret)
{
	socklen_t len = sizeof(*ret);

	*ret = (union http_address){0};
	return getpeername(fd, &ret->any, &len) == 0;
}

void http_address_text(const union http_address *a, char ret[HTTP_ADDRESS_TEXT])
{
	char text[INET6_ADDRSTRLEN] = "";

	*ret = '\0';
	if (a->any.sa_family == AF_INET) {
		(void)inet_ntop(AF_INET, &a->in.sin_addr, ret, HTTP_ADDRESS_TEXT);
	} else if (a->any.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a->in6.sin6_addr, text, sizeof(text));
		(void)snprintf(ret, HTTP_ADDRESS_TEXT, "[%s]", text);
	}
}

uint16_t http_address_port(const union http_address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohs(a->in.sin_port);
	return a->any.sa_family == AF_INET6 ? ntohs(a->in6.sin6_port) : 0;
}

bool http_address_is_loopback(const union http_address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
	return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}
