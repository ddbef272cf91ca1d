/* SPDX-License-Identifier: Apache-2.0 */
#include "image/inside.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const struct {
	uint32_t net;
	unsigned bits;
} nets[] = {
    {0x00000000, 8},  /* this host */
    {0x7f000000, 8},  /* loopback */
    {0xa9fe0000, 16}, /* link-local: metadata services of clouds */
    {0x646464c8, 32}, /* 100.100.100.200, Alibaba's */
    {0xc0000000, 24}, /* 192.0.0.0/24, Oracle's among them */
    {0xe0000000, 3},  /* multicast and above */
};

static bool is_inside4(uint32_t address)
{
	for (size_t i = 0; i < ARRAY_SIZE(nets); i++)
		if ((address ^ nets[i].net) >> (32 - nets[i].bits) == 0)
			return true;
	return false;
}

static uint32_t v4_at(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static bool is_inside6(const uint8_t b[16])
{
	static const uint8_t zero[16];
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
	static const uint8_t amazon[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54};

	if (memcmp(b, zero, 12) == 0 || memcmp(b, mapped, 12) == 0 || memcmp(b, nat64, 12) == 0)
		return is_inside4(v4_at(b + 12)); /* ::1 is in 0.0.0.0/8 */
	if (b[0] == 0x20 && b[1] == 0x02)         /* 6to4 */
		return is_inside4(v4_at(b + 2));
	return memcmp(b, amazon, sizeof(amazon)) == 0 || b[0] == 0xff ||
	       (b[0] == 0xfe && (b[1] & 0x80));
}

static bool is_address(const struct sockaddr *address)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (address->sa_family == AF_INET) {
		memcpy(&v4, address, sizeof(v4));
		return is_inside4(ntohl(v4.sin_addr.s_addr));
	}
	if (address->sa_family != AF_INET6)
		return true;
	memcpy(&v6, address, sizeof(v6));
	return is_inside6(v6.sin6_addr.s6_addr);
}

int inside_host(const char *url, char ret[INSIDE_HOST_MAX])
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_:";
	const char *s = strstr(url, "://");

	if (!s)
		return -EINVAL;
	s += 3;
	const size_t n = strcspn(s, "/?#");
	const char *at = memrchr(s, '@', n);
	const char *host = at ? at + 1 : s;
	const char *end = s + n;

	if (*host == '[') {
		const char *close = memchr(host, ']', (size_t)(end - host));

		if (!close)
			return -EINVAL;
		host++;
		end = close;
	} else {
		const char *colon = memchr(host, ':', (size_t)(end - host));

		end = colon ? colon : end;
	}
	while (end > host && end[-1] == '.')
		end--;
	const size_t len = (size_t)(end - host);

	if (len == 0 || len >= INSIDE_HOST_MAX)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		const char c = host[i];

		ret[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
		if (!strchr(allowed, ret[i]))
			return -EINVAL;
	}
	ret[len] = '\0';
	return 0;
}

bool inside_is_host(const char *host)
{
	static const char *const suffixes[] = {".localhost", ".localdomain", ".internal", ".local"};
	struct in6_addr v6;
	struct in_addr v4;

	/* inet_aton(3) takes what browsers and libraries take, too: 2130706433, 0x7f.1, 0177.0.0.1 */
	if (inet_aton(host, &v4))
		return is_inside4(ntohl(v4.s_addr));
	if (inet_pton(AF_INET6, host, &v6) == 1)
		return is_inside6(v6.s6_addr);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (text_ends_with(host, suffixes[i]))
			return true;
	return streq(host, "localhost") || strchr(host, ':') || !strchr(host, '.');
}

bool inside_resolves(const char *host)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	bool found = false;

	if (getaddrinfo(host, NULL, &hints, &list) != 0)
		return false;
	for (const struct addrinfo *a = list; a && !found; a = a->ai_next)
		found = is_address(a->ai_addr);
	freeaddrinfo(list);
	return found;
}
