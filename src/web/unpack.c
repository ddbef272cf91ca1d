/* SPDX-License-Identifier: Apache-2.0 */
#include "web/assets.h"
#include "web/results_view.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST /* zconf.h: next_in is not written */
#include <zlib.h>

#define GZIP_BITS (MAX_WBITS + 16) /* zlib.h, inflateInit2(): a gzip header */

char *web_unpack(const struct web_file *file)
{
	char *plain = malloc(file->plain_len + 1);
	z_stream zip = {.next_in = file->data,
			.avail_in = (uInt)file->len,
			.next_out = (unsigned char *)plain,
			.avail_out = (uInt)file->plain_len};

	if (!plain)
		return NULL;
	plain[file->plain_len] = '\0';
	if (file->len == file->plain_len)
		return memcpy(plain, file->data, file->len);
	bool done =
	    inflateInit2(&zip, GZIP_BITS) == Z_OK && inflate(&zip, Z_FINISH) == Z_STREAM_END;
	(void)inflateEnd(&zip);
	if (done && zip.avail_out == 0)
		return plain;
	free(plain);
	return NULL;
}

bool web_has_results_view(void)
{
	return web_results.data;
}

const char *web_results_view(size_t *len)
{
	static char *kept;

	if (!kept)
		kept = web_unpack(&web_results);
	*len = web_results.plain_len;
	return kept;
}
