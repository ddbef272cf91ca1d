/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define ESCAPE_LONGEST 6u /* \u001f */
#define RUN_SHORT      64u
#define GATHERED       1024u

/* ---- writing ---- */

/* What stands behind the backslash for a character; 'u': six characters stand for it; 0: it stands for itself. */
static const char escapes[256] = {
    [0 ... 0x07] = 'u', ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n',  [0x0b] = 'u',
    ['\f'] = 'f',       ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\', [0x0e ... 0x1f] = 'u',
};

static size_t put_escaped(char *to, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";

	to[0] = '\\';
	to[1] = escapes[c];
	if (to[1] != 'u')
		return 2;
	to[2] = '0';
	to[3] = '0';
	to[4] = digits[c >> 4];
	to[5] = digits[c & 15];
	return ESCAPE_LONGEST;
}

static size_t plain_length(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && escapes[(unsigned char)s[n]] == 0)
		n++;
	return n;
}

/* Long plain runs go at once; what is between them is gathered, since an append for each character costs ten times as
 * much as the character. */
static int add_inside(struct buf *b, const char *s, size_t len)
{
	char gathered[GATHERED];
	size_t n = 0;
	int r = 0;

	while (len > 0 && r == 0) {
		const size_t plain = plain_length(s, len);

		if (n > 0 && sizeof(gathered) - n < RUN_SHORT + ESCAPE_LONGEST) {
			r = buf_add(b, gathered, n);
			n = 0;
		}
		if (plain >= RUN_SHORT) {
			r = r < 0 || n == 0 ? r : buf_add(b, gathered, n);
			r = r < 0 ? r : buf_add(b, s, plain);
			n = 0;
		} else {
			memcpy(gathered + n, s, plain);
			n += plain;
		}
		s += plain;
		len -= plain;
		if (len > 0) {
			n += put_escaped(gathered + n, (unsigned char)*s++);
			len--;
		}
	}
	return r < 0 || n == 0 ? r : buf_add(b, gathered, n);
}

int json_text_add_utf8(struct buf *b, const char *s, size_t len)
{
	int r = buf_add_char(b, '"');

	r = r < 0 ? r : add_inside(b, s, len);
	return r < 0 ? r : buf_add_char(b, '"');
}

int json_text_add(struct buf *b, const char *s, size_t len)
{
	_cleanup_(buf_done) struct buf utf8 = BUF_INIT(3 * len + 1);

	if (text_is_utf8(s, len))
		return json_text_add_utf8(b, s, len);
	int r = text_add_utf8_lossy(&utf8, s, len);
	return r < 0 ? r : json_text_add_utf8(b, buf_str(&utf8), utf8.len);
}

static int add_comma(struct buf *b)
{
	return b->len == 0 || memchr("{[,:", b->data[b->len - 1], 4) ? 0 : buf_add_char(b, ',');
}

int json_text_key(struct buf *b, const char *key)
{
	int r = add_comma(b);

	return r < 0 ? r : buf_printf(b, "\"%s\":", key);
}

int json_text_member(struct buf *b, const char *key, const char *s)
{
	int r = json_text_key(b, key);

	if (r < 0)
		return r;
	return s ? json_text_add(b, s, strlen(s)) : buf_add_str(b, "null");
}

static int add_typed(struct buf *b, char type, const char *key, va_list ap)
{
	const char *s;
	int r;

	if (type == 's' || type == 't') {
		s = va_arg(ap, const char *);
		return !s && type == 't' ? 0 : json_text_member(b, key, s);
	}
	r = json_text_key(b, key);
	if (r < 0)
		return r;
	if (type == 'i')
		return buf_printf(b, "%" PRId64, va_arg(ap, int64_t));
	return buf_add_str(b, type == 'b' ? (va_arg(ap, int) ? "true" : "false")
					  : va_arg(ap, const char *));
}

static int add_members(struct buf *b, const char *types, va_list ap)
{
	int r = 0;

	for (; *types && r == 0; types++) {
		const char *key = va_arg(ap, const char *);

		r = add_typed(b, *types, key, ap);
	}
	return r;
}

int json_text_members(struct buf *b, const char *types, ...)
{
	va_list ap;

	va_start(ap, types);
	int r = add_members(b, types, ap);
	va_end(ap);
	return r;
}

int json_text_open(struct buf *b)
{
	int r = add_comma(b);

	return r < 0 ? r : buf_add_char(b, '{');
}

int json_text_object(struct buf *b, const char *types, ...)
{
	va_list ap;
	int r = json_text_open(b);

	va_start(ap, types);
	r = r < 0 ? r : add_members(b, types, ap);
	va_end(ap);
	return r < 0 ? r : buf_add_char(b, '}');
}

/* ---- reading ---- */

static void skip_blanks(struct json_walk *w)
{
	while (w->p < w->end && memchr(" \t\r\n,:", *w->p, 6))
		w->p++;
}

