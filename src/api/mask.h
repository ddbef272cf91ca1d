/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces secrets in a stream of bytes by MASK_TEXT, wherever the pieces of the stream begin and end.
 *
 * Every byte that belongs to an occurrence of a secret is masked, also where occurrences overlap. Bytes that may
 * be the beginning of a secret are held back until the next piece or the end decides; other bytes pass at once.
 * A secret is found as it is and in the forms of mask_forms.h. Code that encodes it in another way, or prints it in
 * parts, shows it.
 *
 * Each byte costs one step, and one more for each form of which the stream ends with a part (Knuth, Morris and Pratt). The
 * caller bounds mask_steps(). */
#pragma once

#include "base/buf.h"

#define MASK_TEXT        "\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2"
#define MASK_SECRET_MIN  4u /* bytes; a shorter value is not masked, because it occurs everywhere */
#define MASK_SECRET_MAX  65535u
#define MASK_SECRETS_MAX 1024u

struct mask_set; /* secrets; shared by the streams of a run */
struct mask;     /* one stream */

/* N texts, at most MASK_SECRETS_MAX; those that are too short or too long are left out. *RET NULL: there is nothing to
 * mask. -ENOMEM, -E2BIG. */
int mask_set_new(const char *const *secrets, size_t n, struct mask_set **ret) MUST_CHECK;
struct mask_set *mask_set_free(struct mask_set *set); /* wipes the texts; NULL is fine */

/* SET is borrowed until mask_free(). NULL: no memory. */
struct mask *mask_new(const struct mask_set *set);
struct mask *mask_free(struct mask *m);
/* Appends to OUT what is certain of everything up to now. -ENOMEM, -ENOBUFS: M must not be used again. */
int mask_add(struct mask *m, const void *data, size_t len, struct buf *out) MUST_CHECK;
/* Steps so far. */
uint64_t mask_steps(const struct mask *m);
/* The stream has ended: appends the rest. */
int mask_end(struct mask *m, struct buf *out) MUST_CHECK;

/* A whole text. SET may be NULL. */
int mask_text(const struct mask_set *set, const char *text, size_t len, struct buf *out) MUST_CHECK;
/* The same, and adds the steps to *STEPS. */
int mask_counted(const struct mask_set *set, const char *text, size_t len, uint64_t *steps,
		 struct buf *out) MUST_CHECK;
