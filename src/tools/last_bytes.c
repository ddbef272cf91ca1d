/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/last_bytes.h"

#include "base/attr.h"

#include <string.h>

void last_bytes_add(char *room, size_t size, size_t *len, const char *data, size_t n)
{
	if (n >= size) {
		memcpy(room, data + n - size, size);
		*len = size;
		return;
	}
	const size_t keep = MIN(*len, size - n);

	memmove(room, room + *len - keep, keep);
	memcpy(room + keep, data, n);
	*len = keep + n;
}
