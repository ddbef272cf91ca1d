/* SPDX-License-Identifier: Apache-2.0 */
/* Two copies of the text have the same length, so that a position in one is a position in all:
 *   text   as it came
 *   bare   byte order mark and comments are spaces
 *   plain  trailing commas are spaces, too
 * jansson accepts `plain` first, so what looks for positions afterwards may rely on valid JSON. */
#include "connect/jsonc.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <string.h>

#define INDENT_DEFAULT "  "
#define NONE           SIZE_MAX

struct doc {
	const char *text;
	size_t len;
	char *bare;   /* owned */
	char *plain;  /* owned */
	json_t *root; /* owned; NULL: the text has no value */
	const char *nl;
	char unit[16]; /* one step of indentation */
};

struct object {
	size_t open, close; /* the braces */
	size_t n;
	size_t first;    /* key of the first member */
	size_t last_end; /* behind the value of the last member */
};

struct indent {
	const char *s;
	size_t len;
};

struct member {
	size_t before; /* the comma or the brace in front of it; NONE = there is no such member */
	size_t key, value, end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_blank(const char *s, size_t at, size_t len)
{
	while (at < len && is_blank(s[at]))
		at++;
	return at;
}

/* Behind the string that begins at AT, or LEN if it does not end. */
static size_t skip_string(const char *s, size_t at, size_t len)
{
	for (at++; at < len && s[at] != '"'; at++)
		if (s[at] == '\\' && at + 1 < len)
			at++;
	return at < len ? at + 1 : len;
}

/* ---- the copies ---- */

/* The length of the byte order mark, which editors of Windows put in front. */
static size_t bom_of(const char *s, size_t len)
{
	return len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static int blank_comments(char *s, size_t len)
{
	size_t at = 0;

	memset(s, ' ', bom_of(s, len));
	while (at < len) {
		if (s[at] == '"') {
			at = skip_string(s, at, len);
			continue;
		}
		if (s[at] != '/') {
			at++;
			continue;
		}
		const char *end = NULL;
		if (at + 1 < len && s[at + 1] == '/') {
			end = memchr(s + at, '\n', len - at);
			end = end ? end : s + len;
		} else if (at + 3 < len && s[at + 1] == '*') {
			end = memmem(s + at + 2, len - at - 2, "*/", 2);
			end = end ? end + 2 : NULL;
		}
		if (!end)
			return -EBADMSG;
		for (; s + at < end; at++)
			s[at] = s[at] == '\n' ? '\n' : ' ';
	}
	return 0;
}

static void blank_trailing_commas(char *s, size_t len)
{
	char before = '\0'; /* the last character that is no blank */

	for (size_t at = 0; at < len;) {
		if (s[at] == '"') {
			before = '"';
			at = skip_string(s, at, len);
			continue;
		}
		if (s[at] == ',' && before && !strchr("{[,:", before)) {
			size_t next = skip_blank(s, at + 1, len);

			if (next < len && (s[next] == '}' || s[next] == ']'))
				s[at] = ' ';
		}
		if (!is_blank(s[at]))
			before = s[at];
		at++;
	}
}

static void doc_done(struct doc *d)
{
	free(d->bare);
	free(d->plain);
	json_decref(d->root);
}

static char *copy_of(const char *s, size_t len)
{
	char *copy = malloc(len + 1);

	if (copy) {
		memcpy(copy, s, len);
		copy[len] = '\0';
	}
	return copy;
}

static int doc_open(struct doc *d, const char *text, size_t len)
{
	*d = (struct doc){.text = text, .len = len, .unit = INDENT_DEFAULT};
	const char *end = memchr(text, '\n', len);
	d->nl = end && end > text && end[-1] == '\r' ? "\r\n" : "\n";
	d->bare = copy_of(text, len);
	if (!d->bare)
		return -ENOMEM;
	int r = blank_comments(d->bare, len);
	if (r < 0)
		return r;
	d->plain = copy_of(d->bare, len);
	if (!d->plain)
		return -ENOMEM;
	blank_trailing_commas(d->plain, len);
	if (skip_blank(d->plain, 0, len) == len)
		return text_is_utf8(text, len) && !memchr(text, '\0', len) ? 0 : -EBADMSG;
	r = text_is_utf8(text, len) ? jsonio_read(d->plain, len, JSON_ALLOW_NUL, &d->root, NULL)
				    : -EBADMSG;
	if (r < 0)
		return r;
	return json_is_object(d->root) ? 0 : -EBADMSG;
}

int jsonc_read(const char *text, size_t len, json_t **ret)
{
	_cleanup_(doc_done) struct doc d;
	int r = doc_open(&d, text, len);

	if (r == 0)
		*ret = TAKE_PTR(d.root);
	return r;
}

/* ---- positions ---- */

static size_t skip_value(const char *s, size_t at, size_t len)
{
	size_t depth = 0;

	if (s[at] == '"')
		return skip_string(s, at, len);
	if (s[at] != '{' && s[at] != '[') {
		while (at < len && !is_blank(s[at]) && !strchr(",]}", s[at]))
			at++;
		return at;
	}
	do {
		if (s[at] == '"') {
			at = skip_string(s, at, len);
			continue;
		}
		if (s[at] == '{' || s[at] == '[')
			depth++;
		else if (s[at] == '}' || s[at] == ']')
			depth--;
		at++;
	} while (depth > 0 && at < len);
	return at;
}

/* Is the string in quotes S the KEY? It may be written with escapes. */
static bool key_is(const char *s, size_t len, const char *key)
{
	json_t *value = NULL;

	if (!memchr(s, '\\', len))
		return len == strlen(key) + 2 && memcmp(s + 1, key, len - 2) == 0;
	if (jsonio_read(s, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &value, NULL) < 0)
		return false;
	const char *text = json_string_value(value);
	bool same = text && json_string_length(value) == strlen(key) && streq(text, key);
	json_decref(value);
	return same;
}

/* The object that begins at OPEN, and its member KEY. */
static void object_scan(const struct doc *d, size_t open, const char *key, struct object *o,
			struct member *m)
{
	const char *s = d->plain;
	size_t before = open, at = skip_blank(s, open + 1, d->len);

	*o = (struct object){.open = open};
	*m = (struct member){.before = NONE};
	while (at < d->len && s[at] == '"') {
		size_t key_at = at, key_end = skip_string(s, at, d->len);
		size_t value = skip_blank(s, skip_blank(s, key_end, d->len) + 1, d->len);
		size_t end = skip_value(s, value, d->len);

		if (o->n++ == 0)
			o->first = key_at;
		o->last_end = end;
		if (key_is(s + key_at, key_end - key_at, key))
			*m = (struct member){before, key_at, value, end};
		at = skip_blank(s, end, d->len);
		if (at < d->len && s[at] == ',') {
			before = at;
			at = skip_blank(s, at + 1, d->len);
		}
	}
	o->close = at;
}

/* The blanks at the beginning of the line of AT. */
static struct indent indent_of(const struct doc *d, size_t at)
{
	size_t begin = at, end;

	while (begin > 0 && d->text[begin - 1] != '\n')
		begin--;
	if (begin == 0)
		begin = bom_of(d->text, d->len);
	for (end = begin; end < at && (d->text[end] == ' ' || d->text[end] == '\t');)
		end++;
	return (struct indent){d->text + begin, end - begin};
}

static bool begins_line(const struct doc *d, size_t at)
{
	struct indent in = indent_of(d, at);

	return in.s + in.len == d->text + at;
}

/* One step of indentation is how far the first member of the root is indented. */
static void find_unit(struct doc *d, const struct object *root)
{
	struct indent in = indent_of(d, root->first);

	if (root->n > 0 && begins_line(d, root->first) && in.len > 0 && in.len < sizeof(d->unit)) {
		memcpy(d->unit, in.s, in.len);
		d->unit[in.len] = '\0';
	}
}

/* ---- new text ---- */

struct style {
	const struct doc *doc;
	char indent[256]; /* of the line in which the value begins */
	bool one_line;
};

/* VALUE as text, in lines that continue with the indentation of the style. */
static int add_value(const struct style *st, const json_t *value, struct buf *out)
{
	_cleanup_(buf_done) struct buf raw = BUF_INIT(out->max);
	int r = jsonio_add(&raw, value, st->one_line ? 0 : JSON_INDENT(1));

	for (const char *s = buf_str(&raw); r == 0 && *s;) {
		size_t n = strcspn(s, "\n");

		r = buf_add(out, s, n);
		s += n;
		if (r < 0 || !*s)
			break;
		size_t depth = strspn(++s, " ");
		s += depth;
		r = buf_add_str(out, st->doc->nl);
		r = r < 0 ? r : buf_add_str(out, st->indent);
		while (r == 0 && depth-- > 0)
			r = buf_add_str(out, st->doc->unit);
	}
	return r;
}

static int add_key(const char *key, struct buf *out)
{
	_cleanup_(buf_done) struct buf raw = BUF_INIT(out->max);
	json_auto_t *name = json_string(key);
	int r = name ? jsonio_add(&raw, name, JSON_ENCODE_ANY) : -ENOMEM;

	r = r < 0 ? r : buf_add(out, raw.data, raw.len);
	return r < 0 ? r : buf_add_str(out, ": ");
}

static int set_indent(struct style *st, struct indent in, const char *more)
{
	if (in.len + strlen(more) >= sizeof(st->indent))
		return -EBADMSG;
	memcpy(st->indent, in.s, in.len);
	(void)snprintf(st->indent + in.len, sizeof(st->indent) - in.len, "%s", more);
	return 0;
}

/* Appends the text with a new last member of O. */
static int insert(const struct doc *d, const struct object *o, const char *key, const json_t *value,
		  struct buf *out)
{
	struct style st = {
	    .doc = d, .one_line = o->n > 0 && !memchr(d->text + o->open, '\n', o->close - o->open)};
	const bool comma_there =
	    o->n > 0 && d->bare[skip_blank(d->bare, o->last_end, d->len)] == ',';
	size_t at = o->close; /* behind the last comment of the object */
	int r;

	while (at > o->open + 1 && is_blank(d->text[at - 1]))
		at--;
	if (o->n > 0 && begins_line(d, o->first))
		r = set_indent(&st, indent_of(d, o->first), "");
	else
		r = set_indent(&st, indent_of(d, o->open), d->unit);
	size_t from = o->n > 0 && !comma_there ? o->last_end : at;
	r = r < 0 ? r : buf_add(out, d->text, from);
	if (r == 0 && from == o->last_end && o->n > 0 && !comma_there)
		r = buf_add_char(out, ',');
	r = r < 0 ? r : buf_add(out, d->text + from, at - from);
	r = r < 0 ? r : buf_add_str(out, st.one_line ? " " : d->nl);
	r = r < 0 || st.one_line ? r : buf_add_str(out, st.indent);
	r = r < 0 ? r : add_key(key, out);
	r = r < 0 ? r : add_value(&st, value, out);
	if (r == 0 && comma_there)
		r = buf_add_char(out, ',');
	if (r == 0 && !st.one_line && !memchr(d->text + at, '\n', o->close - at)) {
		struct indent in = indent_of(d, o->open);

		r = buf_add_str(out, d->nl);
		r = r < 0 ? r : buf_add(out, in.s, in.len);
		at = o->close;
	}
	return r < 0 ? r : buf_add(out, d->text + at, d->len - at);
}

static int replace(const struct doc *d, const struct member *m, const json_t *value,
		   struct buf *out)
{
	struct style st = {.doc = d};
	int r = set_indent(&st, indent_of(d, m->key), "");

	st.one_line =
	    !begins_line(d, m->key) && !memchr(d->text + m->value, '\n', m->end - m->value);
	r = r < 0 ? r : buf_add(out, d->text, m->value);
	r = r < 0 ? r : add_value(&st, value, out);
	return r < 0 ? r : buf_add(out, d->text + m->end, d->len - m->end);
}

/* VALUE inside objects for the rest of PATH; a new reference or NULL. */
static json_t *wrapped(const char *const *path, const json_t *value)
{
	json_t *inner = json_deep_copy(value);
	size_t n = 0;

	while (path[n])
		n++;
	while (inner && n-- > 0)
		inner = json_pack("{s:o}", path[n], inner);
	return inner;
}

/* A text without a value: what is there are comments. */
static int set_first(const struct doc *d, const char *const *path, const json_t *value,
		     struct buf *out)
{
	const struct style st = {.doc = d};
	json_auto_t *all = wrapped(path, value);
	int r = all ? buf_add(out, d->text, d->len) : -ENOMEM;

	if (r == 0 && skip_blank(d->text, bom_of(d->text, d->len), d->len) < d->len &&
	    d->text[d->len - 1] != '\n')
		r = buf_add_str(out, d->nl);
	r = r < 0 ? r : add_value(&st, all, out);
	return r < 0 ? r : buf_add_str(out, d->nl);
}

int jsonc_set(const char *text, size_t len, const char *const *path, const json_t *value,
	      struct buf *out)
{
	_cleanup_(doc_done) struct doc d;
	struct object o;
	struct member m;
	int r = doc_open(&d, text, len);

	if (r < 0 || !d.root)
		return r < 0 ? r : set_first(&d, path, value, out);
	size_t at = skip_blank(d.plain, 0, len);
	for (bool is_root = true;; path++, is_root = false) {
		if (d.plain[at] != '{')
			return -EBADMSG;
		object_scan(&d, at, path[0], &o, &m);
		if (is_root)
			find_unit(&d, &o);
		if (m.before == NONE || !path[1])
			break;
		at = m.value;
	}
	if (m.before != NONE)
		return replace(&d, &m, value, out);
	json_auto_t *inner = wrapped(path + 1, value);
	return inner ? insert(&d, &o, path[0], inner, out) : -ENOMEM;
}

int jsonc_remove(const char *text, size_t len, const char *const *path, struct buf *out)
{
	_cleanup_(doc_done) struct doc d;
	struct object o;
	struct member m;
	int r = doc_open(&d, text, len);

	if (r < 0 || !d.root)
		return r < 0 ? r : -ENOENT;
	size_t at = skip_blank(d.plain, 0, len);
	for (;; path++) {
		if (d.plain[at] != '{')
			return -EBADMSG;
		object_scan(&d, at, path[0], &o, &m);
		if (m.before == NONE)
			return -ENOENT;
		if (!path[1])
			break;
		at = m.value;
	}
	size_t from = m.key, to = m.end, comma = skip_blank(d.bare, to, len);
	size_t dropped =
	    NONE; /* the comma in front, if the member was the last one and had none behind it */

	if (d.bare[comma] == ',')
		to = comma + 1;
	else if (d.text[m.before] == ',')
		dropped = m.before;
	if (dropped != NONE && skip_blank(text, dropped + 1, len) == from) {
		from = dropped;
		dropped = NONE;
	} else if (begins_line(&d, from)) {
		size_t end = to;

		while (end < len && (text[end] == ' ' || text[end] == '\t' || text[end] == '\r'))
			end++;
		if (end < len && text[end] == '\n') {
			from -= indent_of(&d, from).len;
			to = end + 1;
		}
	} else {
		while (to < len && text[to] == ' ')
			to++;
	}
	if (dropped != NONE) {
		r = buf_add(out, text, dropped);
		r = r < 0 ? r : buf_add(out, text + dropped + 1, from - dropped - 1);
	} else {
		r = buf_add(out, text, from);
	}
	return r < 0 ? r : buf_add(out, text + to, len - to);
}
