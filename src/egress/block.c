/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/block.h"

#include "base/parse.h"

#include <string.h>

#define V4_BITS    32u
#define V6_BITS    128u
#define MAPPED     96u /* bits of ::ffff:0:0/96 */
#define BITS_TEXT  3u  /* digits */
#define BLOCK_TEXT "0123456789abcdefABCDEF.:"

_Static_assert(EGRESS_BLOCK_SIZE >= EGRESS_ADDRESS_TEXT + 1 + BITS_TEXT, "room for a block");

static unsigned all_bits(const struct egress_address *a)
{
	return a->family == AF_INET ? V4_BITS : V6_BITS;
}

static int parse_bits(const char *s, size_t len, unsigned max, uint8_t *ret)
{
	uint64_t bits;

	if (len == 0 || len > BITS_TEXT || (s[0] == '0' && len > 1) ||
	    parse_u64_n(s, len, 0, max, &bits) < 0)
		return -EINVAL;
	*ret = (uint8_t)bits;
	return 0;
}

static bool is_mapped(const struct egress_block *b)
{
	static const struct egress_block mapped = {
	    .first = {.family = AF_INET6, .bytes = {[10] = 0xff, [11] = 0xff}}, .bits = MAPPED};

	return egress_block_is_within(b, &mapped);
}

static void clear_rest(struct egress_block *b)
{
	for (unsigned i = b->bits; i < all_bits(&b->first); i++)
		b->first.bytes[i / 8] &= (uint8_t) ~(0x80u >> (i % 8));
}

int egress_block_parse(const char *s, size_t len, struct egress_block *ret)
{
	char text[EGRESS_ADDRESS_TEXT];
	const char *slash = memchr(s, '/', len);
	size_t n = slash ? (size_t)(slash - s) : len;
	struct egress_block b = {.bits = 0};

	if (n == 0 || n >= sizeof(text) || memchr(s, '\0', len))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	if (text[strspn(text, BLOCK_TEXT)] != '\0' || egress_address_parse(text, &b.first) < 0)
		return -EINVAL;
	b.bits = (uint8_t)all_bits(&b.first);
	if (slash && parse_bits(slash + 1, len - n - 1, b.bits, &b.bits) < 0)
		return -EINVAL;
	clear_rest(&b);
	if (is_mapped(&b))
		return -EINVAL;
	*ret = b;
	return 0;
}

bool egress_block_has(const struct egress_block *b, const struct egress_address *a)
{
	return b->first.family == a->family &&
	       egress_address_has_prefix(a->bytes, b->first.bytes, b->bits);
}

bool egress_block_is_within(const struct egress_block *b, const struct egress_block *wide)
{
	return b->bits >= wide->bits && egress_block_has(wide, &b->first);
}

bool egress_block_is_local(const struct egress_block *b)
{
	return egress_address_is_local(&b->first, b->bits);
}

void egress_block_text(const struct egress_block *b, char ret[EGRESS_BLOCK_SIZE])
{
	char address[EGRESS_ADDRESS_TEXT];

	egress_address_text(&b->first, address);
	(void)snprintf(ret, EGRESS_BLOCK_SIZE, b->bits < all_bits(&b->first) ? "%s/%u" : "%s",
		       address, b->bits);
}

int egress_block_entry(const char *entry, char ret[EGRESS_BLOCK_SIZE], struct err *e)
{
	struct egress_block b;

	if (egress_block_parse(entry, strlen(entry), &b) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.100s' is no address and no block of addresses, such as "
			       "203.0.113.7, 203.0.113.0/24 or 2001:db8::/32",
			       entry);
	egress_block_text(&b, ret);
	return 0;
}
