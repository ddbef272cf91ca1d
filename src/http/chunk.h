/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked bodies, RFC 9112 §7.1 read strictly: hexadecimal size, CRLF, data, CRLF; no extensions
 * and no trailers (nobody sends them but those who try tricks). No allocation, no I/O; fuzzed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_chunk {
	uint64_t left;  /* bytes of the current chunk's data still to come */
	unsigned state; /* private; zero-initialise */
	unsigned digits;
};

/* Looks at the next LEN bytes of BUF. Returns how many bytes of framing or data were used, or
 * -EBADMSG. When *RET_DATA is not NULL afterwards, *RET_N bytes there are body. Call again with the
 * rest until all is used or http_chunk_done(). Data comes in its own call, so one call gives
 * framing or data. */
int64_t http_chunk_next(struct http_chunk *c, const char *buf, size_t len, const char **ret_data,
			size_t *ret_n) MUST_CHECK;
/* Bytes that the current chunk still announces; 0 while its size is being read. */
uint64_t http_chunk_announced(const struct http_chunk *c);
/* Takes back the last N bytes of the data that http_chunk_next() has just returned. */
void http_chunk_untake(struct http_chunk *c, size_t n);
bool http_chunk_done(const struct http_chunk *c);
