/* SPDX-License-Identifier: Apache-2.0 */
/* A rule is matched as an automaton, whose time is the product of both lengths at most: no rule can make it slower than that. */
#include "image/ignore.h"

#include "base/text.h"
#include "image/def.h"

#include <string.h>

#define BLANKS " \t\v\f\r"

void ignore_done(struct ignore *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->rules[i].text);
	free(g->rules);
	*g = (struct ignore){0};
}

/* "./a//b/" becomes "a/b", and "a/../b" becomes "b". */
static void clean(char *s)
{
	char *out = s;
	const char *in = s;
	char *const start = s;

	while (*in) {
		const size_t n = strcspn(in, "/");

		if (n == 2 && in[0] == '.' && in[1] == '.') {
			while (out > start && *--out != '/')
				;
		} else if (n > 0 && !(n == 1 && in[0] == '.')) {
			if (out > start)
				*out++ = '/';
			memmove(out, in, n);
			out += n;
		}
		in += n;
		in += *in == '/';
	}
	*out = '\0';
}

/* Does every '[' have its ']'? */
static bool is_whole(const char *s)
{
	for (; *s; s++) {
		if (*s == '\\') {
			if (!*++s)
				return false;
		} else if (*s == '[') {
			s++;
			s += *s == '^';
			s += *s == ']';
			while (*s && *s != ']')
				s += *s == '\\' && s[1] ? 2 : 1;
			if (!*s)
				return false;
		}
	}
	return true;
}

static int add_rule(struct ignore *g, const char *name, unsigned line, const char *s, size_t len,
		    struct err *e)
{
	bool back = false;

	if (len > 0 && *s == '!') {
		back = true;
		s++;
		len--;
	}
	while (len > 0 && strchr(BLANKS, *s)) {
		s++;
		len--;
	}
	if (len == 0 && back)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "%s:%u: '!' without a pattern", name,
			       line);
	if (len > IGNORE_RULE_MAX || g->n >= IGNORE_RULES_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "%s:%u: at most %d patterns of %d bytes each", name, line,
			       IGNORE_RULES_MAX, IGNORE_RULE_MAX);
	char *text = strndup(s, len);
	struct ignore_rule *more = text ? realloc(g->rules, (g->n + 1) * sizeof(*more)) : NULL;

	if (!more) {
		free(text);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading %s", name);
	}
	g->rules = more;
	clean(text);
	if (!is_whole(text)) {
		free(text);
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "%s:%u: a '[' or '\\' is not ended",
			       name, line);
	}
	if (!text[0]) {
		free(text); /* "/" and ".": Docker takes them for nothing */
		return 0;
	}
	g->rules[g->n++] = (struct ignore_rule){.text = text, .back = back};
	g->back |= back;
	return 0;
}

int ignore_parse(const char *name, const char *text, size_t len, struct ignore *ret, struct err *e)
{
	struct ignore g = {0};
	const char *end = text + len;
	unsigned line = 0;
	int r = 0;

	if (len > IGNORE_BYTES_MAX || memchr(text, '\0', len))
		r = err_set(e, ERR_INVALID_ARGUMENT, 0, "%s is no text of at most %u KiB", name,
			    IGNORE_BYTES_MAX >> 10);
	if (r >= 0 && len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	for (; r >= 0 && text < end; line++) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((nl ? nl : end) - text);
		const char *s = text;

		text = nl ? nl + 1 : end;
		if (n > 0 && *s == '#')
			continue;
		while (n > 0 && strchr(BLANKS, *s)) {
			s++;
			n--;
		}
		while (n > 0 && strchr(BLANKS, s[n - 1]))
			n--;
		if (n > 0)
			r = add_rule(&g, name, line + 1, s, n, e);
	}
	if (r < 0)
		ignore_done(&g);
	*ret = g;
	return r;
}

/* One element of a rule. */
enum element { LITERAL, ONE, STAR, FOLDERS, REST, CLASS };

static enum element element_at(const char *s, size_t *len)
{
	if (s[0] == '*' && s[1] == '*') {
		*len = s[2] == '/' ? 3 : 2;
		return s[2] ? FOLDERS : REST;
	}
	if (s[0] == '[') {
		const char *p = s + 1;

		p += *p == '^';
		p += *p == ']';
		while (*p && *p != ']')
			p += *p == '\\' && p[1] ? 2 : 1;
		*len = (size_t)(p - s) + 1;
		return CLASS;
	}
	*len = s[0] == '\\' ? 2 : 1;
	return s[0] == '*' ? STAR : s[0] == '?' ? ONE : LITERAL;
}

static bool in_class(const char *s, size_t len, char c)
{
	const char *p = s + 1, *end = s + len - 1;
	const bool not = *p == '^';
	bool found = false;

	p += not ;
	while (p < end) {
		p += *p == '\\' && p + 1 < end;
		const unsigned char low = (unsigned char)*p++;
		unsigned char high = low;

		if (p + 1 < end && *p == '-') {
			p++;
			p += *p == '\\' && p + 1 < end;
			high = (unsigned char)*p++;
		}
		found |= (unsigned char)c >= low && (unsigned char)c <= high;
	}
	return found != not &&c != '/';
}

