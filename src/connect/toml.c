/* SPDX-License-Identifier: Apache-2.0 */
#include "connect/toml.h"

#include "base/text.h"

#include <string.h>

#define KEYS_MAX 3 /* of a dotted key that are looked at: PARENT, NAME and one more */
#define BLANKS   " \t"

struct keys {
	struct {
		const char *s;
		size_t len;
	} part[KEYS_MAX];
	size_t n; /* also those that are not kept */
};

/* A header or a pair, with its whole lines. */
struct statement {
	bool is_header, is_array; /* [table], [[table]] */
	struct keys keys;
	size_t begin, end;
};

struct toml {
	const char *s;
	size_t len, at;
};

static bool have(const struct toml *t, const char *what)
{
	size_t n = strlen(what);

	return t->len - t->at >= n && memcmp(t->s + t->at, what, n) == 0;
}

static char peek(const struct toml *t)
{
	return t->at < t->len ? t->s[t->at] : '\n';
}

static void skip_blanks(struct toml *t)
{
	while (t->at < t->len && strchr(BLANKS, t->s[t->at]))
		t->at++;
}

static void skip_comment(struct toml *t)
{
	while (t->at < t->len && t->s[t->at] != '\n')
		t->at++;
}

/* Blanks and a comment until the end of the line, which is passed. */
static int end_line(struct toml *t)
{
	skip_blanks(t);
	if (peek(t) == '#')
		skip_comment(t);
	if (peek(t) == '\r' && t->at + 1 < t->len)
		t->at++;
	if (peek(t) != '\n')
		return -EBADMSG;
	t->at += t->at < t->len;
	return 0;
}

