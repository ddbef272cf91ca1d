/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/spec.h"

#include "base/buf.h"
#include "base/text.h"

#include <string.h>

#define EXTRAS_MAX  16u
#define CLAUSES_MAX 16u
#define VERSION_MAX 64u
#define MARKER_MAX  200u
#define SHOWN_MAX   60

/* A position in the text. A requirement that has a marker, or is on one of several lines, ends
 * with its line. */
struct scan {
	const char *at, *end;
	struct err *e;
};

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static int bad(const struct scan *s, const char *what)
{
	size_t n = 0;

	while (n < SHOWN_MAX && s->at + n < s->end && s->at[n] > 0x20 && s->at[n] < 0x7f)
		n++;
	(void)err_set(s->e, ERR_INVALID_ARGUMENT, 0, "package_name: %s at '%.*s'", what, (int)n,
		      s->at);
	return -EINVAL;
}

static void skip_blanks(struct scan *s)
{
	while (s->at < s->end && is_blank(*s->at))
		s->at++;
}

/* Skips blanks, line ends, commas between requirements, and comments. */
static void skip_between(struct scan *s, const char *begin)
{
	while (s->at < s->end) {
		if (*s->at == '#' && (s->at == begin || is_blank(s->at[-1]) || s->at[-1] == '\n'))
			while (s->at < s->end && *s->at != '\n')
				s->at++;
		else if (is_blank(*s->at) || *s->at == '\n' || *s->at == '\r' || *s->at == ',')
			s->at++;
		else
			return;
	}
}

static int add(const struct scan *s, struct buf *out, const char *text, size_t len)
{
	return buf_add(out, text, len) < 0 ? bad(s, "a requirement that is too long") : 0;
}

/* [A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])? */
static size_t name_length(const struct scan *s)
{
	size_t n = 0;

	while (s->at + n < s->end && (is_alnum(s->at[n]) || (n > 0 && memchr("._-", s->at[n], 3))))
		n++;
	return n > 0 && is_alnum(s->at[n - 1]) ? n : 0;
}

/* Would pip take NAME for a file? */
static bool is_archive(const char *name)
{
	static const char *const ends[] = {".whl", ".zip", ".tar", ".tgz", ".tbz", ".txz",
					   ".tlz", ".gz",  ".bz2", ".xz",  ".lzma"};
	char lower[SPEC_NAME_MAX + 1];

	for (size_t i = 0; i <= strlen(name); i++)
		lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 0x20) : name[i];
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (text_ends_with(lower, ends[i]))
			return true;
	return false;
}

static int parse_name(struct scan *s, struct spec_item *item, struct buf *out)
{
	size_t n = name_length(s);

	if (s->at < s->end && *s->at == '-')
		return bad(s, "options are not taken;");
	if (n == 0 || n > SPEC_NAME_MAX)
		return bad(s, "no name of a package");
	memcpy(item->name, s->at, n);
	item->name[n] = '\0';
	if (is_archive(item->name))
		return bad(s, "files are not taken;");
	int r = add(s, out, s->at, n);
	s->at += n;
	if (r == 0 && s->at < s->end && memchr(":/\\@", *s->at, 4))
		return bad(s, "addresses and paths are not taken;");
	return r;
}

static int parse_extras(struct scan *s, struct buf *out)
{
	int r = add(s, out, "[", 1);

	s->at++;
	for (unsigned i = 0; r == 0; i++) {
		skip_blanks(s);
		size_t n = name_length(s);
		if (n == 0 || n > SPEC_NAME_MAX || i == EXTRAS_MAX)
			return bad(s, "no name of an extra");
		r = add(s, out, s->at, n);
		s->at += n;
		skip_blanks(s);
		if (s->at == s->end || (*s->at != ',' && *s->at != ']'))
			return bad(s, "an extra without an end");
		char c = *s->at++;
		r = r < 0 ? r : add(s, out, &c, 1);
		if (c == ']')
			break;
	}
	return r;
}

static size_t operator_length(const struct scan *s)
{
	static const char *const operators[] = {"===", "~=", "==", "!=", "<=", ">=", "<", ">"};

	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		size_t n = strlen(operators[i]);
		if ((size_t)(s->end - s->at) >= n && memcmp(s->at, operators[i], n) == 0)
			return n;
	}
	return 0;
}