/* The places of a rule that the automaton is at; of FOLDERS also inside it. */
struct places {
	bool at[IGNORE_RULE_MAX + 2];
	bool inside[IGNORE_RULE_MAX + 2];
	size_t first, last; /* of those that are set; first > last: none */
};

static void enter(struct places *p, const char *rule, size_t at)
{
	for (;;) {
		size_t len;

		if (p->at[at])
			return;
		p->at[at] = true;
		p->first = MIN(p->first, at);
		p->last = MAX(p->last, at);
		if (!rule[at])
			return;
		const enum element kind = element_at(rule + at, &len);

		if (kind != STAR && kind != FOLDERS && kind != REST)
			return;
		at += len; /* these may be nothing */
	}
}

static void stay_inside(struct places *p, size_t at)
{
	p->inside[at] = true;
	p->first = MIN(p->first, at);
	p->last = MAX(p->last, at);
}

static void step(const struct places *from, struct places *to, const char *rule, size_t at, char c)
{
	size_t len;

	if (!rule[at])
		return;
	const enum element kind = element_at(rule + at, &len);

	if (kind == FOLDERS) {
		if (from->at[at] || from->inside[at]) {
			stay_inside(to, at);
			if (c == '/')
				enter(to, rule, at + len);
		}
		return;
	}
	if (!from->at[at])
		return;
	if (kind == REST || (kind == STAR && c != '/'))
		enter(to, rule, at);
	else if ((kind == ONE && c != '/') || (kind == CLASS && in_class(rule + at, len, c)) ||
		 (kind == LITERAL && rule[at + len - 1] == c))
		enter(to, rule, at + len);
}

static void places_clear(struct places *p, size_t n)
{
	memset(p->at, 0, n + 1);
	memset(p->inside, 0, n + 1);
	p->first = SIZE_MAX;
	p->last = 0;
}

/* Whether RULE matches PATH, or a folder that it is in. */
static bool matches(struct ignore *g, const char *rule, const char *path)
{
	static struct places one, two; /* this program has one thread here */
	struct places *now = &one, *next = &two;
	const size_t n = strlen(rule);

	places_clear(now, n);
	enter(now, rule, 0);
	for (;; path++) {
		if (now->at[n] && (*path == '\0' || *path == '/'))
			return true;
		if (!*path || now->first > now->last)
			return false;
		places_clear(next, n);
		for (size_t at = now->first; at <= now->last; at++) {
			g->work++;
			if (now->at[at] || now->inside[at])
				step(now, next, rule, at, *path);
		}
		g->work += n / 8;
		struct places *swap = now;

		now = next;
		next = swap;
	}
}

int ignore_match(struct ignore *g, const char *path)
{
	int out = 0;

	for (size_t i = 0; i < g->n; i++) {
		const struct ignore_rule *rule = &g->rules[i];

		if (g->work > IGNORE_WORK_MAX)
			return -E2BIG;
		/* one that says what is so already need not be tried */
		if ((out == 0) != rule->back && matches(g, rule->text, path))
			out = !rule->back;
	}
	return out;
}

/* ---- for awk ---- */

/* The bytes that a class fits, as ranges of octal numbers: no byte of the class has a meaning then. */
static int print_class(struct buf *out, const char *s, size_t len)
{
	int r = buf_add_char(out, '[');

	for (unsigned c = 1; r >= 0 && c < 256; c++) {
		unsigned last = c;

		if (!in_class(s, len, (char)c))
			continue;
		while (last < 255 && in_class(s, len, (char)(last + 1)))
			last++;
		r = last == c ? buf_printf(out, "\\%03o", c)
			      : buf_printf(out, "\\%03o-\\%03o", c, last);
		c = last;
	}
	return r < 0 ? r : buf_add_char(out, ']');
}

static int print_literal(struct buf *out, char c)
{
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (unsigned char)c >= 0x80 || c == '_' || c == ' ')
		return buf_add_char(out, c);
	return strchr("/\\^]", c) ? buf_printf(out, "\\%c", c) : buf_printf(out, "[%c]", c);
}

static int print_rule(struct buf *out, const char *rule)
{
	int r = 0;

	for (size_t len; r >= 0 && *rule; rule += len) {
		switch (element_at(rule, &len)) {
		case FOLDERS:
			r = buf_add_str(out, "(.*\\/)?");
			break;
		case REST:
			r = buf_add_str(out, ".*");
			break;
		case STAR:
			r = buf_add_str(out, "[^\\/]*");
			break;
		case ONE:
			r = buf_add_str(out, "[^\\/]");
			break;
		case CLASS:
			r = print_class(out, rule, len);
			break;
		case LITERAL:
			r = print_literal(out, rule[len - 1]);
			break;
		}
	}
	return r;
}

int ignore_print_awk(const struct ignore *g, struct buf *out)
{
	int r = buf_add_str(out, "{ x = 0 }\n");

	for (size_t i = 0; r >= 0 && i < g->n; i++) {
		r = buf_add_str(out, "/^(");
		r = r < 0 ? r : print_rule(out, g->rules[i].text);
		r = r < 0 ? r : buf_printf(out, ")(\\/.*)?$/ { x = %d }\n", !g->rules[i].back);
	}
	return r < 0 ? r : buf_add_str(out, "x { print }\n");
}