static int skip_string(struct toml *t)
{
	const char quote = peek(t);
	const char *three = quote == '"' ? "\"\"\"" : "'''";
	const bool is_long = have(t, three);

	for (t->at += is_long ? 3 : 1; t->at < t->len; t->at++) {
		if (is_long && have(t, three)) {
			/* Up to two quotes may stand in front of the closing ones. */
			for (t->at += 3; peek(t) == quote; t->at++)
				;
			return 0;
		}
		if (!is_long && t->s[t->at] == '\n')
			return -EBADMSG;
		if (!is_long && t->s[t->at] == quote) {
			t->at++;
			return 0;
		}
		if (quote == '"' && t->s[t->at] == '\\')
			t->at++;
	}
	return -EBADMSG;
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static int read_keys(struct toml *t, struct keys *ret)
{
	*ret = (struct keys){0};
	for (;;) {
		skip_blanks(t);
		size_t begin = t->at, end;

		if (peek(t) == '"' || peek(t) == '\'') {
			if (skip_string(t) < 0)
				return -EBADMSG;
			end = t->at - 1;
			begin++;
		} else {
			while (t->at < t->len && is_bare(t->s[t->at]))
				t->at++;
			end = t->at;
			if (end == begin)
				return -EBADMSG;
		}
		if (ret->n < KEYS_MAX) {
			ret->part[ret->n].s = t->s + begin;
			ret->part[ret->n].len = end - begin;
		}
		ret->n++;
		skip_blanks(t);
		if (peek(t) != '.')
			return 0;
		t->at++;
	}
}

static int skip_value(struct toml *t)
{
	size_t depth = 0;
	const size_t begin = t->at;

	while (t->at < t->len) {
		const char c = t->s[t->at];

		if (c == '"' || c == '\'') {
			if (skip_string(t) < 0)
				return -EBADMSG;
			continue;
		}
		if (depth == 0 && (c == '#' || c == '\n' || c == '\r'))
			break;
		if (c == '#') {
			skip_comment(t);
			continue;
		}
		if (c == '[' || c == '{')
			depth++;
		else if ((c == ']' || c == '}') && depth-- == 0)
			return -EBADMSG;
		t->at++;
	}
	return depth > 0 || t->at == begin ? -EBADMSG : 0;
}

/* 1: *RET is the next one; 0: there is none. */
static int next_statement(struct toml *t, struct statement *ret)
{
	for (;;) {
		ret->begin = t->at;
		if (t->at == t->len)
			return 0;
		skip_blanks(t);
		if (!strchr("#\r\n", peek(t)))
			break;
		if (end_line(t) < 0)
			return -EBADMSG;
	}
	ret->is_header = peek(t) == '[';
	ret->is_array = have(t, "[[");
	t->at += ret->is_array ? 2 : ret->is_header;
	int r = read_keys(t, &ret->keys);
	if (r == 0 && !have(t, ret->is_array ? "]]" : ret->is_header ? "]" : "="))
		r = -EBADMSG;
	t->at += ret->is_array ? 2 : 1;
	if (r == 0 && !ret->is_header) {
		skip_blanks(t);
		r = skip_value(t);
	}
	r = r < 0 ? r : end_line(t);
	ret->end = t->at;
	return r < 0 ? r : 1;
}

/* ---- the table ---- */

struct target {
	const char *parent, *name;
};

/* How many of the words PARENT, NAME the keys begin with; they follow SKIP words that are known to match. */
static size_t matching(const struct keys *k, const struct target *to, size_t skip)
{
	const char *words[] = {to->parent, to->name};
	size_t n = 0;

	for (; n < k->n && skip + n < ARRAY_SIZE(words); n++)
		if (k->part[n].len != strlen(words[skip + n]) ||
		    memcmp(k->part[n].s, words[skip + n], k->part[n].len) != 0)
			break;
	return n;
}

enum place { ELSEWHERE, OWN_HEADER, OWN_PAIR, INNER_HEADER, INNER_PAIR };

struct walk {
	struct toml t;
	struct target to;
	struct keys table; /* of the last header; n = 0: the root */
	bool seen;
};

/* 1: *RET_PLACE says where the statement is. 0: there is none. -EBADMSG: also for the table in a form that cannot be edited. */
static int walk_next(struct walk *w, struct statement *ret, enum place *ret_place)
{
	int r = next_statement(&w->t, ret);

	if (r <= 0)
		return r;
	if (ret->is_header)
		w->table = ret->keys;
	const size_t in = matching(&w->table, &w->to, 0);
	if (in == 2) {
		const bool inner = w->table.n > 2;

		*ret_place = ret->is_header ? (inner ? INNER_HEADER : OWN_HEADER)
					    : (inner ? INNER_PAIR : OWN_PAIR);
		/* A table inside ours may come first in TOML; then ours has no place of its own. */
		if (*ret_place == OWN_HEADER ? w->seen || ret->is_array : !w->seen)
			return -EBADMSG;
		w->seen = w->seen || *ret_place == OWN_HEADER;
		return 1;
	}
	*ret_place = ELSEWHERE;
	if (ret->is_header)
		return ret->is_array && ret->keys.n == 1 && in == 1 ? -EBADMSG : 1;
	if (in == w->table.n) {
		const size_t more = matching(&ret->keys, &w->to, in);

		/* `parent = {…}`, `parent.name = …`, `name.key = …` */
		if (in + more == 2 || (more > 0 && more == ret->keys.n))
			return -EBADMSG;
	}
	return 1;
}

/* TOML has no NUL, and no carriage return but in front of a line feed. */
static bool is_text(const char *s, size_t len)
{
	if (!text_is_utf8(s, len) || memchr(s, '\0', len))
		return false;
	for (const char *cr = s; (cr = memchr(cr, '\r', (size_t)(s + len - cr))); cr++)
		if (cr + 1 == s + len || cr[1] != '\n')
			return false;
	return true;
}

static struct walk walk_begin(const char *text, size_t len, const char *parent, const char *name)
{
	const size_t bom = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	return (struct walk){.t = {text, len, bom}, .to = {parent, name}};
}

static const char *line_end_of(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);

	return end && end > text && end[-1] == '\r' ? "\r\n" : "\n";
}

static int add_lines(const char *lines, const char *nl, struct buf *out)
{
	int r = 0;

	while (r == 0 && *lines) {
		size_t n = strcspn(lines, "\n");

		r = buf_add(out, lines, n > 0 && lines[n - 1] == '\r' ? n - 1 : n);
		r = r < 0 ? r : buf_add_str(out, nl);
		lines += n + (lines[n] != '\0');
	}
	return r;
}

static int append_table(const char *text, size_t len, const struct target *to, const char *lines,
			struct buf *out)
{
	const char *nl = line_end_of(text, len);
	int r = 0;

