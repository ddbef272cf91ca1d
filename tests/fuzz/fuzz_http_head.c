/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads and chunked bodies. Properties: the end of a head does not depend on how its bytes
 * arrive; every string that a parsed head names lies inside it; a chunked body decodes to the same
 * bytes whole and byte by byte; the host, of the target or of Host, is a valid one. */
#include "fuzz.h"

#include "http/chunk.h"
#include "http/host_header.h"
#include "http/request_head.h"

#include <string.h>

static int scan_in_pieces(const char *buf, size_t len)
{
	struct http_scan scan = {0};
	int r = 0;

	for (size_t n = 1; n <= len && r == 0; n++)
		r = http_head_scan(&scan, buf, n);
	return r;
}

static void head(const char *data, size_t size)
{
	struct http_scan scan = {0};
	struct http_head parsed;
	_cleanup_free_ char *buf = NULL;
	int len = http_head_scan(&scan, data, size);

	ASSERT(len == scan_in_pieces(data, size));
	if (len <= 2)
		return;
	ASSERT((size_t)len <= size);
	buf = malloc((size_t)len);
	ASSERT(buf);
	memcpy(buf, data, (size_t)len);
	if (http_head_parse(buf, (size_t)len, &parsed) != 0)
		return;
	ASSERT(parsed.target + strlen(buf + parsed.target) < (size_t)len);
	ASSERT(buf[parsed.target] == '/' ||
	       (parsed.method == HTTP_OPTIONS && strcmp(buf + parsed.target, "*") == 0));
	const char *own = http_head_get(buf, &parsed, "HOST");
	struct http_host host;
	ASSERT(own || parsed.minor == 0);
	ASSERT(!own || http_host_parse(own, strlen(own), &host) == 0);
	ASSERT(parsed.n_fields <= HTTP_HEADERS_MAX);
	for (unsigned i = 0; i < parsed.n_fields; i++) {
		const char *name = buf + parsed.fields[i].name;
		const char *value = buf + parsed.fields[i].value;

		ASSERT(http_is_token(name, strlen(name)));
		ASSERT((size_t)(value - buf) + strlen(value) < (size_t)len);
		ASSERT(!strpbrk(value, "\r\n"));
	}
}

/* Decodes in steps of STEP bytes into OUT; -1 = refused. */
static int64_t decode(const char *data, size_t size, size_t step, char *out)
{
	struct http_chunk c = {0};
	size_t n_out = 0;
	size_t at = 0;

	while (at < size && !http_chunk_done(&c)) {
		size_t part = MIN(step, size - at);
		const char *piece = NULL;
		size_t n = 0;
		int64_t used = http_chunk_next(&c, data + at, part, &piece, &n);

		if (used < 0)
			return -1;
		ASSERT((size_t)used <= part && n <= part);
		ASSERT(used > 0 || http_chunk_done(&c));
		if (piece) {
			memcpy(out + n_out, piece, n);
			n_out += n;
		}
		at += (size_t)used;
	}
	return http_chunk_done(&c) ? (int64_t)n_out : -2;
}

static void chunks(const char *data, size_t size)
{
	_cleanup_free_ char *whole = malloc(size + 1);
	_cleanup_free_ char *pieces = malloc(size + 1);
	int64_t n_whole;

	ASSERT(whole && pieces);
	n_whole = decode(data, size, size ? size : 1, whole);
	ASSERT(n_whole == decode(data, size, 1, pieces));
	if (n_whole > 0)
		ASSERT(memcmp(whole, pieces, (size_t)n_whole) == 0);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	if (size > HTTP_HEAD_LIMIT)
		return 0;
	head((const char *)data, size);
	chunks((const char *)data, size);
	return 0;
}
