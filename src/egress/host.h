/* SPDX-License-Identifier: Apache-2.0 */
/* Host names and ports in the one form in which they are compared. */
#pragma once

#include "base/attr.h"
#include "egress/egress.h"

enum egress_host_form {
	EGRESS_HOST_NAME,   /* labels of [a-z0-9-], at least two, the last not a number */
	EGRESS_HOST_SINGLE, /* one label: can be trusted, but no list can allow it */
	EGRESS_HOST_V4,     /* four plain decimal numbers */
	EGRESS_HOST_V6,     /* without brackets, spelled as by inet_ntop(3) */
};

struct egress_target {
	char host[EGRESS_HOST_MAX + 1];
	enum egress_host_form form;
	uint16_t port;
};

/* All of S must be a host; else -EINVAL. Letters become lower case. Refused: a trailing dot, blanks, NUL,
 * bytes outside ASCII (international names must be in the form xn--), IPv4 addresses in other notations
 * than four decimal numbers, IPv6 addresses without brackets or with a zone. */
int egress_host_parse(const char *s, size_t len, char ret[EGRESS_HOST_MAX + 1],
		      enum egress_host_form *ret_form) MUST_CHECK;
/* S must be a number 1-65535 without leading zeros; else -EINVAL. */
int egress_port_parse(const char *s, size_t len, uint16_t *ret) MUST_CHECK;
/* S must be HOST or HOST:PORT, PORT 1-65535 without leading zeros; else -EINVAL. DEF_PORT is used when S has
 * no port; 0: S must have one. */
int egress_target_parse(const char *s, size_t len, uint16_t def_port,
			struct egress_target *ret) MUST_CHECK;
