/* SPDX-License-Identifier: Apache-2.0 */
/* Host names and ports in the one form in which they are compared. */
#pragma once

#include "base/attr.h"
#include "egress/egress.h"

enum egress_host_form {
	EGRESS_HOST_NAME,   /* labels of [a-z0-9-], at least two, the last not a number */
	EGRESS_HOST_SINGLE, /* one label: only ever trusted, never allowed by a list */
	EGRESS_HOST_V4,     /* four plain decimal numbers */
	EGRESS_HOST_V6,     /* without its brackets, in the kernel's spelling */
};

struct egress_target {
	char host[EGRESS_HOST_MAX + 1];
	enum egress_host_form form;
	uint16_t port;
};

/* Takes the whole of S or nothing. Letters become lower case. No trailing dot, no blanks, no NUL,
 * nothing outside ASCII (international names only as xn--), no numbers in other notations than
 * four decimals, IPv6 only in brackets and without a zone. -EINVAL. */
int egress_host_parse(const char *s, size_t len, char ret[EGRESS_HOST_MAX + 1],
		      enum egress_host_form *ret_form) MUST_CHECK;
/* HOST or HOST:PORT; PORT 1-65535 without leading zeros, DEF_PORT when there is none (0: there must
 * be one). -EINVAL. */
int egress_target_parse(const char *s, size_t len, uint16_t def_port,
			struct egress_target *ret) MUST_CHECK;