static int parse_clause(struct scan *s, struct buf *out)
{
	size_t op = operator_length(s);
	int r = add(s, out, s->at, op);

	s->at += op;
	skip_blanks(s);
	size_t n = 0;
	while (s->at + n < s->end && (is_alnum(s->at[n]) || memchr("._*+!-", s->at[n], 6)))
		n++;
	if (n == 0 || n > VERSION_MAX || !(is_alnum(*s->at)))
		return bad(s, "no version");
	r = r < 0 ? r : add(s, out, s->at, n);
	s->at += n;
	return r;
}

/* OP VERSION {, OP VERSION}; a comma without an operator after it begins the next requirement. */
static int parse_clauses(struct scan *s, struct buf *out)
{
	int r = parse_clause(s, out);

	for (unsigned i = 1; r == 0; i++) {
		struct scan ahead = *s;

		skip_blanks(&ahead);
		if (ahead.at == ahead.end || *ahead.at != ',')
			return 0;
		ahead.at++;
		skip_blanks(&ahead);
		if (operator_length(&ahead) == 0)
			return 0;
		if (i == CLAUSES_MAX)
			return bad(s, "too many versions");
		*s = ahead;
		r = add(s, out, ",", 1);
		r = r < 0 ? r : parse_clause(s, out);
	}
	return r;
}

/* A marker goes to the end of the line; only pip interprets it. */
static int parse_marker(struct scan *s, struct buf *out)
{
	static const char marks[] = " \t._<>=!~'\"(),-+*";
	size_t n = 0;

	s->at++;
	skip_blanks(s);
	while (s->at + n < s->end && s->at[n] != '\n' && s->at[n] != '\r' && s->at[n] != '#') {
		if (!is_alnum(s->at[n]) && !memchr(marks, s->at[n], sizeof(marks) - 1))
			return bad(s, "no environment marker");
		n++;
	}
	if (n == 0 || n > MARKER_MAX)
		return bad(s, "no environment marker");
	int r = add(s, out, "; ", 2);
	r = r < 0 ? r : add(s, out, s->at, n);
	s->at += n;
	return r;
}

static int parse_item(struct scan *s, struct spec_item *item)
{
	_cleanup_(buf_done) struct buf out = BUF_INIT(SPEC_ITEM_MAX);
	struct scan ahead;
	int r = parse_name(s, item, &out);

	if (r < 0)
		return r;
	item->bare = true;
	ahead = *s;
	skip_blanks(&ahead);
	if (ahead.at < ahead.end && *ahead.at == '[') {
		*s = ahead;
		item->bare = false;
		r = parse_extras(s, &out);
		ahead = *s;
		skip_blanks(&ahead);
	}
	if (r == 0 && operator_length(&ahead) > 0) {
		*s = ahead;
		item->bare = false;
		r = parse_clauses(s, &out);
		ahead = *s;
		skip_blanks(&ahead);
	}
	if (r == 0 && ahead.at < ahead.end && *ahead.at == ';') {
		*s = ahead;
		item->bare = false;
		r = parse_marker(s, &out);
	}
	if (r == 0 && s->at < s->end && !memchr(" \t\r\n,", *s->at, 5))
		return bad(s, "not a requirement");
	if (r == 0)
		memcpy(item->text, out.data, out.len + 1);
	return r;
}

int spec_parse(const char *text, size_t len, struct spec *ret, struct err *e)
{
	struct scan s = {.at = text, .end = text + len, .e = e};

	ret->n = 0;
	if (len > PACKAGES_SPEC_MAX)
		return bad(&s, "longer than 4000 bytes");
	for (skip_between(&s, text); s.at < s.end; skip_between(&s, text)) {
		if (ret->n == PACKAGES_NAMES_MAX)
			return bad(&s, "more than 64 packages");
		int r = parse_item(&s, &ret->items[ret->n]);
		if (r < 0)
			return r;
		ret->n++;
	}
	return ret->n > 0 ? 0 : bad(&s, "no name of a package");
}

void spec_canonical(const char *name, char *ret)
{
	size_t n = 0;

	for (const char *s = name; *s && n < SPEC_NAME_MAX; s++) {
		bool mark = *s == '-' || *s == '_' || *s == '.';
		if (mark && n > 0 && ret[n - 1] == '-')
			continue;
		ret[n++] = mark ? '-' : *s >= 'A' && *s <= 'Z' ? (char)(*s | 0x20) : *s;
	}
	ret[n] = '\0';
}

bool spec_is_word(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if (n == SPEC_NAME_MAX ||
		    (!is_alnum(s[n]) && (n == 0 || !memchr("._+!-", s[n], 5))))
			return false;
	return n > 0;
}

int packages_check_spec(const char *spec, size_t len, struct err *e)
{
	struct spec parsed;

	return spec_parse(spec, len, &parsed, e);
}
