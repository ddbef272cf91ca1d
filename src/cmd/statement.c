/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/statement.h"

#include <string.h>

struct scan {
	const char *at, *end;
	int depth;  /* open brackets */
	char last;  /* last character of the logical line, without blanks and comments; 0 = none */
	bool open;  /* the text ends inside a triple-quoted string or with a backslash */
	bool block; /* a logical line has begun a block */
};

static bool starts(const struct scan *s, char quote)
{
	return s->end - s->at >= 3 && s->at[0] == quote && s->at[1] == quote && s->at[2] == quote;
}

/* Skips the string that begins at a quote. A string without triple quotes ends with its line at the
 * latest. */
static void skip_string(struct scan *s)
{
	char quote = *s->at;
	bool triple = starts(s, quote);

	s->at += triple ? 3 : 1;
	while (s->at < s->end) {
		if (*s->at == '\\') {
			s->at += s->at + 1 < s->end ? 2 : 1;
			s->open = s->at == s->end; /* it continues in the next line */
		} else if (triple ? starts(s, quote) : *s->at == quote) {
			s->at += triple ? 3 : 1;
			return;
		} else if (!triple && *s->at == '\n') {
			return;
		} else {
			s->at++;
		}
	}
	s->open = s->open || triple;
}

static void end_line(struct scan *s)
{
	if (s->depth > 0)
		return;
	s->block = s->block || s->last == ':';
	s->last = 0;
}

/* Takes one character that is in no string or comment. */
static void take(struct scan *s)
{
	char c = *s->at++;

	if (c == '\n') {
		end_line(s);
		return;
	}
	if (c == '\\' && s->at < s->end && *s->at == '\n') {
		s->at++;
		s->open = s->at == s->end;
		return;
	}
	if (c == ' ' || c == '\t' || c == '\r' || c == '\f')
		return;
	if (s->last == 0 && s->depth == 0 && c == '@')
		s->block = true;
	s->last = c;
	if (c == '(' || c == '[' || c == '{')
		s->depth++;
	else if ((c == ')' || c == ']' || c == '}') && s->depth > 0)
		s->depth--;
}

/* Is the last line empty, but for blanks? */
static bool ends_empty(const char *text, size_t len)
{
	size_t at = len - 1;

	while (at > 0 && text[at - 1] != '\n')
		at--;
	return strspn(text + at, " \t\r\f") == len - 1 - at;
}

bool statement_is_whole(const char *text, size_t len)
{
	struct scan s = {.at = text, .end = text + len};

	while (s.at < s.end) {
		if (*s.at == '#') {
			while (s.at < s.end && *s.at != '\n')
				s.at++;
		} else if (*s.at == '"' || *s.at == '\'') {
			s.last = *s.at;
			skip_string(&s);
		} else {
			take(&s);
		}
	}
	if (s.open || s.depth > 0)
		return false;
	return !s.block || len == 0 || ends_empty(text, len);
}

bool statement_is_empty(const char *text, size_t len)
{
	size_t at = 0;

	while (at < len) {
		at += strspn(text + at, " \t\r\n\f");
		if (at >= len)
			break;
		if (text[at] != '#')
			return false;
		at += strcspn(text + at, "\n");
	}
	return true;
}