/* Goes behind the string that begins here. */
static bool skip_string(struct json_walk *w)
{
	for (w->p++; w->p < w->end; w->p++) {
		if (*w->p == '\\')
			w->p++;
		else if (*w->p == '"') {
			w->p++;
			return true;
		}
	}
	w->p = w->end;
	return false;
}

static bool skip_nested(struct json_walk *w)
{
	size_t depth = 0;

	while (w->p < w->end) {
		const char c = *w->p;

		if (c == '"') {
			if (!skip_string(w))
				return false;
			continue;
		}
		w->p++;
		depth += c == '{' || c == '[';
		depth -= c == '}' || c == ']';
		if (depth == 0)
			return true;
	}
	return false;
}

static bool skip_value(struct json_walk *w, struct json_piece *ret)
{
	bool ok;

	skip_blanks(w);
	ret->data = w->p;
	ret->len = 0;
	if (w->p >= w->end || *w->p == '}' || *w->p == ']')
		return false;
	if (*w->p == '"') {
		ok = skip_string(w);
	} else if (*w->p == '{' || *w->p == '[') {
		ok = skip_nested(w);
	} else {
		while (w->p < w->end && !memchr(",]} \t\r\n", *w->p, 7))
			w->p++;
		ok = true;
	}
	ret->len = (size_t)(w->p - ret->data);
	return ok;
}

bool json_walk_begin(struct json_walk *w, const char *text, size_t len)
{
	*w = (struct json_walk){.p = text, .end = text + len};
	skip_blanks(w);
	if (w->p >= w->end || (*w->p != '{' && *w->p != '['))
		return false;
	w->has_keys = *w->p++ == '{';
	return true;
}

bool json_walk_next(struct json_walk *w, struct json_piece *key, struct json_piece *value)
{
	*key = (struct json_piece){"", 0};
	if (w->has_keys && (!skip_value(w, key) || key->len < 2 || *key->data != '"'))
		return false;
	if (w->has_keys) {
		key->data++;
		key->len -= 2;
	}
	return skip_value(w, value);
}

struct json_piece json_find(const char *text, size_t len, const char *wanted)
{
	struct json_piece key, value;
	struct json_walk w;

	if (json_walk_begin(&w, text, len))
		while (json_walk_next(&w, &key, &value))
			if (json_piece_is(&key, wanted))
				return value;
	return (struct json_piece){"", 0};
}

bool json_piece_is(const struct json_piece *p, const char *text)
{
	return p->len == strlen(text) && memcmp(p->data, text, p->len) == 0;
}

/* The four digits at P as a number, -1 if they are none. */
static int32_t unit_at(const char *p, const char *end)
{
	int32_t n = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		const char c = p[i];
		const int digit = c >= '0' && c <= '9'   ? c - '0'
				  : c >= 'a' && c <= 'f' ? c - 'a' + 10
				  : c >= 'A' && c <= 'F' ? c - 'A' + 10
							 : -1;

		if (digit < 0)
			return -1;
		n = n << 4 | digit;
	}
	return n;
}

static int add_code_point(struct buf *b, uint32_t c)
{
	const char utf8[4] = {(char)(c < 0x80      ? c
				     : c < 0x800   ? 0xc0 | c >> 6
				     : c < 0x10000 ? 0xe0 | c >> 12
						   : 0xf0 | c >> 18),
			      (char)(0x80 | ((c < 0x800     ? c
					      : c < 0x10000 ? c >> 6
							    : c >> 12) &
					     0x3f)),
			      (char)(0x80 | ((c < 0x10000 ? c : c >> 6) & 0x3f)),
			      (char)(0x80 | (c & 0x3f))};

	return buf_add(b, utf8, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
}

/* Reads what stands behind a backslash; *P goes behind it. */
static int add_unescaped(struct buf *b, const char **p, const char *end)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char c = *(*p)++;
	const char *at = strchr(from, c);

	if (c != 'u')
		return buf_add_char(b, at && c ? to[at - from] : c);
	int32_t n = unit_at(*p, end);
	*p += n < 0 ? 0 : 4;
	if (n >= 0xd800 && n < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
		const int32_t low = unit_at(*p + 2, end);

		if (low >= 0xdc00 && low < 0xe000) {
			*p += 6;
			n = 0x10000 + ((n - 0xd800) << 10) + (low - 0xdc00);
		}
	}
	return add_code_point(b, n <= 0 || (n >= 0xd800 && n < 0xe000) ? 0xfffd : (uint32_t)n);
}

int json_piece_text(const struct json_piece *piece, struct buf *ret)
{
	const char *p = piece->data + 1, *end = piece->data + piece->len - 1;
	int r = 0;

	if (piece->len < 2 || *piece->data != '"')
		return -EINVAL;
	while (p < end && r == 0) {
		const char *stop = memchr(p, '\\', (size_t)(end - p));

		r = buf_add(ret, p, (size_t)((stop ? stop : end) - p));
		p = stop ? stop + 1 : end;
		if (r == 0 && stop && p < end)
			r = add_unescaped(ret, &p, end);
	}
	return r;
}
