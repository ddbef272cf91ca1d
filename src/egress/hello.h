/* SPDX-License-Identifier: Apache-2.0 */
/* A strict parser of the first message of a TLS connection (RFC 8446 §4.1.2, RFC 6066 §3). */
#pragma once

#include "base/attr.h"
#include "egress/egress.h"
#include "egress/reason.h"

#include <stddef.h>
#include <stdint.h>

#define EGRESS_HELLO_MAX (5u + 16384u) /* one record with its header */

/* BUF holds the bytes that have arrived so far. Returns the length of the record with the complete
 * ClientHello, and in RET_NAME its server name in the form in which names are compared; 0 when more bytes
 * are needed; or -EBADMSG with *RET_WHY. The message must fill one record exactly, name one server, and
 * have no encrypted part (ECH). */
int egress_hello_parse(const uint8_t *buf, size_t len, char ret_name[EGRESS_HOST_MAX + 1],
		       enum egress_reason *ret_why) MUST_CHECK;
