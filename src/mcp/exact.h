/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by which a client names its requests, kept as the client wrote them.
 *
 * An answer must repeat the id of its request, a cancellation names it, and progress repeats a token. jansson refuses
 * integers beyond 64 bits and writes other numbers anew (1e0 as 1.0). Programs whose numbers are all floats send 1.0,
 * and others send random 64 or 128 bits. So such a number becomes a string before the tree is built: a mark and
 * the text of the number. These strings are kept and compared like all others, and the messages that we
 * write have the number in their place. The mark has a random part, so no string of a client can be taken for one. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>

#define EXACT_MAX    160U /* bytes of such a number */
#define EXACT_DIGITS 18U  /* an integer of so many bytes fits into 64 bits */
#define EXACT_MORE   64U  /* bytes that the string is longer, at most */

/* Copies the message TEXT to RET, with strings in place of such numbers: ids, and in the parameters requestId and
 * _meta.progressToken. TEXT is JSON without blanks; it may be a batch. */
int exact_hide(const char *text, size_t len, struct buf *ret) MUST_CHECK;
/* The string for the number TEXT. NULL: no memory, or TEXT is no number that needs one. */
json_t *exact_number(const char *text, size_t len);
/* Is VALUE such a string? It may be NULL. */
bool exact_is(const json_t *value);
/* Puts the numbers back into the JSON text that B has from FROM on. */
void exact_restore(struct buf *b, size_t from);
