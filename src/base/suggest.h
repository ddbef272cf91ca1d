/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean …": finds, among the names that are offered, the one that a mistyped word is nearest to.
 *
 *   struct suggest s = suggest_for(word);
 *   for each name: suggest_offer(&s, name);
 *   suggest_text(&s)    ""  or  "; did you mean 'NAME'?" */
#pragma once

#define SUGGEST_NAME_MAX 64 /* longer words and names are not compared */

struct suggest {
	const char *word;            /* borrowed */
	char name[SUGGEST_NAME_MAX]; /* the nearest one so far; "" = none is near */
	char text[SUGGEST_NAME_MAX + 32];
	unsigned edits; /* between the two; an upper limit while there is none */
};

struct suggest suggest_for(const char *word);
/* NAME is copied. Upper and lower case count as the same. */
void suggest_offer(struct suggest *s, const char *name);
/* TEXT is what was meant, however far it is; the last one counts. */
void suggest_take(struct suggest *s, const char *text);
/* For the end of an error text. Borrowed from S. */
const char *suggest_text(struct suggest *s);
