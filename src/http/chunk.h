/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked bodies, RFC 9112 §7.1, read strictly: hexadecimal size, CRLF, data, CRLF. Extensions and
 * trailers are skipped, as the RFC demands, up to HTTP_CHUNK_EXTRA_MAX bytes in one body. Each line must end with CRLF:
 * request smuggling lives from servers that disagree about that. No allocation, no I/O; fuzzed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_CHUNK_EXTRA_MAX 16384u /* bytes of extensions and trailers in one body */

struct http_chunk {
	uint64_t left;  /* bytes of the current chunk's data still to come */
	unsigned state; /* private; zero-initialise */
	unsigned digits;
	unsigned extra; /* bytes of extensions and trailers so far */
};

/* Reads from the LEN bytes of BUF. Returns how many bytes it used, or -EBADMSG. One call reads
 * either framing or data: if *RET_DATA is not NULL, *RET_N bytes of the body are there. Call it
 * again with the rest until all bytes are used or http_chunk_done() says true. */
int64_t http_chunk_next(struct http_chunk *c, const char *buf, size_t len, const char **ret_data,
			size_t *ret_n) MUST_CHECK;
/* Bytes of the current chunk that have not come yet; 0 while its size is being read. */
uint64_t http_chunk_announced(const struct http_chunk *c);
/* Takes back the last N bytes of the data that http_chunk_next() has just returned. */
void http_chunk_untake(struct http_chunk *c, size_t n);
bool http_chunk_done(const struct http_chunk *c);
