/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <pthread.h>
#include <string.h>

#define BAD 0xFF

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The table of values by character; BAD for a character that is not in the alphabet. */
static const uint8_t *values(void)
{
	static uint8_t table[256];
	static bool ready;

	if (!ready) {
		for (size_t i = 0; i < sizeof(table); i++)
			table[i] = BAD;
		for (uint8_t i = 0; i < 64; i++)
			table[(uint8_t)alphabet[i]] = i;
		ready = true;
	}
	return table;
}

/* The last group: "xx==" or "xxx=". Its unused bits are ignored. */
static int decode_pad(struct base64_decoder *d, uint8_t *ret, size_t *n)
{
	if (d->n_chars < 2 || d->n_chars + ++d->n_pad > 4)
		return -EINVAL;
	if (d->n_chars + d->n_pad < 4)
		return 0;
	uint32_t bytes = d->bits >> (d->n_chars == 2 ? 4 : 2);
	for (unsigned i = d->n_chars - 1; i-- > 0;) {
		if (ret)
			ret[*n] = (uint8_t)(bytes >> (8 * i));
		(*n)++;
	}
	return 0;
}

/* Decodes whole groups of four from the beginning of TEXT and stops before the first wrong one.
 * Returns the number of characters used. RET may be NULL. */
static size_t decode_groups(const uint8_t *value, const char *text, size_t len, uint8_t *ret)
{
	const uint8_t *t = (const uint8_t *)text;
	size_t i = 0;

	for (; len - i >= 4; i += 4) {
		const uint8_t a = value[t[i]], b = value[t[i + 1]];
		const uint8_t c = value[t[i + 2]], e = value[t[i + 3]];

		if ((a | b | c | e) & 0x80) /* one of them is BAD; values have six bits */
			break;
		if (!ret)
			continue;
		*ret++ = (uint8_t)(a << 2 | b >> 4);
		*ret++ = (uint8_t)(b << 4 | c >> 2);
		*ret++ = (uint8_t)(c << 6 | e);
	}
	return i;
}

int base64_decode(struct base64_decoder *d, const char *text, size_t len, uint8_t *ret,
		  size_t *ret_len)
{
	const uint8_t *value = values();
	const bool aligned = d->n_chars == 0 && d->n_pad == 0;
	const size_t whole = aligned ? decode_groups(value, text, len, ret) : 0;
	size_t n = whole / 4 * 3;

	for (size_t i = whole; i < len; i++) {
		if (text[i] == '=') {
			int r = decode_pad(d, ret, &n);
			if (r < 0)
				return r;
			continue;
		}
		uint8_t v = value[(uint8_t)text[i]];
		if (v == BAD || d->n_pad > 0)
			return -EINVAL;
		d->bits = (d->bits << 6 | v) & 0xFFFFFF;
		if (++d->n_chars < 4)
			continue;
		d->n_chars = 0;
		if (ret) {
			ret[n] = (uint8_t)(d->bits >> 16);
			ret[n + 1] = (uint8_t)(d->bits >> 8);
			ret[n + 2] = (uint8_t)d->bits;
		}
		n += 3;
	}
	if (ret_len)
		*ret_len = n;
	return 0;
}

int base64_decode_end(const struct base64_decoder *d)
{
	if (d->n_pad > 0)
		return d->n_chars + d->n_pad == 4 ? 0 : -EINVAL;
	return d->n_chars == 0 ? 0 : -EINVAL;
}

/* Two characters for each 12 bits: half as many look-ups, 8 KiB that stay in the cache. */
static char pair_table[4096][2];

static void fill_pairs(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(pair_table); i++) {
		pair_table[i][0] = alphabet[i >> 6];
		pair_table[i][1] = alphabet[i & 63];
	}
}

/* Threads encode, too. */
static const char (*pairs(void))[2]
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, fill_pairs);
	return pair_table;
}

void base64_encode(const uint8_t *data, size_t len, char *ret)
{
	const char(*pair)[2] = pairs();

	for (; len >= 3; len -= 3, data += 3, ret += 4) {
		memcpy(ret, pair[data[0] << 4 | data[1] >> 4], 2);
		memcpy(ret + 2, pair[(data[1] & 15) << 8 | data[2]], 2);
	}
	if (len == 0)
		return;
	uint8_t second = len == 2 ? data[1] : 0;
	ret[0] = alphabet[data[0] >> 2];
	ret[1] = alphabet[(data[0] & 3) << 4 | second >> 4];
	ret[2] = len == 2 ? alphabet[(second & 15) << 2] : '=';
	ret[3] = '=';
}
