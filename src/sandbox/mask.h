/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces secrets in a stream of bytes by MASK_TEXT, wherever the pieces of the stream begin and end.
 *
 * Every byte that belongs to an occurrence of a secret is masked, also where occurrences overlap. Bytes that may
 * be the beginning of a secret are held back until the next piece or the end decides; other bytes pass at once.
 * A secret is found as it is and in the forms of mask_forms.h. Code that encodes it in another way, or prints it in
 * parts, shows it.
 *
 * All secrets and their forms are one automaton (Aho and Corasick). A byte costs one step, and a step back for each byte
 * that turns out not to be part of a secret: N bytes cost at most 2 * N steps, however many secrets there are. It is made at
 * the first run after a change of the secrets: 64 of 1000 bytes took 6 ms on a development machine, on the loop. */
#pragma once

#include "base/buf.h"

#define MASK_TEXT        "\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2"
#define MASK_SECRET_MIN  4u /* bytes; a shorter value is not masked, because it occurs everywhere */
#define MASK_SECRET_MAX  16384u /* bytes */
#define MASK_SECRETS_MAX 1024u
/* Bytes of all secrets and their forms; the automaton takes up to 14 for each. The secrets as they are come first, then
 * the forms of the shortest ones, as far as there is room. */
#define MASK_BYTES_MAX (128u << 10)

struct mask_set; /* secrets; shared by streams */
struct mask;     /* one stream */

/* N texts, at most MASK_SECRETS_MAX; those that are too short are left out. *RET NULL: there is nothing to mask. TAKE is
 * asked once, before the automaton is made, for the most BYTES that mask_set_memory() can be; NULL: nobody counts them.
 * -ENOMEM; -E2BIG: too many, or too long; what TAKE returned, if it is negative. */
int mask_set_new(const char *const *secrets, size_t n, int (*take)(size_t bytes, void *user),
		 void *user, struct mask_set **ret) MUST_CHECK;
struct mask_set *mask_set_free(struct mask_set *set); /* wipes the texts; NULL is fine */
size_t mask_set_memory(const struct mask_set *set);   /* bytes */
/* Bytes of the longest secret or form: so many bytes before a place decide what is masked from there on. */
size_t mask_set_longest(const struct mask_set *set);

/* SET is borrowed until mask_free(). NULL: no memory. */
struct mask *mask_new(const struct mask_set *set);
struct mask *mask_free(struct mask *m);
/* Appends to OUT what is certain of everything up to now. -ENOMEM, -ENOBUFS: M must not be used again. */
int mask_add(struct mask *m, const void *data, size_t len, struct buf *out) MUST_CHECK;
/* Bytes of the stream are missing. What is held back is dropped, and nothing of the next HIDDEN bytes is written: they
 * tell only whether the bytes behind them belong to a secret. */
void mask_skip(struct mask *m, size_t hidden);
/* Steps so far. */
uint64_t mask_steps(const struct mask *m);
/* The stream has ended: appends the rest. */
int mask_end(struct mask *m, struct buf *out) MUST_CHECK;

/* A whole text. SET may be NULL. */
int mask_text(const struct mask_set *set, const char *text, size_t len, struct buf *out) MUST_CHECK;
