/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

struct block {
	const char *name;
	uint8_t bytes[16];
	uint8_t bits;
	int family;
	enum egress_class class;
};

#define HI(g) (uint8_t)((g) >> 8)
#define LO(g) (uint8_t)((g)&0xff)

static const struct block blocks[] = {
#define V4(a, b, c, d, n, cl, nm) {nm, {a, b, c, d}, n, AF_INET, EGRESS_##cl},
#define V6(a, b, c, d, e, f, g, h, n, cl, nm)                                                      \
	{nm,                                                                                       \
	 {HI(a), LO(a), HI(b), LO(b), HI(c), LO(c), HI(d), LO(d), HI(e), LO(e), HI(f), LO(f),      \
	  HI(g), LO(g), HI(h), LO(h)},                                                             \
	 n,                                                                                        \
	 AF_INET6,                                                                                 \
	 EGRESS_##cl},
#include "egress/block.tbl.h"
#undef V4
#undef V6
};

bool egress_address_has_prefix(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8;
	uint8_t mask = (uint8_t)(0xff00u >> (bits % 8));

	return memcmp(a, b, whole) == 0 &&
	       (bits % 8 == 0 || (a[whole] & mask) == (b[whole] & mask));
}

/* IANA has assigned public IPv6 addresses in 2000::/3 only. */
#define ASSIGNED_BITS 3u
static bool is_assigned(const struct egress_address *a)
{
	return a->bytes[0] >> 5 == 1;
}

enum egress_class egress_address_class(const struct egress_address *a, const char **ret_name)
{
	const char *name = "public";
	enum egress_class class = EGRESS_PUBLIC;

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		const struct block *b = &blocks[i];
		if (b->family != a->family ||
		    !egress_address_has_prefix(a->bytes, b->bytes, b->bits))
			continue;
		name = b->name;
		class = b->class;
		break;
	}
	if (class == EGRESS_PUBLIC && a->family == AF_INET6 && !is_assigned(a)) {
		name = "reserved";
		class = EGRESS_LOCAL;
	}
	if (ret_name)
		*ret_name = name;
	return class;
}

bool egress_address_is_local(const struct egress_address *a, unsigned bits)
{
	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
		if (blocks[i].family == a->family && blocks[i].bits <= bits &&
		    egress_address_has_prefix(a->bytes, blocks[i].bytes, blocks[i].bits))
			return true;
	return a->family == AF_INET6 && bits >= ASSIGNED_BITS && !is_assigned(a);
}

/* A connected UDP socket tells which source address the kernel chose: for an address of this machine it
 * is that address. (A list of all addresses would need netlink, which the front may not use.) */
bool egress_address_is_own(const struct egress_address *a)
{
	struct sockaddr_storage sa;
	struct egress_address from;
	socklen_t len = egress_address_socket(a, 1, &sa);
	_cleanup_fd_ int fd = socket(a->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return true; /* nobody knows, so it is not allowed */
	if (connect(fd, (const struct sockaddr *)&sa, len) <
	    0) /* no route: no connection gets there */
		return errno != ENETUNREACH && errno != EHOSTUNREACH && errno != EACCES;
	len = sizeof(sa);
	return getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
	       !egress_address_from((const struct sockaddr *)&sa, &from) ||
	       memcmp(a->bytes, from.bytes, sizeof(from.bytes)) == 0;
}

int egress_address_parse(const char *host, struct egress_address *ret)
{
	struct egress_address a = {.family = strchr(host, ':') ? AF_INET6 : AF_INET};

	if (inet_pton(a.family, host, a.bytes) != 1)
		return -EINVAL;
	*ret = a;
	return 0;
}

bool egress_address_from(const struct sockaddr *sa, struct egress_address *ret)
{
	*ret = (struct egress_address){.family = sa->sa_family};
	if (sa->sa_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, sa, sizeof(in));
		memcpy(ret->bytes, &in.sin_addr, 4);
		return true;
	}
	if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, sa, sizeof(in6));
		memcpy(ret->bytes, &in6.sin6_addr, 16);
		return true;
	}
	return false;
}

socklen_t egress_address_socket(const struct egress_address *a, uint16_t port,
				struct sockaddr_storage *ret)
{
	*ret = (struct sockaddr_storage){0};
	if (a->family == AF_INET) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&in.sin_addr, a->bytes, 4);
		memcpy(ret, &in, sizeof(in));
		return sizeof(in);
	}
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&in6.sin6_addr, a->bytes, 16);
	memcpy(ret, &in6, sizeof(in6));
	return sizeof(in6);
}

void egress_address_text(const struct egress_address *a, char ret[EGRESS_ADDRESS_TEXT])
{
	if (!inet_ntop(a->family, a->bytes, ret, EGRESS_ADDRESS_TEXT))
		ret[0] = '\0';
}
