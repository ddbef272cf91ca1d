/* SPDX-License-Identifier: Apache-2.0 */
/* Masking. The lines of the input up to an empty one are secrets, the rest is a stream. Properties: however the stream is
 * split, the output is the same; no secret is in the output; a byte costs at most two steps; the end of a stream whose
 * beginning is missing ends as the whole does. */
#include "fuzz.h"

#include "sandbox/mask.h"

#include <stdlib.h>
#include <string.h>

#define INPUT_MAX   (4u << 10)
#define OUT_MAX     (1u << 20)
#define SECRETS_MAX 32u

static void feed(struct mask *m, const char *text, size_t len, size_t piece, struct buf *out)
{
	for (size_t at = 0; at < len; at += piece)
		ASSERT(mask_add(m, text + at, MIN(piece, len - at), out) == 0);
	ASSERT(mask_steps(m) <= 2 * len);
	ASSERT(mask_end(m, out) == 0);
}

/* A secret with bytes of the mark could be made by a mark. */
static void check_hidden(const char *secret, const struct buf *out)
{
	if (strlen(secret) >= MASK_SECRET_MIN && !strpbrk(secret, MASK_TEXT))
		ASSERT(!memmem(buf_str(out), out->len, secret, strlen(secret)));
}

static void check_end(const struct mask_set *set, const char *text, size_t len,
		      const struct buf *whole)
{
	const size_t hidden = MIN(len, mask_set_longest(set));
	struct buf out = BUF_INIT(OUT_MAX);
	struct mask *m = mask_new(set);

	ASSERT(m);
	mask_skip(m, hidden);
	feed(m, text, len, 7, &out);
	ASSERT(out.len <= whole->len);
	ASSERT(memcmp(buf_str(whole) + whole->len - out.len, buf_str(&out), out.len) == 0);
	(void)mask_free(m);
	buf_done(&out);
}

static void check(const char *const *secrets, size_t n, const char *text, size_t len)
{
	static const size_t pieces[] = {1, 3, 64, INPUT_MAX};
	struct buf outs[ARRAY_SIZE(pieces)];
	struct mask_set *set;

	ASSERT(mask_set_new(secrets, n, NULL, NULL, &set) == 0);
	if (!set)
		return;
	for (size_t k = 0; k < ARRAY_SIZE(pieces); k++) {
		struct mask *m = mask_new(set);

		ASSERT(m);
		buf_init(&outs[k], OUT_MAX);
		feed(m, text, len, pieces[k], &outs[k]);
		ASSERT(outs[k].len == outs[0].len &&
		       memcmp(buf_str(&outs[k]), buf_str(&outs[0]), outs[0].len) == 0);
		(void)mask_free(m);
	}
	for (size_t i = 0; i < n; i++)
		check_hidden(secrets[i], &outs[0]);
	check_end(set, text, len, &outs[0]);
	for (size_t k = 0; k < ARRAY_SIZE(pieces); k++)
		buf_done(&outs[k]);
	(void)mask_set_free(set);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size, *line;
	char *secrets[SECRETS_MAX];
	size_t n = 0;

	if (size > INPUT_MAX)
		return 0;
	while (n < SECRETS_MAX && (line = memchr(at, '\n', (size_t)(end - at))) && line > at) {
		secrets[n] = strndup(at, (size_t)(line - at));
		ASSERT(secrets[n++]);
		at = line + 1;
	}
	check((const char *const *)secrets, n, at, (size_t)(end - at));
	for (size_t i = 0; i < n; i++)
		free(secrets[i]);
	return 0;
}
