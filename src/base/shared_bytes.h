/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes with several owners, who do not change them: a large message waits in the queue of a stream and is kept for
 * those who come back for it, and nobody copies it. For one thread. */
#pragma once

#include "base/attr.h"

#include <stddef.h>

struct shared_bytes {
	unsigned refs;
	size_t len;
	char *data;
};

/* DATA is malloc'ed and taken, also on failure. NULL: no memory. */
struct shared_bytes *shared_bytes_new(char *data, size_t len);
struct shared_bytes *shared_bytes_ref(struct shared_bytes *b);
/* Accepts NULL, returns NULL. */
struct shared_bytes *shared_bytes_unref(struct shared_bytes *b);
