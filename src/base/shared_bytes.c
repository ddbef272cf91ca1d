/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared_bytes.h"

#include "base/workers.h"

#include <stdlib.h>

struct shared_bytes *shared_bytes_new(char *data, size_t len)
{
	struct shared_bytes *b = malloc(sizeof(*b));

	if (b)
		*b = (struct shared_bytes){.refs = 1, .len = len, .data = data};
	else
		free(data);
	return b;
}

struct shared_bytes *shared_bytes_ref(struct shared_bytes *b)
{
	b->refs++;
	return b;
}

struct shared_bytes *shared_bytes_unref(struct shared_bytes *b)
{
	if (!b || --b->refs > 0)
		return NULL;
	workers_free_memory("", b->data, b->len);
	free(b);
	return NULL;
}
