/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is not UTF-8, decoded by a program in its sandbox: the detector is a library of the image, and decoders are no
 * code for this process. Private to this folder. */
#pragma once

#include "base/buf.h"
#include "sandbox/sandbox.h"

#define DECODE_MAX  (4u << 20) /* first bytes of a file that are decoded */
#define CHARSET_MAX 32u

struct decoded {
	char charset[CHARSET_MAX]; /* for open() of Python; lower-case letters, digits, - and _ */
	unsigned sure;             /* percent */
	struct buf text; /* its first HEAD bytes are not part of it; not trusted: any bytes */
	size_t head;
};
/* The callee takes the text of FOUND. NULL: nothing in the sandbox can tell. */
typedef void (*decode_fn)(struct decoded *found, void *user);

/* Whether TEXT, the first MAX bytes of a file or all of it, is UTF-8. */
bool decode_is_utf8(const struct buf *text, size_t max);
/* CB is called in any case, also at once. The sandbox is busy until then. */
void decode_text(struct sandbox *s, const char *path, decode_fn cb, void *user);
