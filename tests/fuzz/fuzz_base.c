/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes, ids and base64. Properties: what is taken stays within its bounds; base64 that
 * was decoded in pieces equals base64 decoded at once; encoding gives back what strict decoding
 * took. */
#include "fuzz.h"

#include "base/base64.h"
#include "base/parse.h"

#include <string.h>

static void numbers(const char *text)
{
	char host[64];
	uint64_t u;
	int64_t i;
	uint16_t port;
	bool flag;

	if (parse_u64(text, 5, 1000, &u) == 0)
		ASSERT(u >= 5 && u <= 1000);
	if (parse_i64(text, -7, 7, &i) == 0)
		ASSERT(i >= -7 && i <= 7);
	if (parse_milli(text, 10, 64000, &u) == 0)
		ASSERT(u >= 10 && u <= 64000);
	if (parse_size(text, 1, UINT64_C(1) << 40, &u) == 0)
		ASSERT(u >= 1 && u <= UINT64_C(1) << 40);
	if (parse_bool(text, &flag) == 0)
		ASSERT(flag || !flag);
	if (parse_host_port(text, host, sizeof(host), &port) == 0)
		ASSERT(strlen(host) < sizeof(host));
}

static void ids(const char *text, size_t len)
{
	if (parse_is_session_id(text, len))
		ASSERT(len >= 1 && len <= 64 && !memchr(text, '\n', len) &&
		       !memchr(text, '/', len));
	if (parse_is_filename(text, len))
		ASSERT(len >= 1 && len <= 255 && !memchr(text, '/', len) && !memchr(text, 0, len));
	if (parse_is_image_name(text, len))
		ASSERT(len >= 1 && len <= 63 && text[0] != '.' && text[0] != '-');
}

static void base64(const char *text, size_t len)
{
	struct base64_decoder whole = {0};
	struct base64_decoder pieces = {0};
	_cleanup_free_ uint8_t *a = malloc(BASE64_DECODED_MAX(len) + 3);
	_cleanup_free_ uint8_t *b = malloc(BASE64_DECODED_MAX(len) + 3 * len + 3);
	_cleanup_free_ char *back = NULL;
	size_t n_a = 0;
	size_t n_b = 0;
	size_t n_end;
	int r_b = 0;
	int r_a;

	ASSERT(a && b);
	r_a = base64_decode(&whole, text, len, a, &n_a);
	if (r_a == 0)
		r_a = base64_decode_end(&whole, NULL, &n_end);
	for (size_t i = 0; i < len && r_b == 0; i++) {
		size_t n = 0;

		r_b = base64_decode(&pieces, text + i, 1, b + n_b, &n);
		n_b += r_b == 0 ? n : 0;
	}
	if (r_b == 0)
		r_b = base64_decode_end(&pieces, NULL, &n_end);
	ASSERT((r_a == 0) == (r_b == 0));
	if (r_a != 0)
		return;
	ASSERT(n_a == n_b && memcmp(a, b, n_a) == 0);
	ASSERT(BASE64_ENCODED_LEN(n_a) == len);
	back = malloc(len + 1);
	ASSERT(back);
	base64_encode(a, n_a, back);
	/* All but the last group must come back as they were; its unused bits are ignored. */
	ASSERT(len < 4 || memcmp(back, text, len - 4) == 0);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1);

	ASSERT(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	numbers(text);
	ids(text, size);
	base64(text, size);
	return 0;
}
