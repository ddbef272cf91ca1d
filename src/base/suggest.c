/* SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include "base/attr.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PREFIX_MIN 3 /* "conf" means "config", but "c" could mean anything */

struct suggest suggest_for(const char *word)
{
	size_t len = strlen(word);

	/* One wrong letter in three, and at most three: otherwise any short name would be near. */
	return (struct suggest){.word = word,
				.edits = (unsigned)MIN(MAX(len / 3, (size_t)1), (size_t)3) + 1};
}

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The Damerau-Levenshtein distance: letters to insert, remove or replace, and neighbours to swap.
 * Three rows of the usual matrix are enough. */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned rows[3][SUGGEST_NAME_MAX + 1];

	for (size_t j = 0; j <= m; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *now = rows[i % 3];
		const unsigned *last = rows[(i + 2) % 3];
		const unsigned *before = rows[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned replaced = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);

			now[j] = MIN(replaced, MIN(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				now[j] = MIN(now[j], before[j - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

void suggest_offer(struct suggest *s, const char *name)
{
	size_t n = strlen(s->word), m = strlen(name);

	if (n == 0 || n >= SUGGEST_NAME_MAX || m >= SUGGEST_NAME_MAX)
		return;
	bool begins = n >= PREFIX_MIN && m > n && strncasecmp(name, s->word, n) == 0;
	unsigned edits = begins ? 1 : distance(s->word, n, name, m);

	if (edits >= s->edits)
		return;
	s->edits = edits;
	(void)!text_copy(s->name, sizeof(s->name), name);
}

void suggest_take(struct suggest *s, const char *text)
{
	s->edits = 0;
	(void)!text_copy(s->name, sizeof(s->name), text);
}

const char *suggest_text(struct suggest *s)
{
	if (s->name[0])
		(void)snprintf(s->text, sizeof(s->text), "; did you mean '%s'?", s->name);
	return s->text;
}