	if (len > 0 && text[len - 1] != '\n')
		r = buf_add_str(out, nl);
	if (r == 0 && len > 0)
		r = buf_add_str(out, nl);
	r = r < 0 ? r : buf_printf(out, "[%s.%s]%s", to->parent, to->name, nl);
	return r < 0 ? r : add_lines(lines, nl, out);
}

/* The part of the name of a table inside ours that decides; or the first key of a pair. */
static bool is_owned(const struct walk *w, const struct statement *st, enum place place,
		     toml_owned_fn owned, const void *user)
{
	const struct keys *k = place == OWN_PAIR ? &st->keys : &w->table;
	const size_t i = place == OWN_PAIR ? 0 : 2;

	return owned(k->part[i].s, k->part[i].len, user);
}

int toml_set(const char *text, size_t len, const char *parent, const char *name, const char *lines,
	     toml_owned_fn owned, const void *user, struct buf *out)
{
	struct walk w = walk_begin(text, len, parent, name);
	struct statement st;
	enum place place;
	size_t from = 0; /* copied until here */
	int r;

	if (!is_text(text, len))
		return -EBADMSG;
	while ((r = walk_next(&w, &st, &place)) > 0) {
		if (place == OWN_HEADER) {
			r = buf_add(out, text + from, st.end - from);
			if (r == 0 && text[st.end - 1] != '\n')
				r = buf_add_str(out, line_end_of(text, len));
			r = r < 0 ? r
				  : add_lines(lines,
					      line_end_of(text + st.begin, st.end - st.begin), out);
		} else if (place != ELSEWHERE && is_owned(&w, &st, place, owned, user)) {
			r = buf_add(out, text + from, st.begin - from);
		} else {
			continue;
		}
		if (r < 0)
			return r;
		from = st.end;
	}
	r = r < 0 ? r : buf_add(out, text + from, len - from);
	return r < 0 || w.seen ? r : append_table(text, len, &w.to, lines, out);
}

int toml_first(const char *text, size_t len, const char *parent, const char *name,
	       toml_owned_fn owned, const void *user, struct buf *out)
{
	struct walk w = walk_begin(text, len, parent, name);
	struct statement st;
	enum place place;
	size_t next = 0; /* where the next of these lines begins; 0: the header is still to come */
	int r;

	while ((r = walk_next(&w, &st, &place)) > 0) {
		if (place == OWN_HEADER) {
			next = st.end;
			continue;
		}
		if (next == 0)
			continue;
		if (place != OWN_PAIR || st.begin != next || !is_owned(&w, &st, place, owned, user))
			return 0;
		r = buf_add(out, text + st.begin, st.end - st.begin);
		if (r < 0)
			return r;
		next = st.end;
	}
	return r;
}

/* Gives the table to OUT if TAKE, else the rest of the text. */
static int part_of(const char *text, size_t len, const char *parent, const char *name, bool take,
		   struct buf *out)
{
	struct walk w = walk_begin(text, len, parent, name);
	size_t begin = 0, from = 0; /* of the part that is inside or outside of the table */
	bool inside = false, any = false;
	struct statement st;
	enum place place;
	int r;

	if (!is_text(text, len))
		return -EBADMSG;
	while ((r = walk_next(&w, &st, &place)) > 0) {
		if ((place != ELSEWHERE) != inside) {
			/* What stands behind its last statement belongs to what follows. */
			size_t until = inside ? begin : st.begin;

			r = take == inside ? buf_add(out, text + from, until - from) : 0;
			if (r < 0)
				return r;
			from = until;
			inside = !inside;
			any = true;
		}
		begin = st.end;
	}
	if (r == 0 && inside) {
		r = take ? buf_add(out, text + from, begin - from) : 0;
		from = begin;
	}
	if (r == 0 && !take)
		r = buf_add(out, text + from, len - from);
	return r < 0 ? r : any ? 0 : -ENOENT;
}

int toml_remove(const char *text, size_t len, const char *parent, const char *name, struct buf *out)
{
	return part_of(text, len, parent, name, false, out);
}

int toml_get(const char *text, size_t len, const char *parent, const char *name, struct buf *out)
{
	return part_of(text, len, parent, name, true, out);
}
