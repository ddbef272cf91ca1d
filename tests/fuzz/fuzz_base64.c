/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 in pieces. Properties: what a text gives does not depend on where it is split; what was
 * decoded and is encoded again decodes to the same bytes; checking alone says the same. */
#include "fuzz.h"

#include "base/base64.h"

#include <string.h>

#define TEXT_MAX 8192

static int decode(const char *text, size_t len, size_t split, uint8_t *ret, size_t *ret_len)
{
	struct base64_decoder d = {0};
	size_t first = 0, second = 0;
	int r = base64_decode(&d, text, split, ret, &first);

	if (r == 0)
		r = base64_decode(&d, text + split, len - split, ret ? ret + first : NULL, &second);
	if (r == 0)
		r = base64_decode_end(&d);
	*ret_len = first + second;
	return r;
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static uint8_t whole[TEXT_MAX + 8], parts[TEXT_MAX + 8];
	static char text[BASE64_ENCODED_LEN(TEXT_MAX) + 1];
	size_t n, m, k;

	size = MIN(size, (size_t)TEXT_MAX);
	int r = decode((const char *)data, size, 0, whole, &n);
	for (size_t split = 1; split <= size; split += 1 + size / 16) {
		ASSERT(decode((const char *)data, size, split, parts, &m) == r);
		ASSERT(r < 0 || (m == n && memcmp(whole, parts, n) == 0));
	}
	ASSERT(decode((const char *)data, size, size / 2, NULL, &k) == r);
	if (r < 0)
		return 0;
	ASSERT(k == n);
	base64_encode(whole, n, text);
	ASSERT(decode(text, BASE64_ENCODED_LEN(n), 0, parts, &m) == 0);
	ASSERT(m == n && memcmp(whole, parts, n) == 0);
	return 0;
}
