/* SPDX-License-Identifier: Apache-2.0 */
/* Internet addresses, and which of them belong to the public network. */
#pragma once

#include "base/attr.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct egress_address {
	int family;        /* AF_INET, AF_INET6 */
	uint8_t bytes[16]; /* network order; the first four for AF_INET */
};

#define EGRESS_ADDRESS_TEXT INET6_ADDRSTRLEN

enum egress_class {
	EGRESS_PUBLIC,
	EGRESS_SPECIAL, /* documentation and benchmark blocks, which nobody owns */
	EGRESS_LOCAL,   /* everything else that is not public */
};

/* *RET_NAME (may be NULL) gets the name of the block: "loopback" ... "public". */
enum egress_class egress_address_class(const struct egress_address *a, const char **ret_name);
/* Whether A is an address of this machine. Such an address may be public and still lead to services of
 * the machine. Sends nothing. True as well when that cannot be found out. */
bool egress_address_is_own(const struct egress_address *a);

/* Whether A and B begin with the same BITS bits. */
bool egress_address_has_prefix(const uint8_t *a, const uint8_t *b, unsigned bits);
/* Whether no address with the first BITS bits of A is public. */
bool egress_address_is_local(const struct egress_address *a, unsigned bits);

/* HOST must be a numeric address; else -EINVAL. */
int egress_address_parse(const char *host, struct egress_address *ret) MUST_CHECK;
/* Returns false when SA is neither IPv4 nor IPv6. */
bool egress_address_from(const struct sockaddr *sa, struct egress_address *ret);
socklen_t egress_address_socket(const struct egress_address *a, uint16_t port,
				struct sockaddr_storage *ret);
void egress_address_text(const struct egress_address *a, char ret[EGRESS_ADDRESS_TEXT]);
