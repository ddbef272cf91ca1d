/* SPDX-License-Identifier: Apache-2.0 */
/* The workers that a router knows, as SANDBOX_FLEET_WORKERS lists them. No I/O. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "http/socket_address.h"

#include <stddef.h>

#define FLEET_MEMBERS_MAX  256u
#define FLEET_MEMBER_TEXT  (HTTP_ADDRESS_TEXT + 8)
#define FLEET_MEMBERS_FILE (64u << 10) /* bytes of the file */

struct fleet_address {
	char text[FLEET_MEMBER_TEXT]; /* "10.0.0.7:8443", "[fd00::7]:8443": what Host says, too */
	union http_address address;
	socklen_t len;
};

struct fleet_members {
	size_t n;
	struct fleet_address at[FLEET_MEMBERS_MAX];
};

/* TEXT (LEN bytes): one HOST:PORT a line, HOST a numeric address; blanks around it, empty lines, and what follows a '#' do not count.
 * A second line with the same address counts once. SETTING_INVALID names the line; RET is not complete then. */
int fleet_members_parse(const char *text, size_t len, struct fleet_members *ret,
			struct err *e) MUST_CHECK;
