/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of addresses as rules name them: `203.0.113.7`, `203.0.113.0/24`, `2001:db8::/32`. */
#pragma once

#include "egress/address.h"
#include "egress/egress.h"

struct egress_block {
	struct egress_address first; /* the bits behind the prefix are 0 */
	uint8_t bits;                /* length of the prefix */
};

/* All of S must be a block; else -EINVAL. An address without a length is a block of one. Refused: IPv4 in other
 * notations than four decimal numbers, IPv4 within IPv6 (::ffff:203.0.113.7: the proxy connects to no such
 * address, so a rule for it would not do what it says), zones, brackets, lengths with leading zeros. */
int egress_block_parse(const char *s, size_t len, struct egress_block *ret) MUST_CHECK;
bool egress_block_has(const struct egress_block *b, const struct egress_address *a);
/* Whether all addresses of B are in WIDE. */
bool egress_block_is_within(const struct egress_block *b, const struct egress_block *wide);
/* Whether no address of B is public. */
bool egress_block_is_local(const struct egress_block *b);
/* In the form in which blocks are compared; a block of one address without its length. */
void egress_block_text(const struct egress_block *b, char ret[EGRESS_BLOCK_SIZE]);
