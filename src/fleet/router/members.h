/* SPDX-License-Identifier: Apache-2.0 */
/* The workers that a router knows, as SANDBOX_FLEET_WORKERS lists them. No I/O. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "http/socket_address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLEET_MEMBERS_MAX  256u
#define FLEET_NAMES_MAX    64u
#define FLEET_SLICES_MAX   4u   /* Services among the names: each holds a thread */
#define FLEET_HOST_MAX     253u /* RFC 1035 §2.3.4, without the last dot */
#define FLEET_MEMBER_TEXT  (HTTP_ADDRESS_TEXT + 8)
#define FLEET_MEMBERS_FILE (64u << 10) /* bytes of the file */

struct fleet_address {
	char text[FLEET_MEMBER_TEXT]; /* "10.0.0.7:8443", "[fd00::7]:8443": what Host says, too */
	union http_address address;
	socklen_t len;
};

/* One that names.h asks for addresses: a DNS name, or "NAMESPACE/NAME" of a Service of Kubernetes. */
struct fleet_name {
	char host[FLEET_HOST_MAX + 1];
	uint16_t port;
	bool slices; /* a Service: slices.h */
};

struct fleet_members {
	size_t n, n_names;
	struct fleet_address at[FLEET_MEMBERS_MAX];
	struct fleet_name names[FLEET_NAMES_MAX];
};

/* TEXT (LEN bytes): one HOST:PORT a line, HOST a numeric address or a DNS name, or endpointslices:NAMESPACE/NAME:PORT; blanks around it,
 * empty lines, and what follows a '#' do not count. A second line with the same address or name counts once. SETTING_INVALID names the line; RET is not complete then. */
int fleet_members_parse(const char *text, size_t len, struct fleet_members *ret,
			struct err *e) MUST_CHECK;
/* Fills in the text of A, whose address has PORT. */
void fleet_address_write(struct fleet_address *a, uint16_t port);
/* What can be the address of a worker: not "this host", not many at once, and not one that means nothing without an interface. */
bool fleet_address_is_of_one(const union http_address *a);
/* False: there is no room for A. True too if it is there already. */
bool fleet_members_add(struct fleet_members *m, const struct fleet_address *a);
