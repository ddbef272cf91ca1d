/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 in pieces. Properties: what a text gives does not depend on where it is split; what was
 * decoded and is encoded again decodes to the same bytes; checking alone says the same;
 * a lax decoder takes all that a strict one takes. */
#include "fuzz.h"

#include "base/base64.h"

#include <string.h>

#define TEXT_MAX 8192

static int decode(bool lax, const char *text, size_t len, size_t split, uint8_t *ret,
		  size_t *ret_len)
{
	struct base64_decoder d = {.lax = lax};
	size_t first = 0, second = 0, end = 0;
	int r = base64_decode(&d, text, split, ret, &first);

	if (r == 0)
		r = base64_decode(&d, text + split, len - split, ret ? ret + first : NULL, &second);
	if (r == 0)
		r = base64_decode_end(&d, ret ? ret + first + second : NULL, &end);
	ASSERT(d.n_seen <= len && (lax || !d.irregular));
	*ret_len = first + second + end;
	return r;
}

static int check(bool lax, const char *data, size_t size)
{
	static uint8_t whole[BASE64_DECODED_MAX(TEXT_MAX) + 8],
	    parts[BASE64_DECODED_MAX(TEXT_MAX) + 8];
	static char text[BASE64_ENCODED_LEN(BASE64_DECODED_MAX(TEXT_MAX)) + 1];
	size_t n, m, k;

	int r = decode(lax, data, size, 0, whole, &n);
	for (size_t split = 1; split <= size; split += 1 + size / 16) {
		ASSERT(decode(lax, data, size, split, parts, &m) == r);
		ASSERT(r < 0 || (m == n && memcmp(whole, parts, n) == 0));
	}
	ASSERT(decode(lax, data, size, size / 2, NULL, &k) == r);
	if (r < 0)
		return r;
	ASSERT(k == n);
	base64_encode(whole, n, text);
	ASSERT(decode(lax, text, BASE64_ENCODED_LEN(n), 0, parts, &m) == 0);
	ASSERT(m == n && memcmp(whole, parts, n) == 0);
	return 0;
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	size = MIN(size, (size_t)TEXT_MAX);
	const int strict = check(false, (const char *)data, size);
	const int lax = check(true, (const char *)data, size);

	ASSERT(strict < 0 || lax == 0);
	return 0;
}
