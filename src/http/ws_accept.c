/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 (FIPS 180-4 §6.1) is here for this one use: the libraries that we link ourselves have none. It protects nothing;
 * it only shows that the server has read the key. */
#include "http/ws_accept.h"

#include "base/base64.h"

#include <string.h>

#define KEY_CHARS 24u
#define KEY_BYTES 16u
#define GUID      "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define BLOCK     64u
#define DIGEST    20u
#define TEXT_LEN  (KEY_CHARS + sizeof(GUID) - 1)

bool ws_is_key(const char *text)
{
	struct base64_decoder d = {0};
	uint8_t bytes[BASE64_DECODED_MAX(KEY_CHARS) + BASE64_END_MAX];
	size_t n = 0, rest = 0;

	return strlen(text) == KEY_CHARS && base64_decode(&d, text, KEY_CHARS, bytes, &n) == 0 &&
	       base64_decode_end(&d, bytes + n, &rest) == 0 && n + rest == KEY_BYTES;
}

static uint32_t rotate(uint32_t x, unsigned by)
{
	return x << by | x >> (32 - by);
}

static void add_block(uint32_t h[5], const uint8_t *block)
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t f, k;

		if (i < 20) {
			f = (b & c) | (~b & d);
			k = 0x5a827999;
		} else if (i < 40) {
			f = b ^ c ^ d;
			k = 0x6ed9eba1;
		} else if (i < 60) {
			f = (b & c) | (b & d) | (c & d);
			k = 0x8f1bbcdc;
		} else {
			f = b ^ c ^ d;
			k = 0xca62c1d6;
		}
		const uint32_t next = rotate(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void ws_accept(const char *key, char ret[WS_ACCEPT_SIZE])
{
	uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
	uint8_t text[2 * BLOCK] = {0}, digest[DIGEST];
	const uint32_t bits = TEXT_LEN * 8;

	_Static_assert(TEXT_LEN + 1 + 8 <= sizeof(text), "text, the bit behind it, its length");
	memcpy(text, key, KEY_CHARS);
	memcpy(text + KEY_CHARS, GUID, sizeof(GUID) - 1);
	text[TEXT_LEN] = 0x80;
	for (unsigned i = 0; i < 4; i++)
		text[sizeof(text) - 1 - i] = (uint8_t)(bits >> (8 * i));
	add_block(h, text);
	add_block(h, text + BLOCK);
	for (unsigned i = 0; i < DIGEST; i++)
		digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
	base64_encode(digest, DIGEST, ret);
	ret[WS_ACCEPT_SIZE - 1] = '\0';
}
